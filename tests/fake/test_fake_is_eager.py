"""The law: the fake answer is the eager answer, for well-formed and ill-formed calls alike.

For every overload that is present, recorded calls and their mutations (`mutations.py`) are made on
real and on fake tensors: the same metadata, or the same exception in the same words, which one of
our checks must have raised.
"""

from __future__ import annotations

import dis
import functools
import gzip
import json
import pathlib
import random
import sys
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.dispatch.registry import all_overloads
from maquette.tensor.arrays import array_over
from maquette.tensor.tensor import from_array

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = pathlib.Path(mq.__file__).parent
sys.path.insert(0, str(ROOT / "conformance"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import check  # noqa: E402
from mutations import MUTATIONS, Case  # noqa: E402

SEEDS = 1  # recorded calls an overload is tried with, with every mutation; 16 in `make verify`
DATA_DEPENDENT = ("DynamicOutputShapeException", "DataDependentOutputException")


@functools.cache
def recorded() -> dict[str, list[Case]]:
    cases: dict[str, list[Case]] = {}
    with gzip.open(ROOT / "conformance" / "aten_public.jsonl.gz", "rt", encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            if line.startswith('{"overload"'):
                continue
            name = line.split('"op":"', 1)[1].split('"', 1)[0]
            kept = cases.setdefault(name, [])
            if len(kept) < 16:
                kept.append(json.loads(line))
    return cases


def present() -> list[str]:
    names = [str(o) for o in all_overloads() if o.namespace == "aten"]
    return sorted(set(names) & set(recorded()))


class Calls(check.Arguments):
    """Arguments of a mutated case, on storages of their own, which may grow as a fake's may.

    A record may ask to be moved to another device.
    """

    def __init__(self, backend: check.Backend, case: Case) -> None:
        super().__init__(backend, {**case, "resizes": True})

    def tensor(self, record: dict[str, Any]) -> Any:
        tensor = super().tensor(record)
        if "move" in record:
            tensor = tensor.to(record["move"])
            self.tensors[-1] = tensor
        return tensor


def outcome(backend: check.Backend, case: Case, *, fake: bool) -> tuple[Any, BaseException | None]:
    """What a call gave: metadata of all results, or the exception."""
    operator = backend.operator(case["op"])
    arguments = Calls(backend, case)
    args, kwargs = arguments.args, arguments.kwargs
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if fake:
                mode = mq.FakeTensorMode()
                table = {id(t): mode.from_tensor(t) for t in arguments.tensors}
                args = check.replace(args, table, backend.is_tensor)
                kwargs = {k: check.replace(v, table, backend.is_tensor) for k, v in kwargs.items()}
                with mode:
                    result = operator(*args, **kwargs)
            else:
                result = operator(*args, **kwargs)
    except Exception as error:
        return None, error
    tensors = check.flat_tensors(backend, result)
    written = check.flat_tensors(backend, [args, list(kwargs.values())])
    return [str(t.meta) + str((t.stride(), t.storage_offset())) for t in (*tensors, *written)], None


def reads_data(error: BaseException) -> bool:
    """Whether a kernel raised an error for the values it was given, which no fake can know.

    Kernels mark such errors (`maquette.core.errors.check_data`).
    """
    return getattr(error, "reads_data", False)


def is_accident(error: BaseException) -> bool:
    """Whether nothing of ours raised an error on purpose: Python did, or NumPy.

    A check ends in a ``raise`` statement of our own; an index into None ends in the instruction
    that could not do its work, an assertion in a class that users should never see.
    """
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    raised = dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
    ours = OURS in pathlib.Path(code.co_filename).parents
    return not (raised and ours) or isinstance(error, AssertionError)


def difference(backend: check.Backend, case: Case) -> str | None:
    """How fake and eager differ on a call, or None."""
    real, real_error = outcome(backend, case, fake=False)
    fake, fake_error = outcome(backend, case, fake=True)
    if fake_error is not None and type(fake_error).__name__ in DATA_DEPENDENT:
        return None
    if real_error is not None and reads_data(real_error):
        return None
    for who, error in (("eager", real_error), ("fake", fake_error)):
        if error is not None and is_accident(error):
            return f"{who} raises by accident: {type(error).__name__}: {error}"
    if (real_error is None) != (fake_error is None):
        error = real_error or fake_error
        who = "eager" if real_error is not None else "fake"
        return f"only {who} raises {type(error).__name__}: {error}"
    if real_error is not None:
        mine, theirs = (f"{type(e).__name__}: {e}" for e in (real_error, fake_error))
        return None if mine == theirs else f"eager raises {mine}\n  fake raises {theirs}"
    return None if real == fake else f"eager gives {real}\n  fake gives {fake}"


def shown(case: Case) -> str:
    arguments = json.dumps({"args": case["args"], "kwargs": case["kwargs"]})
    return f"{case['op']} {arguments[:600]}"


@functools.cache
def backend() -> check.Backend:
    return check.Backend()


def raised_by(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    "call",
    [
        lambda: mq.ops.aten.mm(mq.ones(2, 3), mq.ones(2, 3)),
        lambda: mq.ops.aten.sum.dim_IntList(mq.ones(2), [3]),
        lambda: mq.ops.aten.mm(mq.ones(2, 3), None),
    ],
    ids=["a shape rule's check", "a check further in", "no match"],
)
def test_a_check_is_no_accident(call: Callable[[], object]) -> None:
    assert not is_accident(raised_by(call))


@pytest.mark.parametrize(
    "call",
    [
        lambda: array_over(mq.ones(2).untyped_storage(), None),
        lambda: from_array(None),
        lambda: np.linalg.inv(np.zeros((2, 2))),
    ],
    ids=["an attribute of None", "a call of ours", "a raise of NumPy's"],
)
def test_what_python_or_numpy_raise_is_an_accident(call: Callable[[], object]) -> None:
    assert is_accident(raised_by(call))


def differences(name: str, seeds: int) -> list[str]:
    """How fake and eager differ on recorded calls of an overload and their mutations."""
    rng = random.Random(zlib.crc32(name.encode()))
    cases = recorded()[name]
    calls = rng.sample(cases, min(seeds, len(cases)))
    for case in calls.copy():
        for mutate in MUTATIONS:
            changed = mutate(case, rng)
            if changed is not None:
                calls.append(changed)
    found: dict[str, str] = {}
    for case in calls:
        problem = difference(backend(), case)
        if problem is not None:
            found.setdefault(problem.split("\n")[0][:60], f"{shown(case)}\n  {problem}")
    return list(found.values())


@pytest.mark.parametrize("name", present())
def test_F22_fake_is_eager(name: str) -> None:
    found = differences(name, SEEDS)
    assert not found, "\n".join(found[:4])


@pytest.mark.verify
@pytest.mark.parametrize("name", present())
def test_F22_fake_is_eager_on_more_calls(name: str) -> None:
    found = differences(name, 16)
    assert not found, "\n".join(found[:4])
