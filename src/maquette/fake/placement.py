"""Operators whose operands may be on devices that differ, in outline (F51, F56, F57, F59).

An operator's tensors share a device, 0-dim cpu tensors apart: that check is common to all calls
(`core.device_rules`). Here is who departs from it on fakes, which have no data to be moved; it is
asked only after the common check has refused a call, so that others pay nothing. A rule gives the
call again with operands where they would have to be; the shape rule then answers as ever. Calls on
the cpu and ``meta`` alone could be made for real, and fakes are taken as eager takes them; but for
``embedding`` (F57).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from maquette.core.device import device
from maquette.core.device_rules import DeviceMismatchError
from maquette.core.meta import TensorMeta
from maquette.dispatch.operator import OpOverload
from maquette.fake.tensor import FakeTensor, fresh_fake, tensors_in
from maquette.library.infer import Outcome
from maquette.tensor.tensor import Tensor

Params = Sequence[object]
# rule(op, params): the operands moved; None where the operator does not take them so.
Rule = Callable[[OpOverload, Params], "tuple[object, ...] | None"]
# devices(params): of each result, where they are not all with the first operand.
Devices = Callable[[Params], tuple[device, ...]]


def moved(p: object, to: device) -> object:
    """A parameter with its fakes on a device: other fakes, of nobody's data."""
    if isinstance(p, FakeTensor) and p.meta.device is not to:
        return fresh_fake(p.fake_mode, p.meta.with_device(to))
    if p.__class__ is tuple:
        return tuple([moved(i, to) for i in cast(tuple[object, ...], p)])
    return p


def placed(op: OpOverload, params: Params) -> tuple[object, ...] | None:
    """The call's operands where the operator wants them; None where it takes no others."""
    rule = _RULES.get(op._qualified)
    if rule is None or not (_is_elsewhere(params) or rule is _one_meta):
        return None
    return rule(op, params)


def results_placed(op: OpOverload, params: Params, outcome: Outcome) -> Outcome:
    """The outcome of a call whose operands were moved, with each result on its device."""
    where = _RESULTS.get(op._qualified)
    if where is None or not isinstance(outcome.value, tuple):
        return outcome
    metas = cast(tuple[TensorMeta, ...], outcome.value)
    pairs = zip(metas, where(params), strict=True)
    return Outcome(tuple([meta.with_device(on) for meta, on in pairs]))


def refusal(op: OpOverload) -> Callable[[Params], None] | None:
    """A check of devices that an operator makes beyond the common one; None for most."""
    check = _CHECKS.get(op._qualified.partition(".")[0])
    if check is None:
        return None

    def refuse(params: Params) -> None:
        if _is_elsewhere(params):
            check(params)

    return refuse


def _is_elsewhere(params: Params) -> bool:
    """Whether a tensor is on a device of which eager execution here knows nothing."""
    return any(t.meta.device.type not in ("cpu", "meta") for t in tensors_in(params))


# --- rules ---------------------------------------------------------------------------


def _device(p: object) -> device:
    return cast(Tensor, p).meta.device


def _to_first(op: OpOverload, params: Params) -> tuple[object, ...]:
    """Everything is brought to the first operand."""
    return tuple([moved(p, _device(params[0])) for p in params])


def _meta_to_first(op: OpOverload, params: Params) -> tuple[object, ...] | None:
    """The second operand may be on ``meta``."""
    return _to_first(op, params) if _device(params[1]).type == "meta" else None


def _one_meta(op: OpOverload, params: Params) -> tuple[object, ...] | None:
    """One of the first two operands is on ``meta``."""
    types = {_device(p).type for p in params[:2]}
    return _to_first(op, params) if "meta" in types else None


def _read_at(op: OpOverload, params: Params) -> tuple[object, ...]:
    """Indices may be on the cpu."""
    _check_indices(params)
    return _to_first(op, params)


def _written_at(op: OpOverload, params: Params) -> tuple[object, ...]:
    """Indices may be on the cpu; values of any rank but 0 are with self."""
    self, indices, values, *rest = params
    to = _device(self)
    _check_indices(params)
    if _device(values) is not to and cast(Tensor, values).meta.ndim:
        raise RuntimeError(
            f"Mismatching {op} device between self ({to}) and values ({_device(values)}): move the "
            f"values with .to()"
        )
    return self, moved(indices, to), moved(values, to), *rest


def _check_indices(params: Params) -> None:
    to = _device(params[0])
    for index in tensors_in(params[1]):
        on = index.meta.device
        if on is not to and on.type != "cpu":
            raise RuntimeError(
                f"indices should be either on cpu or on the same device as the indexed tensor "
                f"({to}), got one on {on}"
            )


def _check_every_rank(params: Params) -> None:
    """No operand yields to another: 0-dim cpu tensors count too."""
    devices = list(dict.fromkeys(t.meta.device for t in tensors_in(params)))
    if len(devices) > 1:
        raise DeviceMismatchError(
            f"Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices[0]} and {devices[1]}! (0-dim cpu tensors are no exception here)"
        )


def _bag_results(params: Params) -> tuple[device, ...]:
    weight, indices = _device(params[0]), _device(params[1])
    return weight, indices, indices, indices


_RULES: dict[str, Rule] = {
    "aten::add_.Tensor": _meta_to_first,
    "aten::embedding": _one_meta,
    "aten::_embedding_bag": _to_first,
    "aten::_embedding_bag_forward_only": _to_first,
    "aten::slice_scatter": _to_first,
    "aten::diagonal_scatter": _to_first,
    "aten::_unsafe_index_put": _to_first,
    "aten::index.Tensor": _read_at,
    "aten::index_put": _written_at,
    "aten::index_put_": _written_at,
    "aten::_index_put_impl_": _written_at,
    "aten::resize_as_": _to_first,
}
_RESULTS: dict[str, Devices] = {
    "aten::_embedding_bag": _bag_results,
    "aten::_embedding_bag_forward_only": _bag_results,
}
# By packet: the forms of an operator check alike.
_CHECKS: dict[str, Callable[[Params], None]] = {
    "aten::index": _check_indices,
    "aten::nextafter": _check_every_rank,
    "aten::nextafter_": _check_every_rank,
}
