"""Converting every kind of tensor to meta tensors and fakes (M6-M70): what `test_describe.py` does
not check. Symbols are in `test_meta_symbols.py`, jagged tensors in ``tests/nested``."""

from __future__ import annotations

import gc

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.dispatch.guards import ExcludeDispatchKeyGuard
from maquette.dispatch.subclasses import (
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
    return_and_correct_aliasing,
    transform_subclass,
)
from maquette.fake.described.comparing import assert_eq, assert_metadata_eq
from maquette.fake.described.describe import CreationMeta, MetaTensorDescriber, ViewFunc
from maquette.fake.described.meta_converter import MetaConverter
from maquette.fake.exceptions import UnsupportedFakeTensorException
from maquette.fake.kinds import disable_inference_mode_for_fake_prop
from maquette.tensor.wrapper_subclasses import make_wrapper_subclass
from maquette.transforms.inspection import get_unwrapped, maybe_get_bdim, maybe_get_level


class TwoTensor(mq.Tensor):
    """Two tensors of one geometry; operators act on both."""

    @staticmethod
    def __new__(cls, a, b, size=None, stride=None):
        made = make_wrapper_subclass(
            cls, size or a.shape, stride or a.stride(), a.storage_offset(), dtype=a.dtype
        )
        made.a, made.b = a, b
        return made

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return TwoTensor(inner["a"], inner["b"], size, stride)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        outs = [func(*[getattr(x, n, x) for x in args], **kwargs) for n in ("a", "b")]
        out = outs[0]
        if isinstance(out, mq.Tensor):
            out = TwoTensor(*outs)
        return return_and_correct_aliasing(func, args, kwargs, out)


def two(*shape: int) -> TwoTensor:
    return TwoTensor(mq.ones(*shape), mq.zeros(*shape))


@pytest.fixture
def conv() -> MetaConverter:
    return MetaConverter()


@pytest.fixture
def mode() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


@pytest.fixture(params=["meta", "fake"])
def convert(request: pytest.FixtureRequest):
    """Both converters."""
    return MetaConverter() if request.param == "meta" else mq.FakeTensorMode().from_tensor


def described(t: mq.Tensor, **options: bool):
    return MetaTensorDescriber().describe_tensor(t, **options)


def coo(requires_grad: bool = False) -> mq.Tensor:
    indices, values = mq.tensor([[0, 1, 1], [2, 0, 0]]), mq.tensor([3.0, 4.0, 5.0])
    return mq.sparse_coo_tensor(indices, values, (2, 3), requires_grad=requires_grad)


# --- describing -------------------------------------------------------------------------------


def test_M6_sparse_tensors_have_neither_storage_nor_stride() -> None:
    for t in (coo(), mq.eye(2).to_sparse_csr()):
        d = described(t)
        assert (d.storage, d.stride, d.storage_offset) == (None, None, 0)


def test_M6_a_vmapped_tensor_has_strides_and_no_storage() -> None:
    found = []
    mq.func.vmap(lambda x: found.append(described(x)) or x)(mq.ones(2, 3))
    assert (found[0].stride, found[0].storage) == ((1,), None)
    d = described(two(2, 3))
    assert (d.stride, d.storage_offset) == ((3, 1), 0)
    assert d.storage is not None


def test_M7_sizes_of_a_real_tensor_stay_ints_under_symbols(conv: MetaConverter) -> None:
    x = mq.ones(5, 7)
    conv(x, mq.symbolic.ShapeEnv())
    d = conv.describer.describe_tensor(x)
    assert (d.size, {type(n) for n in (*d.size, *d.stride)}) == ((5, 7), {int})


def test_M11_parts_of_compressed_tensors_are_described_without_their_base() -> None:
    d = described(mq.eye(2).to_sparse_csr())
    assert (d.sparse_dim, d.dense_dim, d.is_coalesced) == (2, 0, None)
    assert (d.crow_indices.size, d.col_indices.size, d.ccol_indices) == ((3,), (2,), None)
    assert (d.values.base, d.values.is_view) == (None, True)
    s = described(coo())
    assert (s.sparse_dim, s.dense_dim, s.is_coalesced, s.values) == (2, 0, False, None)
    columns = described(mq.eye(4).to_sparse_bsc((2, 2)))
    assert (columns.ccol_indices.size, columns.row_indices.size) == ((3,), (2,))


def test_M12_wrappers_are_described_inside() -> None:
    d = described(two(2))
    assert list(d.attrs) == ["a", "b"]
    assert (d.type, d.ctx, d.is_traceable_wrapper_subclass) == (TwoTensor, None, True)


def test_M12_an_attribute_that_is_no_tensor_is_refused() -> None:
    t = two(2)
    t.b = 3
    with pytest.raises(AssertionError, match="int"):
        described(t)


def test_M14_levels_of_transforms_are_described_one_down() -> None:
    found = []
    inner = lambda x: found.append(described(x)) or x  # noqa: E731
    mq.func.vmap(mq.func.vmap(inner))(mq.ones(2, 3, 4))
    d = found[0]
    assert (d.level, d.bdim, d.unwrapped.level, d.unwrapped.unwrapped.level) == (2, 0, 1, None)
    assert (d.is_batchedtensor, d.is_gradtrackingtensor, len(d.functorch_stack)) == (True, False, 2)


def test_M14_a_functional_view_is_refused() -> None:
    def program(x):
        assert described(x).unwrapped is not None
        with pytest.raises(RuntimeError, match="view"):
            described(x[1:])
        return x

    torch.func.functionalize(program)(mq.ones(3))


def test_M16_what_is_no_json_is_told_by_repr_and_data_by_nothing() -> None:
    d = MetaTensorDescriber(copy_data=True).describe_tensor(two(2))
    told = d.as_json(7)
    assert told["data"] is None
    assert told["ctx" if "ctx" in told else "type"] == repr(TwoTensor)
    assert told["attrs"] == {"a": d.attrs["a"].id, "b": d.attrs["b"].id}
    assert isinstance(told["view_func"], str)


# --- view functions ---------------------------------------------------------------------------


def test_M18_view_functions_of_fakes_have_nothing_captured(mode: mq.FakeTensorMode) -> None:
    fake = ViewFunc.from_tensor(mode.from_tensor(mq.ones(4))[1:])
    assert (type(fake).__name__, vars(fake)) == ("_FakeTensorViewFunc", {})
    assert type(ViewFunc.from_tensor(mq.ones(4)[1:])).__name__ == "_CustomViewFunc"


def test_M19_a_view_is_replayed_on_another_root() -> None:
    x = mq.arange(20).view(4, 5).clone()
    v = x.select(0, 2).unsqueeze(0)
    made = ViewFunc.from_tensor(v).apply(v, x + 100)
    assert made.tolist() == [[110, 111, 112, 113, 114]]
    assert v._view_func(mq.ones(9, 7)) is None
    assert v._view_func(x + 100).tolist() == made.tolist()


# --- the converter ----------------------------------------------------------------------------


def test_M22_a_view_of_coordinates_is_refused(conv: MetaConverter, mode) -> None:
    values = coo().coalesce().detach().requires_grad_().values()
    assert conv(values) is NotImplemented
    assert (conv.hit, conv.miss) == (0, 1)
    with pytest.raises(UnsupportedFakeTensorException):
        mode.from_tensor(values)


def test_M26_conversion_is_outside_of_transforms(convert) -> None:
    found = []

    def program(x):
        before = torch._C._functorch.maybe_get_level(x)
        found.append(convert(mq.ones(3)))
        assert torch._C._functorch.maybe_get_level(x) == before
        return x * 2

    assert mq.func.vmap(program)(mq.ones(2)).tolist() == [2.0, 2.0]
    assert found[0].shape == (3,)


def test_M26_conversion_needs_the_fake_key(convert) -> None:
    with ExcludeDispatchKeyGuard("Fake"), pytest.raises(AssertionError, match="disabled"):
        convert(mq.ones(2))


def test_M27_inference_is_the_tensors_own(convert) -> None:
    x = mq.ones(2)
    with mq.inference_mode():
        born = mq.ones(2)
        assert not convert(x).is_inference()
    assert convert(born).is_inference()


def test_M27_inference_may_be_disabled(convert) -> None:
    with mq.inference_mode():
        born = mq.ones(2)
    with disable_inference_mode_for_fake_prop():
        with disable_inference_mode_for_fake_prop():
            assert not described(born).is_inference
        assert not convert(born).is_inference()


def test_M28_the_result_must_be_like_the_tensor(conv: MetaConverter) -> None:
    with pytest.raises(AssertionError, match=r"float32.*float64"):
        conv(mq.ones(2), callback=lambda make, *, device: make().double())


# --- plain tensors ----------------------------------------------------------------------------


def test_M33_parameters_and_buffers_stay_what_they_are(convert) -> None:
    assert isinstance(convert(mq.nn.Parameter(mq.ones(2))), mq.nn.Parameter)
    buffer = mq.nn.Buffer(mq.ones(2), persistent=False)
    made = convert(buffer)
    assert made._is_buffer
    assert not made.persistent


def test_M33_a_wrapper_may_be_a_parameter(convert) -> None:
    made = convert(mq.nn.Parameter(two(2)))
    assert type(made) is TwoTensor
    assert isinstance(made, mq.nn.Parameter)


def test_M33_a_subclass_without_the_protocol_becomes_a_bare_fake(mode) -> None:
    class Named(mq.Tensor):
        pass

    assert type(mode.from_tensor(mq.ones(2).as_subclass(Named))) is mq.FakeTensor


def test_M39_views_of_another_dtype(convert) -> None:
    real = mq.ones(4, 2)
    made = convert(mq.view_as_complex(real))
    assert (made.dtype, made._base.dtype, tuple(made._base.shape)) == (
        mq.complex64, mq.float32, (4, 2),
    )  # fmt: skip
    back = convert(mq.view_as_real(mq.ones(3, dtype=mq.complex64)))
    assert (back.dtype, back._base.dtype) == (mq.float32, mq.complex64)


def test_M40_views_require_grad_as_they_did(convert) -> None:
    y = mq.zeros(4).view(1, 4).requires_grad_()
    z = y.view(1, 1, 4)
    made = convert(z)
    assert (made.requires_grad, made.is_leaf, made._base.requires_grad) == (True, False, False)
    leaf = convert(y)
    assert (leaf.requires_grad, leaf.is_leaf) == (True, True)


def test_M41_what_is_forbidden_of_views_stays_so(convert) -> None:
    x = mq.ones(4, requires_grad=True) * 1
    made = convert(x.split(2)[0])
    assert made._is_view()
    with pytest.raises(RuntimeError, match="multiple views"):
        made.add_(1)


# --- layouts ----------------------------------------------------------------------------------


def test_M54_coordinates_specify_nothing(convert) -> None:
    hybrid = mq.sparse_coo_tensor(mq.tensor([[1, 3, 1]]), mq.ones(3, 5), (4, 5))
    made = convert(hybrid)
    assert (made.layout, tuple(made.shape), made.is_coalesced()) == (mq.sparse_coo, (4, 5), False)
    assert tuple(made._indices().shape) == (1, 0)
    assert tuple(made._values().shape) == (0, 5)


def test_M54_a_result_has_a_clones_history(convert) -> None:
    s = coo(requires_grad=True) * 2
    made = convert(s)
    assert (made.is_leaf, made.grad_fn.name(), made.is_coalesced()) == (
        False, "CloneBackward0", False,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "bsc"])
def test_M55_compressed_layouts_specify_nothing(convert, kind: str) -> None:
    block = ((2, 2),) if kind[0] == "b" else ()
    made = convert(getattr(mq.eye(4).to(mq.float64), f"to_sparse_{kind}")(*block))
    assert (made.layout.name, made.dtype, made._nnz()) == (f"sparse_{kind}", mq.float64, 0)
    offsets = (made.crow_indices if kind[2] == "r" else made.ccol_indices)()
    assert tuple(offsets.shape) == (3 if block else 5,)
    assert tuple(made.values().shape) == ((0, 2, 2) if block else (0,))


def test_M55_a_result_cannot_go_backward(convert) -> None:
    r = mq.eye(3).to_sparse_csr().requires_grad_() * 2
    made = convert(r)
    assert (made.is_leaf, made.requires_grad) == (False, True)
    with pytest.raises(RuntimeError, match="example input"):
        made.to_dense().sum().backward()


def test_M56_an_mkldnn_tensor_becomes_strided(convert) -> None:
    from maquette.tensor.keys import keys_for
    from maquette.tensor.storage import UntypedStorage
    from maquette.tensor.tensor import wrap

    meta = mq.TensorMeta.of(mq.float32, (3, 4), layout=torch._mkldnn)
    made = convert(wrap(meta, UntypedStorage(48, meta.device), None, keys_for(meta)))
    assert (made.layout, made.is_mkldnn, made.stride()) == (mq.strided, False, (4, 1))


# --- subclasses -------------------------------------------------------------------------------


def test_M63_what_can_be_taken_apart() -> None:
    assert is_traceable_wrapper_subclass(two(2))
    assert not is_traceable_wrapper_subclass(TwoTensor)
    assert not is_traceable_wrapper_subclass(mq.ones(2))
    assert is_traceable_wrapper_subclass_type(TwoTensor)


def test_M64_wrappers_are_converted_inside(mode) -> None:
    t = two(2, 3).requires_grad_()
    made = mode.from_tensor(t)
    assert type(made) is TwoTensor
    assert [type(made.a), type(made.b)] == [mq.FakeTensor] * 2
    assert (tuple(made.shape), made.stride(), made.requires_grad, made.is_leaf) == (
        (2, 3), (3, 1), True, True,
    )  # fmt: skip
    assert mode.from_tensor(t) is made
    result = mode.from_tensor(two(2).requires_grad_() * 2)
    assert (result.requires_grad, result.is_leaf) == (True, False)


def test_M64_a_wrapper_of_another_geometry_is_refused(mode) -> None:
    class Grown(TwoTensor):
        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return TwoTensor(inner["a"], inner["b"], (9,), (1,))

    t = Grown(mq.ones(2), mq.ones(2))
    with pytest.raises(AssertionError, match=r"\[2\].*\[9\]"):
        mode.from_tensor(t)
    with pytest.raises(AssertionError, match=r"2.*9"):
        transform_subclass(t, lambda name, inner: inner)


def test_M64_views_of_wrappers_stay_views(mode) -> None:
    t = two(5, 7)
    base, made = mode.from_tensor(t), mode.from_tensor(t.select(0, 3))
    assert made._base is base
    assert made.a._storage is base.a._storage
    assert made.a.storage_offset() == 21


def test_M44_tensors_beside_the_base_are_converted_once(convert) -> None:
    from maquette.nested import nested_tensor_from_jagged

    values, offsets = mq.ones(5, 4), mq.tensor([0, 2, 5])
    made = convert(nested_tensor_from_jagged(values, offsets))
    assert made._base is convert(values)
    assert made._offsets is convert(offsets)
    assert made._values._storage is convert(values)._storage


def test_M65_aliasing_is_put_right() -> None:
    t = two(2, 3)
    assert t.add_(1) is t
    t.t_()
    assert (t.stride(), tuple(t.shape)) == ((1, 3), (3, 2))


def test_M65_partly_written_results_are_refused() -> None:
    with mq.library._scoped_library("meta65", "FRAGMENT") as lib:
        lib.define("partly(Tensor(a!) x, Tensor y) -> (Tensor(a!), Tensor)")
        op = mq.ops.meta65.partly.default
        with pytest.raises(RuntimeError, match="partly"):
            return_and_correct_aliasing(op, (two(2), two(2)), {}, (two(2), two(2)))


# --- transforms and functional tensors --------------------------------------------------------


def test_M66_batched_tensors_are_wrapped_again(convert) -> None:
    found = []
    mq.func.vmap(lambda x: found.append((x, convert(x))) or x, in_dims=1)(mq.ones(3, 4))
    x, made = found[0]
    assert (tuple(made.shape), maybe_get_bdim(made)) == ((3,), 1)
    assert tuple(made._value.shape) == (3, 4)
    assert made._interpreter is x._interpreter


def test_M66_the_level_is_kept(convert) -> None:
    found = []

    def program(x):
        made = convert(x)
        found.append(
            (maybe_get_level(made), maybe_get_bdim(made), tuple(get_unwrapped(made).shape))
        )
        return x

    mq.func.vmap(program, in_dims=1)(mq.ones(3, 4))
    assert found == [(1, 1, (3, 4))]


def test_M66_grad_tracking_tensors_and_their_ends(convert) -> None:
    found = []

    def loss(x):
        found.append((x, convert(x)))
        return (x * x).sum()

    mq.func.grad(loss)(mq.ones(3))
    x, made = found[0]
    assert type(made) is type(x)
    assert made.requires_grad
    dead = convert(x.detach() if False else x)
    assert tuple(dead.shape) == (3,)


def test_M66_views_of_transforms_are_views_inside(mode) -> None:
    def program(x):  # PyTorch refuses these
        made, base = mode.from_tensor(x[1:]), mode.from_tensor(x)
        assert made._value._base is base._value
        return x

    mq.func.vmap(program)(mq.ones(2, 3))


def test_M67_functional_tensors_are_functional_again(convert) -> None:
    found = []

    def program(x):
        made = convert(x)
        same = type(made) is type(x) and made._interpreter is x._interpreter
        found.append((same, tuple(made.shape)))
        return x + 1

    torch.func.functionalize(program)(mq.ones(3))
    assert found == [(True, (3,))]


def test_M67_at_the_key_autograd_is_mirrored(mode) -> None:
    t = torch._to_functional_tensor(mq.ones(3))
    t.requires_grad_()
    made = mode.from_tensor(t)
    assert torch._is_functional_tensor(made)
    assert (made.requires_grad, made.is_leaf) == (True, True)


def test_M68_functional_tensors_need_their_mode(mode) -> None:
    from maquette.transforms.functional.mode import (
        FunctionalTensor,
        FunctionalTensorMode,
        dispatch_functionalize,
    )

    x = mq.ones(3)
    with FunctionalTensorMode() as outer:
        with outer:
            t = FunctionalTensor.to_functional(x)
        assert (t + 1).from_functional().tolist() == [2.0] * 3
        with pytest.raises(AssertionError):
            FunctionalTensor.to_functional(t)
    with pytest.raises(RuntimeError, match="FunctionalTensorMode"):
        t + 1
    assert type(mode.from_tensor(t)) is mq.FakeTensor

    def program(x):
        y = x.clone()
        y.add_(1)
        x.mul_(2)
        return y + x

    x = mq.ones(2)
    assert dispatch_functionalize(program)(x).tolist() == [4.0, 4.0]
    assert x.tolist() == [1.0, 1.0]


# --- comparing --------------------------------------------------------------------------------


def test_M69_metadata_are_compared() -> None:
    a, b = mq.ones(3), mq.ones(3, device="meta")
    assert_metadata_eq(assert_eq, a, b)
    assert_metadata_eq(assert_eq, described(a), b)
    with pytest.raises(AssertionError, match=r"3.*4"):
        assert_metadata_eq(assert_eq, a, mq.ones(4))
    assert_metadata_eq(assert_eq, a, mq.ones(4), skip_symbolic=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: mq.ones(2), lambda: mq.ones(2, dtype=mq.float64)),
        (lambda: mq.ones(2), lambda: mq.ones(2, requires_grad=True)),
        (lambda: mq.ones(2, 3), lambda: mq.ones(3, 2).t()),
        (lambda: coo(), lambda: coo().coalesce()),
        (lambda: coo(), lambda: mq.ones(2, 3)),
        (lambda: mq.eye(2).to_sparse_csr(), lambda: mq.eye(2).to_sparse_csc()),
        (lambda: mq.ones(4)[1:], lambda: mq.ones(4)[1:].clone()),
        (lambda: mq.ones(4)[2:], lambda: mq.ones(4)[:2]),
    ],
)
def test_M69_differences_are_found(first, second) -> None:
    assert_metadata_eq(assert_eq, first(), first())
    with pytest.raises(AssertionError):
        assert_metadata_eq(assert_eq, first(), second())
    with pytest.raises(AssertionError):
        assert_metadata_eq(assert_eq, described(first()), second())


def test_M69_leaves_may_be_left_out() -> None:
    w = mq.ones(2, requires_grad=True)
    with pytest.raises(AssertionError):
        assert_metadata_eq(assert_eq, w, w * 1)
    assert_metadata_eq(assert_eq, w, w * 1, skip_leaf=True)


def test_M70_data_are_copied_whole_and_shared_by_aliases() -> None:
    conv = MetaConverter(copy_data=True)
    x = mq.arange(6.0)
    alias = mq.empty(0).set_(x.untyped_storage(), 2, (2, 2), (2, 1))
    first, second = conv(x), conv(alias)
    assert first.real_tensor.tolist() == x.tolist()
    assert second.real_tensor.tolist() == alias.tolist()
    assert second.real_tensor._storage is first.real_tensor._storage
    assert first.real_tensor._storage is not x._storage
    s = conv(coo())
    assert s.real_tensor.to_dense().tolist() == coo().to_dense().tolist()


def test_results_of_unusual_kinds_are_not_kept_either(conv: MetaConverter) -> None:
    t = two(2)
    made = conv(t)
    assert len(conv.tensor_memo) == 3
    del made
    gc.collect()
    assert len(conv.tensor_memo) == 0
    assert CreationMeta("") is CreationMeta.DEFAULT
