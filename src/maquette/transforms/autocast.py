"""Autocast: in a region, operators that gain by it run in a dtype of fewer bits.

What a region does to an operator stands on the operator's page (`OperatorPage.autocast`); the
kernel at the Autocast keys does it and passes on. Which devices are in a region belongs to the
thread. Weights that are cast are remembered until the outermost region ends, so that a layer used
twice casts its weight once, as in PyTorch.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence

from maquette.core.dtype import bfloat16, dtype, float16, float32, float64
from maquette.core.errors import check
from maquette.dispatch.facts import AutocastPolicy
from maquette.dispatch.forms import Form, form_of
from maquette.dispatch.kernels import Boxed
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, replace_fallback
from maquette.dispatch.tls import tls
from maquette.tensor.tensor import Tensor

DEVICES = {
    "cpu": DispatchKey.AutocastCPU,
    "cuda": DispatchKey.AutocastCUDA,
    "hpu": DispatchKey.AutocastHPU,
    "ipu": DispatchKey.AutocastIPU,
    "maia": DispatchKey.AutocastMAIA,
    "mps": DispatchKey.AutocastMPS,
    "mtia": DispatchKey.AutocastMTIA,
    "privateuseone": DispatchKey.AutocastPrivateUse1,
    "xla": DispatchKey.AutocastXLA,
    "xpu": DispatchKey.AutocastXPU,
}
"""The devices that have regions, and the keys of their kernels; pages know cpu's and cuda's."""
_BFLOAT16 = ("cpu", "hpu", "maia", "xla")


class _State(threading.local):
    """A thread's regions: the dtype of each device, how deep they nest, the casts remembered."""

    def __init__(self) -> None:
        self.dtypes: dict[str, dtype] = {
            d: bfloat16 if d in _BFLOAT16 else float16 for d in DEVICES
        }
        self.depth = 0
        self.remembers = True
        self.casts: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}


state = _State()
"""The regions of the calling thread."""


def key_of(device_type: str) -> DispatchKey:
    """The key of a device's regions; RuntimeError for a device that has none."""
    check(
        device_type in DEVICES,
        lambda: (
            f"User specified an unsupported autocast device_type '{device_type}'; regions are for "
            f"{', '.join(DEVICES)}"
        ),
    )
    return DEVICES[device_type]


def is_enabled(device_type: str) -> bool:
    """Whether the thread is in a region of this device."""
    return not tls.st.exclude & key_of(device_type).functionality_bits


def is_any_enabled() -> bool:
    """Whether the thread is in a region of any device."""
    return any(map(is_enabled, DEVICES))


def set_enabled(device_type: str, enabled: bool) -> None:
    """Enter or leave a region of this device, without end."""
    st, bits = tls.st, key_of(device_type).functionality_bits
    (st.drop_exclude if enabled else st.add_exclude)(bits)


def forget_casts() -> None:
    """Forget the weights that were cast."""
    state.casts.clear()


# --- the kernel at the Autocast keys --------------------------------------------------


def autocast_kernel(op: OpOverload, ks: int) -> Boxed | None:
    """What a region does to an operator; None, so that the key is passed by, if nothing."""
    device = next(d for d, key in DEVICES.items() if ks & key.functionality_bits)
    policy = op.autocast_policies.get(device)
    if policy is None or form_of(op) not in (Form.FUNCTIONAL, Form.VIEW):
        return None
    below = ~DEVICES[device].functionality_bits
    prepare = _PREPARATIONS[policy](op, device)

    def kernel(ks: int, *params: object) -> object:
        st = tls.st
        exclude = st.exclude
        st.add_exclude(~below)  # a definition by other operators is not cast again
        try:
            return op.run(ks & below, prepare(params))
        finally:
            st.set_exclude(exclude)

    return kernel


Prepare = Callable[[Sequence[object]], Sequence[object]]


def _lower(op: OpOverload, device: str) -> Prepare:
    return lambda params: all_cast(params, state.dtypes[device], device)


def _float32(op: OpOverload, device: str) -> Prepare:
    return lambda params: all_cast(params, float32, device)


def _float32_dtype(op: OpOverload, device: str) -> Prepare:
    at = next(i for i, a in enumerate(op._schema.arguments) if a.name == "dtype")

    def prepare(params: Sequence[object]) -> Sequence[object]:
        first = params[0]
        if params[at] is not None or not (isinstance(first, Tensor) and _fits(first, device)):
            return params
        return (*params[:at], float32, *params[at + 1 :])

    return prepare


def _promote(op: OpOverload, device: str) -> Prepare:
    def prepare(params: Sequence[object]) -> Sequence[object]:
        given = [t.meta.dtype for t in _tensors(params) if _fits(t, device)]
        wide = float32 if float32 in given else state.dtypes[device]
        return all_cast(params, wide, device)

    return prepare


def _refused(op: OpOverload, device: str) -> Prepare:
    def prepare(params: Sequence[object]) -> Sequence[object]:
        raise RuntimeError(
            f"{op._opname} is unsafe to autocast: its logarithms overflow in few bits. Leave out "
            f"the sigmoid before it and call {op._opname}_with_logits, which is safe, or leave the "
            f"region around it with torch.autocast('{device}', enabled=False)"
        )

    return prepare


_PREPARATIONS: dict[AutocastPolicy, Callable[[OpOverload, str], Prepare]] = {
    "lower": _lower,
    "float32": _float32,
    "float32 dtype": _float32_dtype,
    "promote": _promote,
    "refused": _refused,
}


def _fits(t: Tensor, device: str) -> bool:
    """Whether a region of this device casts a tensor at all."""
    kind = t.meta.dtype
    return kind.is_floating_point and kind is not float64 and t.meta.device.type == device


def _tensors(params: Sequence[object]) -> list[Tensor]:
    found: list[Tensor] = []
    for p in params:
        if isinstance(p, Tensor):
            found.append(p)
        elif isinstance(p, tuple):
            found += [t for t in p if isinstance(t, Tensor)]
    return found


def all_cast(params: Sequence[object], kind: dtype, device: str) -> Sequence[object]:
    """The parameters with every tensor, in lists too, in one dtype."""

    def one(p: object) -> object:
        if isinstance(p, Tensor):
            return cast(p, kind, device)
        if isinstance(p, tuple):
            return tuple([one(i) for i in p])
        return p

    return [one(p) for p in params]


def cast(t: Tensor, kind: dtype, device: str) -> Tensor:
    """A tensor as a region casts it; weights are cast once in all nested regions."""
    if not _fits(t, device) or t.meta.dtype is kind:
        return t
    weight = t.requires_grad and t.is_leaf and t.meta.dtype is float32 and not t._is_view()
    if not (weight and state.remembers and kind is state.dtypes[device]):
        return t.to(kind)
    known = state.casts.get(id(t))
    if known is None or known[0]() is not t:
        known = state.casts[id(t)] = (weakref.ref(t), t.to(kind))
    return known[1]


for _key in DEVICES.values():
    replace_fallback(_key, autocast_kernel)  # until now the keys were passed by
