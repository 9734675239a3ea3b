"""vmap is a loop: of values, of gradients, of draws; and it writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from maquette.opcheck.closeness import how_they_differ
from maquette.opcheck.copies import map_tensors, snapshot, tensors_in
from maquette.opcheck.properties.base import OfValues, Problem, Property, first_line
from maquette.opcheck.properties.derivative import is_meant
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial, author_line


class Pattern(NamedTuple):
    """Which tensors are batched where (negative dims count from the end), over how many."""

    dims: tuple[int | None, ...]
    batch: int
    nested: bool = False

    def __str__(self) -> str:
        nested = ", nested" if self.nested else ""
        return f"in_dims {self.dims}, batch of {self.batch}{nested}"


class VmapIsLoop(OfValues):
    """vmap gives what a loop over the batch gives."""

    id = "vmap.values"
    spec = "LX9, L101, P41, P42"
    dear = True
    limit = 8
    hint = "a batch dim stands at in_dims[i], or nowhere (None); out_dims says where it is then"

    def why_not(self, sample: Sample) -> str:
        known = super().why_not(sample)
        if known:
            return known
        if not sample.recipe.tensors():
            return "no tensors"
        return ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and not any(t.share or t.layout == "sample" for t in trial.tensors())

    def rank(self, trial: Trial) -> int:
        label = trial.recipe.label
        if label == "the sample":
            return 0
        return 1 if " is -" in label else 2  # a negative dim is one of an example

    def check(self, trial: Trial) -> Problem | None:
        for pattern in patterns([len(t.shape) for t in trial.tensors()]):
            problem = self.at(trial, pattern)
            if problem is not None:
                return problem
        return None

    def at(self, trial: Trial, pattern: Pattern) -> Problem | None:
        """The check of one pattern."""
        if trial.op.written and None in pattern.dims:
            return None  # what is written must be batched
        if not pattern.batch and any(a.kwarg_only for a in trial.op.written):
            return None  # none of the batch says how out= is resized
        members = [_member(trial, pattern, i) for i in range(max(pattern.batch, 1))]
        try:
            expected = [_called(trial, tensors) for tensors in members]
        except Exception:  # noqa: BLE001  # these values do not suit it
            return None
        if any([t.shape for t in row] != [t.shape for t in expected[0]] for row in expected):
            return None
        stacked = _stacked(trial, pattern, members)
        function = trial.on.vmap(lambda *ts: _call(trial, ts), tuple(pattern.dims))
        if pattern.nested:
            function = trial.on.vmap(function, (0,) * len(stacked))
            stacked = [t.unsqueeze(0) for t in stacked]
        before = [snapshot(t, trial.on) for t in stacked]
        try:
            with trial.on.torch.no_grad():
                found = function(*stacked)
        except Exception as error:  # noqa: BLE001  # told as what it is
            return self._refused(trial, pattern, error)
        if not trial.op.written:
            for i, (t, old) in enumerate(zip(stacked, before, strict=True)):
                new = snapshot(t, trial.on)
                if old is not None and new is not None and old.data != new.data:
                    got = "the batching rule wrote it"
                    return Problem(f"tensor {i} as it was, {pattern}", got, "batching")
        if pattern.nested:
            found = [t.squeeze(0) for t in found]
        return self._compared(trial, pattern, expected, found)

    def _refused(self, trial: Trial, pattern: Pattern, error: BaseException) -> Problem | None:
        rule = trial.op.function("batching")
        line = author_line(error, [rule])
        if pattern.batch == 0 and not line:
            return None
        if trial.op.builtin and "data-dependent control flow" in str(error):
            return None  # a batch of such data cannot be one call
        if rule is None or (not line and isinstance(error, (NotImplementedError,))):
            return None  # without a rule, what has none says so
        if trial.op.builtin and not line and isinstance(error, RuntimeError):
            return None
        got = f"{type(error).__name__}: {first_line(error)}"
        return Problem(f"an answer under vmap, {pattern}", got, "batching", line, error)

    def _compared(
        self, trial: Trial, pattern: Pattern, expected: Sequence[Any], found: Sequence[Any]
    ) -> Problem | None:
        torch = trial.on.torch
        if len(found) != len(expected[0]):
            return Problem(f"{len(expected[0])} results", str(len(found)), "batching")
        for i, got in enumerate(found):
            wanted = torch.stack([row[i] for row in expected])[: pattern.batch]
            problem = how_they_differ(trial.on, wanted, got, *_loose(trial))
            if problem:
                what = f"result {i} under vmap as in a loop, {pattern}"
                return Problem(what, problem, "batching")
        return None


def _loose(trial: Trial) -> tuple[float | None, float | None]:
    names = {t.dtype for t in trial.tensors()}
    if names & {"float16", "bfloat16"}:
        return 3e-2, 3e-2
    return (1e-4, 1e-4) if names & {"float32", "complex64"} else (1e-6, 1e-6)


def patterns(ndims: Sequence[int]) -> Iterator[Pattern]:
    """All at 0; all at the last; each alone; a negative dim; batches of 0 and 1; nested."""
    n = len(ndims)
    yield Pattern((0,) * n, 3)
    yield Pattern(tuple(ndims), 3)
    yield Pattern((-1,) * n, 2)
    if n > 1:
        for i in range(min(n, 4)):
            alone = [None] * n
            yield Pattern(tuple([0 if k == i else None for k in range(len(alone))]), 3)
            yield Pattern(tuple([ndims[k] if k == i else None for k in range(n)]), 2)
        yield Pattern(tuple([ndims[k] if k % 2 else 0 for k in range(n)]), 2)
    yield Pattern((0,) * n, 1)
    yield Pattern((0,) * n, 0)
    yield Pattern((0,) * n, 2, nested=True)
    if n > 1:
        yield Pattern((0, *[None] * (n - 1)), 2, nested=True)
        yield Pattern((*[None] * (n - 1), 0), 2, nested=True)
    if any(ndims):
        yield Pattern(tuple([min(1, d) for d in ndims]), 2, nested=True)


def _member(trial: Trial, pattern: Pattern, number: int) -> list[Any]:
    """The tensors of one member of the batch; what is not batched is the same for all."""
    seeds = [0 if d is None else number for d in pattern.dims]
    count = iter(seeds)

    def varied(t: Any) -> Any:
        seed = next(count)
        kind = t.values if seed == 0 else "mixed"
        return replace(t, values=kind, seed=t.seed + 17 * seed, requires_grad=False)

    recipe = trial.recipe.mapped(varied)
    return tensors_in(trial.sample.build(recipe), trial.on)


def _call(trial: Trial, tensors: Sequence[Any]) -> list[Any]:
    # Made once, outside of the transforms.
    args, kwargs = trial.__dict__.setdefault("skeleton", None) or trial.arguments()
    trial.__dict__["skeleton"] = args, kwargs
    given = iter(tensors)

    def chosen(t: Any) -> Any:
        return next(given)

    args, kwargs = map_tensors(chosen, args, trial.on), map_tensors(chosen, kwargs, trial.on)
    result = trial.op(*args, **kwargs)
    written = list(tensors) if trial.op.written else []
    return [*tensors_in(result, trial.on), *written]


def _called(trial: Trial, tensors: Sequence[Any]) -> list[Any]:
    with trial.on.torch.no_grad():
        return _call(trial, [t.clone() for t in tensors])


def _stacked(trial: Trial, pattern: Pattern, members: Sequence[Sequence[Any]]) -> list[Any]:
    made = []
    for i, d in enumerate(pattern.dims):
        if d is None:
            made.append(members[0][i].clone())
        else:
            whole = trial.on.torch.stack([m[i] for m in members], d)
            if not pattern.batch:
                whole = whole.narrow(d, 0, 0).clone()
            made.append(whole)
    return made


class VmapOfGrad(OfValues):
    """vmap of grad, and grad of vmap, give what the loop gives."""

    id = "vmap.gradients"
    spec = "L98, LX9"
    dear = True
    limit = 3
    hint = "the backward's operators must batch too, or the rule's result must be differentiable"

    def why_not(self, sample: Sample) -> str:
        op = sample.op
        known = super().why_not(sample)
        if known or op.written or op.views:
            return known or "it writes, or its results share memory"
        if op.on.name == "torch" and not op.builtin:
            return "PyTorch's custom operators do not compose with func.grad"
        if not is_meant(sample) or op.builtin:
            return "no formula of the author's"
        return ""

    def suits(self, trial: Trial) -> bool:
        tensors = trial.tensors()
        return (
            trial.accepted
            and bool(tensors)
            and all(t.floating and t.layout == "plain" and not t.share for t in tensors)
            and any(r.is_floating_point() for r in trial.results())
        )

    def check(self, trial: Trial) -> Problem | None:
        torch = trial.on.torch
        pattern = Pattern((0,) * len(trial.tensors()), 3)
        members = [_member(trial, pattern, i) for i in range(3)]
        try:
            shapes = [[t.shape for t in _called(trial, m)] for m in members]
            if any(s != shapes[0] for s in shapes):
                return None  # sizes of data: no batch of them
            expected = [self._gradients(trial, [t.requires_grad_() for t in m]) for m in members]
        except Exception:  # noqa: BLE001  # told elsewhere
            return None
        stacked = _stacked(trial, pattern, [[t.detach() for t in m] for m in members])
        whole = [t.requires_grad_() for t in stacked]
        try:
            outs = trial.on.vmap(lambda *ts: _call(trial, ts))(*whole)
            loss = sum(o.sum() for o in outs if o.requires_grad)
            found = torch.autograd.grad(loss, whole, allow_unused=True)
        except Exception as error:  # noqa: BLE001  # told as what it is
            line = author_line(error, [trial.op.function(p) for p in ("backward", "batching")])
            got = f"{type(error).__name__}: {first_line(error)}"
            return Problem("gradients through vmap", got, "batching", line, error)
        for i, g in enumerate(found):
            rows = [row[i] for row in expected]
            if g is None or any(r is None for r in rows):
                continue
            problem = how_they_differ(trial.on, torch.stack(rows), g, *_loose(trial))
            if problem:
                return Problem(f"gradient {i} through vmap as in a loop", problem, "batching")
        return None

    def _gradients(self, trial: Trial, tensors: Sequence[Any]) -> Sequence[Any]:
        outs = [t for t in _call(trial, tensors) if t.requires_grad]
        loss = sum(o.sum() for o in outs)
        return trial.on.torch.autograd.grad(loss, tensors, allow_unused=True)


class VmapRandomness(Property):
    """Draws under vmap are different for each member, or the same for all, as asked."""

    id = "vmap.randomness"
    spec = "LX9, P43, L100"
    dear = True
    limit = 2
    hint = "with info.randomness 'different' draw a number per member: a shape with the batch dim"

    def why_not(self, sample: Sample) -> str:
        if not sample.op.random:
            return "it is not tagged nondeterministic_seeded"
        if sample.op.written or not sample.recipe.tensors():
            return "it writes its arguments, or has none"
        return ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and sum(r.numel() for r in trial.results()) >= 4

    def rank(self, trial: Trial) -> int:
        # Draws of few outcomes are told apart by many elements.
        return -sum(t.numel for t in trial.tensors())

    def check(self, trial: Trial) -> Problem | None:
        if not self._varies(trial):
            return None
        tensors = tensors_in(trial.arguments(), trial.on)
        for mode in ("different", "same"):
            stacked = [trial.on.torch.stack([t] * 3) for t in tensors]
            function = trial.on.vmap(lambda *ts: _call(trial, ts), randomness=mode)
            try:
                with trial.on.torch.no_grad():
                    found = function(*stacked)
            except Exception:  # noqa: BLE001  # it may refuse
                continue
            for i, t in enumerate(found):
                rows = [trial.on.array(r).tobytes() for r in t]
                alike = len(set(rows)) == 1
                if mode == "different" and len(set(rows)) < len(rows) and _many_outcomes(t[0]):
                    return Problem(f"result {i} different for each member", "one draw for several",
                                   "batching")  # fmt: skip
                if mode == "same" and not alike:
                    return Problem(f"result {i} the same for all members", "different draws",
                                   "batching")  # fmt: skip
        return None

    def _varies(self, trial: Trial) -> bool:
        trial.on.torch.manual_seed(1)
        first, second = (tensors_in(trial.call(), trial.on) for _ in range(2))
        return any(
            bool(how_they_differ(trial.on, a, b)) for a, b in zip(first, second, strict=True)
        )


def _many_outcomes(t: Any) -> bool:
    """Whether two draws of a tensor's values are hardly ever equal by chance."""
    kinds = len(set(t.reshape(-1).tolist()))
    return bool(t.numel() >= 4 and (kinds > 3 or t.numel() >= 60))


BATCHING: tuple[Property, ...] = (VmapIsLoop(), VmapOfGrad(), VmapRandomness())
