"""The process in which `public_tests.py` runs a test file, on PyTorch or on maquette.

It reads what to run as JSON from its input and says what became of each test as JSON lines. On
maquette, ``torch.testing._internal`` (helpers of the tests, no part of torch's API) is loaded from
PyTorch's wheel. What those helpers or a test file import and maquette does not have is stood in for
by empty modules: a test that calls into one fails and says so.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib.util
import itertools
import json
import os
import re
import resource
import signal
import sys
import traceback
import types
import unittest
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, NoReturn, cast

# Served from PyTorch's wheel, beginnings of paths: what only tests use.
FROM_WHEEL = (
    "torch.testing._internal",
    "torch.testing._comparison",
    "torch.testing._utils",
    "torch.testing._creation",
)
# Not of torch; test files import them for their own ends.
OUTSIDE = ("torch_npu", "url", "torchvision", "caffe2", "torch_npu.testing.testcase")
# Set-ups of tests load these shared objects of C++ classes; few of their tests use one.
CXX_LIBRARIES = ("libtorchbind_test", "libjitbackend_test", "libbackend_with_compiler")
HELPERS = "torch.testing._internal"
TEST_FILE = "public_tests_file"


# --- what maquette does not have -----------------------------------------------------


class Absent:
    """Stands for something of torch that maquette lacks: false, empty, and not to be called."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def __name__(self) -> str:
        return self._name.rpartition(".")[2]

    def __getattr__(self, name: str) -> Absent:
        if name == "__all__":
            return cast(Any, ())
        if name.startswith("__") or name == "parametrize_fn":
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        asker = str(sys._getframe(1).f_globals.get("__name__"))
        if asker.startswith(HELPERS) or (asker == TEST_FILE and _is_loading()):
            # Decorators and questions at import: the thing decorated stays as it is.
            if len(args) == 1 and callable(args[0]):
                return args[0]
            return Absent(f"{self._name}{args!r}")
        raise NotImplementedError(f"maquette has no {self._name}")

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: object) -> Absent:
        return self

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __or__(self, other: object) -> object:
        return other

    __ror__ = __or__

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Absent) and other._name == self._name

    def __lt__(self, other: object) -> bool:
        return False

    __gt__ = __ge__ = __le__ = __lt__

    def __hash__(self) -> int:
        return hash(self._name)

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(f"maquette has no {self._name}")

    def __exit__(self, *exc: object) -> None: ...


# Names that the helpers look for to see whether they are there, by how they begin.
STRICT = ("__", "zero", "copy", "_foreach_")

# What the helpers ask for at import and cannot do without.
FACTS: dict[str, object] = {
    "torch._C._get_privateuse1_backend_name": lambda: "privateuseone",
    "torch.cpu.get_capabilities": dict,
    "torch._utils_internal.get_file_path_2": os.path.join,
    "torch._C._len_torch_function_stack": lambda: 0,
    "torch.utils._import_utils._check_module_exists": lambda name: (
        importlib.util.find_spec(name.partition(".")[0]) is not None
    ),
    "torch._C.has_lapack": True,
    "torch._C.has_mkl": True,
    "torch._C._get_default_device": lambda: "cpu",
}


class AbsentDtype(Absent):
    """A dtype that maquette lacks; the helpers sort dtypes from other things by their class."""

    @property
    def __class__(self) -> Any:
        return sys.modules["torch"].dtype

    @__class__.setter
    def __class__(self, value: type) -> None: ...

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        return True

    is_floating_point = is_complex = False
    itemsize = 1


QUANTIZED = ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")


def stand_in(path: str) -> object:
    """What a helper gets for a name that maquette lacks."""
    if path.rpartition(".")[2] in QUANTIZED:
        return AbsentDtype(path)
    return FACTS.get(path, Absent(path))


class AbsentFinder:
    """The last finder: an empty module for whatever under some roots nothing else found."""

    def __init__(self, *roots: str) -> None:
        self.roots = roots

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        root = name.partition(".")[0]
        if root not in self.roots:
            return None
        parent = sys.modules.get(name.rpartition(".")[0])
        if parent is not None and name.rpartition(".")[2] in vars(parent):
            return None  # a class or function of it, asked for as a module
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]  # it is a loader

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        name = spec.name
        module.__getattr__ = lambda attribute: _absent(name, attribute)  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None: ...


def _absent(module: str, name: str) -> object:
    if name == "__all__":
        return ()
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "TestCase":
        return _close_case(sys.modules["torch.testing._internal.common_utils"].TestCase)
    if name == "run_tests":
        return lambda *args: None
    return stand_in(f"{module}.{name}")


@functools.cache
def _close_case(case: type) -> type:
    """A class of tests that can say ``assertRtolEqual``, as an accelerator's own tests do."""

    def assert_rtol_equal(
        self: Any, x: Any, y: Any, prec: float = 1e-4, prec16: float = 1e-3, **_: object
    ) -> None:
        narrow = str(getattr(x, "dtype", "")).rpartition(".")[2] in ("float16", "bfloat16")
        tolerance = prec16 if narrow else prec
        self.assertEqual(x, y, rtol=tolerance, atol=tolerance)  # noqa: PT009  # the tests' own

    return type("TestCase", (case,), {"assertRtolEqual": assert_rtol_equal})


class GoneFinder(AbsentFinder):
    """Stands in for modules that PyTorch had when a test file was written, for that file alone."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        return super().find_spec(name, path, target) if _a_test_file_loads() else None


class WheelFinder:
    """Finds the tests' helpers in PyTorch's wheel, without importing torch from there."""

    def __init__(self, wheel: str) -> None:
        self.wheel = wheel

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if not any(name == start or name.startswith(f"{start}.") for start in FROM_WHEEL):
            return None
        folder = os.path.join(self.wheel, *name.split(".")[:-1])
        return PathFinder.find_spec(name, [folder])


class MaquetteFinder:
    """Asks maquette's finder, and takes its "no such module" for "go on"."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        try:
            found: ModuleSpec | None = self.inner.find_spec(name, path, target)
        except ModuleNotFoundError:
            return None
        return found


def become_maquette() -> None:
    """From here on ``import torch`` is maquette, with the tests' helpers beside it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit("this Python has no torch to take torch.testing._internal from")
    wheel = os.path.dirname(os.path.dirname(spec.origin))
    installing = importlib.import_module("maquette.torch.face.installing")
    importlib.import_module("maquette.torch").install()
    at = sys.meta_path.index(installing._OUTSIDE)
    sys.meta_path[at] = MaquetteFinder(installing._OUTSIDE)
    installing._PROCESSES.is_installed = lambda: True  # by the finder that takes its place
    sys.meta_path.insert(at, WheelFinder(wheel))
    sys.meta_path.insert(at + 2, AbsentFinder("torch", "functorch", *OUTSIDE))
    _be_lenient_to_helpers()
    _load_no_cxx_libraries()
    _load_table_of_arguments(wheel)


def _load_table_of_arguments(wheel: str) -> None:
    """The helpers' table of functions and their arguments, of those functions that there are."""
    name = f"{HELPERS}.generated.annotated_fn_args"
    path = os.path.join(wheel, *name.split(".")) + ".py"
    if not os.path.exists(path):
        return
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    table = next(node.value for node in tree.body if isinstance(node, ast.Assign))
    assert isinstance(table, ast.Dict)
    names = {"torch": importlib.import_module("torch")}
    found = {}
    for key, value in zip(table.keys, table.values):
        try:
            function = eval(ast.unparse(cast(ast.expr, key)), names)
        except AttributeError:
            continue
        found[function] = ast.literal_eval(value)
    module = types.ModuleType(name)
    module.annotated_args = found  # type: ignore[attr-defined]  # as the helpers' own
    sys.modules[name] = module


def _load_no_cxx_libraries() -> None:
    operators = importlib.import_module("maquette.dispatch.registry").ops
    strict = operators.load_library

    def lenient(path: str | os.PathLike[str]) -> None:
        if not os.path.basename(path).startswith(CXX_LIBRARIES):
            strict(path)

    operators.load_library = lenient


def _be_lenient_to_helpers() -> None:
    """Let the helpers, and test files as they are imported, read names that maquette lacks."""
    seen: set[str] = set()
    original = builtins.__import__

    def importing(name: str, globals: Any = None, *rest: Any, **named: Any) -> types.ModuleType:
        module = original(name, globals, *rest, **named)
        if globals is not None and _lenient_to(str(globals.get("__name__"))):
            for loaded in sys.modules.keys() - seen:
                if loaded == "torch" or loaded.startswith(("torch.", "maquette.torch.")):
                    _soften(sys.modules[loaded])
            seen.update(sys.modules)
        return module

    builtins.__import__ = importing
    namespace = importlib.import_module("maquette.dispatch.registry").OpNamespace
    _soften_class(namespace, lambda found: f"torch.ops.{found._namespace}")
    private_nn = type(importlib.import_module("maquette.torch._C")._nn)
    _soften_class(private_nn, lambda found: "torch._C._nn")
    _soften_absences()
    _soften(importlib.import_module("maquette.torch.classes"))


def _soften_class(cls: Any, place: Callable[[Any], str]) -> None:
    """Let the helpers read members that objects of a class lack."""
    strict = cls.__getattr__

    def lenient(self: Any, name: str) -> object:
        try:
            return strict(self, name)
        except AttributeError:
            if name.startswith("__") or not _a_helper_asks():
                raise
            return Absent(f"{place(self)}.{name}")

    cls.__getattr__ = lenient


def _soften_absences() -> None:
    """Let the helpers ask and decorate with what maquette says it does not have."""
    kind = importlib.import_module("maquette.torch.face.absences").Absent
    strict = kind.__call__

    def call(cls: Any, *args: Any, **kwargs: Any) -> object:
        if not _a_helper_asks():
            return strict(cls, *args, **kwargs)
        return args[0] if len(args) == 1 and callable(args[0]) else Absent(cls.__name__)

    def get(cls: Any, name: str) -> object:
        if name.startswith("__") or not _a_helper_asks():
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return Absent(f"{cls.__name__}.{name}")

    kind.__call__, kind.__getattr__ = call, get


def _soften(module: types.ModuleType) -> None:
    # The face is called "torch" while it stands for it; its file is maquette's all the same.
    ours = f"{os.sep}maquette{os.sep}" in str(vars(module).get("__file__"))
    if not ours or "_softened" in vars(module):
        return
    module._softened = True  # type: ignore[attr-defined]  # a mark of ours
    strict = vars(module).get("__getattr__")
    place = module.__name__.removeprefix("maquette.")

    def lenient(name: str) -> object:
        try:
            if strict is None:
                raise AttributeError(f"module '{place}' has no attribute '{name}'")
            found = strict(name)
            if isinstance(found, types.ModuleType):
                _soften(found)
            return found
        except AttributeError:
            if name == "__all__" and _a_helper_asks():
                return ()
            if name.startswith(STRICT) or not _a_helper_asks():
                raise
            return stand_in(f"{place}.{name}")

    module.__getattr__ = lenient  # type: ignore[method-assign]


def _a_helper_asks() -> bool:
    frame = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back  # type: ignore[assignment]
    asker = str(frame.f_globals.get("__name__"))
    return asker.startswith("torch.testing") or (asker == TEST_FILE and _is_loading())


def _a_test_file_loads() -> bool:
    frame = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_globals.get("__name__") == TEST_FILE and _is_loading()


def _is_loading() -> bool:
    return TEST_FILE in sys.modules and not hasattr(sys.modules[TEST_FILE], "_loaded")


def _lenient_to(asker: str) -> bool:
    return asker == TEST_FILE or asker.startswith("torch.testing")


# --- running -------------------------------------------------------------------------


def say(**facts: object) -> None:
    """One line to the parent."""
    os.write(OUTPUT, (json.dumps({"public_tests": 1, **facts}) + "\n").encode())


def flattened(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flattened(test)
        else:
            yield test


class Result(unittest.TestResult):
    """Says each outcome as it comes."""

    def __init__(self, name: str, texts: list[str]) -> None:
        super().__init__()
        self.name = name
        self.said = False
        self.texts = texts

    def tell(self, result: str, message: str = "") -> None:
        if not self.said:
            self.said = True
            say(test=self.name, result=result, message=message, texts=self.texts)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.tell("passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.tell("skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: object) -> None:
        self.tell("skipped", "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        self.tell("skipped", "unexpected success")

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.tell("failed", _words(err))

    addFailure = addError

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.tell("failed", _words(err))


def _words(err: Any) -> str:
    error = err[1]
    words = str(error).partition("To execute this test")[0]
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    at = traceback.extract_tb(err[2])
    ours = [f for f in at if f"{os.sep}maquette{os.sep}" in f.filename]
    place = f"{os.path.basename(ours[-1].filename)}:{ours[-1].name}" if ours else ""
    return f"{type(error).__name__}: {' | '.join(lines[:3])[:300]} {place}"


def call_operators_as_torch_does() -> None:
    """In logs that tests write out, maquette's operators stand under its own name."""
    case = importlib.import_module("expecttest").TestCase
    strict = case.assertExpectedInline

    def compare(self: unittest.TestCase, actual: object, *rest: object, **named: object) -> None:
        if isinstance(actual, str):
            actual = actual.replace("maquette.ops.", "torch._ops.")
        strict(self, actual, *rest, **named)

    case.assertExpectedInline = compare


class Slow(Exception):
    """A test took too long."""


def _alarm(*args: object) -> NoReturn:
    raise Slow("took too long")


def take_texts_from_torch(side: str, expected: dict[str, list[str]]) -> list[str]:
    """Inline texts: gathered on PyTorch, in the list given; on maquette compared with those."""
    gathered: list[str] = []

    def compare(self: unittest.TestCase, actual: object, *rest: object, **named: object) -> None:
        gathered.append(str(actual))
        if side == "maquette":
            theirs = expected[f"{type(self).__name__}.{self._testMethodName}"][len(gathered) - 1]
            pairs = itertools.zip_longest(theirs.splitlines(), gathered[-1].splitlines())
            for there, here in pairs:
                if there != here:
                    raise AssertionError(f"a text differs | there: {there} | here: {here}")

    importlib.import_module("expecttest").TestCase.assertExpectedInline = compare
    return gathered


def load_file(path: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(TEST_FILE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[TEST_FILE] = module
    sys.modules[os.path.splitext(os.path.basename(path))[0]] = module  # files import themselves
    spec.loader.exec_module(module)
    return module


class OtherReleases:
    """Lets test files import from the helpers what other releases have, or have elsewhere."""

    def __init__(self) -> None:
        self.asked = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        if self.asked or not name.startswith(f"{HELPERS}.common_"):
            return None
        self.asked = True
        spec = importlib.util.find_spec(name)
        self.asked = False
        if spec is None or spec.loader is None:
            return spec
        plain = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            plain(module)
            module.__getattr__ = lambda attribute: _moved(name, attribute)  # type: ignore[method-assign]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one
        return spec


def _moved(module: str, name: str) -> object:
    if name.startswith("__"):  # without `__all__` a star takes the whole module
        raise AttributeError(name)
    home = importlib.import_module(f"{HELPERS}.common_device_type")
    if name == "skipOps":  # once with the class and the name of the test before the operators
        return lambda *given: home.skipOps(given[-1])
    return vars(home)[name] if name in vars(home) else _absent(module, name)


# How PyTorch's names of tests begin that are called after a function's module, and what ours have
# in the place of it, the first that is there; what follows is the function's name in both.
_MODULES_IN_NAMES = (
    (r"torch_distributed_distributed_c10d_", ("torch_distributed_collectives_",)),
    (r"torch_nn_functional_", ("nn_functional_",)),
    (r"torch_nn_init_", ("nn_init_",)),
    (r"torch__C__nn_", ("nn_functional_", "")),
    (r"torch__C__(?:linalg|fft|special)_", ("",)),
    (r"torch_(?:functional|_tensor|_lowrank|_lobpcg|utils)_", ("",)),
    (r"TensorBase_", ("Tensor_",)),
    (r"torch_", ("",)),
)


def renamed(names: set[str], tests: list[unittest.TestCase]) -> dict[str, str]:
    """PyTorch's names of tests that are called after the module of a function, by ours."""
    there = set(map(_name_of, tests))
    found: dict[str, str] = {}
    for name in sorted(names - there):
        case, _, method = name.partition(".")
        same = [o for o in _places(case, method.removeprefix("test_"), there) if o not in found]
        if same:
            found[same[0]] = name
    return found


def _name_of(test: unittest.TestCase) -> str:
    """A test's name; one called after a module is called after the package that has the module."""
    return f"{type(test).__name__}.{test._testMethodName.replace('_maquette_nn_', '_nn_')}"


def _places(case: str, method: str, there: set[str]) -> list[str]:
    """The tests of ours that one of PyTorch's may be, the likeliest first."""
    matching = [(b, ours) for b, ours in _MODULES_IN_NAMES if re.match(b, method)]
    if not matching:
        return []
    beginning, places = matching[0]
    function = re.sub(f"^{beginning}", "", method)
    found: list[str] = []
    for place in places:
        own = (
            f"{case}.test_{place}"
            if place.startswith(("nn_", "Tensor_"))
            else f"{case}.test_maquette_{place}"
        )
        within = [n for n in there if n.startswith(own) and n.endswith(f"_{function}")]
        found += sorted({*within, f"{own}{function}"} & there, key=len)
    return found


def main() -> None:
    request = json.loads(sys.stdin.read())
    limit = int(request["memory_gib"] * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.argv = [request["file"]]
    sys.path[:0] = [folder for folder in request["folders"] if folder]
    if request["side"] == "maquette":
        become_maquette()
        # Tests skip products that PyTorch has from MKL only; here they need no other library.
        importlib.import_module("torch.backends.mkl").is_available = lambda: True  # type: ignore[attr-defined]
    else:
        sys.meta_path += [AbsentFinder(*OUTSIDE), GoneFinder("torch")]
    for name in FROM_WHEEL[::-1]:  # so that they are attributes of torch.testing, too
        importlib.import_module(name)
    helpers = importlib.import_module("torch.testing._internal.common_utils")
    # Helpers that another release of PyTorch has: decorators, as a rule, that are no matter here.
    helpers.__getattr__ = lambda name: _moved(HELPERS, name)  # type: ignore[method-assign]
    sys.meta_path.insert(0, OtherReleases())
    texts: list[str] = []
    if request["side"] == "maquette":
        call_operators_as_torch_does()
    if request["texts"] is not None:
        texts = take_texts_from_torch(request["side"], request["texts"])
    module = load_file(request["file"])
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    module._loaded = True  # type: ignore[attr-defined]  # from here on nothing is stood in for
    names = None if request["names"] is None else set(request["names"])
    skip = set(request["skip"])
    signal.signal(signal.SIGALRM, _alarm)
    tests = list(flattened(suite))
    wanted = request["only"].split(" and ")
    unwanted = request["without"]
    matching = 0
    theirs = renamed(names or set(), tests)
    for test in tests:
        name = _name_of(test)
        name = theirs.get(name, name)
        if names is None:
            if any(text in name for text in unwanted) or not all(text in name for text in wanted):
                continue
            matching += 1
            if (matching - 1 - request["start"]) % request["every"]:
                continue
        elif name not in names:
            continue
        if name in skip:
            continue
        skip.add(name)
        say(begin=name)
        texts.clear()
        result = Result(name, texts)
        signal.setitimer(signal.ITIMER_REAL, request["timeout"])
        try:
            test.run(result)
        except Slow:
            result.tell("hung", "took too long")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        result.tell("skipped", "said nothing")
    if names is not None:
        for name in names - skip:
            say(test=name, result="failed", message="the test is not there")
    say(end=True)
    os._exit(0)


if __name__ == "__main__":
    OUTPUT = os.dup(1)
    os.dup2(2, 1)
    main()
