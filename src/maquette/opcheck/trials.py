"""One derived input, run: what the real call did, what the fake says, remembered for all
properties that look at it."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from maquette.opcheck.copies import (
    Snapshot,
    map_tensors,
    named_tensors,
    snapshot,
    tensors_in,
)
from maquette.opcheck.metadata import Difference, differences
from maquette.opcheck.operators import CheckedOperator, bound
from maquette.opcheck.recipes import Recipe, Sample, TensorRecipe
from maquette.opcheck.settings import draw_once, other_generators, restored, settings_of


@dataclass
class Observed:
    """A real call: its arguments afterwards, how they were, its result or its refusal."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    given: Sequence[tuple[Any, Any]]
    before: Sequence[tuple[str, Any, Snapshot | None]]
    result: Any = None
    error: Exception | None = None
    drew: str = ""
    changed: str = ""


@dataclass
class Faked:
    """A call of the fake, on arguments that real ones were made into."""

    inputs: Sequence[Any] = ()
    result: Any = None
    error: Exception | None = None
    shape_env: Any = None
    guards: Sequence[Any] = ()
    replacements: Mapping[str, str] = field(default_factory=dict)


# Words of the refusal of results that share memory: ours and PyTorch's.
# What refuses a kernel's result: PyTorch by these words, maquette by these functions.
_ALIASES = "must not also be an input"
_RESULT_CHECKS = {"_fail_shared": "aliases", "_fail_result": "misfits"}


class Trial:
    """One input and what came of it."""

    def __init__(self, sample: Sample, recipe: Recipe) -> None:
        self.sample = sample
        self.recipe = recipe
        self.op: CheckedOperator = sample.op
        self.on = sample.op.on

    def arguments(self, recipe: Recipe | None = None, device: str = "") -> tuple[Any, Any]:
        """Fresh arguments, which require no grad unless the recipe given says so."""
        if recipe is None:
            recipe = without_grad(self.recipe)
        return self.sample.build(recipe, device)

    def call(self, recipe: Recipe | None = None) -> Any:
        """The result of a real call on fresh arguments, without recording."""
        args, kwargs = self.arguments(recipe)
        with self.on.torch.no_grad():
            return self.op(*args, **kwargs)

    @functools.cached_property
    def real(self) -> Observed:
        """The real call."""
        args, kwargs = self.arguments()
        given = bound(self.op, args, kwargs)
        before = [(n, t, snapshot(t, self.on)) for n, t in named_tensors(given, self.on)]
        seen = Observed(args, kwargs, given, before)
        torch = self.on.torch
        if self.op.random:
            torch.manual_seed(1)
        else:
            draw_once(torch)  # what an earlier call seeded is not what this one finds
        state, settings = torch.get_rng_state(), settings_of(self.on)
        others = other_generators()
        try:
            with torch.no_grad():
                seen.result = self.op.overload(*args, **kwargs)
                left_on = torch.is_grad_enabled()
            seen.changed = "grad mode is on" if left_on else ""
        except Exception as error:  # noqa: BLE001  # whatever a kernel raises is its refusal
            seen.error = error
        seen.changed = seen.changed or restored(self.on, settings)
        if not torch.equal(torch.get_rng_state(), state):
            seen.drew = "it drew numbers"
        elif others != other_generators():
            seen.drew = "it used or seeded the generator of NumPy or of Python"
        return seen

    @property
    def accepted(self) -> bool:
        return self.real.error is None

    @functools.cached_property
    def refused_result(self) -> str:
        """Whether the dispatcher refused the kernel's result: "aliases", "misfits" or ""."""
        error = self.real.error
        if error is None:
            return ""
        if _ALIASES in str(error):
            return "aliases"
        if "must return the written argument" in str(error):
            return "misfits"
        frames = traceback.extract_tb(error.__traceback__)
        return _RESULT_CHECKS.get(frames[-1].name, "") if frames else ""

    @functools.cached_property
    def fake(self) -> Faked:
        """The fake call, of static sizes."""
        return self.faked(static=True)

    def faked(self, *, static: bool, device: str = "") -> Faked:
        """A call of the fake; ``device`` moves its inputs first."""
        args, kwargs = self.arguments()
        env = self.on.ShapeEnv()
        mode = self.on.FakeTensorMode(shape_env=env)

        def as_fake(t: Any) -> Any:
            made = mode.from_tensor(t, static_shapes=True) if static else mode.from_tensor(t)
            if device:
                with mode:
                    made = made.to(device)
            return made

        made = Faked(shape_env=env)
        try:
            fake_args, fake_kwargs = (map_tensors(as_fake, a, self.on) for a in (args, kwargs))
            made.inputs = tensors_in((fake_args, fake_kwargs), self.on)
            with mode, self.on.torch.no_grad():
                made.result = self.op(*fake_args, **fake_kwargs)
        except Exception as error:  # noqa: BLE001  # told by the properties of fakes
            made.error = error
        # Now: what is made of the result later may guard too.
        made.guards = list(env.guards)
        replaced = getattr(env, "replacements", {})
        made.replacements = {str(s): str(by) for s, by in replaced.items()}
        return made

    @functools.cached_property
    def fake_differences(self) -> list[Difference]:
        """How the fake differs from the real call."""
        if self.fake.error is not None or not self.accepted:
            return []
        real = self.real
        inputs = tensors_in((real.args, real.kwargs), self.on)
        return differences(self.on, real.result, self.fake.result, inputs, self.fake.inputs)

    def tensors(self) -> list[TensorRecipe]:
        return self.recipe.tensors()

    @functools.cached_property
    def crossed(self) -> bool:
        """Whether floating tensors of the sample are all integers here.

        A kernel may take these by chance: what is expected then is safety, not a right answer.
        """
        floating = any(t.floating for t in self.sample.recipe.tensors())
        given = self.tensors()  # none, where a list is empty
        return floating and bool(given) and not any(t.floating for t in given)

    def results(self) -> list[Any]:
        """The tensors of the real result."""
        return tensors_in(self.real.result, self.on)


def without_grad(recipe: Recipe) -> Recipe:
    """The recipe with no tensor requiring grad."""
    return recipe.mapped(lambda t: _with_grad(t, wanted=False))


def _with_grad(t: TensorRecipe, *, wanted: bool) -> TensorRecipe:
    return t if t.requires_grad == wanted else replace(t, requires_grad=wanted)


def place_of(function: Callable[..., object] | None) -> str:
    """``file:line`` of an author's function."""
    code = getattr(function, "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def author_line(error: BaseException, functions: Sequence[Callable[..., object] | None]) -> str:
    """``file:line: source`` of the deepest frame of an error that is an author's function."""
    codes = [getattr(f, "__code__", None) for f in functions]
    files = {c.co_filename for c in codes if c is not None}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files:
            return f"{frame.filename}:{frame.lineno}: {frame.line or ''}".rstrip(": ")
    return ""
