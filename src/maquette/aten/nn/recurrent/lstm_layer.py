"""One LSTM layer in one direction as one operator, for cpu: forward, backward, what `lstm` calls.

PyTorch hands such a layer to oneDNN, under the names here; so a step of the network costs a few
array functions, where operators would cost tens of dispatches. The arithmetic is written once, for
arrays and for tensors: what differs between the two is in `_Functions`. On tensors it serves what
is differentiated again, tangents and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from maquette.aten.common.accumulation import wide
from maquette.aten.common.axes import Array
from maquette.aten.common.large_arrays import LARGE
from maquette.aten.common.operators import aten
from maquette.aten.elementwise.transcendental import logistic
from maquette.autograd.grad_mode import is_grad_enabled
from maquette.core.dtype import bfloat16, float32, uint8
from maquette.core.errors import check, check_not_implemented
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.library.page import Cost, define
from maquette.tensor.backend import backend_for
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]
Grad = Tensor | None

# --- the arithmetic ------------------------------------------------------------------


class _Functions(NamedTuple):
    """What arrays and tensors have under different names."""

    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    stack: Callable[[list[Any]], Any]
    join: Callable[[list[Any]], Any]  # along the last dimension
    dense: Callable[[Any], Any]


def _of_arrays(xp: ModuleType) -> _Functions:
    return _Functions(
        lambda x: logistic(xp, x),
        xp.tanh,
        xp.stack,
        lambda parts: xp.concatenate(parts, -1),
        np.ascontiguousarray if xp is np else lambda x: x,
    )


_OF_TENSORS = _Functions(
    lambda x: x.sigmoid(),
    lambda x: x.tanh(),
    aten.stack,
    lambda parts: aten.cat(parts, -1),
    lambda x: x.contiguous(),
)


class _Steps(NamedTuple):
    """What a run over time leaves: a value for each step, in the order of time."""

    outputs: list[Any]
    gates: list[tuple[Any, Any, Any, Any]]  # i, f, g, o after their functions
    cells: list[Any]


def _order(count: int, reverse: bool) -> Sequence[int]:
    return range(count - 1, -1, -1) if reverse else range(count)


def _activated(fn: _Functions, sums: Any) -> tuple[Any, Any, Any, Any]:
    """Input, forget, cell and output gate of their sums [batch, 4 * size]."""
    size = sums.shape[-1] // 4
    both = fn.sigmoid(sums[:, : 2 * size])
    candidate = fn.tanh(sums[:, 2 * size : 3 * size])
    return both[:, :size], both[:, size:], candidate, fn.sigmoid(sums[:, 3 * size :])


def _input_sums(x: Any, w_ih: Any, bias: Any) -> Any:
    """The input's part of the gates, [time, batch, 4 * size]."""
    sums = x.reshape(-1, x.shape[-1]) @ w_ih.T + bias
    return sums.reshape(x.shape[0], -1, w_ih.shape[0])


def _run(
    fn: _Functions, x: Any, w_ih: Any, w_hh: Any, bias: Any, h: Any, c: Any, reverse: bool
) -> _Steps:
    """Hochreiter and Schmidhuber 1997, with a forget gate, over [time, batch, size]."""
    # Products of matrices, the second factor along its rows: 12.7 to 4.8 ms of 64 steps of
    # [16, 128] by [128, 512].
    steps, recurrent, sums = x.shape[0], fn.dense(w_hh.T), _input_sums(x, w_ih, bias)
    outputs: list[Any] = [None] * steps
    gates: list[Any] = [None] * steps
    cells: list[Any] = [None] * steps
    for t in _order(steps, reverse):
        gates[t] = i, f, g, o = _activated(fn, sums[t] + h @ recurrent)
        cells[t] = c = f * c + i * g
        outputs[t] = h = o * fn.tanh(c)
    return _Steps(outputs, gates, cells)


def _run_back(
    fn: _Functions,
    given: tuple[Any, ...],
    ran: _Steps,
    grad_output: Any,
    grad_h: Any,
    grad_c: Any,
    reverse: bool,
) -> tuple[Any, ...]:
    """The gradients by input, both weights, a bias, and the first states.

    given: input, both weights and the first states. grad_output: None for zeros.
    """
    x, w_ih, w_hh, h_0, c_0 = given
    sums: list[Any] = [None] * x.shape[0]
    before: list[Any] = [None] * x.shape[0]
    order = _order(x.shape[0], reverse)
    for at in range(len(order) - 1, -1, -1):
        t = order[at]
        i, f, g, o = ran.gates[t]
        previous = order[at - 1] if at else None
        c_before = c_0 if previous is None else ran.cells[previous]
        before[t] = h_0 if previous is None else ran.outputs[previous]
        grad_h = grad_h if grad_output is None else grad_h + grad_output[t]
        bent = fn.tanh(ran.cells[t])
        grad_c = grad_c + grad_h * o * (1 - bent * bent)
        by_gates = [
            grad_c * g * i * (1 - i),
            grad_c * c_before * f * (1 - f),
            grad_c * i * (1 - g * g),
            grad_h * bent * o * (1 - o),
        ]
        sums[t] = fn.join(by_gates)
        grad_c, grad_h = grad_c * f, sums[t] @ w_hh
    by_x, by_weights = _by_inputs(x, w_ih, fn.stack(sums), fn.stack(before))
    return by_x, *by_weights, grad_h, grad_c


def _by_inputs(x: Any, w_ih: Any, by_sums: Any, hidden: Any) -> tuple[Any, tuple[Any, ...]]:
    """The gradients by the input, and by both weights and a bias, from those by the gates' sums.

    hidden: the state before each step.
    """
    rows = by_sums.reshape(-1, by_sums.shape[-1])
    by_ih = rows.T @ x.reshape(-1, x.shape[-1])
    by_hh = rows.T @ hidden.reshape(-1, hidden.shape[-1])
    return (rows @ w_ih).reshape(x.shape), (by_ih, by_hh, rows.sum(0))


# --- forward -------------------------------------------------------------------------

_SETTINGS = (
    "int mode, int hidden_size, int num_layers, bool has_biases, bool bidirectional, "
    "bool batch_first, bool train"
)
mkldnn_rnn_layer = define(
    "aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, "
    f"Tensor weight3, Tensor hx_, Tensor cx_, bool reverse, int[] batch_sizes, {_SETTINGS}) "
    "-> (Tensor, Tensor, Tensor, Tensor)"
)
mkldnn_rnn_layer.describe(
    "One LSTM layer in one direction over [T, N, in]: outputs, last states, and what backward "
    "needs. weight2 and weight3 are the biases, zeros without."
)
mkldnn_rnn_layer.autocast(cpu="lower")

LSTM = 2  # the mode that stands for it


def takes(input: Tensor, weights: Sequence[Tensor | None], states: Sequence[Tensor]) -> bool:
    """Whether the operator takes a layer: on cpu, of one dtype that it computes in."""
    kind = input.meta.dtype
    if input.meta.device.type != "cpu" or kind not in (float32, bfloat16):
        return False
    if len(weights) > 4 and weights[4] is not None:  # a projection
        return False
    return all(t is None or t.meta.dtype is kind for t in (*weights, *states))


@mkldnn_rnn_layer.shape
def mkldnn_rnn_layer_shape(
    input: TensorMeta,
    weight0: TensorMeta,
    weight1: TensorMeta,
    weight2: TensorMeta,
    weight3: TensorMeta,
    hx_: TensorMeta,
    cx_: TensorMeta,
    reverse: bool,
    batch_sizes: Ints,
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[TensorMeta, TensorMeta, TensorMeta, TensorMeta]:
    check_not_implemented(
        mode == LSTM, lambda: f"mkldnn_rnn_layer: only LSTM (mode {LSTM}), got mode {mode}"
    )
    check_not_implemented(
        not batch_sizes, lambda: "mkldnn_rnn_layer: a packed batch is no input of this operator"
    )
    check(
        input.ndim == 3 and hx_.ndim == cx_.ndim == 2,
        lambda: (
            f"mkldnn_rnn_layer: expected an input [T, N, in] and states [N, size], got {input}, "
            f"{hx_} and {cx_}"
        ),
    )
    steps, batch, size = input.shape
    rows = 4 * hidden_size
    wanted = [(rows, size), (rows, hidden_size), (rows,), (rows,)]
    wanted += [(batch, hidden_size)] * 2
    for name, one, shape in zip(
        ("weight0", "weight1", "weight2", "weight3", "hx_", "cx_"),
        (weight0, weight1, weight2, weight3, hx_, cx_),
        wanted,
        strict=True,
    ):
        check(
            expect_alike(one.shape, shape),
            lambda name=name, one=one, shape=shape: (
                f"mkldnn_rnn_layer: expected {name} of shape {list(shape)}, got {one}"
            ),
        )
    output, state = (steps, batch, hidden_size), (batch, hidden_size)
    kept = steps * batch * hidden_size * _KEPT * float32.itemsize if train else 0
    return (
        input.fresh(output),
        input.fresh(state),
        input.fresh(state),
        input.fresh((kept,), uint8),
    )


_KEPT = 5  # what is kept of a step for backward: four gates and the cell, in single precision


@mkldnn_rnn_layer.kernel
def mkldnn_rnn_layer_kernel(
    xp: ModuleType,
    input: Array,
    weight0: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    hx_: Array,
    cx_: Array,
    reverse: bool,
    *settings: Any,
) -> tuple[Array, Array, Array, Array]:
    train = settings[-1]
    bias = wide(weight2) + wide(weight3)
    x, w_ih, w_hh = wide(input), wide(weight0), wide(weight1)
    h, c = wide(hx_), wide(cx_)
    last = _order(input.shape[0], reverse)[-1]
    loops = _loops(xp, x, w_hh)
    if loops is not None:
        sums = _input_sums(x, w_ih, bias)
        outputs, steps = loops.lstm_steps(sums, w_hh.T, h, c, reverse=reverse)
        kept = steps.reshape(-1).view(np.uint8) if train else xp.empty(0, np.uint8)
        cell = steps[last, :, -c.shape[1] :].copy()
        return outputs, outputs[last].copy(), cell, kept
    ran = _run(_of_arrays(xp), x, w_ih, w_hh, bias, h, c, reverse)
    kept = xp.empty(0, np.uint8)
    if train:
        each = [xp.concatenate([*gates, c], -1) for gates, c in zip(ran.gates, ran.cells)]
        kept = xp.stack(each).reshape(-1).view(np.uint8)
    return xp.stack(ran.outputs), ran.outputs[last], ran.cells[last], kept


def _loops(xp: ModuleType, x: Array, w_hh: Array) -> ModuleType | None:
    """Compiled loops for layers of many numbers."""
    gates = x.shape[0] * x.shape[1] * len(w_hh)
    return backend_for(np).loops if xp is np and gates >= LARGE else None


def _kept_steps(output: Array, workspace: Array) -> _Steps:
    """The steps of a run, from what its outputs and workspace hold."""
    kept = workspace.view(np.float32).reshape(*output.shape[:2], _KEPT, output.shape[2])
    parts = [list(kept[:, :, n]) for n in range(_KEPT)]
    return _Steps(list(wide(output)), list(zip(*parts[:4], strict=True)), parts[4])


@mkldnn_rnn_layer.cost
def mkldnn_rnn_layer_cost(input: TensorMeta, weight0: TensorMeta, *rest: Any) -> Cost:
    steps, batch, size = input.shape
    rows = weight0.shape[0]
    return Cost(flops=2 * steps * batch * rows * (size + rows // 4))


# --- derivatives ---------------------------------------------------------------------


@mkldnn_rnn_layer.derivative("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_")
def mkldnn_rnn_layer_grad(
    grads: Sequence[Grad],
    input: Tensor,
    weight0: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    weight3: Tensor,
    hx_: Tensor,
    cx_: Tensor,
    reverse: bool,
    batch_sizes: Ints,
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
    result0: Tensor,
    result1: Tensor,
    result2: Tensor,
    result3: Tensor,
) -> tuple[Grad, ...]:
    first = (input, weight0, weight1, weight2, weight3, hx_, cx_)
    if is_grad_enabled() or not train:  # to be differentiated again; nothing was kept
        return _gradients_by_parts(first, grads, reverse)
    settings = (mode, hidden_size, num_layers, has_biases, train, bidirectional)
    found: tuple[Grad, ...] = aten.mkldnn_rnn_layer_backward(
        *first, result0, result1, result2, *grads[:3], reverse, *settings, batch_sizes,
        batch_first, result3,
    )  # fmt: skip
    return found


mkldnn_rnn_layer.nondifferentiable(3)


def _gradients_by_parts(
    first: tuple[Tensor, ...], grads: Sequence[Grad], reverse: bool
) -> tuple[Grad, ...]:
    x, w_ih, w_hh, b_ih, b_hh, h, c = first
    ran = _run(_OF_TENSORS, x, w_ih, w_hh, b_ih + b_hh, h, c, reverse)
    by_h = aten.zeros_like(h) if grads[1] is None else grads[1]
    by_c = aten.zeros_like(c) if grads[2] is None else grads[2]
    by_x, by_ih, by_hh, by_bias, *by_states = _run_back(
        _OF_TENSORS, (x, w_ih, w_hh, h, c), ran, grads[0], by_h, by_c, reverse
    )
    return by_x, by_ih, by_hh, by_bias, by_bias, *by_states


mkldnn_rnn_layer_backward = define(
    "aten::mkldnn_rnn_layer_backward(Tensor input, Tensor weight1, Tensor weight2, "
    "Tensor weight3, Tensor weight4, Tensor hx_, Tensor cx_tmp, Tensor output, Tensor hy_, "
    "Tensor cy_, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, bool reverse, int mode, "
    "int hidden_size, int num_layers, bool has_biases, bool train, bool bidirectional, "
    "int[] batch_sizes, bool batch_first, Tensor workspace) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
mkldnn_rnn_layer_backward.describe(
    "The gradients of `mkldnn_rnn_layer` by its input, its weights and its first states."
)


@mkldnn_rnn_layer_backward.shape
def mkldnn_rnn_layer_backward_shape(
    input: TensorMeta,
    weight1: TensorMeta,
    weight2: TensorMeta,
    weight3: TensorMeta,
    weight4: TensorMeta,
    hx_: TensorMeta,
    cx_tmp: TensorMeta,
    output: TensorMeta,
    hy_: TensorMeta,
    cy_: TensorMeta,
    grad_output: TensorMeta | None,
    grad_hy: TensorMeta | None,
    grad_cy: TensorMeta | None,
    *settings: object,
) -> tuple[TensorMeta, ...]:
    for name, grad, of in (
        ("grad_output", grad_output, output),
        ("grad_hy", grad_hy, hy_),
        ("grad_cy", grad_cy, cy_),
    ):
        check(
            grad is None or expect_alike(grad.shape, of.shape),
            lambda name=name, grad=grad, of=of: (
                f"mkldnn_rnn_layer_backward: expected {name} of shape {list(of.shape)}, got {grad}"
            ),
        )
    first = (input, weight1, weight2, weight3, weight4, hx_, cx_tmp)
    return tuple([meta.fresh(meta.shape) for meta in first])


@mkldnn_rnn_layer_backward.kernel
def mkldnn_rnn_layer_backward_kernel(
    xp: ModuleType,
    input: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    weight4: Array,
    hx_: Array,
    cx_tmp: Array,
    output: Array,
    hy_: Array,
    cy_: Array,
    grad_output: Array | None,
    grad_hy: Array | None,
    grad_cy: Array | None,
    reverse: bool,
    *settings: Any,
) -> tuple[Array, ...]:
    workspace = settings[-1]
    given = tuple([wide(a) for a in (input, weight1, weight2, hx_, cx_tmp)])
    zero = xp.zeros(hx_.shape, given[0].dtype)
    by_h, by_c = (zero if grad is None else wide(grad) for grad in (grad_hy, grad_cy))
    by_output = None if grad_output is None else wide(grad_output)
    loops = _loops(xp, given[0], given[2])
    if loops is not None:
        steps = workspace.view(np.float32).reshape(*output.shape[:2], -1)
        by_sums, *by_states = loops.lstm_steps_back(
            steps, given[4], given[2], by_output, by_h, by_c, reverse=reverse
        )
        outputs = wide(output)
        turned = (outputs[1:], given[3][None]) if reverse else (given[3][None], outputs[:-1])
        by_x, by_weights = _by_inputs(given[0], given[1], by_sums, np.concatenate(turned))
        return by_x, *by_weights, by_weights[2].copy(), *by_states
    ran = _kept_steps(output, workspace)
    by_x, by_ih, by_hh, by_bias, *by_states = _run_back(
        _of_arrays(xp), given, ran, by_output, by_h, by_c, reverse
    )
    return by_x, by_ih, by_hh, by_bias, by_bias.copy(), *by_states


@mkldnn_rnn_layer_backward.cost
def mkldnn_rnn_layer_backward_cost(input: TensorMeta, weight1: TensorMeta, *rest: Any) -> Cost:
    steps, batch, size = input.shape
    rows = weight1.shape[0]
    return Cost(flops=4 * steps * batch * rows * (size + rows // 4))


@mkldnn_rnn_layer_backward.batching_decomposition
def mkldnn_rnn_layer_backward_batching(*given: Any) -> tuple[Grad, ...]:
    first, grads, reverse = given[:7], given[10:13], given[13]
    return _gradients_by_parts(first, grads, reverse)


# --- tangents and batches ------------------------------------------------------------


@mkldnn_rnn_layer.tangent
def mkldnn_rnn_layer_tangent(
    input: Tensor,
    input_t: Tensor,
    weight0: Tensor,
    weight0_t: Tensor,
    weight1: Tensor,
    weight1_t: Tensor,
    weight2: Tensor,
    weight2_t: Tensor,
    weight3: Tensor,
    weight3_t: Tensor,
    hx_: Tensor,
    hx__t: Tensor,
    cx_: Tensor,
    cx__t: Tensor,
    reverse: bool,
) -> tuple[Grad, ...]:
    x, x_t, h_t, c_t = input, input_t, hx__t, cx__t
    ran = _run(_OF_TENSORS, x, weight0, weight1, weight2 + weight3, hx_, cx_, reverse)
    sums_t = x_t @ weight0.T + x @ weight0_t.T + (weight2_t + weight3_t)
    h, c, size = hx_, cx_, hx_.shape[-1]
    outputs: list[Any] = [None] * x.shape[0]
    for t in _order(x.shape[0], reverse):
        i, f, g, o = ran.gates[t]
        moved = sums_t[t] + h_t @ weight1.T + h @ weight1_t.T
        i_t, f_t, g_t, o_t = moved.split(size, -1)
        by_input = i * (1 - i) * i_t * g + i * (1 - g * g) * g_t
        c_t = f * (1 - f) * f_t * c + f * c_t + by_input
        h, c = ran.outputs[t], ran.cells[t]
        bent = c.tanh()
        outputs[t] = h_t = o * (1 - o) * o_t * bent + o * (1 - bent * bent) * c_t
    return aten.stack(outputs), h_t, c_t, None


@mkldnn_rnn_layer.batching_decomposition
def mkldnn_rnn_layer_batching(
    input: Tensor,
    weight0: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    weight3: Tensor,
    hx_: Tensor,
    cx_: Tensor,
    reverse: bool,
    *settings: object,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    bias = weight2 + weight3
    ran = _run(_OF_TENSORS, input, weight0, weight1, bias, hx_, cx_, reverse)
    last = _order(input.shape[0], reverse)[-1]
    nothing = input.new_empty((0,), dtype=uint8)  # backward, too, goes by parts
    return aten.stack(ran.outputs), ran.outputs[last], ran.cells[last], nothing
