"""`TensorMeta`: interning, immutability, derived facts, derived metas."""

import copy
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core import layout
from maquette.core import meta as meta_module
from maquette.core.device import cpu, device
from maquette.core.dtype import complex64, float32, float64, int64
from maquette.core.meta import TensorMeta

shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
of = TensorMeta.of


@given(shapes)
def test_FX1_equal_metas_are_one_object(shape: tuple[int, ...]) -> None:
    meta = of(float32, shape)
    assert of(float32, (*shape,), meta.strides, 0, cpu, layout.strided) is meta
    assert of(float32, list(shape)) is meta  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(meta)) is meta
    assert copy.copy(meta) is copy.deepcopy(meta) is meta


def test_FX1_unequal_metas_differ() -> None:
    base = of(float32, (2, 3))
    others = [
        of(float64, (2, 3)),
        of(float32, (3, 2)),
        of(float32, (2, 3), (1, 2)),
        of(float32, (2, 3), None, 1),
        of(float32, (2, 3), device=device("meta")),
        of(float32, (2, 3), layout=layout.jagged),
    ]
    assert len({base, *others}) == 7


def test_FX1_hash_and_equality_are_the_identitys() -> None:
    assert TensorMeta.__hash__ is object.__hash__
    assert TensorMeta.__eq__ is object.__eq__


def test_FX1_metas_are_held_weakly() -> None:
    def held() -> int:  # of ours: others of the process go when they will
        return sum(key[1][1:] == (12345,) for key in list(meta_module._interned))

    metas = [of(float32, (n, 12345)) for n in range(1000)]
    assert held() == 1000
    del metas
    assert held() == 0


def test_FX10_threads_intern_the_same_objects() -> None:
    start = threading.Barrier(4)
    seen: list[list[int]] = []
    kept: list[TensorMeta] = []

    def work() -> None:
        start.wait()
        mine = [of(float32, (n, 54321)) for n in range(2000)]
        kept.extend(mine)
        seen.append(list(map(id, mine)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert seen[0] == seen[1] == seen[2] == seen[3]


def test_a_meta_of_numpy_ints_is_the_plain_one() -> None:
    np = pytest.importorskip("numpy")
    meta = of(float32, (np.int64(7), True))
    assert meta is of(float32, (7, 1))
    assert [type(size) for size in meta.shape] == [int, int]


@pytest.mark.parametrize("name", ["shape", "dtype", "numel", "anything"])
def test_a_meta_is_immutable(name: str) -> None:
    meta = of(float32, (2,))
    with pytest.raises(AttributeError, match=f"cannot set '{name}'"):
        setattr(meta, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(meta, "shape")


def test_a_meta_keeps_the_tensor_layers_key_sets() -> None:
    meta = of(float32, (2, 77))
    assert meta.keys == meta.fake_keys == 0
    meta.keys = 1 << 64
    assert of(float32, (2, 77)).keys == 1 << 64


def test_T2_storage_bytes() -> None:
    assert of(float32, (2, 3), (8, 1)).storage_bytes == 44
    assert of(float32, (2, 0), (8, 1), 5).storage_bytes == 0
    assert of(float64, (), None, 3).storage_bytes == 32


def test_facts_of_a_meta() -> None:
    meta = of(complex64, (2, 3), device=device("cuda:0"))
    assert (meta.ndim, meta.numel, meta.itemsize, meta.offset) == (2, 6, 8, 0)
    assert meta.size == (2, 3)
    assert repr(meta.size) == "torch.Size([2, 3])"
    assert meta.is_contiguous
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = meta.colour  # type: ignore[attr-defined]


def test_T10_a_meta_carries_a_device_index() -> None:
    assert of(float32, (2,), device=device("cuda")) is of(float32, (2,), device=device("cuda:0"))


def test_T10_what_is_no_geometry_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"negative dimension -1: \[2, -1\]"):
        of(float32, (2, -1))
    with pytest.raises(RuntimeError, match=r"sizes \(2\) must match .* strides \(1\)"):
        of(float32, (2, 3), (1,))
    with pytest.raises(RuntimeError, match=r"Negative strides .* \[-1\]"):
        of(float32, (2,), (-1,))
    with pytest.raises(RuntimeError, match="storage offset -1"):
        of(float32, (2,), (1,), -1)


def test_fresh_is_contiguous_at_offset_0_on_the_same_device() -> None:
    source = of(float32, (2, 3), (1, 2), 4, device("meta"))
    assert source.fresh((4, 5)) is of(float32, (4, 5), (5, 1), 0, device("meta"))
    assert source.fresh((4,), dtype=int64, strides=(2,), device=cpu) is of(int64, (4,), (2,))


@pytest.mark.parametrize(
    "shape, strides, expected",
    [
        ((2, 3, 4), (0, 1, 3), (12, 1, 3)),
        ((3, 4), (1, 0), (4, 1)),
        ((4, 3), (2, 16), (1, 4)),
        ((3, 2), (1, 3), (1, 3)),
        ((5,), (3,), (1,)),
    ],
)
def test_T16_like_keeps_the_order_of_dimensions(
    shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert of(float32, shape, strides, 2).like(dtype=int64) is of(int64, shape, expected)


def test_T16_like_in_a_memory_format() -> None:
    meta = of(float32, (2, 3, 1, 1), (3, 1, 1, 1))
    assert meta.like(memory_format=layout.channels_last).strides == (3, 1, 3, 3)
    assert meta.like(memory_format=layout.contiguous_format).strides == (3, 1, 1, 1)
    with pytest.raises(RuntimeError, match=r"required rank 5 .* channels_last_3d"):
        meta.like(memory_format=layout.channels_last_3d)


def test_view_with_dtype_and_with_device_keep_the_rest() -> None:
    meta = of(float32, (2, 3), None, 4)
    assert meta.view((3, 2), (1, 3)) is of(float32, (3, 2), (1, 3), 4)
    assert meta.view((3,), (1,), 0) is of(float32, (3,), (1,), 0)
    assert meta.with_dtype(int64) is of(int64, (2, 3), None, 4)
    assert meta.with_device(device("meta")) is of(float32, (2, 3), None, 4, device("meta"))


def test_T13_both_formats_at_once() -> None:
    meta = of(float32, (2, 3, 1, 1))
    assert meta.is_contiguous_in(layout.contiguous_format)
    assert meta.is_contiguous_in(layout.channels_last)
    assert not meta.is_contiguous_in(layout.channels_last_3d)
    assert not of(float32, (0, 3, 4, 5)).is_contiguous_in(layout.channels_last)


def test_a_meta_prints_in_short_and_in_full() -> None:
    meta = of(float32, (2, 3))
    assert str(meta) == "float32[2, 3]"
    assert str(meta.with_device(device("cuda:0"))) == "float32[2, 3] on cuda:0"
    assert repr(meta) == (
        "TensorMeta(float32, shape=(2, 3), strides=(3, 1), offset=0, device='cpu')"
    )


def test_a_view_has_fewer_elements_than_a_64_bit_number_counts() -> None:
    one = TensorMeta.of(float32, (1, 1))
    assert one.view((2**62, 1), (0, 1)).numel == 2**62
    with pytest.raises(RuntimeError, match=r"numel: integer multiplication overflow.*4\]"):
        one.view((2**62, 4), (0, 0))


def test_a_size_beyond_64_bits_is_refused_by_views_of_one_element_too() -> None:
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        TensorMeta.of(float32, (2**63,), (0,))
