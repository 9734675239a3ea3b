"""Tensors as Python numbers and sequences, and as NumPy arrays."""

from collections.abc import Callable

import numpy as np
import pytest

import maquette as mq
from maquette import Tensor
from maquette.core.warned import Always


@pytest.mark.parametrize("shape", [(0,), (2,)])
def test_T49_only_one_value_is_true_or_false(shape: tuple[int]) -> None:
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(mq.zeros(shape))


def test_T49_only_one_value_is_an_item() -> None:
    assert mq.ones(1, 1).item() == 1.0
    with pytest.raises(RuntimeError, match="2"):
        mq.zeros(2).item()


def test_T49_only_integers_index() -> None:
    assert "abc"[mq.tensor(1)] == "b"
    with pytest.raises(TypeError, match="integer"):
        "abc"[mq.tensor(1.0)]


@pytest.mark.parametrize("use", [len, iter])
def test_T49_no_dimensions_no_sequence(use: Callable[[Tensor], object]) -> None:
    with pytest.raises(TypeError, match="0-d"):
        use(mq.zeros(()))


def test_T49_a_float_of_what_requires_grad_is_warned_of_while_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Always, "on", True)  # not only the first time
    x = mq.ones(1, requires_grad=True)
    with mq.no_grad():
        assert float(x) == int(x) == 1.0
    assert int(x) == 1
    with pytest.warns(UserWarning, match="requires_grad=True to a scalar"):
        float(x)


def test_T49_tensors_are_hashed_by_identity() -> None:
    a, b = mq.zeros(1), mq.zeros(1)
    assert len({a, b, a}) == 2


def test_T51_numpy_shares_and_keeps_strides() -> None:
    x = mq.zeros(2, 3).t()
    array = x.numpy()
    array[0, 1] = 5
    assert array.strides == (4, 12)
    assert x[0, 1].item() == 5


def test_T51_what_stands_in_the_way_is_resolved_by_force() -> None:
    w = mq.ones(1, requires_grad=True)
    z = mq.tensor([1 + 2j]).conj()
    with pytest.raises(RuntimeError, match="detach"):
        w.numpy()
    with pytest.raises(RuntimeError, match="resolve_conj"):
        z.numpy()
    assert w.numpy(force=True).tolist() == [1.0]
    assert z.numpy(force=True).tolist() == [1 - 2j]


def test_T51_no_data_no_array() -> None:
    with pytest.raises(RuntimeError, match="no data"):
        mq.FakeTensorMode().from_tensor(mq.zeros(2)).numpy()
    with pytest.raises(TypeError, match="meta"):
        mq.zeros(2, device="meta").numpy()


def test_T51_bfloat16_goes_both_ways() -> None:
    x = mq.tensor([1.5], dtype=mq.bfloat16)
    assert x.numpy().dtype.name == "bfloat16"
    assert mq.from_numpy(x.numpy()).dtype is mq.bfloat16


def test_T51_arrays_beside_tensors() -> None:
    t = mq.ones(2)
    assert (t + np.ones(2)).dtype is mq.float64
    assert (t * np.float64(2)).dtype is mq.float32
    assert isinstance(np.sin(t), Tensor)


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "**", "@", "<", "&", "<<"])
def test_T51_an_array_on_the_left_is_refused(op: str) -> None:
    """Finding 20: as in PyTorch, also where the tensor is the array's right operand by `+=`."""
    with pytest.raises(TypeError):
        eval(f"a {op} t", {"a": np.ones(2, int), "t": mq.ones(2, dtype=mq.int64)})


def test_T51_numpy_promotes_a_tensor_and_an_array() -> None:
    t = mq.tensor([1, 2])
    assert (t + np.float32([1, 2])).dtype is mq.float64  # PyTorch's own rule says float32
    assert (t / np.array(2)).dtype is mq.float64
    with pytest.raises(RuntimeError, match="requires grad"):
        mq.ones(2, requires_grad=True) * np.ones(2)


@pytest.mark.filterwarnings("error")
def test_T51_arrays_are_compared_by_element() -> None:
    t, a = mq.tensor([1, 2]), np.array([1, 3])
    assert (t == a).tolist() == (a == t).tolist() == [True, False]
    assert (t != a).tolist() == (a != t).tolist() == [False, True]
    assert (t == np.array(["1", "2"])) is False


@pytest.mark.parametrize(
    "call",
    [
        lambda t, n: mq.mul(t, n(2)),
        lambda t, n: t.pow(n(2)),
        lambda t, n: mq.clamp(t, n(1), max=n(3)),
        lambda t, n: mq.full((2,), n(7)),
        lambda t, n: mq.where(t > n(1), t, n(0)),
        lambda t, n: mq.add(t, t, alpha=n(2)),
        lambda t, n: t.norm(n(2)),
        lambda t, n: n(3) < t,
        lambda t, n: mq.arange(n(4)),
    ],
)
@pytest.mark.parametrize("kind", [np.int32, np.float32, np.uint8, np.float16, np.longdouble])
def test_T51_numpy_scalars_are_numbers(call: Callable[..., Tensor], kind: type[np.number]) -> None:
    t = mq.tensor([1.0, 2.0])
    expected = call(t, int if issubclass(kind, np.integer) else float)
    found = call(t, kind)
    assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())


def test_what_a_tensor_is_made_of_is_not_deleted() -> None:
    x = mq.ones(2)
    for name in ("data", "requires_grad"):
        with pytest.raises(RuntimeError, match="is not allowed"):
            delattr(x, name)


def test_data_is_not_set_to_another_layout() -> None:
    x = mq.ones(2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = mq.ones(2).to_sparse()


def test_each_name_that_dir_lists_is_there() -> None:
    x = mq.ones(2, 2, dtype=mq.complex64)
    assert [name for name in dir(x) if not hasattr(x, name)] == []


def test_floats_cannot_be_inverted():
    with pytest.raises(TypeError, match="integer and Boolean-type tensors"):
        ~mq.ones(2)
