"""Results whose parts have names are structure sequences."""

import copy
import pickle

import pytest

import maquette as mq
from maquette.core import pytree
from maquette.torch import return_types


def _found() -> object:
    return mq.max(mq.tensor([[1.0, 2.0]]), 1)


def test_the_class_is_the_one_of_return_types() -> None:
    found = _found()
    assert type(found) is return_types.max
    assert found.values.item() == 2
    assert found.indices.item() == 1


def test_it_is_made_from_a_sequence() -> None:
    assert return_types.max([1, 2]).indices == 2
    with pytest.raises(TypeError, match=r"takes a 2-sequence \(1-sequence given\)"):
        return_types.max([1])
    with pytest.raises(TypeError, match="requires a sequence"):
        return_types.max(1)


def test_it_is_no_named_tuple_and_no_base() -> None:
    assert not hasattr(_found(), "_fields")
    assert (return_types.max.n_fields, return_types.max.n_unnamed_fields) == (2, 0)
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Own", (return_types.max,), {})


def test_it_pickles_copies_and_comes_apart() -> None:
    found = _found()
    assert type(pickle.loads(pickle.dumps(found))) is type(copy.deepcopy(found)) is return_types.max
    leaves, spec = pytree.tree_flatten(found)
    assert len(leaves) == 2
    assert type(pytree.tree_unflatten(leaves, spec)) is return_types.max


def test_all_return_types_have_the_schemas_names() -> None:
    named = {cls.__name__: cls.__match_args__ for cls in return_types.all_return_types}
    assert named["linalg_svd_out"] == ("U", "S", "Vh")
    assert len(named) == 67
