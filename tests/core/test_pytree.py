"""Pytrees: leaves, nestings, keys; the rules are those of torch.utils._pytree."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.core import pytree
from maquette.core.pytree import tree_flatten, tree_map, tree_unflatten
from maquette.core.pytree_containers import SUPPORTED_NODES
from maquette.core.size import Size

Point = namedtuple("Point", ["x", "y"])
trees = st.recursive(
    st.none() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=8,
)


@given(trees)
def test_D21_flattening_loses_nothing(tree: object) -> None:
    leaves, spec = tree_flatten(tree)
    assert tree_unflatten(leaves, spec) == tree
    assert spec.num_leaves == len(leaves)


@given(trees)
def test_D21_equal_nestings_have_equal_specs(tree: object) -> None:
    spec = tree_flatten(tree)[1]
    other = tree_flatten(tree_map(lambda leaf: ("new",), tree), lambda t: t == ("new",))[1]
    assert spec == other
    assert hash(spec) == hash(other)


@given(trees)
def test_D21_paths_lead_to_their_leaves(tree: object) -> None:
    for path, leaf in pytree.tree_leaves_with_path(tree):
        assert pytree.key_get(tree, path) is leaf


def test_D21_none_is_a_leaf_and_dicts_keep_their_order() -> None:
    assert tree_flatten({"b": None, "a": 1})[0] == [None, 1]


@pytest.mark.parametrize(
    "tree",
    [
        OrderedDict(b=1, a=2),
        defaultdict(list, a=1),
        deque([1, 2], maxlen=3),
        Point(1, [2, 3]),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_D21_containers_come_back_of_their_kind(tree: object) -> None:
    made = tree_map(lambda leaf: leaf, tree)
    assert type(made) is type(tree)
    assert made == tree


def test_D21_the_factory_of_a_defaultdict_is_kept() -> None:
    made = tree_map(str, defaultdict(list, a=1))
    assert made["new"] == []


def test_D21_several_trees_are_mapped_together() -> None:
    made = tree_map(lambda a, b: (a, b), {"x": 1, "y": [2]}, {"y": [4], "x": 3})
    assert made == {"x": (1, 3), "y": [(2, 4)]}


def test_D21_trees_of_other_nestings_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a list"):
        tree_map(lambda a, b: a, [1], (1,))


def test_D21_a_wrong_number_of_leaves_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 leaves"):
        tree_unflatten([1], tree_flatten([1, 2])[1])


def test_D21_leaves_of_a_type_are_mapped_alone() -> None:
    assert pytree.tree_map_only(int, lambda n: n + 1, [1, "a", (2,)]) == [2, "a", (3,)]
    assert pytree.tree_all_only(int, lambda n: n > 0, [1, "a"])
    assert not pytree.tree_any_only(int, lambda n: n > 5, [1, "a"])


def test_D21_paths_print_as_python() -> None:
    tree = {"a": [Point(1, 2)]}
    texts = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert texts == ["['a'][0].x", "['a'][0].y"]


class Pair:
    """A class that is registered for a test."""

    def __init__(self, left: object, right: object) -> None:
        self.left, self.right = left, right


@pytest.fixture
def pair() -> Iterator[type[Pair]]:
    pytree.register_pytree_node(
        Pair, lambda p: ((p.left, p.right), None), lambda children, _: Pair(*children)
    )
    yield Pair
    pytree.deregister_pytree_node(Pair)


def test_D21_registered_classes_are_nodes(pair: type[Pair]) -> None:
    assert tree_flatten([pair(1, 2)])[0] == [1, 2]
    assert tree_map(lambda n: n * 10, pair(1, 2)).right == 20


def test_D21_a_class_is_registered_once(pair: type[Pair]) -> None:
    with pytest.raises(ValueError, match="already registered"):
        pytree.register_pytree_node(pair, lambda p: ((), None), lambda c, _: None)


def test_D21_paths_of_a_class_without_keys_are_refused(pair: type[Pair]) -> None:
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path(pair(1, 2))


def test_D21_a_prefix_is_stretched_over_a_nesting() -> None:
    spec = tree_flatten([1, (2, 3)])[1]
    assert pytree.broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1]
    assert pytree.broadcast_to_and_flatten((0, 1), spec) is None


def test_a_size_is_a_node_that_comes_back_as_a_tuple() -> None:
    leaves, spec = tree_flatten((Size([2, 3]), 4))
    assert leaves == [2, 3, 4]
    assert type(spec.unflatten(["a", "b", 4])[0]) is tuple


def test_nodes_of_the_table_come_apart_by_pytorchs_names():
    node = SUPPORTED_NODES[dict]
    children, names = node.flatten_fn({"b": 1, "a": 2})
    assert (children, names) == ([1, 2], ["b", "a"])
    assert node.unflatten_fn(children, names) == {"b": 1, "a": 2}
