"""`torch._functorch.python_key`: `make_fx`, under the path that functorch has it at."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.face.later import functions_for_later

_forwarded = forward(__name__, "maquette.fx", path="_functorch.python_key")
_LATER = functions_for_later(
    "torch.fx",
    {
        "make_fx": "trace modules with torch.fx.symbolic_trace",
        "pythonkey_decompose": "give make_fx a decomposition_table",
    },
)


def __getattr__(name: str) -> object:
    try:
        return _forwarded(name)
    except AttributeError:
        if name in _LATER:
            return _LATER[name]
        raise
