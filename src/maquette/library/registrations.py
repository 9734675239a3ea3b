"""What libraries have registered: kernels by operator name and key, waiting ones included.

A kernel may be registered before its operator is defined and outlives a redefinition (L16), so the
table here is kept by qualified name; `define` hands an operator the kernels that wait for it. The
one idea: every registration returns the call that undoes it, and a library is a list of such calls.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence

from maquette.dispatch.facts import OperatorFacts
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import LOCK, OpOverload
from maquette.dispatch.registry import define_overload, find_packet, remove_overload
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.dispatch.tags import Tag

Undo = Callable[[], None]
# Keys at which a newer registration replaces an older one without a word (L21, L86).
_SILENT = frozenset(("Meta", "Fake", "Autograd", "BackendSelect", "AutocastCPU", "AutocastCUDA"))


class Registration:
    """One live kernel of a library; ``detach`` withdraws it from the operator it is attached to."""

    __slots__ = ("detach", "kernel", "key", "namespace")

    def __init__(
        self, key: DispatchKey, kernel: Kernel, namespace: str, detach: Undo | None = None
    ) -> None:
        self.key = key
        self.kernel = kernel
        self.namespace = namespace
        self.detach = detach


_REGISTRATIONS: dict[str, list[Registration]] = {}
_WARNED: set[tuple[str, DispatchKey]] = set()


def find_overload(qualname: str) -> OpOverload | None:
    """The overload called ``ns::name`` or ``ns::name.overload``, if it is defined."""
    base, _, overload = qualname.partition(".")
    packet = find_packet(base)
    return None if packet is None else packet.find(overload)


def check_text(schema: object) -> None:
    """TypeError for a schema that is no text."""
    if not isinstance(schema, str):
        raise TypeError(
            f"expected the text of a schema, such as '(Tensor x) -> Tensor', got a "
            f"{type(schema).__name__}: {schema!r}"
        )


def canonical_name(qualname: str) -> str:
    """The name under which an overload is registered: without ``.default``."""
    return qualname.removesuffix(".default")


def define(schema_text: str, tags: Sequence[Tag], place: str) -> tuple[OpOverload, Undo]:
    """Define one overload, with its namespace, and give it the kernels that wait for it.

    RuntimeError for a type that there is not: a library's operators have no type variables.
    """
    schema = parse_schema(schema_text, allow_typevars=False)
    check_tags(schema, tags)
    with LOCK:
        op = define_overload(schema_text, tags, place, in_python=True)
        for registration in _REGISTRATIONS.get(op.name(), ()):
            registration.detach = op.register(registration.key, registration.kernel)

    def undo() -> None:
        with LOCK:
            for registration in _REGISTRATIONS.get(op.name(), ()):
                registration.detach = None
            _WARNED.difference_update([w for w in _WARNED if w[0] == op.name()])
            remove_overload(op)

    return op, undo


def register(
    qualname: str, key: DispatchKey, kernel: Kernel, namespace: str, *, allow_override: bool = True
) -> Undo:
    """Register a kernel for the overload ``qualname``, which need not exist yet.

    namespace: that of the library, for errors. Raises RuntimeError where ``allow_override`` is
    False and a library holds a kernel at this key.
    """
    with LOCK:
        held = [r for r in _REGISTRATIONS.get(qualname, ()) if r.key is key]
        op = find_overload(qualname)
        if held and not allow_override:
            raise RuntimeError(
                f"{qualname} has a kernel at {key.name} already, from {held[-1].kernel.place} "
                f"(library {held[-1].namespace}); the one at {kernel.place} (library {namespace}) "
                f"was registered with allow_override=False"
            )
        _warn_override(qualname, key, kernel, op)
        registration = Registration(key, kernel, namespace)
        _REGISTRATIONS.setdefault(qualname, []).append(registration)
        if op is not None:
            registration.detach = op.register(key, kernel)

    def undo() -> None:
        with LOCK:
            left = _REGISTRATIONS.get(qualname, [])
            if registration in left:
                left.remove(registration)
            if not left:
                _REGISTRATIONS.pop(qualname, None)
            if registration.detach is not None:
                registration.detach()

    return undo


def check_free(qualname: str, key: DispatchKey, namespace: str) -> None:
    """RuntimeError where a library holds a kernel of an operator at a key."""
    held = [r for r in _REGISTRATIONS.get(qualname, ()) if r.key is key]
    if held:
        raise RuntimeError(
            f"{qualname} has a kernel at {key.name} already, from {held[-1].kernel.place} (library "
            f"{held[-1].namespace}); one of the library {namespace} cannot be compiled for it"
        )


def _warn_override(qualname: str, key: DispatchKey, kernel: Kernel, op: OpOverload | None) -> None:
    stack = None if op is None else op._kernels.get(key)
    if not stack or key.name in _SILENT or (qualname, key) in _WARNED:
        return
    if stack[-1].python is None and op is not None and op.array_kernel is None:
        return  # a shape rule's, which waits for a kernel
    _WARNED.add((qualname, key))
    warn_at(
        kernel.place,
        f"{qualname}: the kernel at {key.name} from {stack[-1].place or 'its page'} is overridden "
        f"by the one from {kernel.place}, until that is withdrawn",
    )


def warn_at(place: str, message: str) -> None:
    """Warn of what was registered at ``place``, ``file:line``."""
    file, _, line = place.rpartition(":")
    warnings.warn_explicit(message, UserWarning, file, int(line))


# --- facts of an operator's page ---------------------------------------------------------------

_FACTS: weakref.WeakKeyDictionary[OperatorFacts, dict[str, list[list[object]]]] = (
    weakref.WeakKeyDictionary()
)


def set_fact(op: OpOverload, name: str, value: object) -> Undo:
    """Set one of an operator's facts, such as its cost; undone, the former value is back.

    Undoing in any order leaves the newest of the remaining values.
    """
    entry = [value]
    facts = op.facts
    with LOCK:
        stack = _FACTS.setdefault(facts, {}).setdefault(name, [[getattr(facts, name)]])
        stack.append(entry)
        setattr(facts, name, value)
        facts.changed()

    def undo() -> None:
        with LOCK:
            stack[:] = [e for e in stack if e is not entry]
            setattr(facts, name, stack[-1][0])
            facts.changed()

    return undo


# --- tags that say something of the schema ---------------------------------------------------


def check_tags(schema: FunctionSchema, tags: Sequence[Tag]) -> None:
    """Refuse a schema that is not what its tags `out` and `inplace` promise (L14, L15)."""
    if Tag.out in tags and Tag.inplace in tags:
        raise ValueError(f"an operator is tagged either out or inplace, not both: {schema}")
    if Tag.out in tags:
        _check_out(schema)
    if Tag.inplace in tags:
        _check_inplace(schema)


def _check_out(schema: FunctionSchema) -> None:
    written = [a for a in schema.arguments if a.is_write]
    if not written:
        raise ValueError(f"Tag.out: expected a mutable keyword-only Tensor argument in {schema}")
    for argument in written:
        if not argument.kwarg_only or argument.type.kind != "tensor":
            raise ValueError(
                f"Tag.out: the mutable argument '{argument.name}' must be a keyword-only plain "
                f"Tensor in {schema}"
            )
    if len(schema.returns) != len(written):
        raise ValueError(
            f"Tag.out: expected one return for each mutable argument "
            f"({', '.join(a.name for a in written)}), got {len(schema.returns)} in {schema}"
        )
    for argument, returned in zip(written, schema.returns, strict=True):
        _check_same_alias("Tag.out", schema, argument, returned)


def _check_inplace(schema: FunctionSchema) -> None:
    first = schema.arguments[0] if schema.arguments else None
    if first is None or first.kwarg_only or first.type.kind != "tensor" or not first.is_write:
        raise ValueError(
            f"Tag.inplace: the first argument must be positional and of type Tensor(a!) in {schema}"
        )
    for other in schema.arguments[1:]:
        if other.is_write:
            raise ValueError(
                f"Tag.inplace: only '{first.name}' may be mutable, but '{other.name}' is in "
                f"{schema}"
            )
    if len(schema.returns) != 1:
        raise ValueError(
            f"Tag.inplace: expected one return, the argument '{first.name}', in {schema}"
        )
    _check_same_alias("Tag.inplace", schema, first, schema.returns[0])


def _check_same_alias(
    tag: str, schema: FunctionSchema, argument: Argument, returned: Argument
) -> None:
    if returned.type.kind != "tensor" or returned.alias_info != argument.alias_info:
        raise ValueError(
            f"{tag}: the return for the argument '{argument.name}' must be its writable alias, "
            f"{str(argument).partition(' ')[0]}, but is {returned} in {schema}"
        )
