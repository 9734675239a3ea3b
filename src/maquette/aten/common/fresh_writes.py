"""How a derivative formula makes zeros, and writes into memory that it has just made.

`into_fresh` writes in place, which saves a copy; but by the operator that makes a new tensor where
somebody sees the operators, as PyTorch's formulas do: then graphs, counts and tensor subclasses
meet no mutation.
"""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor

_FAKE = K.functionality_bits(DispatchKey.Fake)
_WRAPPERS = (
    K.functionality_bits(DispatchKey.Python)
    | K.functionality_bits(DispatchKey.FuncTorchBatched)
    | K.functionality_bits(DispatchKey.FuncTorchGradWrapper)
    | K.functionality_bits(DispatchKey.Functionalize)
    | K.functionality_bits(DispatchKey.Sparse)
)


def outside_its_mode(value: Tensor) -> bool:
    """Whether a tensor is fake while no fake mode is active, so that a factory's would be real."""
    return bool(value._keys & _FAKE) and tls.st.fake_mode is None


def zeros_beside(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Zeros in the dtype and on the device of ``value``, from ``zeros`` as in PyTorch's formulas.

    Beside a fake tensor whose mode is not active they are of that mode.
    """
    if outside_its_mode(value):
        return value.new_zeros(shape)
    zeros: Tensor = aten.zeros(shape, dtype=value.meta.dtype, device=value.meta.device)
    return zeros


def into_fresh(name: str, fresh: Tensor, *arguments: object) -> Tensor:
    """What the operator ``name`` (as "index_add") makes of ``fresh``, which nobody else holds."""
    op = getattr(aten, name if _are_seen(fresh, arguments) else name + "_")
    result: Tensor = op(fresh, *arguments)
    return result


def unless_wrapped(name: str, fresh: Tensor, *arguments: object) -> Tensor:
    """`into_fresh` that modes see write, as PyTorch's does, but where a transform differentiates.

    The tangent of a quotient, say, is a multiple of the quotient: mutated itself, it would be lost.
    """
    op = getattr(aten, name if fresh._keys & _WRAPPERS else name + "_")
    result: Tensor = op(fresh, *arguments)
    return result


def _are_seen(fresh: Tensor, arguments: tuple[object, ...]) -> bool:
    """Whether a mode sees operators, or one of the tensors is wrapped or of a subclass."""
    for mode in tls.st.dispatch_modes:
        if not getattr(mode, "measures_memory", False):
            return True
    keys = fresh._keys
    for value in arguments:
        for part in value if isinstance(value, list) else (value,):
            if isinstance(part, Tensor):
                keys |= part._keys
    return bool(keys & _WRAPPERS)
