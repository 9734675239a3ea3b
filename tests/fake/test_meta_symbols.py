"""Sizes of converted tensors as symbols (M34, M36, M38, M42-M53)."""

from __future__ import annotations

import pytest
from tests.fake.test_meta_conversion import TwoTensor, coo, two

import maquette as mq
from maquette.fake.described.meta_converter import MetaConverter
from maquette.symbolic import (
    DimDynamic,
    LocalSource,
    ShapeEnv,
    StatefulSymbolicContext,
    StatelessSymbolicContext,
    SubclassSymbolicContext,
    SymbolicContext,
)

D, S, U = DimDynamic.DYNAMIC, DimDynamic.STATIC, DimDynamic.UNBACKED


@pytest.fixture
def se() -> ShapeEnv:
    return ShapeEnv()


def mode_of(se: ShapeEnv | None) -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=se)


@pytest.fixture(params=["meta", "fake"])
def convert(request: pytest.FixtureRequest, se: ShapeEnv):
    """Both converters, in the environment."""
    if request.param == "fake":
        return mode_of(se).from_tensor
    conv = MetaConverter()
    return lambda t, **options: conv(t, se, **options)


def told(t: mq.Tensor) -> tuple[str, str]:
    """Sizes and strides as text."""
    return str(list(t.shape)), str(tuple(t.stride()))


def test_M34_a_gradient_has_the_sizes_of_its_leaf(convert) -> None:
    p = mq.ones(5, 6, requires_grad=True)
    p.sum().backward()
    made = convert(p, symbolic_context=StatelessSymbolicContext([D, D]), source=LocalSource("p"))
    assert told(made.grad) == told(made)


def test_M34_a_gradient_that_the_context_does_not_fit_is_all_dynamic(convert) -> None:
    p = mq.ones(5, 6, requires_grad=True)
    p.grad = mq.ones(2, 5, 6)[0]
    context = StatelessSymbolicContext([S, S])
    made = convert(p, symbolic_context=context, source=LocalSource("p"))
    assert tuple(made.shape) == (5, 6)
    assert type(made.grad._base.shape[0]) is mq.SymInt
    assert told(made.grad)[0] == "[5, 6]"


def test_M36_the_item_of_a_number_is_a_symbol(se: ShapeEnv) -> None:
    mode = mode_of(se)
    item = mode.from_tensor(mq.tensor(7), source=LocalSource("n")).item()
    assert (str(item), item.node.hint) == ("s0" if str(item) == "s0" else str(item), 7)
    assert isinstance(item, mq.SymInt)
    single = mode.from_tensor(mq.tensor(7.0), source=LocalSource("f"))
    assert single.dtype is mq.float32
    assert single.item().node.hint is None
    nan = mode.from_tensor(mq.tensor(float("nan"), dtype=mq.float64), source=LocalSource("x"))
    assert nan.item().node.hint is None


def test_M38_a_view_has_symbols_of_its_own_and_no_guards(convert, se: ShapeEnv) -> None:
    made = convert(mq.randn(20)[3:15:2])
    size, stride, offset = made.shape[0], made.stride(0), made.storage_offset()
    assert len({str(size), str(stride), str(offset)}) == 3
    assert (size.node.hint, stride.node.hint, offset.node.hint) == (6, 2, 3)
    assert se.guards == []


def test_M42_views_of_wrappers_are_views(convert, se: ShapeEnv) -> None:
    made = convert(two(5, 7).select(0, 3), source=LocalSource("v"))
    assert type(made) is TwoTensor
    assert made._is_view()
    width, offset = made.shape[0], made.storage_offset()
    (index,) = ephemeral(se)
    assert {str(offset)} <= {f"{width}*{index}", f"{index}*{width}"}
    assert (width.node.hint, offset.node.hint) == (7, 21)


def ephemeral(se: ShapeEnv) -> list[str]:
    """The symbols that are found nowhere in the program."""
    found = se.var_to_sources.items()
    return [str(s) for s, where in found if any(source.is_ephemeral() for source in where)]


def test_M43_the_index_of_a_static_view_stays_as_it_is(convert, se: ShapeEnv) -> None:
    source = LocalSource("v")
    inner = {"a": None, "b": None}
    context = SubclassSymbolicContext([S], tensor_source=source, inner_contexts=inner)
    made = convert(two(5, 7).select(0, 3), symbolic_context=context, source=source)
    assert tuple(made.shape) == (7,)
    assert ephemeral(se) == []


def test_M45_a_base_has_its_own_context(convert) -> None:
    view = mq.ones(6, 4)[1:]
    made = convert(view, symbolic_context=StatelessSymbolicContext([S, S]))
    assert tuple(made.shape) == (5, 4)
    assert not {type(n) for n in made._base.shape} & {int}
    context = StatelessSymbolicContext([S, S], view_base_context=StatelessSymbolicContext([S, S]))
    assert tuple(convert(mq.ones(6, 4)[2:], symbolic_context=context)._base.shape) == (6, 4)


def test_M45_a_context_of_another_class_is_refused(convert) -> None:
    with pytest.raises(AssertionError, match="SymbolicContext"):
        convert(mq.ones(6)[1:], symbolic_context=SymbolicContext())


def test_M46_equal_sizes_share_a_symbol(convert, se: ShapeEnv) -> None:
    first = convert(mq.ones(5, 7))
    a, b = map(str, first.shape)
    assert told(first) == (f"[{a}, {b}]", f"({b}, 1)")
    assert told(convert(mq.ones(7, 5, 1))) == (f"[{b}, {a}, 1]", f"({a}, 1, 1)")
    assert se.guards == []


def test_M47_strides_are_inferred(convert) -> None:
    made = convert(mq.ones(3, 1, 4).expand(3, 6, 4))
    c = str(made.shape[2])
    assert told(made)[1] == f"({c}, 0, 1)"
    square = convert(mq.ones(1, 5, 5), symbolic_context=StatelessSymbolicContext([D, D, D]))
    a, b = str(square.shape[1]), str(square.shape[2])
    assert told(square) in ((f"[1, {a}, {b}]", f"({x}*{y}, {b}, 1)") for x, y in ((a, b), (b, a)))
    assert a != b


def test_M49_a_stateful_context_gives_its_symbols_again(se: ShapeEnv) -> None:
    context = StatefulSymbolicContext([D, D], tensor_source=LocalSource("x"))
    x = mq.ones(5, 7)
    first, second = (
        mode_of(se).from_tensor(x, symbolic_context=context, source=LocalSource("x"))
        for _ in range(2)
    )
    assert first is not second
    assert told(first) == told(second)


def test_M50_a_wrapper_wants_a_context_for_each_inner_tensor(convert) -> None:
    source = LocalSource("t")
    with pytest.raises(AssertionError, match="StatelessSymbolicContext"):
        convert(two(3), symbolic_context=StatelessSymbolicContext([D]), source=source)
    lacking = SubclassSymbolicContext([D], tensor_source=source, inner_contexts={"a": None})
    with pytest.raises(AssertionError, match="'b'"):
        convert(two(3), symbolic_context=lacking, source=source)
    inner = {"a": StatelessSymbolicContext([S]), "b": None}
    whole = SubclassSymbolicContext([D], tensor_source=source, inner_contexts=inner)
    made = convert(two(3), symbolic_context=whole, source=source)
    assert (made.a.shape[0], type(made.shape[0])) == (3, mq.SymInt)


def test_M51_a_fake_of_the_same_environment_keeps_its_symbols(se: ShapeEnv) -> None:
    x = mode_of(se).from_tensor(mq.ones(5, 7))
    again = mode_of(se).from_tensor(x)
    assert again is not x
    assert told(again) == told(x)


def test_M51_a_fake_of_another_environment_is_translated(se: ShapeEnv) -> None:
    other = mode_of(ShapeEnv())
    ints = mode_of(None).from_tensor(mq.ones(5, 7))
    assert tuple(other.from_tensor(ints).shape) == (5, 7)
    context = StatelessSymbolicContext([D, S])
    half = mode_of(se).from_tensor(mq.ones(5, 7), symbolic_context=context)
    made = other.from_tensor(half)
    assert (made.shape[0].node.hint, made.shape[1]) == (5, 7)
    assert made.shape[0].node.shape_env is other.shape_env


def test_M51_what_only_data_could_tell_stays_so(se: ShapeEnv) -> None:
    context = StatelessSymbolicContext([U, S])
    t = mode_of(se).from_tensor(mq.ones(3, 4), symbolic_context=context)
    other = ShapeEnv()
    made = mode_of(other).from_tensor(t)
    assert (made.shape[0].node.hint, made.shape[1], made.stride()) == (None, 4, (4, 1))
    assert made.shape[0].node.shape_env is other


def test_M51_without_an_environment_the_old_symbols_stay(se: ShapeEnv) -> None:
    t = mode_of(se).from_tensor(mq.ones(5, 7))
    assert told(mode_of(None).from_tensor(t)) == told(t)


def test_M52_static_shapes_leave_the_environment_alone(se: ShapeEnv) -> None:
    mode = mode_of(se)
    assert tuple(mode.from_tensor(mq.ones(5, 7), static_shapes=True).shape) == (5, 7)
    with pytest.raises(AssertionError, match="static"):
        mode.from_tensor(
            mq.ones(5), static_shapes=True, symbolic_context=StatelessSymbolicContext([D])
        )


def sources(se: ShapeEnv) -> set[str]:
    return {source.name for found in se.var_to_sources.values() for source in found}


def test_M53_what_belongs_to_a_tensor_is_found_by_name(convert, se: ShapeEnv) -> None:
    convert(mq.ones(9, 4)[1:], source=LocalSource("x"))
    assert "L['x']._base.size()[0]" in sources(se)
    convert(two(11), source=LocalSource("t"))
    assert "L['t'].a.size()[0]" in sources(se)
    p = mq.ones(13, requires_grad=True)
    p.grad = mq.ones(13)
    convert(p, source=LocalSource("p"))
    assert "L['p'].grad.size()[0]" in sources(se)


def test_M54_sizes_of_coordinates_become_symbols_where_asked_for(se: ShapeEnv) -> None:
    mode = mode_of(se)
    assert tuple(mode.from_tensor(coo()).shape) == (2, 3)
    context = StatelessSymbolicContext([D, D])
    made = mode.from_tensor(coo(), symbolic_context=context, source=LocalSource("s"))
    assert [n.node.hint for n in made.shape] == [2, 3]
    assert tuple(mode_of(se).from_tensor(made).shape) == tuple(made.shape)
