"""Helpers of torch._prims_common and torch._utils."""

import pytest

import maquette as mq
import maquette.torch._prims_common as prims
from maquette.torch import _utils


def test_permutations_are_applied_and_undone() -> None:
    perm = [2, 0, 1]
    assert prims.apply_perm("abc", perm) == ["c", "a", "b"]
    assert prims.apply_perm(prims.apply_perm("abc", perm), prims.invert_perm(perm)) == list("abc")
    assert not prims.is_valid_permutation(3, [0, 0, 1])


def test_a_size_is_inferred_from_the_number_of_elements() -> None:
    assert prims.infer_size((2, -1), 6) == (2, 3)
    with pytest.raises(RuntimeError, match="invalid for input of size 5"):
        prims.infer_size((2, -1), 5)


def test_a_storage_is_as_long_as_strides_reach() -> None:
    assert prims.compute_required_storage_length((2, 3), (5, 1), 1) == 9
    assert prims.compute_required_storage_length((0, 3), (5, 1), 1) == 0


def test_operands_are_checked() -> None:
    with pytest.raises(RuntimeError, match="tensors of one shape"):
        prims.check_same_shape(mq.ones(2), mq.ones(3), allow_cpu_scalar_tensors=False)
    prims.check_same_shape(mq.ones(2), mq.ones(()), allow_cpu_scalar_tensors=True)
    with pytest.raises(RuntimeError, match="tensors of one dtype"):
        prims.check_same_dtype(mq.ones(1), mq.ones(1, dtype=mq.int64))
    with pytest.raises(RuntimeError, match="both correction and unbiased"):
        prims.set_correction(True, 1)


def test_a_copy_keeps_strides() -> None:
    x = mq.arange(12.0).view(3, 4)[:, ::2]
    copy = prims.clone_preserve_strides(x)
    assert copy.stride() == x.stride()
    assert mq.equal(copy, x)
    assert prims.mask_tensor(x > 4, x).tolist() == [[0, 0], [0, 6], [8, 10]]


def test_an_error_is_raised_again_with_its_traceback() -> None:
    try:
        {}["missing"]
    except KeyError:
        kept = _utils.ExceptionWrapper(where="in a worker")
    with pytest.raises(KeyError, match="Caught KeyError in a worker"):
        kept.reraise()


def test_a_class_has_a_property() -> None:
    class Own:
        @_utils.classproperty
        def name(cls) -> str:
            return cls.__name__

    assert Own.name == "Own"
    assert _utils.try_import("no_such_module") is None
