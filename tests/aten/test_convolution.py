"""Convolutions: values against a direct sum, gradients of both orders, layouts, refusals, costs."""

from __future__ import annotations

import contextlib
from itertools import product

import numpy as np
import pytest
from gradcheck import check_gradients, check_second_gradients
from op_log import operators_of

import maquette as mq

random = np.random.default_rng(8)
aten = mq.ops.aten
convolution = aten.convolution.default


def tensor(*shape: int, dtype: str = "float64") -> mq.Tensor:
    return mq.from_numpy(random.standard_normal(shape).astype(dtype))


def direct(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int, groups: int
) -> np.ndarray:
    """A two-dimensional convolution, written as its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    kh, kw = w.shape[2:]
    oh = (x.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    ow = (x.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    out = np.zeros((x.shape[0], w.shape[0], oh, ow))
    for o, i, a, b in product(range(w.shape[0]), range(w.shape[1]), range(kh), range(kw)):
        channel = o // (w.shape[0] // groups) * w.shape[1] + i
        rows = slice(a * dilation, a * dilation + stride * (oh - 1) + 1, stride)
        columns = slice(b * dilation, b * dilation + stride * (ow - 1) + 1, stride)
        out[:, o] += x[:, channel, rows, columns] * w[o, i, a, b]
    return out


@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 2)])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_is_its_definition(
    stride: int, padding: int, dilation: int, groups: int
) -> None:
    x, w = tensor(2, 4, 9, 8), tensor(6, 4 // groups, 3, 2)
    out = aten.conv2d(x, w, None, [stride], [padding], [dilation], groups)
    expected = direct(x.numpy(), w.numpy(), stride, padding, dilation, groups)
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("most", [1, 500, 2500])
def test_convolution_a_few_columns_at_a_time_is_the_same(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, w = tensor(5, 4, 6, 6).requires_grad_(), tensor(6, 4, 3, 3).requires_grad_()

    def run() -> list[np.ndarray]:
        out = aten.conv2d(x, w, None, [1], [1])
        return [t.detach().numpy() for t in (out, *mq.autograd.grad((out * out).sum(), (x, w)))]

    whole = run()
    monkeypatch.setattr("maquette.aten.nn.conv.convolution_maps._COLUMNS_IN_CACHE", most)
    for found, expected in zip(run(), whole, strict=True):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    "stride, padding, dilation, transposed, extra, groups",
    [(1, 0, 1, False, 0, 1), (2, 1, 2, False, 0, 2), (1, 1, 1, True, 0, 1), (3, 1, 2, True, 2, 2)],
)
def test_convolutions_differentiate_twice(
    stride: int, padding: int, dilation: int, transposed: bool, extra: int, groups: int
) -> None:
    options = ([stride], [padding], [dilation], transposed, [extra], groups)
    rows, columns = (4, 2) if transposed else (2, 4 // groups)
    arrays = [random.standard_normal(s) for s in ((2, 4, 6), (rows, columns, 3))]
    bias = random.standard_normal(columns * groups if transposed else rows)
    check_gradients(lambda x, w, b: convolution(x, w, b, *options), *arrays, bias)
    check_second_gradients(lambda x, w, b: convolution(x, w, b, *options), *arrays, bias)


def test_a_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    x, w = tensor(1, 3, 7, 7).requires_grad_(), tensor(4, 3, 3, 3)
    out = aten.conv2d(x, w, None, [2])
    grad = tensor(*out.shape)
    by_autograd = mq.autograd.grad(out, [x], grad_outputs=[grad])[0]
    np.testing.assert_allclose(
        aten.conv_transpose2d(grad, w, None, [2]).numpy(), by_autograd.numpy()
    )


def test_F61_channels_last_if_the_input_or_the_weight_is() -> None:
    x, w = tensor(2, 3, 8, 8), tensor(4, 3, 3, 3)
    last = x.contiguous(memory_format=mq.channels_last)
    assert aten.conv2d(last, w).stride() == (144, 1, 24, 4)
    assert aten.conv2d(x, w.contiguous(memory_format=mq.channels_last)).stride() == (144, 1, 24, 4)
    assert aten.conv2d(x, w).stride() == (144, 36, 6, 1)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stride, padding, dilation", [(1, 1, 1), (2, 0, 2), (3, 2, 1)])
def test_F61_channels_last_has_the_values_of_rows(
    stride: int, padding: int, dilation: int, transposed: bool
) -> None:
    x, w = tensor(2, 5, 9, 8), tensor(*((5, 3) if transposed else (7, 5)), 3, 2)
    given = ([stride], [padding], [dilation], transposed, [0], 1)
    grad = tensor(*convolution(x, w, None, *given).shape)
    found, expected = (
        [
            convolution(image, w, None, *given),
            *aten.convolution_backward(grad, image, w, None, *given, [True, True, False])[:2],
        ]
        for image in (x.contiguous(memory_format=mq.channels_last), x)
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)


def test_F61_gradients_are_channels_last_too() -> None:
    x = tensor(2, 3, 8, 8).contiguous(memory_format=mq.channels_last)
    w, mask = tensor(4, 3, 3, 3), [True, True, True]
    grads = aten.convolution_backward(
        tensor(2, 4, 6, 6), x, w, [4], [1], [0], [1], False, [0], 1, mask
    )
    assert [g.stride() for g in grads] == [(192, 1, 24, 3), (27, 1, 9, 3), (1,)]


def test_F61_mixed_dtypes_are_refused_with_both() -> None:
    mode = mq.FakeTensorMode()
    x, w = mode.from_tensor(tensor(1, 1, 4)), mode.from_tensor(tensor(1, 1, 2, dtype="float32"))
    with pytest.raises(RuntimeError, match=r"\(double\) and weight type \(float\)"):
        aten.conv1d(x, w)


def test_F86_unwanted_gradients_are_none() -> None:
    mask = [False, True, False]
    grads = aten.convolution_backward(
        tensor(1, 1, 3), tensor(1, 1, 4), tensor(1, 1, 2), None, [1], [0], [1], False, [0], 1, mask
    )
    assert [g is None for g in grads] == [True, False, True]


def test_D100_an_unbatched_input_gets_a_batch_of_one() -> None:
    x, w = tensor(3, 8, 8), tensor(4, 3, 3, 3)
    assert operators_of(lambda: aten.conv2d(x, w)) == ["unsqueeze", "convolution", "squeeze"]


@pytest.mark.parametrize(
    "size, names", [(3, ["convolution"]), (4, ["constant_pad_nd", "convolution"])]
)
def test_D100_same_padding_copies_for_even_windows_only(size: int, names: list[str]) -> None:
    x, w = tensor(1, 3, 8, 8), tensor(4, 3, size, 3)
    assert operators_of(lambda: aten.conv2d.padding(x, w, None, [1, 1], "same")) == names
    assert aten.conv2d.padding(x, w, None, [1, 1], "same").shape == (1, 4, 8, 8)


def test_integers_convolve() -> None:
    x = mq.from_numpy(np.arange(5).reshape(1, 1, 5))
    w = mq.from_numpy(np.array([[[1, 10]]]))
    assert aten.conv1d(x, w).tolist() == [[[10, 21, 32, 43]]]


@pytest.mark.parametrize(
    "options, words",
    [
        (([0], [0], [1], False, [0], 1), "non-positive stride"),
        (([1], [-1], [1], False, [0], 1), "negative padding"),
        (([1], [0], [0], False, [0], 1), "dilation should be greater"),
        (([1], [0], [1], False, [0], 0), "non-positive groups"),
        (([1], [0], [1], False, [0], 3), "expected weight to be at least 3 at dimension 0"),
        (([1, 1], [0], [1], False, [0], 1), "expected stride to be a single integer"),
        (([1], [0], [9], False, [0], 1), "Kernel size can't be greater"),
        (([1], [0], [1], True, [1], 1), "output padding must be smaller"),
    ],
)
def test_convolution_names_the_parameter_that_is_wrong(options: tuple[object], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        convolution(tensor(1, 2, 5), tensor(2, 2, 2), None, *options)


def test_flops_are_two_for_each_place_and_weight() -> None:
    x, w, out = tensor(2, 3, 8, 8).meta, tensor(4, 3, 3, 3).meta, tensor(2, 4, 6, 6).meta
    options = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    assert convolution.facts.cost(x, w, None, *options, out).flops == 2 * 2 * 36 * 4 * 27
    backward = aten.convolution_backward.default.facts.cost
    cost = backward(out, x, w, None, *options, (True, True, True))
    assert cost.flops == 2 * (2 * 2 * 36 * 4 * 27)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: mq.nn.functional.conv2d(mq.ones(1, 3, 4, 4), mq.ones(3, 3, 0, 3)),
            "kernel size should be",
        ),
        (
            lambda: mq.nn.functional.conv_transpose1d(mq.ones(1, 1, 4), mq.ones(1, 1, 0)),
            "kernel size should be",
        ),
        (
            lambda: mq.nn.functional.conv_transpose2d(mq.ones(1, 2, 4, 4), mq.ones(2, 0, 1, 1)),
            "non-empty",
        ),
        (
            lambda: mq.nn.functional.conv1d(mq.ones(1, 2, 0), mq.ones(3, 2, 1), padding=1),
            "Only zero batch",
        ),
        (
            lambda: mq.nn.functional.conv_transpose1d(
                mq.ones(1, 2, 1), mq.ones(2, 1, 1), padding=1
            ),
            "Output size is too small",
        ),
    ],
)
@pytest.mark.parametrize("mode", [contextlib.nullcontext, mq.FakeTensorMode])
def test_convolutions_of_nothing_are_refused(call, message, mode):
    with mode(), pytest.raises(RuntimeError, match=message):
        call()


def test_a_convolution_of_no_channels_has_none():
    weight, bias = mq.ones(3, 0, 2, 3, requires_grad=True), mq.ones(3, requires_grad=True)
    out = mq.nn.functional.conv2d(mq.ones(2, 0, 4, 4), weight, bias)
    out.sum().backward()
    assert out.shape == (2, 0, 3, 2)
    assert bias.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("transposed", [False, True])
def test_complex_numbers_of_16_bits_convolve(transposed: bool) -> None:
    x, w = (
        mq.complex(tensor(2, 4, 5), tensor(2, 4, 5)),
        mq.complex(tensor(4, 4, 2), tensor(4, 4, 2)),
    )
    move = mq.conv_transpose1d if transposed else mq.conv1d
    found = move(x.to(mq.complex32), w.to(mq.complex32))
    assert found.dtype is mq.complex32
    assert mq.allclose(found.to(mq.complex128), move(x, w), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_gradients_have_an_operator(transposed: bool) -> None:
    x, w = tensor(2, 4, 5, 5), tensor(4, 3, 2, 2) if transposed else tensor(6, 2, 2, 2)
    geometry = ((1, 1), (1, 1), (1, 1), transposed, (0, 0), 2)
    leaves = [t.requires_grad_() for t in (tensor(*convolution(x, w, None, *geometry).shape), x, w)]
    grads = aten.convolution_backward(*leaves, None, *geometry, [True, True, False])[:2]
    outer = [mq.from_numpy(random.standard_normal(tuple(g.shape))) for g in grads]
    expected = mq.autograd.grad(grads, leaves, outer)
    found = aten._convolution_double_backward(*outer, None, leaves[0], w, x, *geometry, [True] * 3)
    assert all(mq.allclose(a, b) for a, b in zip(found, expected))


@pytest.mark.parametrize("memory_format", [mq.contiguous_format, mq.channels_last])
def test_a_transposed_output_may_end_with_places_that_nothing_reaches(
    memory_format: mq.memory_format,
) -> None:
    random = np.random.default_rng(0)
    x, w = (mq.from_numpy(random.standard_normal(s)) for s in ((1, 8, 5, 4), (8, 8, 1, 1)))
    x, w = (t.contiguous(memory_format=memory_format) for t in (x, w))

    def transposed(x: mq.Tensor, w: mq.Tensor) -> mq.Tensor:
        return mq.nn.functional.conv_transpose2d(x, w, dilation=2, output_padding=1)

    assert transposed(x, w)[:, :, -1].abs().sum().item() == 0
    check_gradients(transposed, x.numpy(), w.numpy())


@pytest.mark.parametrize("dims", [(0, 0, 0), (0, None, 0), (None, 0, None), (None, None, 0)])
def test_batches_of_convolutions_refuse_a_bias_of_another_dtype(
    dims: tuple[int | None, ...],
) -> None:
    parts = [
        mq.ones((2, *size) if dim == 0 else size)
        for size, dim in zip([(1, 2, 4, 4), (3, 2, 3, 3), (3,)], dims)
    ]
    found = mq.vmap(mq.nn.functional.conv2d, in_dims=dims)(*parts)
    assert found.shape == (2, 1, 3, 2, 2)
    assert bool((found == 19).all())
    with pytest.raises(RuntimeError, match=r"and bias type .* should be the same"):
        mq.vmap(mq.nn.functional.conv2d, in_dims=dims)(*parts[:2], parts[2].double())
