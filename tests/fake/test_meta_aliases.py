"""Converted programs keep their aliases: random views and mutations, every live tensor converted.

Of each program's tensors the converted ones are compared with the real ones: geometry, storages
that are shared, roots of views, what requires grad, and whose version a write changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

import maquette as mq
from maquette.fake.described.meta_converter import MetaConverter
from maquette.fake.kinds import safe_is_leaf

Step = Callable[[mq.Tensor, random.Random], mq.Tensor]


def sliced(t: mq.Tensor, rng: random.Random) -> mq.Tensor:
    n = t.shape[0]
    return t[rng.randrange(n) : n : rng.choice([1, 2])]


VIEWS: dict[str, Step] = {
    "slice": sliced,
    "select": lambda t, rng: t.select(-1, rng.randrange(t.shape[-1])).unsqueeze(0),
    "transpose": lambda t, rng: t.transpose(0, -1),
    "unsqueeze": lambda t, rng: t.unsqueeze(rng.randrange(t.ndim + 1)),
    "expand": lambda t, rng: t.unsqueeze(0).expand(2, *t.shape),
    "flat": lambda t, rng: t.reshape(-1) if t.is_contiguous() else t.t() if t.ndim < 3 else t,
    "diagonal": lambda t, rng: t.diagonal(0, 0, -1).unsqueeze(-1) if t.ndim > 1 else t[:],
    "split": lambda t, rng: t.split(1, -1)[0],
    "chunk": lambda t, rng: t.chunk(2)[0],
    "strided": lambda t, rng: t.as_strided((2, 1), (1, 1), t.storage_offset()),
    "bits": lambda t, rng: t.view(mq.int32) if t.dtype is mq.float32 else t[:],
    "alias": lambda t, rng: t[...],
}
ALIASES: dict[str, Step] = {
    "detach": lambda t, rng: t.detach(),
    "data": lambda t, rng: t.data,
    "set": lambda t, rng: mq.empty(0, dtype=t.dtype).set_(
        t.untyped_storage(), t.storage_offset(), tuple(t.shape), t.stride()
    ),
}
COPIES: dict[str, Step] = {
    "clone": lambda t, rng: t.clone(),
    "add": lambda t, rng: t + 1,
    "leaf": lambda t, rng: mq.ones(4, 3, requires_grad=True),
    "real": lambda t, rng: mq.view_as_real(mq.ones(2, 3, dtype=mq.complex64)),
    "conj": lambda t, rng: mq.ones(2, 3, dtype=mq.complex64).conj(),
}
WRITES: dict[str, Callable[[mq.Tensor], object]] = {
    "add_": lambda t: t.add_(1),
    "zero_": lambda t: t.zero_(),
    "mul_": lambda t: t.mul_(2),
    "copy_": lambda t: t.copy_(mq.ones(())),
}


def program(seed: int, steps: int = 14) -> list[mq.Tensor]:
    """The tensors that a random program has at its end."""
    rng = random.Random(seed)
    live = [mq.ones(4, 3), mq.arange(24.0).reshape(2, 3, 4)]
    makers = [*VIEWS.values()] * 3 + [*ALIASES.values()] * 3 + [*COPIES.values()]
    for _ in range(steps):
        t = rng.choice(live)
        without_grad = rng.random() < 0.3
        # What is forbidden after a mutation is left out.
        with mq.no_grad() if without_grad else mq.enable_grad(), suppress(RuntimeError):
            if rng.random() < 0.3 and not t.requires_grad and written(t):
                rng.choice([*WRITES.values()])(t)
            elif t.numel():
                live.append(rng.choice(makers)(t, rng))
    rng.shuffle(live)
    return live


def written(t: mq.Tensor) -> bool:
    """Whether a write is allowed: no element lies over another."""
    return all(s or n < 2 for n, s in zip(t.shape, t.stride(), strict=True))


def geometry(t: mq.Tensor) -> tuple[object, ...]:
    return (
        tuple(t.shape), t.stride(), t.storage_offset(), t.dtype, t.requires_grad, safe_is_leaf(t),
        t._is_view(), t.is_conj(), t._storage.nbytes(),
    )  # fmt: skip


def relations(ts: list[mq.Tensor]) -> list[tuple[int, int]]:
    """For each tensor, the first with its storage, and the first that is its root."""
    storages = [id(t._storage) for t in ts]
    roots = [id(t) for t in ts]
    return [
        (storages.index(id(t._storage)), roots.index(id(t._base)) if id(t._base) in roots else -1)
        for t in ts
    ]


def version_effects(ts: list[mq.Tensor]) -> list[list[int]]:
    """For each tensor that may be written, how the versions of all change by that."""
    effects = []
    for t in ts:
        if not written(t) or t.requires_grad:
            continue
        before = [u._version for u in ts]
        with mq.no_grad():
            t.add_(1)
        effects.append([u._version - v for u, v in zip(ts, before, strict=True)])
    return effects


def check(seed: int, kind: str) -> None:
    real = program(seed)
    convert = MetaConverter() if kind == "meta" else mq.FakeTensorMode().from_tensor
    made = [convert(t) for t in real]
    assert [geometry(t) for t in made] == [geometry(t) for t in real], seed
    assert relations(made) == relations(real), seed
    assert version_effects(made) == version_effects(real), seed


@pytest.mark.parametrize("kind", ["meta", "fake"])
@pytest.mark.parametrize("block", range(4))
def test_aliases_of_random_programs_are_kept(kind: str, block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check(seed, kind)


@pytest.mark.verify
@pytest.mark.parametrize("kind", ["meta", "fake"])
@pytest.mark.parametrize("block", range(20))
def test_aliases_of_many_random_programs_are_kept(kind: str, block: int) -> None:
    for seed in range(1000 + 250 * block, 1250 + 250 * block):
        check(seed, kind)
