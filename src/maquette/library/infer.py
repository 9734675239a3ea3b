"""Running shape rules, and remembering what they said.

`Outcome` is the answer of an operator's shape rule for one combination of metas and plain
arguments: the metas of the results and all that is needed to build them at once. Eager, meta and
fake kernels read the same cache, which is how the fake answer is the eager answer. Keys are tuples
of interned metas and small values; nothing in a key or an outcome holds a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, cast

from maquette.core.device import canonical, device
from maquette.core.device_rules import common_device
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.promotion import defaults
from maquette.core.remembered import epoch, remember
from maquette.core.scalar_types import complex32
from maquette.dispatch.abstract import TensorBase
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.generated import generate
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.schema import Argument
from maquette.library.in_blocks import takes_blocks
from maquette.symbolic.numbers import SymNumber
from maquette.tensor.keys import fake_keys_for, keys_for
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.symbolic import ShapeEnv


class DependsOnData(RuntimeError):
    """A shape rule's answer where only data could tell; it says what would have to be known.

    On fake tensors an operator tagged ``dynamic_output_shape`` then raises
    `DynamicOutputShapeException`.
    """


class Outcome:
    """The result of a shape rule: ``value`` has metas where the operator returns tensors.

    For a single tensor result ``meta`` is it, and ``keys``, ``fake_keys``, ``nbytes``, ``device``
    save their computation per call; ``byte_strides`` are what a kernel's array should have, None
    where no array of its own fits: memory begins before the first element. ``in_blocks``: whether
    a kernel on NumPy's arrays is to take them in blocks. ``differentiable``: whether it may have
    a gradient.
    """

    __slots__ = (
        "byte_strides", "device", "differentiable", "fake_keys", "in_blocks", "keys", "meta",
        "nbytes", "np", "shape", "value",
    )  # fmt: skip

    def __init__(self, value: object) -> None:
        self.value = value
        self.in_blocks = False
        if isinstance(value, TensorMeta):
            self.meta = value
            self.shape = tuple(value.shape)
            self.keys = keys_for(value)
            self.fake_keys = fake_keys_for(value)
            self.device = value.device
            self.differentiable = value.dtype.is_floating_point or value.dtype.is_complex
            # NumPy has no complex32: only fake and meta tensors have such a meta.
            self.np = None if value.dtype is complex32 else value.dtype.numpy
            self.byte_strides = None
            if value.is_symbolic:
                self.__class__ = _SymbolicOutcome
                return
            self.nbytes = value.storage_bytes
            if not _begins_later(value):  # else no array of its own fits
                step = value.itemsize if value.numel else 0  # as NumPy has it
                self.byte_strides = tuple([s * step for s in value.strides])


class _SymbolicOutcome(Outcome):
    """An outcome of symbolic sizes: its bytes, a fifth of a first call, wait to be asked for.

    Only here, as a class with ``__getattr__`` has no quick attributes in CPython 3.11.
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would take it for leave to read any name

        def __getattr__(self, name: str) -> object:
            if name != "nbytes":
                raise AttributeError(f"'Outcome' object has no attribute {name!r}")
            self.nbytes = self.meta.storage_bytes
            return self.nbytes


def _begins_later(meta: TensorMeta) -> bool:
    return meta.offset.__class__ is int and meta.offset != 0


def rule_argument(p: object) -> object:
    """What a shape rule sees of a canonical parameter: metas for tensors, the rest as it is."""
    if isinstance(p, Tensor):
        return p.meta
    if p.__class__ is device:
        return canonical(p)
    if p.__class__ is tuple and any(isinstance(i, TensorBase) for i in p):
        return tuple([i.meta if isinstance(i, Tensor) else i for i in p])
    return p


def metas_in(args: Sequence[object]) -> list[TensorMeta]:
    """All metas among a rule's arguments, lists flattened."""
    found: list[TensorMeta] = []
    for a in args:
        if isinstance(a, TensorMeta):
            found.append(a)
        elif a.__class__ is tuple:
            found += [i for i in a if isinstance(i, TensorMeta)]
    return found


def infer(op: OpOverload, params: Sequence[object]) -> Outcome:
    """Run the shape rule on the metas of ``params``; no cache is read or written."""
    rule = op.shape_rule
    if rule is None:
        raise NotImplementedError(
            f"{op.name()} has no shape rule; give it one with "
            f"maquette.library.register_fake('{op.name()}')"
        )
    args = [rule_argument(p) for p in params]
    where: device | None = None
    free = op.free_devices
    if not (free(*args) if callable(free) else free):
        metas = metas_in(args)
        where = common_device(op.name(), metas) if metas else None
    value = rule(*args)
    if where is not None and not op.is_view:
        value = _on_device(value, where)
    outcome = Outcome(value)
    outcome.in_blocks = takes_blocks(op, args, value)
    return outcome


def _on_device(value: object, where: device) -> object:
    """A 0-dim cpu operand never decides the device of a result (F49)."""
    if isinstance(value, TensorMeta):
        return value if value.device is where else value.with_device(where)
    if isinstance(value, (tuple, list)):
        return type(value)([_on_device(v, where) for v in value])
    return value


def key_source(op: OpOverload, *, symbolic: bool = False, usual: str = "") -> str:
    """The source of the cache key over parameters named ``p0, p1, ...``.

    symbolic: sizes among the arguments may be symbols, which only their nodes hash for. usual: the
    name of the class that most tensors are of, where numbers pass for tensors: told at once.
    """
    parts = ["_defaults['float']"]
    for i, argument in enumerate(op._schema.arguments):
        found = _key_parts(f"p{i}", argument, op.takes_numbers, usual)
        if symbolic and _may_be_symbolic(argument):
            found[0] = f"_hashable({found[0]})"
        parts += found
    return f"({', '.join(parts)},)"


def key_of(op: OpOverload, params: Sequence[object]) -> Hashable:
    """The cache key of a call, in plain Python: what generated code over `key_source` computes.

    For who asks seldom: a function made for it costs as much as twenty calls of this one.
    """
    parts: list[object] = [defaults["float"]]
    for part, p in zip(_parts_of(op), params):
        parts += part(p)
    return tuple(parts)


_Part = Callable[[Any], tuple[object, ...]]  # of a parameter, in the form of kernels


def _parts_of(op: OpOverload) -> list[_Part]:
    """For each parameter what it adds to the cache key: `_key_parts` as functions."""
    memo = op._schema.memo
    parts = memo.get("key parts")
    if parts is None:
        parts = memo["key parts"] = [_part_of(a, op.takes_numbers) for a in op._schema.arguments]
    return cast("list[_Part]", parts)


def _part_of(argument: Argument, takes_numbers: bool) -> _Part:
    type_ = argument.type
    inner = type_.elem if type_.is_optional else type_
    if inner.kind == "list":
        return {"tensor": _metas_part, "scalar": _classes_part}.get(inner.base.kind, _value_part)
    if inner.kind == "tensor" and takes_numbers and not type_.is_optional:
        return _operand_part
    parts = {"generator": _no_part, "tensor": _meta_part, "scalar": _class_part}
    return parts.get(inner.kind, _value_part)


def _value_part(p: object) -> tuple[object, ...]:
    return (p,)


def _no_part(p: object) -> tuple[object, ...]:
    return ()


def _meta_part(p: Tensor | None) -> tuple[object, ...]:
    return (None if p is None else p.meta,)


def _operand_part(p: Tensor | complex) -> tuple[object, ...]:
    if p.__class__ not in NUMBERS:
        return (cast(Tensor, p).meta,)
    return (p if p.__class__ is int and not -(2**63) <= p < 2**64 else p.__class__,)


def _class_part(p: object) -> tuple[object, ...]:
    return p, p.__class__


def _metas_part(p: tuple[Tensor | None, ...] | None) -> tuple[object, ...]:
    return (None if p is None else tuple([None if t is None else t.meta for t in p]),)


def _classes_part(p: tuple[object, ...] | None) -> tuple[object, ...]:
    return p, None if p is None else tuple([n.__class__ for n in p])


def _may_be_symbolic(argument: Argument) -> bool:
    written = argument.type.written
    return written.startswith(("SymInt", "Scalar", "SymFloat", "SymBool"))


def hashable(value: object) -> object:
    """A plain argument with the nodes of symbolic numbers in their place: those are interned."""
    if value.__class__ is tuple:
        items = cast(tuple[object, ...], value)
        return tuple([i.node if isinstance(i, SymNumber) else i for i in items])
    return value.node if isinstance(value, SymNumber) else value


def _key_parts(name: str, argument: Argument, takes_numbers: bool, usual: str = "") -> list[str]:
    type_ = argument.type
    optional = type_.is_optional
    base = type_.elem if optional else type_
    if base is None or base.kind == "generator":
        return []
    if base.is_list:
        elem = base.elem
        inner = elem.elem if elem is not None and elem.is_optional else elem
        if inner is not None and inner.kind == "tensor":
            one = "None if _t is None else _t.meta" if elem is not inner else "_t.meta"
            listed = f"tuple([{one} for _t in {name}])"
            return [f"None if {name} is None else {listed}" if optional else listed]
        if inner is not None and inner.kind == "scalar":
            return [name, f"None if {name} is None else tuple([_t.__class__ for _t in {name}])"]
        return [name]
    if base.kind == "tensor":
        if optional:
            return [f"None if {name} is None else {name}.meta"]
        if takes_numbers:
            # An int of more than 64 bits is named, as rules may refuse it. No tensor asks for that.
            number = f"{name}.__class__ if {name}.__class__ is not int or -2**63 <= {name} < 2**64"
            key = f"({number} else {name}) if {name}.__class__ in _NUMBERS else {name}.meta"
            return [f"{name}.meta if {name}.__class__ is {usual} else {key}" if usual else key]
        return [f"{name}.meta"]
    if base.kind == "scalar":
        return [name, f"{name}.__class__"]
    return [name]


def key_function(op: OpOverload, *, symbolic: bool = False) -> Callable[..., object]:
    """The function of all parameters that gives the cache key."""
    names = ", ".join(f"p{i}" for i in range(len(op._schema.arguments)))
    source = f"def _key({names}):\n    return {key_source(op, symbolic=symbolic)}\n"
    found = _KEY_FUNCTIONS.get(source)
    if found is None:
        space: dict[str, object] = {"_NUMBERS": NUMBERS, "_hashable": hashable}
        found = generate(source, "_key", "key", space | {"_defaults": defaults})
        remember(_KEY_FUNCTIONS, source, found, epoch())
    return found


_KEY_FUNCTIONS: dict[str, Callable[..., object]] = {}  # by their source: operators share them


def known(op: OpOverload, params: Sequence[object]) -> Outcome | None:
    """The outcome for ``params`` if the cache has it; nothing is inferred."""
    env = shape_env_of(params)
    try:
        if env is not None:
            key = (op.shape_rule, op, key_function(op, symbolic=True)(*params))
            found = env.fake_tensor_cache.get(key)
        else:
            found = op.infer_cache.get(key_of(op, params))
    except TypeError:
        return None
    return found if isinstance(found, Outcome) else None


_WITHOUT_SYMBOLS = frozenset((int, float, bool, str, type(None)))


def shape_env_of(params: Sequence[object]) -> ShapeEnv | None:
    """The environment of the symbols in tensors and sizes among parameters, if there are any."""
    for p in params:
        if p.__class__ in _WITHOUT_SYMBOLS:
            continue
        if isinstance(p, Tensor):
            if p.meta.is_symbolic:
                return shape_env_of((*p.meta.shape, *p.meta.strides, p.meta.offset))
        elif isinstance(p, SymNumber):
            return p.node.shape_env
        elif p.__class__ is tuple:
            found = shape_env_of(cast(tuple[object, ...], p))
            if found is not None:
                return found
    return None


def _lookup_symbolic(op: OpOverload, params: Sequence[object], env: ShapeEnv) -> Outcome:
    """`lookup` where sizes are symbolic: the environment remembers, so that nothing outlives it.

    Not remembered is what made fresh symbols, and what was answered while guards were suppressed.
    """
    make_key = op.__dict__.get("_symbolic_key_function")
    if make_key is None:
        make_key = op.__dict__["_symbolic_key_function"] = key_function(op, symbolic=True)
    try:
        key = (op.shape_rule, op, make_key(*params))
        found = env.fake_tensor_cache.get(key)
    except TypeError:  # something unhashable: a generator object, a script object
        return infer(op, params)
    if found is None:
        made = env.symbols_made
        found = infer(op, params)
        if env.symbols_made == made and not env.suppressed and not env.frozen:
            env.remember_outcome(key, found)
    assert isinstance(found, Outcome)
    return found


def lookup(op: OpOverload, params: Sequence[object]) -> Outcome:
    """The outcome for ``params``, from the cache where it is known: the plain, slow form."""
    env = shape_env_of(params)
    if env is not None:
        return _lookup_symbolic(op, params, env)
    try:
        key = key_of(op, params)
        found = op.infer_cache.get(key)
    except TypeError:  # something unhashable: a generator object, a script object
        return infer(op, params)
    if isinstance(found, Outcome):
        return found
    check(found is None, lambda: f"{op.name()}: foreign entry in the shape cache")
    since = epoch()
    outcome = infer(op, params)
    remember(op.infer_cache, key, outcome, since)
    return outcome
