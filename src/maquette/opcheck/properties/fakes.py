"""The fake answers as the real call does: metadata, aliases, devices, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.opcheck.copies import map_tensors, tensors_in
from maquette.opcheck.metadata import shown_sizes
from maquette.opcheck.properties.base import Problem, Property, first_line
from maquette.opcheck.recipes import Sample
from maquette.opcheck.trials import Trial, author_line

_DATA_TAGS = {"dynamic_output_shape", "data_dependent_output"}


class FakeFact(Property):
    """One fact of the fake's results is that of the real ones."""

    spec = "L118, LX6"

    def __init__(self, id: str, facts: Sequence[str], hint: str) -> None:
        self.id = id
        self.facts = facts
        self.hint = hint
        self.any_class = id in ("fake.shape", "fake.strides", "fake.offset", "fake.aliasing")

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None

    def check(self, trial: Trial) -> Problem | None:
        if trial.crossed and any(d.fact == "dtype" for d in trial.fake_differences):
            return None
        for d in trial.fake_differences:
            if d.fact in self.facts:
                return Problem(f"{d.where}: {d.fact} {d.real}", d.fake, "fake")
        return None


class FakeThere(Property):
    """There is a fake, and it takes what the kernel takes."""

    id = "fake.missing"
    spec = "L78, L118"
    hint = "register one: @op.register_fake, with the operator's signature, of operators only"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is not None

    def check(self, trial: Trial) -> Problem | None:
        error = trial.fake.error
        if error is None or _kind(trial, error) != self.id:
            return None
        line = author_line(error, [trial.op.function("fake"), trial.op.function("kernel")])
        return Problem(
            self.expected, f"{type(error).__name__}: {first_line(error)}", "fake", line, error
        )

    expected = "a fake implementation"


class FakeWithoutData(FakeThere):
    """The fake reads no data."""

    id = "fake.reads data"
    spec = "P22"
    hint = "a fake has no data: use shapes, dtypes; get_ctx().new_dynamic_size() for unknown sizes"
    expected = "an answer from metadata alone"


class FakeTakesAll(FakeThere):
    """The fake refuses nothing that the kernel takes."""

    id = "fake.refuses"
    spec = "P26"
    hint = "the kernel takes this input: let the fake take it, or have both refuse it"
    expected = "an answer, as the kernel gives one"


def _kind(trial: Trial, error: BaseException) -> str:
    text = str(error)
    if (
        isinstance(error, trial.on.unsupported)
        or "no fake impl" in text
        or (isinstance(error, NotImplementedError) and ("Meta" in text or "fake" in text))
    ):
        return "fake.missing"
    if isinstance(error, trial.on.data_errors) or any(w in text for w in _DATA_WORDS):
        return "" if trial.op.tags & _DATA_TAGS else "fake.reads data"
    return "fake.refuses"


_DATA_WORDS = (
    "data-dependent",
    ".item()",
    "numpy() on a fake",
    "has no data",
    "Cannot access data pointer",
    "data_ptr",
    "Mixing fake modes",
    "real Tensor",
    "convert all Tensors",
    "FakeTensor",
    "fake tensor",
)


class FakeRefuses(Property):
    """What the kernel refuses whatever the values, the fake refuses too."""

    id = "fake.accepts"
    spec = "P26, LX3"
    hint = "check in the fake what the kernel checks, in the same words"
    _draws = ("sample", "mixed", "zeros", "ones", "eye", "normal", "columns", "rows")

    def why_not(self, sample: Sample) -> str:
        if sample.op.tags & _DATA_TAGS:
            return "its results depend on data"
        if sample.op.on.name == "maquette" and sample.op.overload.shape_rule is not None:
            return "its kernel runs behind the shape rule, which is its fake"
        # What writes and returns nothing needs no fake of its own (L78), so that none can refuse.
        return "" if sample.op.returns else "it returns nothing"

    def suits(self, trial: Trial) -> bool:
        return not trial.accepted and not trial.refused_result

    def check(self, trial: Trial) -> Problem | None:
        error = trial.real.error
        if error is None or self._excused(trial, error) or trial.fake.error is not None:
            return None
        for kind in self._draws:
            other = Trial(trial.sample, trial.recipe.mapped(lambda t, k=kind: _drawn(t, k)))  # type: ignore[misc]
            if other.accepted or isinstance(other.real.error, IndexError):
                return None
        functions = [trial.op.function("kernel")]
        got = f"an answer, where the kernel raises {type(error).__name__}: {first_line(error)}"
        return Problem("a refusal, as the kernel's", got, "fake", author_line(error, functions))

    def _excused(self, trial: Trial, error: BaseException) -> bool:
        """Whether a kernel merely fails, where an author need not have thought of it."""
        if isinstance(error, (IndexError, MemoryError)) or "LinAlg" in type(error).__name__:
            return True
        line = author_line(error, [trial.op.function("kernel")])
        if any(word in line for word in ("raise", "assert", "_check", "check(")):
            return False
        base = trial.sample.recipe.tensors()
        for t, known in zip(trial.tensors(), base, strict=False):
            if t.dtype != known.dtype and t.dtype != "float64":
                return True
            if len(t.shape) != len(known.shape) or t.layout != known.layout:
                return True
        return len(trial.tensors()) != len(base) or any(not t.numel for t in trial.tensors())


def _drawn(t: Any, kind: str) -> Any:
    from dataclasses import replace  # noqa: PLC0415

    return replace(t, values=kind, seed=t.seed + 3)


class FakeFollowsDevice(Property):
    """Fake results are where the inputs are."""

    id = "fake.device follows"
    spec = "L118, LX12"
    dear = True
    limit = 3
    hint = "make results from the inputs (x.new_empty, torch.empty_like), or pass device=x.device"

    def why_not(self, sample: Sample) -> str:
        if not sample.recipe.tensors():
            return "no tensor says where to"
        if any(a.type.base.kind == "device" for a in sample.op.schema.arguments):
            return "an argument says where to"
        if set(sample.devices) != {"cpu"}:
            return "the sample is not on cpu"
        return "" if _serves(sample, "cuda") else "it has no kernel for cuda"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None

    def check(self, trial: Trial) -> Problem | None:
        if any(t.device.type != "cpu" for t in trial.results()):
            return None
        for device in ("cuda:1", "meta") if trial.on.name == "maquette" else ("cuda:0",):
            fake = trial.faked(static=True, device=device)
            if fake.error is not None:
                continue
            for i, t in enumerate(tensors_in(fake.result, trial.on)):
                if str(t.device) != device:
                    return Problem(f"result {i} on {device}, as the inputs", str(t.device), "fake")
        return None


def _serves(sample: Sample, device: str) -> bool:
    op = sample.op
    keys = ("CUDA", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    return op.builtin or any(op.has_kernel(k) for k in keys) or op.function("fake") is not None


class MetaAgrees(Property):
    """Meta tensors get the answer that fake ones get."""

    id = "fake.meta agrees"
    spec = "L77"
    dear = True
    limit = 12
    hint = "one function should serve both: register_fake serves fake and meta tensors"

    def why_not(self, sample: Sample) -> str:
        return "its results depend on data" if sample.op.tags & _DATA_TAGS else ""

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None

    def check(self, trial: Trial) -> Problem | None:
        args, kwargs = trial.arguments()
        to_meta = lambda t: _meta(trial, t)  # noqa: E731
        try:
            with trial.on.torch.no_grad():
                result = trial.op(
                    *map_tensors(to_meta, args, trial.on), **map_tensors(to_meta, kwargs, trial.on)
                )
        except Exception:  # noqa: BLE001  # meta tensors are not served everywhere
            return None
        fakes, metas = (tensors_in(r, trial.on) for r in (trial.fake.result, result))
        for i, (f, m) in enumerate(zip(fakes, metas, strict=False)):
            for fact in ("shape", "dtype"):
                a, b = getattr(f, fact), getattr(m, fact)
                if a != b and all(type(n) is int for n in f.shape):
                    return Problem(
                        f"result {i}: {fact} {_shown(a)}, as on fakes", _shown(b), "fake"
                    )
        return None


def _meta(trial: Trial, t: Any) -> Any:
    torch = trial.on.torch
    return torch.empty_strided(tuple(t.shape), tuple(t.stride()), dtype=t.dtype, device="meta")


def _shown(value: Any) -> str:
    return shown_sizes(value) if isinstance(value, tuple) else str(value)


class FakeRepeats(Property):
    """The fake gives the same answer again, also after others."""

    id = "fake.repeats"
    spec = "P28, LX13"
    hint = "a fake may keep nothing between calls: its answer is of its arguments alone"

    def conclude(self, trials: Sequence[Trial]) -> tuple[Problem, Trial] | None:
        for trial in [t for t in trials if t.fake.error is None][:8]:
            for again in (trial.faked(static=True), trial.faked(static=True)):
                was, now = (_facts(trial, f.result) for f in (trial.fake, again))
                if again.error is not None:
                    now = f"{type(again.error).__name__}: {first_line(again.error)}"
                if was != now:
                    return Problem(f"{was}, as the first time", now, "fake"), trial
        return None


def _facts(trial: Trial, result: Any) -> str:
    def text(t: Any) -> str:
        sizes = [n if type(n) is int else "?" for n in t.shape]
        return f"{t.dtype}{shown_sizes(sizes)} on {t.device}"

    return ", ".join(map(text, tensors_in(result, trial.on)))


class FakeChangesNothing(Property):
    """The fake returns no real tensor and leaves real ones alone."""

    id = "fake.real results"
    spec = "L85"
    hint = "make the fake's results from its arguments, not from tensors kept elsewhere"

    def suits(self, trial: Trial) -> bool:
        return trial.accepted and trial.fake.error is None

    def check(self, trial: Trial) -> Problem | None:
        for i, t in enumerate(tensors_in(trial.fake.result, trial.on)):
            if not trial.on.is_fake(t):
                return Problem(f"result {i} fake", "a real tensor", "fake")
        return None


FAKES: tuple[Property, ...] = (
    FakeThere(),
    FakeWithoutData(),
    FakeTakesAll(),
    FakeFact(
        "fake.count", ["count", "kind"], "return as many tensors as the kernel, None where it does"
    ),
    FakeFact(
        "fake.shape",
        ["shape"],
        "compute the shape for any sizes: 0, 1, broadcast and negative dims; sizes of data by "
        "get_ctx().new_dynamic_size()",
    ),
    FakeFact(
        "fake.dtype",
        ["dtype"],
        "promote as the kernel does: torch.result_type(x, y), and give dtype=",
    ),
    FakeFact("fake.device", ["device", "layout"], "make results from the inputs: x.new_empty(...)"),
    FakeFact(
        "fake.strides",
        ["strides"],
        "empty_like(x) keeps strides, x.new_empty(shape) is contiguous: do as the kernel does",
    ),
    FakeFact(
        "fake.number",
        ["number"],
        "compute a number from sizes; one of data by get_ctx().new_dynamic_size()",
    ),
    FakeFact("fake.offset", ["offset"], "the kernel's result starts elsewhere in its storage"),
    FakeFact("fake.aliasing", ["aliasing"], "return a view where the kernel does, and only there"),
    FakeFact("fake.bits", ["bits"], "conjugate and negative bits are part of the metadata"),
    FakeChangesNothing(),
    FakeRefuses(),
    FakeFollowsDevice(),
    MetaAgrees(),
    FakeRepeats(),
)
