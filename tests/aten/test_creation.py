"""Tensors from sizes and from data: dtypes, sharing, devices, constants, allocations."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import maquette as mq
from maquette.tensor.storage import UntypedStorage, observe_allocations


class _Sizes:
    """Counts allocated bytes, device by device."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        self.seen.append((str(storage.device), nbytes))

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None: ...

    def released(self, storage_id: int) -> None: ...


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([1, 2.5], "float32"),
        ([True, 2], "int64"),
        ([True], "bool"),
        (1j, "complex64"),
        ([], "float32"),
        (np.float64(1), "float64"),
        ([np.int32(1)], "int32"),
        ([np.float16(1), 2], "float16"),
        (range(3), "int64"),
        (np.zeros(2, np.int16), "int16"),
    ],
)
def test_T33_dtype_of_data(data: object, kind: str) -> None:
    assert mq.tensor(data).dtype.name == kind


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([np.int64(1), 2.5], "float32"),
        ([1, np.float64(2.5)], "float64"),
        ([np.int8(1), np.int16(300)], "int16"),
        ([np.float32(1), True], "float32"),
        ([[np.uint8(200), 1000], [2, 3]], "int64"),
        ([np.bool_(True), np.bool_(False)], "bool"),
    ],
)
def test_T33_numbers_of_numpy_among_data(data: list[object], kind: str) -> None:
    made = mq.tensor(data)
    assert made.dtype.name == kind
    assert made.tolist() == np.array(data).tolist()


def test_T33_the_default_dtype_rules_literals() -> None:
    mq.set_default_dtype(mq.float64)
    try:
        assert mq.tensor([1.0]).dtype is mq.zeros(1).dtype is mq.float64
        assert mq.tensor(1j).dtype is mq.complex128
    finally:
        mq.set_default_dtype(mq.float32)


def test_T33_ragged_data_names_dim_and_lengths() -> None:
    with pytest.raises(ValueError, match=r"length 2 at dim 1 \(got 1\)"):
        mq.tensor([[1, 2], [3]])


def test_T34_values_out_of_range_are_refused() -> None:
    for call in (
        lambda: mq.full((2,), 300, dtype=mq.uint8),
        lambda: mq.zeros(2, dtype=mq.int8).fill_(-200),
        lambda: mq.tensor([300], dtype=mq.uint8),
    ):
        with pytest.raises(RuntimeError, match="overflow"):
            call()


def test_T50_from_numpy_shares_and_tensor_copies() -> None:
    array = np.zeros(3)
    shared, copied = mq.from_numpy(array), mq.tensor(array)
    shared.add_(1)
    assert array.tolist() == [1, 1, 1]
    assert copied.tolist() == [0, 0, 0]
    assert mq.as_tensor(array).data_ptr() == shared.data_ptr()


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.zeros(3)[::-1], ValueError),
        (np.zeros(3, ">f4"), ValueError),
        (np.array(["a"]), TypeError),
        (np.array([None]), TypeError),
        (np.zeros(2, np.longdouble), TypeError),
    ],
)
def test_T50_arrays_that_no_tensor_can_share(array: np.ndarray, error: type[Exception]) -> None:
    with pytest.raises(error):
        mq.from_numpy(array)


def test_T50_a_read_only_array_refuses_writes() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t = mq.from_numpy(array)
    with pytest.raises(RuntimeError, match="read-only"):
        t.add_(1)


@pytest.mark.parametrize(
    ("buffer", "options", "words"),
    [
        ([1], {}, "does not implement Python buffer protocol"),
        (bytearray(), {}, r"buffer length \(0\) and count \(-1\) must not be 0"),
        (bytearray(8), {"count": 0}, r"buffer length \(8\) and count \(0\) must not be 0"),
    ],
)
def test_T50_frombuffer_says_what_is_wrong_with_a_buffer(buffer, options, words) -> None:
    with pytest.raises(ValueError, match=words):
        mq.frombuffer(buffer, dtype=mq.int8, **options)


def test_T50_asarray_and_frombuffer_share() -> None:
    raw = bytearray(8)
    t = mq.frombuffer(raw, dtype=mq.float32)
    t.fill_(1)
    assert raw[3] == 0x3F
    with pytest.raises(ValueError, match="copy"):
        mq.asarray([1, 2], copy=False)


def test_T4_tensor_announces_one_storage() -> None:
    with observe_allocations(_Sizes()) as sizes:
        mq.tensor([1.0, 2.0]).view(2, 1)[0]
    assert sizes.seen == [("cpu", 8)]


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (lambda: mq.tensor([1.0, 2.0]), [("cpu", 8)]),
        (lambda: mq.tensor(1.0), [("cpu", 4)]),
        (lambda: mq.tensor([1.0, 2.0], device="cuda"), [("cuda:0", 8)]),
    ],
)
def test_T4_fake_data_announces_the_modelled_storage_only(
    make: Callable[[], object], seen: list[tuple[str, int]]
) -> None:
    with mq.FakeTensorMode(), observe_allocations(_Sizes()) as sizes:
        make()
    assert sizes.seen == seen


def test_F64_data_of_at_most_one_element_is_constant() -> None:
    with mq.FakeTensorMode():
        assert mq.tensor(3).constant is not None
        assert mq.tensor([]).constant is not None
        assert mq.tensor([1, 2]).constant is None
        assert mq.ones(1).constant is None


def test_F65_constants_follow_writes_through_views() -> None:
    with mq.FakeTensorMode():
        b = mq.tensor(1.0)
        v = b.view(1)
        b.add_(2)
        assert v.item() == 3


def test_T10_a_cuda_tensor_in_fake_mode_needs_no_hardware() -> None:
    with mq.FakeTensorMode():
        x = mq.empty(2, device="cuda")
        assert str(x.device) == "cuda:0"
        assert x.cpu().device.type == "cpu"


@pytest.mark.parametrize(
    "make",
    [
        lambda: mq.zeros(2, device="cuda"),
        lambda: mq.zeros(2).cuda(),
        lambda: mq.tensor([1.0], device="cuda"),
    ],
)
def test_real_data_on_an_absent_device_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(NotImplementedError, match="cuda"):
        make()


def test_T3_meta_tensors_have_no_data() -> None:
    x = mq.zeros(2, device="meta")
    for read in (lambda: x.to("cpu"), x.tolist, lambda: mq.zeros(2).copy_(x)):
        with pytest.raises(NotImplementedError, match="no data"):
            read()
    with pytest.raises(RuntimeError, match="meta"):
        mq.zeros((), device="meta").item()


def test_the_default_device_of_a_block() -> None:
    with mq.device("meta"):
        assert mq.zeros(2).device.type == mq.tensor([1.0]).device.type == "meta"
    assert mq.zeros(2).device.type == "cpu"


def test_T15_T16_T17_formats() -> None:
    x = mq.zeros(2, 3, 1, 1)
    assert x.contiguous(memory_format=mq.channels_last) is x
    assert x.clone(memory_format=mq.channels_last).stride() == (3, 1, 3, 3)
    assert x.to(memory_format=mq.channels_last).stride() == (3, 1, 3, 3)
    y = mq.zeros(2, 3).t()
    assert y.to(memory_format=mq.contiguous_format) is y
    assert y.clone().stride() == (1, 3)
    with pytest.raises(RuntimeError, match="preserve"):
        y.contiguous(memory_format=mq.preserve_format)


def test_the_classes_own_constructor() -> None:
    assert mq.Tensor(2, 3).shape == (2, 3)
    assert mq.Tensor([1, 2]).dtype is mq.float32
    assert mq.Tensor().shape == (0,)


@pytest.mark.parametrize(
    ("bounds", "values"),
    [((5,), [0, 1, 2, 3, 4]), ((2, -3, -2), [2, 0, -2]), ((0, 1, 0.25), [0, 0.25, 0.5, 0.75])],
)
def test_arange(bounds: tuple[float, ...], values: list[float]) -> None:
    assert mq.arange(*bounds).tolist() == values


def test_linspace_and_eye_agree_with_numpy() -> None:
    np.testing.assert_allclose(mq.linspace(-1, 2, 7).numpy(), np.linspace(-1, 2, 7), rtol=1e-6)
    np.testing.assert_array_equal(mq.eye(2, 3).numpy(), np.eye(2, 3))


def test_to_takes_dtype_device_and_tensor() -> None:
    x = mq.zeros(2)
    assert x.to(mq.int64).dtype is mq.int64
    assert x.to("meta", mq.float64).dtype is mq.float64
    assert x.to(mq.zeros(1, dtype=mq.bool)).dtype is mq.bool
    assert x.type() == "torch.FloatTensor"
    assert x.type("torch.LongTensor").dtype is mq.int64


def test_T63_everything_born_in_inference_mode_is_inference() -> None:
    with mq.inference_mode():
        for t in (mq.zeros(2), mq.tensor([1.0]), mq.rand(2), mq.ones(3).nonzero()):
            assert t.is_inference()


@pytest.mark.parametrize("size", [(2**31, 2**31, 4), (2**40, 2**40), (2**61,)])
@pytest.mark.parametrize("how", ["real", "meta", "fake"])
def test_sizes_that_no_storage_has_are_refused(size, how):
    """Finding 34."""
    mode = mq.FakeTensorMode() if how == "fake" else contextlib.nullcontext()
    with mode, pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        mq.empty(size, device="meta" if how == "meta" else None)


@pytest.mark.parametrize("bounds", [(-3e38, 3e38), (-1e39, 0.0), (0.0, 1e39)])
def test_uniform_refuses_a_range_that_its_dtype_does_not_hold(bounds: tuple[float, float]) -> None:
    with pytest.raises(RuntimeError, match=r"exceed the limit|out of bounds"):
        mq.zeros(2).uniform_(*bounds)


def test_whole_numbers_beyond_what_a_float_counts_are_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"from is out of bounds \[-\(2\^24\), 2\^24\]"):
        mq.zeros(2).random_(-(2**63), 5)
    mq.zeros(2).random_(-(2**24), 5)


def test_cauchy_around_infinity_is_infinite() -> None:
    assert mq.zeros(2).cauchy_(float("inf"), 0.5).tolist() == [float("inf")] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda out: mq.arange(3, out=out),
        lambda out: mq.linspace(0, 1, 3, out=out),
        lambda out: mq.logspace(0, 1, 3, out=out),
        lambda out: mq.rand(3, out=out),
        lambda out: out.bernoulli_(mq.ones(3)),
    ],
)
def test_T41_factories_refuse_to_write_one_element_often(call: Callable[..., object]) -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        call(mq.zeros(1).expand(3))


def test_sizes_beyond_64_bits_are_refused_with_and_without_data() -> None:
    for device in ("cpu", "meta"):
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            mq.empty((8, 8, 2**29, 2**29), device=device)
        with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
            mq.empty((0, 4, 2**61), device=device)


def test_randperm_writes_what_it_gives() -> None:
    out = mq.zeros(2, 3, dtype=mq.int32).t()[:0]
    mq.manual_seed(3)
    expected = mq.randperm(5)
    mq.manual_seed(3)
    assert mq.randperm(5, out=out).tolist() == expected.tolist()


def test_asarray_says_why_it_cannot_share() -> None:
    with pytest.raises(ValueError, match="with dtype 'Float' into dtype 'Double'"):
        mq.asarray(mq.zeros(2), dtype=mq.float64, copy=False)
    with pytest.raises(ValueError, match="arbitrary sequence"):
        mq.asarray([1, 2], copy=False)
    with pytest.raises(RuntimeError, match="NumPy scalars"):
        mq.asarray(np.float64(1), copy=False)


def test_a_list_in_itself_is_refused() -> None:
    endless: list[object] = [0]
    endless.append(endless)
    with pytest.raises(TypeError, match="self-referential"):
        mq.tensor(endless)


def test_no_blocks_make_a_row_without_columns() -> None:
    assert mq.block_diag().shape == (1, 0)


def test_T49_many_elements_are_no_number() -> None:
    for convert in (int, float, complex):
        with pytest.raises(ValueError, match="only one element tensors"):
            convert(mq.zeros(2))


def test_pythons_types_stand_for_dtypes() -> None:
    assert mq.tensor([1, 0], dtype=bool).dtype is mq.bool  # type: ignore[arg-type]  # as in PyTorch
    assert mq.as_tensor([1], dtype=float).dtype is mq.float64  # type: ignore[arg-type]  # as above
    assert mq.ones(1).new_tensor([1], dtype=int).dtype is mq.int64  # type: ignore[arg-type]  # as above
    assert mq.finfo(float).bits == 64  # type: ignore[arg-type]  # as above
    with pytest.raises(TypeError, match=r"must be torch\.dtype, not type"):
        mq.tensor([1], dtype=np.float32)  # type: ignore[arg-type]  # the point


def test_a_complex_number_is_real_where_its_imaginary_part_is_zero() -> None:
    assert float(mq.tensor(2 + 0j)) == int(mq.tensor(2 + 0j)) == 2
    with pytest.raises(RuntimeError, match="without overflow"):
        float(mq.tensor(1.5j))


def test_whole_numbers_are_warned_of_each_time() -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
            mq.zeros(1, dtype=mq.float16).random_(0, 5000)


def test_more_numbers_than_a_float_counts_are_not_permuted() -> None:
    assert mq.randperm(2049, dtype=mq.float16).numel() == 2049
    with pytest.raises(RuntimeError, match="greater than 2049 for Half"):
        mq.randperm(2050, dtype=mq.float16)


def test_all_deviations_are_checked() -> None:
    with pytest.raises(RuntimeError, match="all elements of std"):
        mq.normal(mq.tensor(0.0), mq.tensor(-1.0))


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("offset", [-9, -2, -1, 0, 1, 2, 9])
def test_a_triangle_has_as_many_positions_as_its_shape_rule_counts(name: str, offset: int) -> None:
    make = getattr(mq, name)
    for rows, columns in ((3, 4), (4, 3), (0, 2), (2, 0), (3, 3)):
        real = make(rows, columns, offset)
        with mq.FakeTensorMode():
            assert make(rows, columns, offset).shape == real.shape


def test_a_huge_triangle_is_counted_at_once() -> None:
    with mq.FakeTensorMode():
        assert mq.tril_indices(2**28, 2**28).shape == (2, 2**27 * (2**28 + 1))


def test_zeros_that_take_no_memory_in_pytorch_are_zeros() -> None:
    found = mq.ops.aten._efficientzerotensor([2], dtype=mq.float64)
    assert (found + mq.ones(2)).tolist() == [1.0, 1.0]
    assert found.dtype is mq.float64


@pytest.mark.parametrize("kind", [mq.float16, mq.bfloat16], ids=str)
def test_constants_of_16_bits_are_rounded_and_laid_out_as_what_they_are_like(
    kind: mq.dtype,
) -> None:
    x = mq.empty(3, 4, dtype=kind).t()
    made = [mq.zeros_like(x), mq.ones_like(x), mq.full_like(x, 0.1), mq.full((4, 3), 0.1).to(kind)]
    assert [t.stride() for t in made] == [(1, 4), (1, 4), (1, 4), (3, 1)]
    rounded = float(mq.tensor(0.1, dtype=kind))
    assert [t[3, 2].item() for t in made] == [0, 1, rounded, rounded]
    assert x.new_ones(2).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["zeros_like", "ones_like"])
@pytest.mark.parametrize("shape", [(3, 4), (80, 90)])
def test_likes_of_expanded_and_transposed_tensors_lie_as_pytorch_lays_them(
    name: str, shape: tuple[int, int]
) -> None:
    like, rows = getattr(mq, name), shape[1]
    assert like(mq.ones(1, rows).expand(shape)).stride() == (rows, 1)
    turned = like(mq.ones(shape).t())
    assert turned.stride() == (1, rows)
    assert bool((turned == int(name == "ones_like")).all())
