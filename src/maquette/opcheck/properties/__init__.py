"""The properties, a family a file; `PROPERTIES` has all of them in the order of a report."""

from maquette.opcheck.properties.backward_fakes import BACKWARD_FAKES
from maquette.opcheck.properties.backwards import BACKWARDS
from maquette.opcheck.properties.base import Problem, Property
from maquette.opcheck.properties.batching import BATCHING
from maquette.opcheck.properties.calls import CALLS
from maquette.opcheck.properties.conventions import CONVENTIONS
from maquette.opcheck.properties.costs import COSTS
from maquette.opcheck.properties.fakes import FAKES
from maquette.opcheck.properties.gradients import GRADIENTS
from maquette.opcheck.properties.higher_derivatives import HIGHER
from maquette.opcheck.properties.memory import MEMORY
from maquette.opcheck.properties.modes import MODES
from maquette.opcheck.properties.state import STATE
from maquette.opcheck.properties.symbols import SYMBOLS
from maquette.opcheck.properties.transforms import TRANSFORMS
from maquette.opcheck.properties.twins import TWINS

PROPERTIES: tuple[Property, ...] = (
    *MEMORY,
    *CONVENTIONS,
    *FAKES,
    *SYMBOLS,
    *CALLS,
    *STATE,
    *MODES,
    *GRADIENTS,
    *BACKWARDS,
    *BACKWARD_FAKES,
    *HIGHER,
    *TRANSFORMS,
    *BATCHING,
    *TWINS,
    *COSTS,
)

__all__ = ["PROPERTIES", "Problem", "Property"]
