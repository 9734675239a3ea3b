"""All steps of a recurrent layer as one operator, where nobody watches the steps.

PyTorch runs such a layer by operators, about fifteen for each step, and so does `recurrence.py`
where modes, transforms, hooks or other kernels are to see them. Where nobody does, only the results
count: this operator computes them with a few array functions for each step. The arithmetic is
written once, for arrays and for tensors; on tensors it serves what is differentiated again.

The state of an LSTM is its two members side by side. Whole batches of it are the operator of
`lstm_layer.py`; packed ones, projected ones and those in double precision come here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.transcendental import logistic
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.library.arrays import run_as_on_page
from maquette.library.page import Cost, define
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]
Grad = Tensor | None

GATES = {"gru": 3, "lstm": 4, "tanh": 1, "relu": 1}
"""How many gates a cell has."""
# Of a GRU r, z, n and the hidden part of n; of an LSTM i, f, g, o and tanh of the cell.
_KEPT = {"gru": 4, "lstm": 5, "tanh": 0, "relu": 0}

# --- the arithmetic ------------------------------------------------------------------


class _Functions(NamedTuple):
    """What arrays and tensors have under different names."""

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    relu: Callable[[Any], Any]
    positive: Callable[[Any], Any]  # 1 where positive, else 0
    join: Callable[[Sequence[Any], int], Any]
    dense: Callable[[Any], Any]


def _of_arrays(xp: ModuleType) -> _Functions:
    return _Functions(
        lambda x: logistic(xp, x),
        xp.tanh,
        lambda x: xp.maximum(x, 0),
        lambda x: (x > 0).astype(x.dtype),
        xp.concatenate,
        np.ascontiguousarray if xp is np else lambda x: x,
    )


_OF_TENSORS = _Functions(
    lambda x: x.sigmoid(),
    lambda x: x.tanh(),
    lambda x: x.relu(),
    lambda x: (x > 0).to(x.dtype),
    aten.cat,
    lambda x: x.contiguous(),
)


class _Ran(NamedTuple):
    """What a run leaves, for each step in the order of time: the state, and what backward needs."""

    outputs: list[Any]
    kept: list[tuple[Any, ...]]
    last: Any


def _steps(batch_sizes: Ints, reverse: bool) -> Iterator[tuple[int, int, int]]:
    """Each step's place, and the first and the end of its rows, in the order of running."""
    starts = [0]
    for size in batch_sizes:
        starts.append(starts[-1] + size)
    places = range(len(batch_sizes))
    for t in reversed(places) if reverse else places:
        yield t, starts[t], starts[t + 1]


def _gru_step(fn: _Functions, gates: Any, hidden: Any, h: Any) -> tuple[Any, ...]:
    """Cho et al. 2014, with the reset gate after the product: the state, and r, z, n, hidden n."""
    size = h.shape[-1]
    both = fn.sigmoid(hidden[:, : 2 * size] + gates[:, : 2 * size])
    r, z, late = both[:, :size], both[:, size:], hidden[:, 2 * size :]
    n = fn.tanh(gates[:, 2 * size :] + late * r)
    return (h - n) * z + n, r, z, n, late


def _lstm_step(fn: _Functions, sums: Any, c: Any, projection: Any) -> tuple[Any, ...]:
    """Hochreiter and Schmidhuber 1997, with a forget gate: the state, and what is kept."""
    size = c.shape[-1]
    both = fn.sigmoid(sums[:, : 2 * size])
    i, f, g = both[:, :size], both[:, size:], fn.tanh(sums[:, 2 * size : 3 * size])
    o = fn.sigmoid(sums[:, 3 * size :])
    c = f * c + i * g
    bent = fn.tanh(c)
    h = o * bent
    return fn.join([h if projection is None else h @ projection.T, c], 1), i, f, g, o, bent


def _run(
    fn: _Functions,
    gates: Any,
    weight: Any,
    bias: Any,
    projection: Any,
    h: Any,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
) -> _Ran:
    # Products of matrices, the second factor along its rows: 2.6 times as fast (`lstm_layer.py`).
    recurrent, count, size = fn.dense(weight.T), len(batch_sizes), weight.shape[1]
    outputs: list[Any] = [None] * count
    kept: list[tuple[Any, ...]] = [()] * count
    for t, first, end in _steps(batch_sizes, reverse):
        running = end - first
        whole = running == h.shape[0]
        before = h if whole else h[:running]
        hidden = (before[:, :size] if cell == "lstm" else before) @ recurrent
        if bias is not None:
            hidden = hidden + bias
        if cell == "gru":
            now, *kept[t] = _gru_step(fn, gates[first:end], hidden, before)  # type: ignore[call-overload]  # a list
        elif cell == "lstm":
            now, *kept[t] = _lstm_step(  # type: ignore[call-overload]  # a list
                fn, hidden + gates[first:end], before[:, size:], projection
            )
        else:
            now = getattr(fn, cell)(hidden + gates[first:end])
        outputs[t] = now
        h = now if whole else fn.join([now, h[running:]], 0)
    return _Ran(outputs, kept, h)


def _lstm_step_back(
    fn: _Functions, kept: tuple[Any, ...], by_h: Any, by_c: Any, c: Any, projection: Any
) -> tuple[Any, Any]:
    """The gradients by a step's gates and by the cell before it."""
    i, f, g, o, bent = kept
    by_h = by_h if projection is None else by_h @ projection
    by_c = by_c + by_h * o * (1 - bent * bent)
    by_gates = [
        by_c * g * i * (1 - i),
        by_c * c * f * (1 - f),
        by_c * i * (1 - g * g),
        by_h * bent * o * (1 - o),
    ]
    return fn.join(by_gates, 1), by_c * f


def _run_back(
    fn: _Functions,
    weight: Any,
    projection: Any,
    start: Any,
    ran: _Ran,
    grad_output: Any,
    grad_h: Any,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
) -> tuple[Any, Any, Any, Any, Any]:
    """The gradients by gates, weight, bias, projection and first state.

    grad_output: None for zeros. Without a projection its gradient is None.
    """
    count, size = len(batch_sizes), weight.shape[1]
    by_gates, by_hidden, befores, by_outputs = ([None] * count for _ in range(4))
    order = list(_steps(batch_sizes, reverse))
    for at in range(count - 1, -1, -1):
        t, first, end = order[at]
        running = end - first
        before = _state_before(fn, start, ran, order, at, running)
        whole = running == grad_h.shape[0]
        by_now = grad_h if whole else grad_h[:running]
        by_now = by_now if grad_output is None else by_now + grad_output[first:end]
        if cell == "gru":
            r, z, n, late = ran.kept[t]
            by_n = by_now * (1 - z) * (1 - n * n)
            by_r = by_n * late * r * (1 - r)
            by_z = by_now * (before - n) * z * (1 - z)
            by_gates[t] = fn.join([by_r, by_z, by_n], 1)
            by_hidden[t] = fn.join([by_r, by_z, by_n * r], 1)
            by_before = by_now * z + by_hidden[t] @ weight
        elif cell == "lstm":
            by_h, by_c, before, c = *_halves(by_now, size), *_halves(before, size)
            found = _lstm_step_back(fn, ran.kept[t], by_h, by_c, c, projection)
            by_gates[t] = by_hidden[t] = found[0]
            by_before, by_outputs[t] = fn.join([found[0] @ weight, found[1]], 1), by_h
        else:
            now = ran.outputs[t]
            by_now = by_now * (1 - now * now if cell == "tanh" else fn.positive(now))
            by_gates[t] = by_hidden[t] = by_now
            by_before = by_now @ weight
        befores[t] = before
        grad_h = by_before if whole else fn.join([by_before, grad_h[running:]], 0)
    gates, by_projection = fn.join(by_gates, 0), None
    rows = gates if cell != "gru" else fn.join(by_hidden, 0)
    if projection is not None:
        whole = fn.join([o * bent for *_, o, bent in ran.kept], 0)
        by_projection = fn.join(by_outputs, 0).T @ whole
    return gates, rows.T @ fn.join(befores, 0), rows.sum(0), by_projection, grad_h


def _halves(state: Any, size: int) -> tuple[Any, Any]:
    """An LSTM's state and its cell, side by side."""
    return state[:, :size], state[:, size:]


def _state_before(
    fn: _Functions,
    start: Any,
    ran: _Ran,
    order: list[tuple[int, int, int]],
    at: int,
    running: int,
) -> Any:
    """The state that a step starts from: the last step's, or the first for who joins with it."""
    if not at:
        return start[:running]
    last = ran.outputs[order[at - 1][0]]
    there = last.shape[0]
    if there < running:
        return fn.join([last, start[there:running]], 0)
    return last if there == running else last[:running]


# --- where it stands for the steps ---------------------------------------------------

_SHOWN = (
    """addmm mm add_.Tensor add.Tensor sub.Tensor mul_.Tensor mul.Tensor sigmoid_ tanh_ tanh relu"""
)
"""The operators that the steps are made of otherwise."""


def unwatched(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the steps on these tensors may run as one operator: nobody sees them."""
    return run_as_on_page(tensors, _SHOWN)


# --- the operator --------------------------------------------------------------------

recurrent_steps = define(
    "maquette::recurrent_steps(Tensor gates, Tensor weight, Tensor? bias, Tensor? projection, "
    "Tensor hx, int[] batch_sizes, str cell, bool reverse) -> (Tensor, Tensor, Tensor)"
)
recurrent_steps.describe(
    "All steps of a recurrent layer: of the input's part of the gates [rows, gates * size], one "
    "step's rows after another's, the states [rows, size], the last state [N, size], and what "
    "backward needs. An LSTM's state has its two members side by side."
)


@recurrent_steps.shape
def recurrent_steps_shape(
    gates: TensorMeta,
    weight: TensorMeta,
    bias: TensorMeta | None,
    projection: TensorMeta | None,
    hx: TensorMeta,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    check(cell in GATES, lambda: f"recurrent_steps: expected a cell of {[*GATES]}, got {cell!r}")
    check(
        gates.ndim == hx.ndim == weight.ndim == 2,
        lambda: (
            f"recurrent_steps: expected gates [rows, gates * size], a weight [gates * size, size] "
            f"and a state [N, size], got {gates}, {weight} and {hx}"
        ),
    )
    (batch, state), (width, size) = hx.shape, weight.shape
    unit = width // GATES[cell]
    wanted: dict[str, tuple[TensorMeta, tuple[int, ...]]] = {
        "gates": (gates, (sum(batch_sizes), GATES[cell] * unit)),
        "hx": (hx, (batch, size + unit if cell == "lstm" else unit)),
        "weight": (weight, (width, unit if projection is None else size)),
    }
    if bias is not None:
        wanted["bias"] = bias, (width,)
    if projection is not None:
        wanted["projection"] = projection, (size, unit)
    for name, (one, shape) in wanted.items():
        check(
            one.dtype is hx.dtype and expect_alike(one.shape, shape),
            lambda name=name, one=one, shape=shape: (
                f"recurrent_steps: expected {name} of shape {list(shape)} and dtype {hx.dtype}, "
                f"got {one}"
            ),
        )
    rows = gates.shape[0]
    return (
        gates.fresh((rows, state)),
        gates.fresh((batch, state)),
        gates.fresh((rows, _KEPT[cell] * unit)),
    )


@recurrent_steps.kernel
def recurrent_steps_kernel(
    xp: ModuleType,
    gates: Array,
    weight: Array,
    bias: Array | None,
    projection: Array | None,
    hx: Array,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    given = (gates, weight, bias, projection, hx)
    x, w, b, p, h = (a if a is None else wide(a) for a in given)
    ran = _run(_of_arrays(xp), x, w, b, p, h, batch_sizes, cell, reverse)
    kept = xp.empty((gates.shape[0], 0), gates.dtype)
    if _KEPT[cell]:
        kept = xp.concatenate([xp.concatenate(each, 1) for each in ran.kept])
    return xp.concatenate(ran.outputs), ran.last.copy(), kept


recurrent_steps.nondifferentiable(2)


@recurrent_steps.cost
def recurrent_steps_cost(gates: TensorMeta, weight: TensorMeta, *rest: Any) -> Cost:
    return Cost(flops=2 * gates.shape[0] * weight.shape[0] * weight.shape[1])


@recurrent_steps.derivative("gates", "weight", "bias", "projection", "hx")
def recurrent_steps_grad(
    grads: Sequence[Grad],
    gates: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    projection: Tensor | None,
    hx: Tensor,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
    result0: Tensor,
    result2: Tensor,
) -> tuple[Grad, ...]:
    settings = batch_sizes, cell, reverse
    if is_grad_enabled():  # to be differentiated again
        ran = _run(_OF_TENSORS, gates, weight, bias, projection, hx, *settings)
        by_last = aten.zeros_like(hx) if grads[1] is None else grads[1]
        found = _run_back(_OF_TENSORS, weight, projection, hx, ran, grads[0], by_last, *settings)
    else:
        found = recurrent_steps_backward(
            grads[0], grads[1], weight, projection, hx, result0, result2, *settings
        )
    by_gates, by_weight, by_bias, by_projection, by_hx = found
    by_bias = None if bias is None else by_bias
    by_projection = None if projection is None else by_projection
    return by_gates, by_weight, by_bias, by_projection, by_hx


recurrent_steps_backward = define(
    "maquette::recurrent_steps_backward(Tensor? grad_output, Tensor? grad_last, Tensor weight, "
    "Tensor? projection, Tensor hx, Tensor output, Tensor kept, int[] batch_sizes, str cell, "
    "bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)
recurrent_steps_backward.describe(
    "The gradients of `recurrent_steps` by the gates, the weight, the bias, the projection and the "
    "first state; empty for a projection that is not there."
)


@recurrent_steps_backward.shape
def recurrent_steps_backward_shape(
    grad_output: TensorMeta | None,
    grad_last: TensorMeta | None,
    weight: TensorMeta,
    projection: TensorMeta | None,
    hx: TensorMeta,
    output: TensorMeta,
    kept: TensorMeta,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
) -> tuple[TensorMeta, ...]:
    for name, grad, of in (("grad_output", grad_output, output), ("grad_last", grad_last, hx)):
        check(
            grad is None or expect_alike(grad.shape, of.shape),
            lambda name=name, grad=grad, of=of: (
                f"recurrent_steps_backward: expected {name} of shape {list(of.shape)}, got {grad}"
            ),
        )
    width, by_projection = weight.shape[0], (0,) if projection is None else projection.shape
    shapes = (output.shape[0], width), weight.shape, (width,), by_projection, hx.shape
    return tuple([weight.fresh(shape) for shape in shapes])


@recurrent_steps_backward.kernel
def recurrent_steps_backward_kernel(
    xp: ModuleType,
    grad_output: Array | None,
    grad_last: Array | None,
    weight: Array,
    projection: Array | None,
    hx: Array,
    output: Array,
    kept: Array,
    batch_sizes: Ints,
    cell: str,
    reverse: bool,
) -> tuple[Array, ...]:
    by_last = xp.zeros(hx.shape, hx.dtype) if grad_last is None else grad_last
    parts = _KEPT[cell]
    outputs: list[Array] = [None] * len(batch_sizes)  # type: ignore[list-item]  # filled below
    gates: list[tuple[Array, ...]] = [()] * len(batch_sizes)
    by_parts = kept.reshape(len(kept), parts, kept.shape[1] // parts) if parts else kept
    for t, first, end in _steps(batch_sizes, False):
        outputs[t] = output[first:end]
        gates[t] = tuple([by_parts[first:end, n] for n in range(parts)])
    ran = _Ran(outputs, gates, None)
    settings = batch_sizes, cell, reverse
    by_gates, by_weight, by_bias, by_projection, by_hx = _run_back(
        _of_arrays(xp), weight, projection, hx, ran, grad_output, by_last, *settings
    )
    none = xp.empty(0, weight.dtype) if by_projection is None else by_projection
    return by_gates, by_weight, by_bias, none, by_hx


@recurrent_steps_backward.cost
def recurrent_steps_backward_cost(
    grad_output: TensorMeta | None, grad_last: TensorMeta | None, weight: TensorMeta, *rest: Any
) -> Cost:
    return Cost(flops=4 * rest[2].shape[0] * weight.shape[0] * weight.shape[1])
