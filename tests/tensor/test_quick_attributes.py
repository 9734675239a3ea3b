"""What CPython asks of a class before it reads attributes the quick way (FX2)."""

import pytest

import maquette as mq
from maquette.core.meta import TensorMeta


@pytest.mark.parametrize("cls", [mq.Tensor, mq.FakeTensor, TensorMeta])
def test_FX2_no_class_that_calls_read_from_has_getattr(cls: type) -> None:
    # With one, CPython 3.11 specializes no attribute of the class: a call then takes twice as long.
    assert not any(
        "__getattr__" in vars(c) or "__getattribute__" in vars(c) for c in cls.__mro__[:-1]
    )


def test_FX2_tensors_have_no_metaclass() -> None:
    assert type(mq.Tensor) is type


def test_operator_methods_are_found_by_class_and_by_tensor() -> None:
    t = mq.arange(6)
    assert mq.Tensor.logsumexp(t.double(), 0) == t.double().logsumexp(0)
    assert not hasattr(t, "no_such_operator")


def test_T3_a_tensor_that_its_shrunken_storage_cannot_hold_says_so_when_it_is_read() -> None:
    t = mq.arange(4)
    tail = t[2:]
    t.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match="its storage has 8"):
        (tail + 1).sum()


def test_T3_tensors_over_a_storage_that_grew_read_the_new_bytes() -> None:
    t = mq.arange(4)
    tail = t[2:]
    t.untyped_storage().resize_(64)
    t[3] = 7
    assert tail.tolist() == [2, 7]
