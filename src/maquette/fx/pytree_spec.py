"""Taking nested arguments apart by a nesting that is known (`torch.fx._pytree`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.core import pytree

TreeSpec = pytree.TreeSpec
FlattenFuncSpec = Callable[[Any, pytree.TreeSpec], list[Any]]
FlattenFuncExactMatchSpec = Callable[[Any, pytree.TreeSpec], bool]
SUPPORTED_NODES: dict[type, FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type, FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type,
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None,
) -> None:
    """Say how trees of a class come apart by a given nesting.

    flatten_fn_exact_match_spec: whether a tree has exactly as many children as the nesting.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def tree_flatten_spec(
    tree: Any, spec: pytree.TreeSpec, exact_structural_match: bool = False
) -> list[Any]:
    """The parts of ``tree`` where ``spec`` has its leaves.

    Raises RuntimeError for a class that is not known, or (exact_structural_match) where the tree
    has other children than the nesting.
    """
    if spec.is_leaf():
        return [tree]
    kind = spec.type
    assert kind is not None
    flatten = SUPPORTED_NODES.get(kind) or _flatten_of(kind)
    exact = SUPPORTED_NODES_EXACT_MATCH.get(kind)
    if exact_structural_match and exact is not None and not exact(tree, spec):
        raise RuntimeError(f"Cannot flatten pytree {tree}, given spec: {spec}")
    parts: list[Any] = []
    for child, inner in zip(flatten(tree, spec), spec.children()):
        parts += tree_flatten_spec(child, inner, exact_structural_match)
    return parts


def _flatten_of(kind: type) -> FlattenFuncSpec:
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return SUPPORTED_NODES[tuple]
    node = pytree._NODES.get(kind)
    if node is None:
        raise RuntimeError(
            f"{kind} does not have a flatten_fn_spec associated with it. Please register one with "
            f"torch.fx._pytree.register_pytree_flatten_spec. If you have serialized your model, "
            f"make sure that any custom pytrees have been registered before loading it."
        )
    return lambda tree, spec: list(node.flatten(tree)[0])


register_pytree_flatten_spec(
    dict,
    lambda tree, spec: [tree[key] for key in spec.context],  # type: ignore[attr-defined]
    lambda tree, spec: len(tree) == spec.num_children,
)
register_pytree_flatten_spec(
    list,
    lambda tree, spec: [tree[i] for i in range(spec.num_children)],
    lambda tree, spec: len(tree) == spec.num_children,
)
register_pytree_flatten_spec(
    tuple,
    lambda tree, spec: [tree[i] for i in range(spec.num_children)],
    lambda tree, spec: len(tree) == spec.num_children,
)
