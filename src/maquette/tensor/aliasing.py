"""The kernel at ADInplaceOrView: views are linked to their base, writes are counted.

Both facts are read off the schema, so they hold for every operator, a user's too. Below this key
nothing knows of versions or bases. Also here: the choice of a backend for operators that take a
``device`` (BackendSelect).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import cast
from weakref import WeakKeyDictionary

import numpy as np

from maquette.core.device import canonical, device
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.generated import Text, generate
from maquette.dispatch.guards import AutoDispatchBelowADInplaceOrView
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import PYTHON
from maquette.dispatch.operator import OpOverload, fall_through, set_fallback
from maquette.dispatch.packet import load_late
from maquette.dispatch.tls import DispatchState, tls
from maquette.tensor.history import VersionCounter, ViewHistory, ViewVersion
from maquette.tensor.keys import ADINPLACE, FAMILY, keys_for_device
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import make_view, own_memory, up_to_date

BELOW = ~ADINPLACE
Function = Callable[..., object]


def alias_kernel(op: OpOverload, ks: int) -> Callable[..., object] | None:
    """The kernel at ADInplaceOrView: None (fall through) for operators without aliases."""
    arguments = op._schema.arguments
    written = [i for i, a in enumerate(arguments) if a.is_write]
    if written:
        return _writing(op, ks, written)
    silent = [i for i, a in enumerate(arguments) if a.name in op.facts.undeclared_writes]
    if silent:
        return _writing_in_silence(op, ks, silent)
    sources = [i for i, a in enumerate(arguments) if a.alias_info is not None]
    if len(sources) == 1:
        return _viewing(op, ks, sources[0], base=op.facts.links_views)
    return None


def _viewing(op: OpOverload, ks: int, source: int, *, base: bool) -> Callable[..., object]:
    if op._schema.returns[0].type.written == "Tensor" and len(op._schema.returns) == 1:
        return _generated_viewing(op, ks, source, base=base)
    low = ks & BELOW
    below = op.resolved(low)

    def kernel(ks: int, *params: object) -> object:
        result = below(low, *params)
        origin = params[source]
        if result.__class__ is list or result.__class__ is tuple:
            _link_all(result, origin, base=base)
        else:
            _link(result, origin, base)
        return result

    if base and not op.facts.other_values:
        VIEWING[kernel] = below, source
    return kernel


def _generated_viewing(
    op: OpOverload, ks: int, source: int, *, base: bool
) -> Callable[..., object]:
    """`_viewing` for one tensor, written out: 0.5 us of 1.6 us a view less (make bench).

    The kernel below is looked up once: registration forgets it and this kernel together.
    """
    ks &= BELOW
    count = len(op._schema.arguments)
    remembered = op._opname if op.facts.other_values else ""
    facts = (count, ks, source, base, remembered)
    text = Text(facts, lambda: _viewing_source(*facts))
    space: dict[str, object] = {
        "_below": op.resolved(ks),
        "_Counter": VersionCounter,
        "_counts": ADINPLACE,
        "_in_no_grad": _SHARED["NO_GRAD_MODE"],
        "_of_written": _SHARED[""],
        "_req": K.REQUIRES_GRAD,
        "_link_wrapper": _link_wrapper,
        "_new": object.__new__,
        "_remember": _remember,
        "_tls": tls,
    }
    kernel = generate(text, "_kernel", "view", space)
    if base and not op.facts.other_values:
        VIEWING[kernel] = op.resolved(ks), source
    return kernel


def _viewing_source(count: int, ks: int, source: int, base: bool, remembered: str) -> str:
    """Of a kernel of ``count`` parameters, the origin at ``source``, over the one at ``ks``.

    remembered: the operator's name where a view always remembers how it was made.
    """
    params = ", ".join(f"p{i}" for i in range(count))
    origin = f"p{source}"
    lines = [
        f"def _kernel(_ks, {params}):",
        f"    _r = _below({ks}, {params})",
        "    try:",
        f"        if _r is {origin}:",
        "            return _r",
        f"        if _r._storage is not {origin}._storage:",
        f"            _link_wrapper(_r, {origin}, {base})",
        "            return _r",
        "    except AttributeError:",
        "        return _r",
        f"    _vc = {origin}._vc",
        "    if _vc is None:",
        f"        if not {origin}._keys & _counts:",
        "            return _r",
        f"        _vc = {origin}._vc = _new(_Counter)",  # `_version_counter`, written out
        "        _vc._converted = None",
        "        _vc.value = 0",
        "    _r._vc = _vc",
    ]
    if base:
        lines += [
            f"    _base = {origin}._base",
            "    if _base is None:",
            f"        _r._base = {origin}",
            f"        {origin}._viewed = True",
            "    else:",
            "        _r._base = _base",
        ]
        if remembered:
            lines += [
                f"    _inherits = {origin}._ag is not None and {origin}._ag.creation_meta",
                f"    _remember(_r, {origin}, '' if _base is not None and _inherits "
                f"else '{remembered}')",
            ]
        else:
            # `_remember`, written out for the common cases: backward makes many views.
            lines += [
                "    _st = _tls.st",
                "    if _st.grad_enabled:",
                f"        if _base is not None and {origin}._ag and {origin}._ag.creation_meta:",
                f"            _remember(_r, {origin}, '')",
                "        elif _vc.value and _r._ag is None:",
                "            _r._ag = _of_written[_vc.value]",
                "    elif _st.inference:",
                f"        _remember(_r, {origin}, '')",
                "    else:",
                "        if _r._base._keys & _req:",
                "            _r._keys |= _req",
                "        if _r._ag is None:",
                "            _r._ag = _in_no_grad[_vc.value]",
            ]
    return "\n".join([*lines, "    return _r"]) + "\n"


VIEWING: WeakKeyDictionary[Function, tuple[Function, int]] = WeakKeyDictionary()
"""Of kernels that link one view, or a list of them, to their base, and nothing else: the kernel
below, and which parameter the views are of. A kernel that records may write them out.
"""


def _link(view: object, origin: object, base: bool) -> None:
    if view is origin or not isinstance(view, Tensor) or not isinstance(origin, Tensor):
        return
    if view._storage is not origin._storage:
        _link_wrapper(view, origin, base)
        return
    if not origin._keys & ADINPLACE:
        return
    vc = origin._vc
    view._vc = origin._version_counter() if vc is None else vc
    if base:
        make_view(view, origin)
        _remember(view, origin, "")


def _link_wrapper(view: Tensor, origin: Tensor, base: bool) -> None:
    """Link what a class's handler gave for a view: a new wrapper, which has no memory to share."""
    if not view._keys & origin._keys & PYTHON or not origin._keys & ADINPLACE:
        return
    if view._vc is None and view._base is None and view._mq_data is origin._mq_data is None:
        view._vc = origin._version_counter()
        if base:
            make_view(view, origin)
            _remember(view, origin, "")


def _link_all(views: Sequence[object], origin: object, *, base: bool) -> None:
    """Link what one call gave; what they share is asked for once: 0.3 us less a view (timeit)."""
    if not isinstance(origin, Tensor) or not origin._keys & ADINPLACE:
        return
    vc = origin._version_counter() if origin._vc is None else origin._vc
    whole = origin if origin._base is None else origin._base
    creation = _creation_in(tls.st) or "MULTI_OUTPUT_NODE"
    history = _SHARED[creation][vc.value]
    inherited = 0 if tls.st.grad_enabled else whole._keys & K.REQUIRES_GRAD
    for view in views:
        if isinstance(view, Tensor) and view._storage is origin._storage and view is not origin:
            view._vc = vc
            if base:
                view._base = whole
                whole._viewed = True
                view._keys |= inherited
                if view._ag is None:
                    view._ag = history
        elif isinstance(view, Tensor) and view is not origin:
            _link_wrapper(view, origin, base)


def _remember(view: Tensor, origin: Tensor, seen_as: str) -> None:
    """Note on a new view what is to be known when it, or its base, is mutated."""
    creation = _creation_in(tls.st)
    if creation:
        base = view._base
        if base is not None and base._keys & K.REQUIRES_GRAD:
            view._keys |= K.REQUIRES_GRAD
    else:
        creation = origin._ag.creation_meta if origin._base is not None and origin._ag else ""
    if view._ag is None:
        vc = view._vc
        version = 0 if vc is None else vc.value
        if seen_as:
            view._ag = ViewHistory(creation, version, seen_as)
        elif version or creation:
            view._ag = _SHARED[creation][version]


def _creation_in(st: DispatchState) -> str:
    """How views are made where nothing is recorded; "" where it is."""
    if st.grad_enabled:
        return ""
    return "INFERENCE_MODE" if st.inference else "NO_GRAD_MODE"


class _Shared(dict[int, ViewHistory]):
    """By version, the histories that views made in one way share: 0.4 us less a view (timeit)."""

    def __init__(self, creation: str) -> None:
        super().__init__()
        self.creation = creation

    def __missing__(self, version: int) -> ViewHistory:
        kind = ViewHistory if self.creation else ViewVersion
        made = kind(self.creation, version, "")
        if version < _FEW:  # parameters and buffers are written a few times, rarely more
            self[version] = made
        return made


_FEW = 64
_SHARED = {
    creation: _Shared(creation)
    for creation in ("", "INFERENCE_MODE", "NO_GRAD_MODE", "MULTI_OUTPUT_NODE", "CUSTOM_FUNCTION")
}
IN_NO_GRAD: Mapping[int, ViewHistory] = _SHARED["NO_GRAD_MODE"]
"""By version, the histories of views made while nothing is recorded."""
OF_WRITTEN: Mapping[int, ViewHistory] = _SHARED[""]
"""By version, those of other views; of memory that was never written they have none."""


def _writing(op: OpOverload, ks: int, written: Sequence[int]) -> Callable[..., object]:
    arguments = op._schema.arguments
    if op.shape_rule is not None and len(written) == 1:
        if arguments[written[0]].type.written == "Tensor":
            return _generated_writing(op, ks, written[0])
    table, resolve = op._table, op.resolve
    only = written[0] if len(written) == 1 else -1
    first = _in_several_steps(op, written)

    def kernel(ks: int, *params: object) -> object:
        below = ks & BELOW
        if first:
            _own_first(params, written)
        if only >= 0 and getattr(params[only], "_vc", below) is None:
            _refuse_inference(op, params[only])
        if len(params) > 1:
            check_overlap(op, params, written)
        try:
            if op.shape_rule is None:
                # A definition by other operators: the write counts once, not once an operator.
                with AutoDispatchBelowADInplaceOrView():
                    result = (table.get(below) or resolve(below))(below, *params)
            else:
                result = (table.get(below) or resolve(below))(below, *params)
        except ValueError as error:
            result = _write_again(op, ks, params, written, error)
        if only >= 0 and params[only].__class__ is not tuple:
            _bump(params[only])
        else:
            for i in written:
                p = params[i]
                for t in p if p.__class__ is tuple else (p,):
                    _bump(t)
        return result

    return kernel


def _writing_in_silence(op: OpOverload, ks: int, written: Sequence[int]) -> Callable[..., object]:
    """For what the schema does not say to be mutated: nothing is counted."""
    low = ks & BELOW
    below = op.resolved(low)

    def kernel(ks: int, *params: object) -> object:
        _own_first(params, written)
        return below(low, *params)

    return kernel


def _in_several_steps(op: OpOverload, written: Sequence[int]) -> bool:
    """Whether something may be mutated before a lazy copy refuses to be: lists, functions."""
    arguments = op._schema.arguments
    alone = len(written) == 1 and arguments[written[0]].type.written == "Tensor"
    return op.array_kernel is None or not alone


def _generated_writing(op: OpOverload, ks: int, written: int) -> Callable[..., object]:
    """`_writing` for one tensor, written out: 1.5 us of 3 us a write less (make bench)."""
    arguments = op._schema.arguments
    names = [f"p{i}" for i in range(len(arguments))]
    params, target = ", ".join(names), names[written]
    ks &= BELOW
    overlaps = [
        f"{name}.__class__ not in _NUMBERS and {name}._storage is {target}._storage"
        if op.takes_numbers
        else f"{name} is not None and {name}._storage is {target}._storage"
        for name, argument in zip(names, arguments, strict=True)
        if name != target and argument.type.written in ("Tensor", "Tensor?")
    ]
    lines = [f"def _kernel(_ks, {params}):"]
    if _in_several_steps(op, (written,)):
        lines += [f"    if {target}._storage.lazy_copies is not None:"]
        lines += [f"        _own_first(({params},), ({written},))"]
    lines += [f"    if {target}._vc is None:", f"        _refuse_inference(_op, {target})"]
    if overlaps:
        lines += [f"    if ({') or ('.join(overlaps)}):"]
        lines += [f"        _check_overlap(_op, ({params},), ({written},))"]
    lines += ["    try:", f"        _r = _below({ks}, {params})"]
    lines += ["    except ValueError as _error:"]
    lines += [f"        _r = _write_again(_op, {ks}, ({params},), ({written},), _error)"]
    lines += [f"    _vc = {target}._vc", "    if _vc is None:", f"        _bump({target})"]
    lines += ["    else:", "        _vc.value += 1", "    return _r"]
    space: dict[str, object] = {
        "_below": op.resolved(ks),
        "_op": op,
        "_NUMBERS": NUMBERS,
        "_bump": _bump,
        "_check_overlap": check_overlap,
        "_own_first": _own_first,
        "_refuse_inference": _refuse_inference,
        "_write_again": _write_again,
    }
    return generate("\n".join(lines) + "\n", "_kernel", "write", space)


def _write_again(
    op: OpOverload, ks: int, params: Sequence[object], written: Sequence[int], error: ValueError
) -> object:
    """Write once more where the memory was shared until now (`lazy_copies.py`), else raise."""
    flat = [t for i in written for t in _members(params[i])]
    lazy = [t for t in flat if isinstance(t, Tensor) and t._storage.lazy_copies is not None]
    if not lazy:
        _refuse_read_only(op, params, written, error)
        raise error
    for t in lazy:
        own_memory(t)
    for p in params:
        for member in _members(p):
            up_to_date(member)
    return op.run(ks & BELOW, params)


def _own_first(params: Sequence[object], written: Sequence[int]) -> None:
    """Give what is written memory of its own first, where a refusal would come after a mutation."""
    for i in written:
        for t in _members(params[i]):
            if isinstance(t, Tensor) and t._storage.lazy_copies is not None:
                own_memory(t)
                for p in params:
                    for member in _members(p):
                        up_to_date(member)


def _members(p: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", p) if p.__class__ is tuple else (p,)


def _refuse_read_only(
    op: OpOverload, params: Sequence[object], written: Sequence[int], error: ValueError
) -> None:
    """Say so, where NumPy refused to write to a read-only array's memory (T50)."""
    for i in written:
        t = params[i]
        data = t._mq_data if isinstance(t, Tensor) else None
        if isinstance(data, np.ndarray) and not data.flags.writeable:
            raise RuntimeError(
                f"{op._opname}: {cast(Tensor, t).meta} shares the memory of a read-only NumPy "
                f"array and cannot be written to; clone() it first"
            ) from error


def _refuse_inference(op: OpOverload, target: object) -> None:
    """Inference tensors are written in inference mode only: outside, none would count it (T64)."""
    if isinstance(target, Tensor) and not target._keys & ADINPLACE and not tls.st.inference:
        raise RuntimeError(
            f"Inplace update to inference tensor outside InferenceMode is not allowed: "
            f"{op._opname} on {target.meta}; write to a clone() of it"
        )


def _bump(t: object) -> None:
    if isinstance(t, Tensor):
        vc = t._vc
        if vc is None:
            if not t._keys & ADINPLACE:
                return  # inference tensors do not count
            vc = t._version_counter()
        vc.value += 1


def check_overlap(op: OpOverload, params: Sequence[object], written: Sequence[int]) -> None:
    """Refuse a write to memory that another argument reads in part (T41); lists go by member."""
    for i in written:
        listed = params[i].__class__ is tuple
        for j, other in enumerate(params if not listed or len(written) == 1 else ()):
            reads = _members(other) if listed and other.__class__ is tuple else repeat(other)
            for target, read in zip(_members(params[i]), reads) if j != i else ():
                if isinstance(target, Tensor) and isinstance(read, Tensor):
                    if read._storage is target._storage:
                        _check_pair(op, target, read)


def _check_pair(op: OpOverload, target: Tensor, other: Tensor) -> None:
    a, b = target.meta, other.meta
    if a is b or not (a.is_dense and b.is_dense) or a.numel == 0 or b.numel == 0:
        return
    begin_a, end_a = a.offset * a.itemsize, (a.offset + a.numel) * a.itemsize
    begin_b, end_b = b.offset * b.itemsize, (b.offset + b.numel) * b.itemsize
    if end_a <= begin_b or end_b <= begin_a:
        return
    if (begin_a, end_a, a.strides) == (begin_b, end_b, b.strides):
        return
    if op.facts.allows_overlap:
        return
    raise RuntimeError(
        f"{op._opname}: unsupported operation: some elements of the input tensor and the "
        f"written-to tensor refer to a single memory location. Please clone() the tensor before "
        f"performing the operation. Written: {a} at offset {a.offset}, read: {b} at offset "
        f"{b.offset}."
    )


def family_of_layout(layout: object) -> int:
    """The bits of a sparse layout; its kernels are loaded when one is asked for."""
    load_late("aten")
    return K.functionality_bits(K.key_parse(FAMILY[layout]))


def backend_select(op: OpOverload, ks: int) -> Callable[..., object] | None:
    """Choose the backend by the ``device`` argument, where the operator has one."""
    arguments = op._schema.arguments
    at = next((i for i, a in enumerate(arguments) if a.type.written in ("Device?", "Device")), -1)
    has_tensor = any(a.type.written.startswith("Tensor") for a in arguments)
    # A user's operator with tensors is dispatched by them, whatever its device argument means.
    if at < 0 or (has_tensor and op._defined_in_python):
        return None
    layout_at = next((i for i, a in enumerate(arguments) if a.type.written == "Layout?"), -1)
    select = K.functionality_bits(DispatchKey.BackendSelect)
    on_cpu = keys_for_device(_CPU)
    unsaid = not has_tensor and layout_at == at - 1

    def kernel(ks: int, *params: object) -> object:
        if unsaid and params[at] is None and params[layout_at] is None:  # most often
            below = (ks & ~select & ~0xFFFF) | on_cpu
            return op.run(below, (*params[:at], _CPU, *params[at + 1 :]))
        below = ks & ~select
        where = params[at]
        if where is None and not has_tensor:
            where = _CPU
        if isinstance(where, device):
            where = canonical(where)
            params = (*params[:at], where, *params[at + 1 :])
            below = (below & ~0xFFFF) | keys_for_device(where)
        if layout_at >= 0 and params[layout_at] in FAMILY:
            family = family_of_layout(params[layout_at])
            # With a tensor, where sparse kernels make the result of its metadata (`zeros_like`).
            if not has_tensor or op.kernel_at(K.highest(below & 0xFFFF | family)) is not None:
                below |= family
        return op.run(below, params)

    return kernel


_CPU = device("cpu")

for _key in K.runtime_keys(K.VISIBLE):
    if _key is DispatchKey.ADInplaceOrView:
        set_fallback(_key, alias_kernel)
    elif _key is DispatchKey.BackendSelect:
        set_fallback(_key, backend_select)
    elif _key.name.startswith("Autocast") or _key.name in (
        "PreDispatch",
        "PythonDispatcher",
        "Tracer",
    ):
        set_fallback(_key, fall_through)
