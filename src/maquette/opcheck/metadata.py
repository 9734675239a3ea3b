"""What a fake says of a result, held to what the real call gave (L118).

Each difference names its fact: "count", "kind", "number", "shape", "dtype", "device", "strides",
"offset", "requires_grad", "bits" (conjugate, negative) or "aliasing".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from maquette.opcheck.copies import same_storage, tensors_in
from maquette.opcheck.framework import Framework


class Difference(NamedTuple):
    """One fact that the fake states otherwise than the real call."""

    fact: str
    where: str
    real: str
    fake: str

    def __str__(self) -> str:
        return f"{self.where}: {self.fact} is {self.real} for real, {self.fake} by the fake"


def results_of(result: Any) -> list[Any]:
    """The results of a call as a list; none for None."""
    if result is None:
        return []
    return list(result) if isinstance(result, (tuple, list)) else [result]


def differences(
    on: Framework, real: Any, fake: Any, real_inputs: Sequence[Any], fake_inputs: Sequence[Any]
) -> list[Difference]:
    """Every difference between the results of a real and a fake call of the same arguments."""
    found = list(_in_structure(on, "the result", real, fake))
    if any(d.fact in ("count", "kind") for d in found):
        return found
    pairs = list(zip(tensors_in(real, on), tensors_in(fake, on), strict=True))
    for i, (r, f) in enumerate(pairs):
        found += _of_tensor(f"result {i}", r, f)
        for j, (ri, fi) in enumerate(zip(real_inputs, fake_inputs, strict=True)):
            found += _aliasing(f"result {i} and input {j}", r, ri, f, fi)
        for k in range(i):
            found += _aliasing(f"results {k} and {i}", *(pairs[k][0], r), *(pairs[k][1], f))
    return found


def _in_structure(on: Framework, where: str, real: Any, fake: Any) -> Iterator[Difference]:
    if isinstance(real, (tuple, list)) and isinstance(fake, (tuple, list)):
        if len(real) != len(fake):
            yield Difference("count", where, f"{len(real)} values", f"{len(fake)} values")
            return
        for i, (r, f) in enumerate(zip(real, fake, strict=True)):
            yield from _in_structure(on, f"{where}[{i}]", r, f)
    elif on.is_tensor(real) != on.is_tensor(fake) or (real is None) != (fake is None):
        yield Difference("kind", where, _kind(real), _kind(fake))
    elif isinstance(real, int) and type(fake) is type(real) and real != fake:
        yield Difference("number", where, str(real), str(fake))


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _of_tensor(where: str, real: Any, fake: Any) -> Iterator[Difference]:
    shapes = tuple(real.shape), tuple(fake.shape)
    if len(shapes[0]) != len(shapes[1]) or not all(map(_fits, *shapes)):
        yield Difference("shape", where, shown_sizes(shapes[0]), shown_sizes(shapes[1]))
    for fact in ("dtype", "requires_grad"):
        if getattr(real, fact) != getattr(fake, fact):
            yield Difference(fact, where, str(getattr(real, fact)), str(getattr(fake, fact)))
    if not _same_device(real.device, fake.device):
        yield Difference("device", where, str(real.device), str(fake.device))
    if str(real.layout) != str(fake.layout):
        yield Difference("layout", where, str(real.layout), str(fake.layout))
        return
    known = all(type(n) is int for n in shapes[1])
    if str(real.layout) == "torch.strided" and (not known or shapes[0] == shapes[1]):
        yield from _of_memory(where, real, fake)
    if (real.is_conj(), real.is_neg()) != (fake.is_conj(), fake.is_neg()):
        bits = [f"conj {t.is_conj()}, neg {t.is_neg()}" for t in (real, fake)]
        yield Difference("bits", where, *bits)


def _same_device(a: Any, b: Any) -> bool:
    return a.type == b.type and (a.index or 0) == (b.index or 0)


def _of_memory(where: str, real: Any, fake: Any) -> Iterator[Difference]:
    if real.numel() > 0:
        strides = [
            tuple([s for s, n in zip(t.stride(), real.shape) if n > 1]) for t in (real, fake)
        ]
        if not all(map(_fits, *strides)):
            yield Difference("strides", where, str(tuple(real.stride())), str(tuple(fake.stride())))
    if not _fits(real.storage_offset(), fake.storage_offset()):
        offsets = str(real.storage_offset()), str(fake.storage_offset())
        yield Difference("offset", where, *offsets)


def _fits(real: int, fake: Any) -> bool:
    # A size that depends on data fits any.
    return type(fake) is not int or real == fake


def _aliasing(where: str, r: Any, ri: Any, f: Any, fi: Any) -> Iterator[Difference]:
    if not _has_memory(r) or not _has_memory(ri):
        return
    real, fake = _relation(r, ri), _relation(f, fi)
    if real != fake:
        yield Difference("aliasing", where, real, fake)


def _has_memory(t: Any) -> bool:
    return str(t.layout) == "torch.strided" and t.untyped_storage().nbytes() > 0


def _relation(a: Any, b: Any) -> str:
    if a is b:
        return "one tensor"
    return "sharing memory" if same_storage(a, b) else "apart"


def shown_sizes(shape: Sequence[Any]) -> str:
    """A shape in brackets."""
    return "[" + ", ".join(map(str, shape)) + "]"
