"""What a recorded call gives: for real, on fake tensors, and its gradients; and how two differ.

`outcome` makes a call on PyTorch or on maquette, with arguments of its own. It notes each result's
dtype, shape, strides, aliases and values, what the call left in its arguments, and the exception.
`fake_outcome` makes it in maquette's fake mode, `gradients` makes it and goes backward.
`difference` and `fake_difference` name what differs; `mutated_calls.py` counts it.
"""

from __future__ import annotations

import base64
import copy
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Case = dict[str, Any]
# Their values are whatever the memory held.
WITHOUT_VALUES = ("empty", "resize")
# What fake mode answers where the result, or whether there is one, depends on values.
OF_VALUES = {
    "DataDependentOutputException", "DynamicOutputShapeException", "UnsupportedOperatorException",
}  # fmt: skip


class TooLong(Exception):
    """A call took longer than the tool waits."""


class Outcome(NamedTuple):
    """What a call gave."""

    results: list[tuple[object, ...]]  # dtype, shape, strides, offset, aliases
    arguments: list[tuple[object, ...]]  # the same of the arguments, after the call
    other: str  # a result that is no tensor
    values: list[Any]  # of the results and the arguments; of fake tensors none
    error: Exception | None
    spoiled: str = ""  # the argument that a refused call changed


def arguments_of(checker: Any, backend: Any, case: Case) -> Any:
    """A call's arguments, on memory of their own that may grow; ``numpy`` records are scalars."""

    class Arguments(checker.Arguments):
        def value(self, item: Any) -> Any:
            if isinstance(item, dict) and item["$"] == "numpy":
                return getattr(np, item["v"][0])(item["v"][1])
            return super().value(item)

    return Arguments(backend, {**case, "resizes": True})


def outcome(checker: Any, backend: Any, case: Case) -> Outcome:
    """Make a call on one of the libraries, on memory of its own that may grow."""
    operator = backend.operator(case["op"])
    arguments = arguments_of(checker, backend, case)
    args, kwargs = arguments.args, arguments.kwargs
    before = [_elements(backend, t) for t in arguments.tensors]
    try:
        result = _drawn_alike(backend, lambda: operator(*args, **kwargs))
    except TooLong:
        raise
    except Exception as error:  # noqa: BLE001  # what a call raises is its outcome
        after = [_elements(backend, t) for t in arguments.tensors]
        pairs = enumerate(zip(before, after, strict=True))
        changed = [f"argument {i}: {a[0]} -> {b[0]}" for i, (a, b) in pairs if a != b]
        return Outcome([], [], "", [], error, " ".join(changed))
    told = _told(checker, backend, result, args, kwargs)
    tensors = _flat(checker, backend, result, args, kwargs)
    return told._replace(values=[np.array(backend.array(t)) for t in tensors])


def fake_outcome(checker: Any, backend: Any, case: Case) -> Outcome:
    """Make a call in maquette's fake mode."""
    operator = backend.operator(case["op"])
    arguments = arguments_of(checker, backend, case)
    mode = backend.fake_mode()
    table = {id(t): mode.from_tensor(t) for t in arguments.tensors}
    args, kwargs = (
        checker.replace(v, table, backend.is_tensor)
        for v in (arguments.args, list(arguments.kwargs.values()))
    )
    named = dict(zip(arguments.kwargs, kwargs, strict=True))
    try:
        with mode:
            result = _quietly(lambda: operator(*args, **named))
    except TooLong:
        raise
    except Exception as error:  # noqa: BLE001  # what a call raises is its outcome
        return Outcome([], [], "", [], error)
    return _told(checker, backend, result, args, named)


def _elements(backend: Any, t: Any) -> tuple[object, bytes]:
    # A clone's, for memory that an array of NumPy shares does not grow any more.
    return _seen(t), backend.array(t.clone()).tobytes()


def _drawn_alike(backend: Any, call: Callable[[], Any]) -> Any:
    """What a call gives where it draws the same random numbers in both libraries."""
    backend.function("manual_seed")(0)
    return _quietly(call)


def _quietly(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return call()


def _flat(checker: Any, backend: Any, *values: Any) -> list[Any]:
    parts = [list(v.values()) if isinstance(v, dict) else v for v in values]
    return [t for part in parts for t in checker.flat_tensors(backend, part)]


def _told(checker: Any, backend: Any, result: Any, args: Any, kwargs: Any) -> Outcome:
    found = _flat(checker, backend, result)
    given = _flat(checker, backend, args, kwargs)
    told = [(*_seen(t), _aliases(backend, t, given)) for t in found]
    return Outcome(told, [_seen(t) for t in given], "" if found else repr(result), [], None)


def _seen(t: Any) -> tuple[object, ...]:
    name, shape = str(t.dtype).split(".")[-1], tuple(t.shape)
    if not str(t.layout).endswith("strided"):
        return name, shape
    strides = [s for n, s in zip(shape, t.stride()) if n > 1] if t.numel() else []
    marks = "".join(m for m in ("is_conj", "is_neg") if getattr(t, m)())
    return name, shape, tuple(strides), t.storage_offset(), marks, str(t.device).split(":")[0]


def _aliases(backend: Any, t: Any, given: Sequence[Any]) -> object:
    """Which argument a result is, or shares its memory with."""
    same = [i for i, a in enumerate(given) if a is t]
    if same or not str(t.layout).endswith("strided"):
        return same
    ours = backend.storage_identity(t)
    given = [a if str(a.layout).endswith("strided") else None for a in given]
    return tuple(
        i for i, a in enumerate(given) if a is not None and backend.storage_identity(a) == ours
    )


# What is done to the tensors of a call before or after it is made.
HOW = ("plain", "leaf", "view", "argument changed", "result changed")


def gradients(checker: Any, backend: Any, case: Case, writes: Sequence[int], how: str) -> Outcome:
    """Make a call on tensors that need gradients, and go backward from drawn cotangents.

    `writes`: the places, among the call's tensors, of those that it writes to. These are computed
    from leaves, for a leaf may not be written to; with `how` "leaf" they are leaves, with "view"
    views of leaves. With "argument changed" or "result changed", one is written to before the way
    back, which must be refused where a formula saved it.
    """
    operator = backend.operator(case["op"])
    arguments = arguments_of(checker, backend, case)
    leaves, table = [], {}
    for i, t in enumerate(arguments.tensors):
        table[id(t)] = t
        if t.dtype.is_floating_point or t.dtype.is_complex:
            leaf = t.detach().requires_grad_()
            leaves.append(leaf)
            computed = i in writes or how == "argument changed"
            table[id(t)] = _given(leaf, how) if computed else leaf
    args = checker.replace(arguments.args, table, backend.is_tensor)
    kwargs = {k: checker.replace(v, table, backend.is_tensor) for k, v in arguments.kwargs.items()}
    drawn = zlib.crc32(case["op"].encode())
    try:
        result = _drawn_alike(backend, lambda: operator(*args, **kwargs))
        outputs = [t for t in _flat(checker, backend, result) if t.requires_grad]
        flags = [t.requires_grad for t in _flat(checker, backend, result)]
        touched = {"argument changed": list(table.values()), "result changed": outputs}.get(how)
        if touched:
            touched[drawn % len(touched)].detach().zero_()
        found = _quietly(lambda: _backward(checker, backend, outputs, leaves)) if outputs else []
    except TooLong:
        raise
    except Exception as error:  # noqa: BLE001  # what a call raises is its outcome
        return Outcome([], [], "", [], error)
    told: list[tuple[object, ...]] = [("none",) if g is None else _seen(g) for g in found]
    arrays = [np.array(backend.array(g)) for g in found if g is not None]
    return Outcome(told, [], repr(flags), arrays, None)


def _given(leaf: Any, how: str) -> Any:
    if how == "leaf":
        return leaf
    return leaf.view_as(leaf) if how == "view" else leaf * 1


def _backward(checker: Any, backend: Any, outputs: list[Any], leaves: list[Any]) -> Any:
    cotangents = []
    for i, t in enumerate(outputs):
        rng = np.random.default_rng(zlib.crc32(repr((i, tuple(t.shape))).encode()))
        kind = checker.numpy_dtype(str(t.dtype).split(".")[-1])
        if rng.random() < 0.3:  # as of a sum
            one = backend.tensor_from(np.ones(1, kind))
            cotangents.append(one.expand(tuple(t.shape)) if t.shape else one[0])
        else:
            drawn = rng.standard_normal(tuple(t.shape)).astype(kind)
            flat = backend.tensor_from(np.ascontiguousarray(drawn.reshape(-1)))
            cotangents.append(flat.reshape(tuple(t.shape)))
    return backend.gradients(outputs, leaves, cotangents)


def difference(name: str, theirs: Outcome, ours: Outcome) -> tuple[str, str] | None:
    """The kind of a difference and what both gave; None where there is none."""
    if theirs.error is not None and ours.error is not None:
        if _fits(ours.error, theirs.error):
            return None
        return "other class of error", f"{theirs.error!r:.180} | {ours.error!r:.180}"
    if theirs.error is not None:
        return "refused there alone", f"{theirs.error!r:.180} | {ours.results!r:.180}"
    if ours.error is not None:
        return "refused here alone", f"{theirs.results!r:.180} | {ours.error!r:.180}"
    if theirs[:3] != ours[:3]:
        return "other results", f"{theirs[:3]!r:.280} | {ours[:3]!r:.280}"
    if any(word in name for word in WITHOUT_VALUES):
        return None
    for a, b in zip(theirs.values, ours.values, strict=True):
        if not _alike(a, b, 2e-2 if "float16" in str(a.dtype) else 1e-3):
            return "other values", f"{a.ravel()[:6].tolist()} | {b.ravel()[:6].tolist()}"
    return None


def refused_for_its_values(checker: Any, backend: Any, case: Case, error: Exception) -> bool:
    """Whether a call is refused for its tensors' elements: other elements are not refused."""
    if type(error).__name__ == "LinAlgError":
        return True
    for number in (0, 1):
        other = copy.deepcopy(case)
        for record in checker.call_tensors(other):
            kind = checker.numpy_dtype(record["dtype"])
            size = len(base64.b64decode(other["storages"][record["storage"]])) // kind.itemsize
            memory = np.full(size, number).astype(kind).tobytes()
            other["storages"][record["storage"]] = base64.b64encode(memory).decode()
        if outcome(checker, backend, other).error is None:
            return True
    return False


def fake_difference(real: Outcome, fake: Outcome) -> tuple[str, str] | None:
    """How the fake answer differs from the real one of the same library."""
    if fake.error is not None and type(fake.error).__name__ in OF_VALUES:
        return None
    if real.error is not None and fake.error is not None:
        if type(real.error) is type(fake.error):
            return None
        return "fake: other class of error", f"{real.error!r:.180} | {fake.error!r:.180}"
    if real.error is not None:
        return "fake: not refused", f"{real.error!r:.180} | {fake.results!r:.180}"
    if fake.error is not None:
        return "fake: refused", f"{real.results!r:.180} | {fake.error!r:.180}"
    if real[:2] != fake[:2] or bool(real.other) != bool(fake.other):
        return "fake: other results", f"{real[:3]!r:.280} | {fake[:3]!r:.280}"
    return None


def _fits(ours: Exception, theirs: Exception) -> bool:
    absent = any(isinstance(e, NotImplementedError) for e in (ours, theirs))
    names = [c.__name__ for c in type(ours).__mro__]
    return absent or type(theirs).__name__.lstrip("_") in names


def _alike(a: Any, b: Any, tolerance: float) -> bool:
    if a.shape != b.shape or a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return bool(np.allclose(a.astype(wide), b.astype(wide), tolerance, 1e-3, equal_nan=True))
