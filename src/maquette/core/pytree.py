"""Pytrees: nested containers as a list of leaves and a description of the nesting.

tuple, list, dict (in insertion order), OrderedDict, defaultdict, deque, `Size` and named tuples are
nodes, and so are classes that a user registers; everything else is a leaf, None too. One registry
serves every package: what is registered is seen by operators, transforms and graphs alike. Paths to
leaves (`tree_flatten_with_path`) name each step by a key that prints as Python would index.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias, cast

from maquette.core.size import Size

Tree: TypeAlias = object
IsLeaf: TypeAlias = Callable[[Tree], bool] | None
Context: TypeAlias = object
Path: TypeAlias = tuple["Key", ...]


# --- keys ----------------------------------------------------------------------------


class SequenceKey(NamedTuple):
    """A step into a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Tree]) -> Tree:
        """The child."""
        return sequence[self.idx]


class MappingKey(NamedTuple):
    """A step into a dict."""

    key: object

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: dict[object, Tree]) -> Tree:
        """The child."""
        return mapping[self.key]


class GetAttrKey(NamedTuple):
    """A step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, owner: object) -> Tree:
        """The child."""
        child: Tree = getattr(owner, self.name)
        return child


Key: TypeAlias = SequenceKey | MappingKey | GetAttrKey
FlattenWithKeys: TypeAlias = Callable[[Tree], tuple[Iterable[tuple[Key, Tree]], Context]]


def keystr(path: Iterable[Key]) -> str:
    """A path as Python would write it: ``['a'][0].weight``."""
    return "".join(map(str, path))


def key_get(tree: Tree, path: Iterable[Key]) -> Tree:
    """The part of a tree at a path."""
    for key in path:
        tree = cast(GetAttrKey, key).get(tree)
    return tree


# --- kinds of nodes ------------------------------------------------------------------


class NodeDef(NamedTuple):
    """How containers of one type come apart and are put together."""

    flatten: Callable[[Tree], tuple[Iterable[Tree], Context]]
    unflatten: Callable[[Iterable[Tree], Context], Tree]
    keys: Callable[[Tree, Context], Sequence[Key]] | None

    def flatten_fn(self, tree: Tree) -> tuple[list[Tree], Context]:
        """The children in a list, and the context, by PyTorch's name."""
        children, context = self.flatten(tree)
        return list(children), context

    def unflatten_fn(self, children: Iterable[Tree], context: Context) -> Tree:
        """The container put together, by PyTorch's name."""
        return self.unflatten(children, context)


def _positions(container: Tree, context: Context) -> list[Key]:
    return [SequenceKey(i) for i in range(len(cast("Sequence[Tree]", container)))]


def _names(container: Tree, context: Context) -> list[Key]:
    return [MappingKey(name) for name in cast("dict[object, Tree]", container)]


def _fields(container: Tree, context: Context) -> list[Key]:
    return [GetAttrKey(name) for name in context._fields]  # type: ignore[attr-defined]  # a class


def _flatten_dict(mapping: Tree) -> tuple[Iterable[Tree], Context]:
    known = cast("dict[object, Tree]", mapping)
    return known.values(), list(known)


def _flatten_default(mapping: Tree) -> tuple[Iterable[Tree], Context]:
    known = cast("defaultdict[object, Tree]", mapping)
    return known.values(), [known.default_factory, list(known)]


def _unflatten_default(children: Iterable[Tree], context: Context) -> Tree:
    factory, names = cast("tuple[Callable[[], object] | None, list[object]]", context)
    return defaultdict(factory, zip(names, children))


def _flatten_deque(sequence: Tree) -> tuple[Iterable[Tree], Context]:
    known = cast("deque[Tree]", sequence)
    return known, known.maxlen


_NODES: dict[type, NodeDef] = {
    tuple: NodeDef(lambda t: (t, None), lambda c, _: tuple(c), _positions),  # type: ignore[arg-type, return-value]  # a tuple
    list: NodeDef(lambda t: (t, None), lambda c, _: list(c), _positions),  # type: ignore[arg-type, return-value]  # a list
    dict: NodeDef(
        _flatten_dict,
        lambda children, names: dict(zip(cast("list[object]", names), children)),
        _names,
    ),
    OrderedDict: NodeDef(
        _flatten_dict,
        lambda children, names: OrderedDict(zip(cast("list[object]", names), children)),
        _names,
    ),
    defaultdict: NodeDef(_flatten_default, _unflatten_default, _names),
    # Its items come back as a plain tuple: what they are mapped to need not be sizes.
    Size: NodeDef(lambda t: (t, None), lambda c, _: tuple(c), _positions),  # type: ignore[arg-type, return-value]  # a tuple
    deque: NodeDef(
        _flatten_deque,
        lambda children, length: deque(children, maxlen=cast("int | None", length)),
        _positions,
    ),
}


class AsText(NamedTuple):
    """How specs of a registered class are written: its name, its contexts as JSON and back."""

    name: str
    to_dumpable_context: Callable[[Context], object] | None
    from_dumpable_context: Callable[[object], Context] | None


AS_TEXT: dict[type, AsText] = {}
_NAMED_TUPLE = NodeDef(
    lambda t: (t, type(t)),  # type: ignore[arg-type, return-value]  # a tuple
    lambda children, kind: kind(*children),  # type: ignore[operator]  # a class
    _fields,
)


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Tree], tuple[Iterable[Tree], Context]],
    unflatten_fn: Callable[[Iterable[Tree], Context], Tree],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], object] | None = None,
    from_dumpable_context: Callable[[object], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeys | None = None,
) -> None:
    """Make a class a node: ``flatten_fn`` gives children and a context that can be compared.

    ``flatten_with_keys_fn`` gives (key, child) pairs, for paths. The rest says how specs of the
    class are written as text. ValueError for a class that is a node already, or for one of the two
    functions of contexts without the other.
    """
    if cls in _NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            f"registered."
        )
    if serialized_type_name is not None:
        AS_TEXT[cls] = AsText(serialized_type_name, to_dumpable_context, from_dumpable_context)
    keys = None
    if flatten_with_keys_fn is not None:
        with_keys = flatten_with_keys_fn
        keys = lambda tree, _: [key for key, _child in with_keys(tree)[0]]  # noqa: E731
    _NODES[cls] = NodeDef(flatten_fn, unflatten_fn, keys)


def deregister_pytree_node(cls: type) -> None:
    """Make a registered class a leaf again; KeyError if it is not registered."""
    del _NODES[cls]
    AS_TEXT.pop(cls, None)


def is_pytree_class(cls: type) -> bool:
    """Whether objects of a class are containers here: built in, or registered."""
    return cls in _NODES


def is_namedtuple_class(cls: type) -> bool:
    """Whether a class was made by `collections.namedtuple` or `typing.NamedTuple`."""
    if not isinstance(cls, type) or not issubclass(cls, tuple):
        return False
    return isinstance(getattr(cls, "_fields", None), tuple)


def _node_of(tree: Tree, is_leaf: IsLeaf) -> NodeDef | None:
    if is_leaf is not None and is_leaf(tree):
        return None
    found = _NODES.get(type(tree))
    if found is None and isinstance(tree, tuple) and is_namedtuple_class(type(tree)):
        return _NAMED_TUPLE
    return found


# --- structure -----------------------------------------------------------------------


_Kind = type | None
_NAMED: object = namedtuple


class TreeSpec:
    """The nesting of a tree: type and context of a node, and the specs of its children.

    A leaf has the type None. Equal nestings are equal; `unflatten` fills one with leaves.
    """

    __slots__ = ("_children", "_is_flat", "context", "num_leaves", "type")

    def __init__(
        self, type: type | None, context: Context = None, children: Sequence[TreeSpec] = ()
    ) -> None:
        # PyTorch's specs of named tuples say so, and the class is the context.
        self.type: _Kind = cast(_Kind, context) if type is _NAMED else type
        self.context = context
        self._children = tuple(children)
        self.num_leaves: int = 1 if type is None else sum([c.num_leaves for c in self._children])
        self._is_flat = type is not None and all(c.type is None for c in self._children)

    @property
    def num_children(self) -> int:
        """Children of the root."""
        return len(self._children)

    @property
    def num_nodes(self) -> int:
        """Nodes, leaves included."""
        return 1 + sum(child.num_nodes for child in self._children)

    def is_leaf(self) -> bool:
        """Whether this is a single leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """The specs of the root's children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """The spec of one child."""
        return self._children[index]

    def unflatten(self, leaves: Iterable[Tree]) -> Tree:
        """The tree of this nesting with these leaves; ValueError if there are not as many."""
        given = leaves if isinstance(leaves, list | tuple) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"expected {self.num_leaves} leaves for {self}, got {len(given)}: {given!r}"
            )
        if self._is_flat:  # as most are: 0.6 us less than by `_fill` (timeit, CPython 3.11)
            node = _NODES.get(cast(type, self.type), _NAMED_TUPLE)
            return node.unflatten(list(given), self.context)
        return given[0] if self.type is None else self._fill(iter(given))

    def _fill(self, leaves: Iterator[Tree]) -> Tree:
        if self.type is None:
            return next(leaves)
        node = _NODES.get(self.type, _NAMED_TUPLE)
        return node.unflatten([child._fill(leaves) for child in self._children], self.context)

    def flatten_up_to(self, tree: Tree) -> list[Tree]:
        """The parts of ``tree`` where this nesting has its leaves; ValueError if it differs."""
        parts: list[Tree] = []
        self._match(tree, parts)
        return parts

    def _match(self, tree: Tree, parts: list[Tree]) -> None:
        if self.type is None:
            parts.append(tree)
            return
        node = _node_of(tree, None)
        if node is None or type(tree) is not self.type:
            raise ValueError(f"expected a {self.type.__name__} as in {self}, got {tree!r}")
        children, context = node.flatten(tree)
        children = list(children)
        if len(children) != len(self._children) or context != self.context:
            children = _same_keys(self, tree)
        for spec, child in zip(self._children, children):
            spec._match(child, parts)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self.type is other.type
            and self.context == other.context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        return hash((self.type, self.num_leaves, self._children))

    def __repr__(self, indent: int = 0) -> str:
        # As PyTorch prints it: a child a line, after the first.
        if self.type is None:
            return "*"
        inside = (",\n" + " " * (indent + 2)).join(c.__repr__(indent + 2) for c in self._children)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inside}])"


def _same_keys(spec: TreeSpec, tree: Tree) -> list[Tree]:
    """The children of a dict in the order of ``spec``, which has the same keys in another order."""
    names = spec.context
    if isinstance(tree, dict) and isinstance(names, list) and set(names) == set(tree):
        return [tree[name] for name in names]
    raise ValueError(f"expected the nesting {spec}, got {tree!r}")


def LeafSpec() -> TreeSpec:
    """The spec of a leaf."""
    return _LEAF


_LEAF = TreeSpec(None)
_FLAT: dict[tuple[type, int], TreeSpec] = {}  # the nestings of tuples and lists of leaves
_MOST_FLAT = 64


# --- functions -----------------------------------------------------------------------


def tree_flatten(tree: Tree, is_leaf: IsLeaf = None) -> tuple[list[Tree], TreeSpec]:
    """The leaves in order, and the nesting; ``is_leaf`` may call more things leaves."""
    leaves: list[Tree] = []
    return leaves, _flatten_into(tree, is_leaf, leaves)


def _flatten_into(tree: Tree, is_leaf: IsLeaf, leaves: list[Tree]) -> TreeSpec:
    node = _node_of(tree, is_leaf)
    if node is None:
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten(tree)
    if is_leaf is not None:
        specs = [_flatten_into(child, is_leaf, leaves) for child in children]
        return TreeSpec(type(tree), context, specs)
    # Leaves without a call: half of the time that flattening arguments takes (timeit).
    specs, is_flat = [], context is None
    for child in children:
        if type(child) in _NODES or isinstance(child, tuple):
            specs.append(_flatten_into(child, None, leaves))
            is_flat = False
        else:
            leaves.append(child)
            specs.append(_LEAF)
    if not is_flat:
        return TreeSpec(type(tree), context, specs)
    key = type(tree), len(specs)
    found = _FLAT.get(key)
    if found is None:
        found = TreeSpec(type(tree), None, specs)
        if len(specs) < _MOST_FLAT and key[0] in (tuple, list):
            _FLAT[key] = found
    return found


def tree_unflatten(leaves: Iterable[Tree], treespec: TreeSpec) -> Tree:
    """The tree of this nesting with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            f"tree_unflatten(leaves, treespec): expected a TreeSpec as the second argument, got "
            f"{type(treespec).__name__}"
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Tree, is_leaf: IsLeaf = None) -> Iterator[Tree]:
    """The leaves, one by one."""
    node = _node_of(tree, is_leaf)
    if node is None:
        yield tree
        return
    for child in node.flatten(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Tree, is_leaf: IsLeaf = None) -> list[Tree]:
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Tree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The nesting."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Tree], tree: Tree, *rests: Tree, is_leaf: IsLeaf = None) -> Tree:
    """``func`` of every leaf (and of the parts of ``rests`` in the same places), nested alike."""
    leaves, spec = tree_flatten(tree, is_leaf)
    if not rests:
        return spec.unflatten(list(map(func, leaves)))
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*each) for each in zip(leaves, *others)])


def tree_map_(
    func: Callable[..., object], tree: Tree, *rests: Tree, is_leaf: IsLeaf = None
) -> Tree:
    """Call ``func`` on every leaf, and give back the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    for each in zip(leaves, *others):
        func(*each)
    return tree


Chosen: TypeAlias = type | tuple[type, ...] | Callable[[Tree], bool]


def _chooser(which: Chosen) -> Callable[[Tree], bool]:
    if isinstance(which, type | tuple):
        return lambda leaf: isinstance(leaf, which)
    return which


def tree_map_only(
    type_or_types_or_pred: Chosen,
    func: Callable[[Tree], Tree],
    tree: Tree,
    is_leaf: IsLeaf = None,
) -> Tree:
    """``func`` of the leaves of a type (or several, or that a predicate chooses); others stay."""
    chosen = _chooser(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Chosen,
    func: Callable[[Tree], object],
    tree: Tree,
    is_leaf: IsLeaf = None,
) -> Tree:
    """Call ``func`` on the chosen leaves, and give back the tree itself."""
    chosen = _chooser(type_or_types_or_pred)
    return tree_map_(lambda leaf: func(leaf) if chosen(leaf) else None, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Tree], bool], tree: Tree, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf passes."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Tree], bool], tree: Tree, is_leaf: IsLeaf = None) -> bool:
    """Whether some leaf passes."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Chosen, pred: Callable[[Tree], bool], tree: Tree, is_leaf: IsLeaf = None
) -> bool:
    """Whether every leaf of a type passes."""
    chosen = _chooser(type_or_types)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


def tree_any_only(
    type_or_types: Chosen, pred: Callable[[Tree], bool], tree: Tree, is_leaf: IsLeaf = None
) -> bool:
    """Whether some leaf of a type passes."""
    chosen = _chooser(type_or_types)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if chosen(leaf))


def broadcast_to_and_flatten(
    tree: Tree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Tree] | None:
    """The leaves of ``tree`` stretched over a nesting: a leaf serves a whole branch.

    None where ``tree`` is not a prefix of the nesting.
    """
    node = _node_of(tree, is_leaf)
    if node is None:
        return [tree] * treespec.num_leaves
    children, context = node.flatten(tree)
    children = list(children)
    same = type(tree) is treespec.type and context == treespec.context
    if not same or len(children) != treespec.num_children:
        return None
    flat: list[Tree] = []
    for child, spec in zip(children, treespec.children()):
        part = broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        flat += part
    return flat


# --- with paths ----------------------------------------------------------------------


def tree_flatten_with_path(
    tree: Tree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[Path, Tree]], TreeSpec]:
    """(path, leaf) pairs, and the nesting."""
    return list(_walk((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Tree, is_leaf: IsLeaf = None) -> list[tuple[Path, Tree]]:
    """(path, leaf) pairs."""
    return list(_walk((), tree, is_leaf))


def _walk(path: Path, tree: Tree, is_leaf: IsLeaf) -> Iterator[tuple[Path, Tree]]:
    node = _node_of(tree, is_leaf)
    if node is None:
        yield path, tree
        return
    children, context = node.flatten(tree)
    if node.keys is None:
        raise ValueError(f"{type(tree)} has no key paths: register it with flatten_with_keys_fn")
    for key, child in zip(node.keys(tree, context), children):
        yield from _walk((*path, key), child, is_leaf)


def tree_map_with_path(
    func: Callable[..., Tree], tree: Tree, *rests: Tree, is_leaf: IsLeaf = None
) -> Tree:
    """``func(path, leaf, ...)`` of every leaf, nested alike."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*pair, *rest) for pair, *rest in zip(pairs, *others)])
