"""`torch.utils._pytree`: what programs ask of containers and of nestings."""

from collections import defaultdict
from typing import NamedTuple

import pytest

import maquette as mq
from maquette.torch.utils import _pytree as pytree
from maquette.torch.utils._dtype_abbrs import dtype_abbrs


class Pair(NamedTuple):
    a: int
    b: int


RESULT = mq.max(mq.ones(2, 2), 0)


@pytest.mark.parametrize(
    "name, among",
    [
        ("is_namedtuple", [Pair(1, 2), Pair]),
        ("is_namedtuple_instance", [Pair(1, 2)]),
        ("is_namedtuple_class", [Pair]),
        ("is_structseq", [RESULT, type(RESULT)]),
        ("is_structseq_instance", [RESULT]),
        ("is_structseq_class", [type(RESULT)]),
    ],
)
def test_kinds_of_tuples(name, among):
    candidates = [Pair(1, 2), Pair, RESULT, type(RESULT), (1, 2), tuple]
    if name == "is_namedtuple_class":  # it is asked of classes
        candidates = [c for c in candidates if isinstance(c, type)]
    assert [c for c in candidates if getattr(pytree, name)(c)] == among


def test_specs_are_built_of_specs():
    leaf = pytree.treespec_leaf()
    both = pytree.treespec_tuple([leaf, pytree.treespec_dict({"a": leaf}, b=leaf)])
    assert both == pytree.tree_structure((1, {"a": 2, "b": 3}))
    assert pytree.treespec_pprint(both) == "(*, {'a': *, 'b': *})"
    for build in (lambda: pytree.treespec_tuple([1]), lambda: pytree.treespec_dict(a=1)):
        with pytest.raises(ValueError, match="TreeSpec values, got"):
            build()


def test_leaves_of_a_call():
    assert pytree.arg_tree_leaves(1, [2, 3], k=(4,)) == [1, 2, 3, 4]


def test_a_function_of_some_types():
    twice = pytree.map_only((int, str))(lambda x: x * 2)
    assert [twice(v) for v in (1, "a", 1.5)] == [2, "aa", 1.5]
    assert pytree.map_only(lambda x: x > 1)(lambda x: 0)(3) == 0
    with pytest.raises(TypeError, match="a type, a tuple of types, or a callable"):
        pytree.map_only(3)


def test_dtypes_in_short():
    assert dtype_abbrs[mq.float32] == "f32"
    assert dtype_abbrs[mq.bool] == "b8"


class Box:
    def __init__(self, inside: object) -> None:
        self.inside = inside


def test_registering_by_the_old_name_warns_and_a_second_time_replaces() -> None:
    parts = lambda box: ([box.inside], None), lambda children, _: Box(*children)
    with pytest.warns(FutureWarning, match="register_pytree_node` instead"):
        pytree._register_pytree_node(Box, *parts)
    with (
        pytest.warns(FutureWarning, match="is deprecated"),
        pytest.warns(UserWarning, match="already registered"),
    ):
        pytree._register_pytree_node(Box, *parts)
    assert pytree.tree_leaves(Box([1, 2])) == [1, 2]
    pytree._deregister_pytree_node(Box)


def test_a_nesting_prints_a_child_a_line() -> None:
    text = repr(pytree.tree_structure((0, [0, 0])))
    assert text == "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *])])"


def test_the_nesting_of_a_defaultdict_holds_its_factory_and_keys() -> None:
    spec = pytree.tree_structure(defaultdict(list, {"a": 1}))
    assert spec.context == [list, ["a"]]
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_what_is_listed_is_there() -> None:
    assert all(hasattr(pytree, name) for name in pytree.__all__)
