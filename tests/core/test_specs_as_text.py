"""Specs of trees as text: classes by registered names, contexts as JSON."""

import enum
from collections import namedtuple
from collections.abc import Iterator

import pytest

from maquette.core import pytree
from maquette.core.pytree_containers import treespec_dumps, treespec_loads

Pair = namedtuple("Pair", ["a", "b"])


class Shade(enum.Enum):
    DARK = 1


class Box:
    def __init__(self, item: object, shade: object) -> None:
        self.item, self.shade = item, shade


@pytest.fixture
def _forget() -> Iterator[None]:
    yield
    if pytree.is_pytree_class(Box):
        pytree.deregister_pytree_node(Box)


def _register(**options: object) -> None:
    pytree.register_pytree_node(
        Box, lambda b: ([b.item], b.shade), lambda c, s: Box(*c, s), **options
    )


@pytest.mark.usefixtures("_forget")
def test_a_class_is_written_by_the_name_it_was_registered_with() -> None:
    _register(serialized_type_name="own.Box")
    spec = pytree.tree_structure([Box(1, Shade.DARK)])
    text = treespec_dumps(spec)
    assert "own.Box" in text
    assert treespec_loads(text) == spec


@pytest.mark.usefixtures("_forget")
def test_contexts_go_through_the_functions_registered() -> None:
    _register(
        serialized_type_name="own.Box",
        to_dumpable_context=lambda s: "moo",
        from_dumpable_context=lambda s: (s, "back"),
    )
    text = treespec_dumps(pytree.tree_structure(Box(1, Shade)))
    assert "moo" in text
    assert treespec_loads(text).context == ("moo", "back")


@pytest.mark.usefixtures("_forget")
def test_a_class_without_a_name_is_refused() -> None:
    _register()
    with pytest.raises(NotImplementedError, match="No registered serialization name"):
        treespec_dumps(pytree.tree_structure(Box(1, 2)))


@pytest.mark.usefixtures("_forget")
def test_one_function_of_contexts_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="must be None or registered"):
        _register(serialized_type_name="own.Box", to_dumpable_context=str)


def test_named_tuples_need_a_name() -> None:
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        treespec_dumps(pytree.tree_structure(Pair(1, 2)))


def test_what_is_no_spec_is_refused() -> None:
    with pytest.raises(TypeError, match="instance of TreeSpec"):
        treespec_dumps("random")


def test_a_spec_made_for_a_named_tuple_is_that_of_one() -> None:
    made = pytree.TreeSpec(namedtuple, Pair, [pytree.LeafSpec(), pytree.LeafSpec()])
    assert made == pytree.tree_structure(Pair(1, 2))
