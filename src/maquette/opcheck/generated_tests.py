"""Tests made from tests: each test of a class again, with every call of an operator checked (L121).

`generate_opcheck_tests` adds ``<utility>__<test>`` to a `unittest.TestCase`. The method runs the
test under a mode that hands each call of the given namespaces' operators to a utility. What is
known to fail stands in a JSON file: operator, then test, then a status and a comment.
"""

from __future__ import annotations

import functools
import json
import os
import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.torch_function import TorchFunctionMode
from maquette.opcheck.checking import DEFAULT_TEST_UTILS, OpCheckError, check_names, opcheck
from maquette.opcheck.copies import copied_arguments, tensors_in
from maquette.opcheck.framework import maquette_framework
from maquette.opcheck.operators import checked

STATUSES = ("xfail", "skip", "xsuccess")
UPDATE = "PYTORCH_OPCHECK_ACCEPT"
"""The environment variable which, set to 1, has the file rewritten with what happened."""

_DESCRIPTION = (
    "What generate_opcheck_tests knows to fail: operator -> test -> {status: xfail, skip or "
    f"xsuccess; comment}}. Run the tests with {UPDATE}=1 to rewrite it."
)
_VERSION = 1
_inside: list[OpCheckMode] = []


def is_inside_opcheck_mode() -> bool:
    """Whether a generated test is checking a call right now."""
    return bool(_inside)


def dontGenerateOpCheckTests(reason: str) -> Callable[[Any], Any]:
    """A decorator for a test of which none shall be generated, and why not."""

    def mark(function: Any) -> Any:
        function._torch_dont_generate_opcheck_tests = True
        return function

    return mark


# --- what is known to fail --------------------------------------------------------------------


class FailuresDict:
    """The JSON file of known failures."""

    def __init__(self, path: str, data: dict[str, dict[str, dict[str, str]]]) -> None:
        self.path = path
        self.data = data

    @staticmethod
    def load(path: str, *, create_file: bool = False) -> FailuresDict:
        """Read the file; an absent one is empty, and is written if ``create_file``."""
        if not os.path.exists(path):
            made = FailuresDict(path, {})
            if create_file:
                made.save()
            return made
        with open(path) as file:
            text = file.read()
        try:
            data = json.loads(text or "{}")
        except ValueError as error:
            raise RuntimeError(f"{path}: expected JSON, got: {error}") from error
        if not isinstance(data, dict) or not isinstance(data.get("data", {}), dict):
            raise RuntimeError(f'{path}: expected an object with "data": operator -> test -> entry')
        return FailuresDict(path, data.get("data", {}))

    def save(self) -> None:
        """Write the file, sorted."""
        data = {op: dict(sorted(tests.items())) for op, tests in sorted(self.data.items()) if tests}
        with open(self.path, "w") as file:
            json.dump(
                {"_description": _DESCRIPTION, "_version": _VERSION, "data": data}, file, indent=2
            )
            file.write("\n")

    def get_status(self, qualname: str, test_name: str) -> str:
        """The known status of a call of an operator in a test; "xsuccess" where none is noted."""
        return self.data.get(qualname, {}).get(test_name, {}).get("status", "xsuccess")

    def set_status(
        self, qualname: str, test_name: str, status: str, *, comment: str | None = None
    ) -> None:
        """Note a status; "xsuccess" takes the entry away."""
        tests = self.data.setdefault(qualname, {})
        if status == "xsuccess":
            tests.pop(test_name, None)
            return
        known = tests.get(test_name, {}).get("comment", "")
        tests[test_name] = {"comment": known if comment is None else comment, "status": status}


def check_failures(known: FailuresDict, utilities: Sequence[str], testcase: type) -> None:
    """RuntimeError for entries that are malformed, or name tests that are not there."""
    for op, tests in known.data.items():
        if not isinstance(tests, dict):
            raise RuntimeError(f"{known.path}: expected tests of {op}, got {tests!r}")
        for name, entry in tests.items():
            status = entry.get("status") if isinstance(entry, dict) else None
            if status not in STATUSES or set(entry) - {"status", "comment"}:
                raise RuntimeError(
                    f'{known.path}: {op}, {name}: expected {{"status": one of '
                    f'{", ".join(STATUSES)}, "comment": ...}}, got {entry!r}'
                )
            case, _, method = name.rpartition(".")
            if case and case != testcase.__name__:
                continue
            utility, _, original = method.partition("__")
            if utility not in utilities or not hasattr(testcase, original):
                raise RuntimeError(
                    f"{known.path}: {op}: no test is called {name}: expected "
                    f"{testcase.__name__}.<utility>__<test>, with a utility of "
                    f"{', '.join(utilities)}"
                )


# --- the mode ---------------------------------------------------------------------------------


class OpCheckMode(TorchFunctionMode):
    """Hands each call of some namespaces' operators to a utility before it runs.

    What the utility says is compared at the end with what is known; a difference fails the test.
    """

    def __init__(
        self,
        namespaces: Sequence[str],
        test_util_name: str,
        failures_dict: FailuresDict,
        test_name: str,
        failures_dict_path: str = "",
    ) -> None:
        super().__init__()
        self.namespaces = namespaces
        self.utility = test_util_name
        self.known = failures_dict
        self.test_name = test_name
        self.seen: dict[str, list[tuple[Exception | None, str]]] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        on = maquette_framework()
        if not _inside and isinstance(func, (on.packet, on.op_overload)):
            op = _overload_of(func, args, kwargs)
            if op is not None and op.namespace in self.namespaces:
                self._check(op, args, kwargs)
        return func(*args, **kwargs)

    def _check(self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        name = op.name()
        if self.known.get_status(name, self.test_name) == "skip":
            return
        _inside.append(self)
        try:
            opcheck(op, args, kwargs, test_utils=self.utility)
            self.seen.setdefault(name, []).append((None, ""))
        except Exception as error:  # noqa: BLE001  # compared with what is known at the end
            self.seen.setdefault(name, []).append((error, _repro(op, args, kwargs, self.utility)))
        finally:
            _inside.pop()

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        kind = raised[0]
        if kind is not None and issubclass(kind, unittest.SkipTest):
            return
        update = os.environ.get(UPDATE, "0") == "1"
        for name, outcomes in self.seen.items():
            failed = [(e, r) for e, r in outcomes if e is not None]
            known = self.known.get_status(name, self.test_name)
            status = "xfail" if failed else "xsuccess"
            if update:
                self.known.set_status(name, self.test_name, status)
            elif failed and known != "xfail":
                error, repro = failed[0]
                raise OpCheckError(f"{error}\nTo run this check alone:\n{repro}") from error
            elif not failed and known == "xfail":
                raise OpCheckError(
                    f"{self.test_name}: {name} was expected to fail {self.utility} but passed; "
                    f"take it out of {self.known.path}, or run the tests with {UPDATE}=1"
                )
        if update and self.seen:
            self.known.save()


def _overload_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpOverload | None:
    if isinstance(func, OpOverload):
        return func
    names = func.overloads()
    if len(names) == 1:
        only: OpOverload = getattr(func, names[0])
        return only
    caught: list[OpOverload] = []

    class Catch(TorchDispatchMode):
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not caught:
                caught.append(op)
            return op(*args, **(kwargs or {}))

    on = maquette_framework()
    copied = copied_arguments(on, args, kwargs)
    if not tensors_in(copied, on):
        return None
    with Catch():
        func(*copied[0], **copied[1])
    return caught[0] if caught else None


def _repro(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], utility: str) -> str:
    from maquette.opcheck.recipes import code_of, sample_of  # noqa: PLC0415

    target = checked(op)
    try:
        sample = sample_of(target, args, kwargs)
        call = code_of(sample, sample.recipe)
    except Exception:  # noqa: BLE001  # arguments that no line of code makes
        call = f"{op}(...)"
    inside = call.partition("(")[2][:-1]
    return (
        "import torch\nfrom torch.testing._internal.optests import opcheck\n"
        f"opcheck(torch.ops.{op}, ({inside}{',' if inside else ''}), test_utils={utility!r})"
    )


# --- generating -------------------------------------------------------------------------------


def generate_opcheck_tests(
    testcase: Any,
    namespaces: Sequence[str],
    failures_dict_path: str | None = None,
    additional_decorators: Mapping[str, Callable[[Any], Any]] | None = None,
    test_utils: Sequence[str] = DEFAULT_TEST_UTILS,
) -> None:
    """Add, for each test of ``testcase`` and each utility, the test ``<utility>__<test>``.

    namespaces: those of the operators to check. failures_dict_path: the JSON file; by default
    ``failures_dict.json`` beside the test. additional_decorators: by the name of a generated test.
    Raises RuntimeError where a name is taken, or the file is malformed.
    """
    if not (isinstance(testcase, type) and issubclass(testcase, unittest.TestCase)):
        raise ValueError(f"expected a subclass of unittest.TestCase, got {testcase!r}")
    utilities = check_names(list(test_utils))
    if failures_dict_path is None:
        failures_dict_path = _beside(testcase)
    known = FailuresDict.load(failures_dict_path, create_file=False)
    check_failures(known, utilities, testcase)
    tests = [n for n in dir(testcase) if n.startswith("test_")]
    for name in tests:
        method = getattr(testcase, name)
        if getattr(method, "_torch_dont_generate_opcheck_tests", False) or not callable(method):
            continue
        for utility in utilities:
            _add(testcase, name, utility, namespaces, known, additional_decorators or {})


def _beside(testcase: type) -> str:
    import inspect  # noqa: PLC0415

    return os.path.join(os.path.dirname(inspect.getfile(testcase)), "failures_dict.json")


def _add(
    testcase: type,
    name: str,
    utility: str,
    namespaces: Sequence[str],
    known: FailuresDict,
    decorators: Mapping[str, Callable[[Any], Any]],
) -> None:
    generated = f"{utility}__{name}"
    if hasattr(testcase, generated):
        raise RuntimeError(
            f"{testcase.__name__} has a test {generated} already; rename it, or generate only once"
        )
    method = getattr(testcase, name)
    label = f"{testcase.__name__}.{generated}"

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with OpCheckMode(namespaces, utility, known, label):
            return method(self, *args, **kwargs)

    run.__name__ = generated
    marks = getattr(method, "pytestmark", None)
    if marks:
        run.pytestmark = [m for m in marks if m.name != "parametrize"]  # type: ignore[attr-defined]
    decorator = decorators.get(generated)
    setattr(testcase, generated, run if decorator is None else decorator(run))
