"""Jagged nested tensors (M13, M57-M62): made, computed with, differentiated, converted."""

from __future__ import annotations

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.fake.described.describe import MetaTensorDescriber
from maquette.fake.described.meta_converter import MetaConverter
from maquette.nested import NestedTensor, nested_tensor, nested_tensor_from_jagged
from maquette.symbolic import ShapeEnv
from maquette.tensor.nested_ints import nested_int_of


def rows(requires_grad: bool = False) -> NestedTensor:
    parts = [mq.arange(6.0).reshape(2, 3), mq.arange(9.0).reshape(3, 3)]
    return nested_tensor(parts, layout=mq.jagged, requires_grad=requires_grad)


def over(values: mq.Tensor) -> NestedTensor:
    return nested_tensor_from_jagged(values, mq.tensor([0, 2, 5]))


@pytest.fixture(params=["meta", "fake"])
def convert(request: pytest.FixtureRequest):
    """Both converters."""
    return MetaConverter() if request.param == "meta" else mq.FakeTensorMode().from_tensor


# --- what it is -------------------------------------------------------------------------------


def test_M57_sizes_and_strides() -> None:
    t = over(mq.ones(5, 4))
    j = t.shape[1]
    assert (tuple(t.shape), t.stride()) == ((2, j, 4), (4 * j, 4, 1))
    assert (t.layout, t.is_nested, t.numel(), t.storage_offset()) == (mq.jagged, True, 20, 0)
    assert repr(t) == f"NestedTensor(size=(2, {j}, 4), offsets=tensor([0, 2, 5]), contiguous=True)"


def test_M57_conversion_keeps_them(convert) -> None:
    t = over(mq.ones(5, 4)[:, ::2])
    made = convert(t)
    assert type(made) is NestedTensor
    assert (tuple(made.shape), made.stride()) == (tuple(t.shape), t.stride())
    assert made._values.shape == (5, 2)


def test_M58_from_lists() -> None:
    t = nested_tensor([mq.ones(2, 3), mq.ones(2, 4)], layout=mq.jagged)
    j = t.shape[2]
    assert (tuple(t.shape), t.stride()) == ((2, 2, j), (j, 7, 1))
    assert nested_tensor([mq.ones(2, 3)] * 2, layout=mq.jagged)._ragged_idx == 1


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "empty tensor list"),
        ([mq.ones(2), mq.ones(2, dtype=mq.int32)], "same dtype"),
        ([mq.ones(2), mq.ones(2, device="meta")], "same device"),
        ([mq.ones(2), mq.ones(2, 1)], "same dim"),
        ([mq.ones(())], "zero-dim"),
        ([mq.ones(2, 3), mq.ones(3, 4)], "single ragged dimension"),
    ],
)
def test_M58_lists_that_do_not_fit_are_refused(parts, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        nested_tensor(parts, layout=mq.jagged)


def test_M58_parts_that_do_not_fit_are_refused() -> None:
    offsets = mq.tensor([0, 2, 5])
    with pytest.raises(AssertionError, match="1D"):
        NestedTensor(mq.ones(5, 3), mq.ones(2, 2))
    with pytest.raises(AssertionError, match="one device"):
        NestedTensor(mq.ones(5, 3, device="meta"), offsets)
    with pytest.raises(AssertionError, match="nested"):
        NestedTensor(rows(), offsets)
    with pytest.raises(AssertionError, match="batch sizes must match"):
        NestedTensor(mq.ones(5, 3), offsets, lengths=mq.tensor([1]))


def test_M59_nested_ints() -> None:
    j, other = rows().shape[1], rows().shape[1]
    assert str(2 * j) == f"2*{j}"
    assert j >= 2
    assert not 1 >= j
    assert j != other
    assert j < 2 * j
    assert {j: 1}[j] == 1
    with pytest.raises(ValueError, match="indeterminate"):
        j >= 3  # noqa: B015
    for fails in (lambda: j + 1, lambda: int(j), lambda: j * j):
        with pytest.raises((AttributeError, ValueError)):
            fails()


def test_M59_a_nested_int_is_tied_to_the_tensor_of_offsets() -> None:
    offsets = mq.tensor([0, 2, 5])
    first, second = (nested_tensor_from_jagged(mq.ones(5, n), offsets) for n in (1, 2))
    assert first.shape[1] == second.shape[1]
    assert nested_tensor_from_jagged(mq.ones(5, 1), offsets.clone()).shape[1] != first.shape[1]
    lengths = mq.tensor([1, 2])
    t = nested_tensor_from_jagged(mq.ones(5, 1), offsets, lengths)
    assert nested_int_of(lengths) == t.shape[1].node.nested_int()


def test_M13_the_number_is_described() -> None:
    t = rows()
    describer = MetaTensorDescriber()
    d = describer.describe_tensor(t._offsets)
    assert d.nested_int == t.shape[1].node.nested_int()
    assert describer.describe_tensor(mq.ones(2)).nested_int is None
    assert d.as_json(0)["nested_int"] == repr(d.nested_int)
    whole = describer.describe_tensor(t)
    assert (whole.is_nested, list(whole.attrs)[:2]) == (True, ["_values", "_offsets"])


def test_M60_taken_apart() -> None:
    t = over(mq.ones(5, 4))
    assert t.__tensor_flatten__() == (
        ["_values", "_offsets"], {"requires_grad": False, "ragged_idx": 1},
    )  # fmt: skip
    assert t._get_max_seqlen() == 3
    assert t.__tensor_flatten__()[0] == ["_values", "_offsets", "_max_seqlen_tensor"]
    assert tuple(t._max_seqlen_tensor.shape) == (3, 0)


def test_M60_rebuilt_around_another_source_it_keeps_its_size() -> None:
    t = rows()
    mode = mq.FakeTensorMode()
    values, offsets = mode.from_tensor(t._values), mode.from_tensor(t._offsets)
    context = t.__tensor_flatten__()[1]
    inner = {"_values": values, "_offsets": offsets}
    made = NestedTensor.__tensor_unflatten__(inner, context, t.shape, t.stride())
    assert made.shape[1] == t.shape[1]
    assert nested_int_of(offsets) == nested_int_of(t._offsets)


def test_M61_fakes_of_one_offsets_have_one_size(convert) -> None:
    offsets = mq.tensor([0, 2, 5])
    first, second = (nested_tensor_from_jagged(mq.ones(5, n), offsets) for n in (1, 2))
    a, b = convert(first), convert(second)
    assert a._offsets is b._offsets
    assert a.shape[1] == b.shape[1]
    a._offsets.add_(0)
    assert convert(second).shape[1] == a.shape[1]


def test_M62_values_are_a_view_and_convert_as_one(convert) -> None:
    t = rows()
    values = t.values()
    assert values._base is t
    made = convert(values)
    assert type(made._base) is NestedTensor
    assert made._base is convert(t)


def test_M62_rows_with_gaps() -> None:
    t = nested_tensor_from_jagged(
        mq.arange(10.0).view(5, 2), mq.tensor([0, 2, 5]), mq.tensor([1, 2])
    )
    assert (t.is_contiguous(), t.numel()) == (False, 6)
    assert [r.tolist() for r in t.unbind()] == [[[0.0, 1.0]], [[4.0, 5.0], [6.0, 7.0]]]
    fake = mq.FakeTensorMode().from_tensor(t)
    with pytest.raises(RuntimeError):
        fake.numel()


# --- computing --------------------------------------------------------------------------------


def test_rows_come_back() -> None:
    assert [r.tolist() for r in rows()] == [
        mq.arange(6.0).reshape(2, 3).tolist(), mq.arange(9.0).reshape(3, 3).tolist(),
    ]  # fmt: skip
    assert rows()[1].shape == (3, 3)
    assert torch.nested.to_padded_tensor(rows(), -1.0)[0, 2].tolist() == [-1.0] * 3


LIKE_ROWS = {
    "sin": lambda x: x.sin(),
    "sum": lambda x: x * 2 + x,
    "broadcast": lambda x: x + mq.ones(3),
    "matmul": lambda x: x @ mq.arange(12.0).reshape(3, 4),
    "linear": lambda x: mq.nn.functional.linear(x, mq.ones(4, 3), mq.ones(4)),
    "layer_norm": lambda x: mq.nn.functional.layer_norm(x, (3,)),
    "softmax": lambda x: x.softmax(-1),
    "transpose": lambda x: x.transpose(-1, -2),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "slice": lambda x: x[..., 1:],
    "gelu": lambda x: mq.nn.functional.gelu(x),
    "sum of width": lambda x: x.sum(-1),
}


@pytest.mark.parametrize("name", LIKE_ROWS)
def test_operators_act_on_each_row(name: str) -> None:
    program = LIKE_ROWS[name]
    found = program(rows())
    assert isinstance(found, NestedTensor)
    for got, row in zip(found.unbind(), rows().unbind(), strict=True):
        assert mq.allclose(got, program(row), atol=1e-6)


REDUCED = {
    "sum": lambda x, d: x.sum(d),
    "mean": lambda x, d: x.mean(d),
    "amax": lambda x, d: x.amax(d),
    "softmax": lambda x, d: x.softmax(d).sum(d),
}


@pytest.mark.parametrize("name", REDUCED)
def test_over_the_ragged_dimension_each_row_is_reduced(name: str) -> None:
    found = REDUCED[name](rows(), 1)
    expected = mq.stack([REDUCED[name](row, 0) for row in rows().unbind()])
    assert mq.allclose(found, expected, atol=1e-6)


def test_over_everything() -> None:
    assert (rows().sum().item(), rows().max().item()) == (51.0, 8.0)
    assert rows().sum((0, 1)).tolist() == [12.0, 17.0, 22.0]
    with pytest.raises(RuntimeError, match="batch dimension but not the ragged"):
        rows().sum(0)


def test_a_dense_operand_has_a_number_a_row() -> None:
    found = rows() + mq.tensor([10.0, 20.0]).view(2, 1, 1)
    assert [r[0, 0].item() for r in found.unbind()] == [10.0, 20.0]


def test_rows_of_other_lengths_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"cannot call binary pointwise function add\.Tensor"):
        rows() + rows()


def test_attention_is_within_each_row() -> None:
    parts = [mq.randn(2, 2, 4), mq.randn(3, 2, 4)]
    q = nested_tensor(parts, layout=mq.jagged).transpose(1, 2)
    found = mq.nn.functional.scaled_dot_product_attention(q, q, q)
    for got, part in zip(found.unbind(), parts, strict=True):
        p = part.transpose(0, 1)
        assert mq.allclose(got, mq.nn.functional.scaled_dot_product_attention(p, p, p), atol=1e-5)


@pytest.mark.parametrize("name", ["sort", "cumsum", "nonzero"])
def test_the_rest_is_refused_by_name(name: str) -> None:
    args = (1,) if name != "nonzero" else ()
    with pytest.raises(NotImplementedError, match=f"{name}.*jagged"):
        getattr(rows(), name)(*args)


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("product", lambda n: (n * n).sum()),
        ("ragged sum", lambda n: (n.sum(1) ** 2).sum()),
        ("ragged mean", lambda n: (n.mean(1) ** 2).sum()),
        ("softmax", lambda n: (n.softmax(1) * n).sum()),
        ("matmul", lambda n: (n @ mq.ones(3, 2)).sin().sum()),
        ("padded", lambda n: n.to_padded_tensor(0.0).sin().sum()),
        ("values", lambda n: n.values().sin().sum()),
        ("rows", lambda n: n.unbind()[1].sin().sum()),
        ("norm", lambda n: (mq.nn.functional.layer_norm(n, (3,)) * n).sum()),
    ],
)
def test_gradients_are_those_of_the_rows(name: str, program) -> None:
    values = mq.randn(5, 3, requires_grad=True)
    program(over(values)).backward()
    leaf = nested_tensor([values.detach()[:2], values.detach()[2:]], layout=mq.jagged)
    leaf.requires_grad_()
    program(leaf).backward()
    assert isinstance(leaf.grad, NestedTensor)
    assert mq.allclose(leaf.grad.values(), values.grad, atol=1e-5)
    numeric = mq.zeros(5, 3)
    with mq.no_grad():
        for at in [(0, 0), (2, 1), (4, 2)]:
            step = mq.zeros(5, 3)
            step[at] = 1e-2
            numeric[at] = (program(over(values + step)) - program(over(values - step))) / 2e-2
            assert abs(numeric[at].item() - values.grad[at].item()) < 2e-2


def test_M61_a_jagged_tensor_in_a_mode_with_symbols() -> None:
    env = ShapeEnv()
    first, second = (mq.FakeTensorMode(shape_env=env) for _ in range(2))
    t = first.from_tensor(over(mq.ones(5, 4)))
    again = second.from_tensor(t)
    assert [str(n) for n in t.shape] == ["s2 - 1", f"j{t.shape[1].node.t_id}", "s1"]
    assert str(t.stride()[0]) == f"s1*j{t.shape[1].node.t_id}"
    assert again.shape[1] == t.shape[1]
    assert again.offsets().fake_mode is second
    assert env.guards == []


def test_fakes_compute() -> None:
    mode = mq.FakeTensorMode()
    fake = mode.from_tensor(rows())
    with mode:
        found = (fake @ mq.ones(3, 7)).sin().sum(1)
    assert isinstance(found, mq.FakeTensor)
    assert tuple(found.shape) == (2, 7)


def test_other_layouts_are_refused() -> None:
    with pytest.raises(RuntimeError, match="layout is unsupported for nested tensors"):
        nested_tensor([mq.ones(2)], layout=mq.sparse_coo)
