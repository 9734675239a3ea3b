"""The small models of transformers' own tests: each class of models, with its test's inputs.

What is here: `names_in`, the classes that the test files of a folder name, and `model_of`, one of
them with its inputs. Needs the folder ``tests`` of a copy of transformers' repository. The files
are imported as they are; what they import of the suite's own helpers is a stand-in that makes the
inputs, so that neither the suite's release nor its requirements matter.
"""

from __future__ import annotations

import copy
import importlib
import importlib.abc
import importlib.machinery
import random
import re
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_OWN = re.compile(r"tests(\.models(\.\w+(\.test_modeling_\w+)?)?|\.[a-z]+(_lm)?_tester)?")
DRAWS = random.Random(
    0
)  # Python's own, which libraries draw from too, would differ beside any torch
_HEADS = (
    (r".*For(Sequence|Image|Video|Audio)Classification|.*ForNextSentencePrediction", "sequence"),
    (
        r".*For(TokenClassification|CausalLM|MaskedLM|ConditionalGeneration|CTC)|.*LMHeadModel",
        "token",
    ),
    (r".*ForQuestionAnswering(Simple)?", "span"),
    (r".*ForMultipleChoice", "choice"),
)


class _Stand(type):
    """What a test file imports of a helper that is absent: a class of nothing, or a decorator."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _decorator

    def __iter__(cls) -> Iterator[Any]:
        return iter(((),))  # one case of a parametrized test

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if "stands_for" in vars(cls):
            return _decorator(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def _decorator(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return _Stand("decorator", (), {"stands_for": "a decorator, or parameters of a test"})


def _nothing(self: object, *args: Any, **kwargs: Any) -> None:
    """How what derives from a stand-in is made: as if the helper were there."""


def _stand_in(name: str) -> types.ModuleType:
    """A module that has the makers of inputs, and a class of nothing for any other name."""
    module = types.ModuleType(name)
    module.__path__ = []
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    given: dict[str, Any] = {
        "ids_tensor": ids,
        "floats_tensor": floats,
        "random_attention_mask": mask,
    }
    given |= {"ModelTesterMixin": Mixin, "BackboneTesterMixin": Backbones}
    given |= {"global_rng": DRAWS, "torch_device": "cpu"}
    vars(module).update(given)

    def absent(asked: str) -> Any:
        if asked.startswith("__"):
            raise AttributeError(asked)
        made = _Stand(asked, (), {"stands_for": asked, "__init__": _nothing})
        setattr(module, asked, made)
        return made

    module.__getattr__ = absent  # type: ignore[method-assign]
    return module


class _Helpers(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stand-ins for the modules of ``tests`` that are not tests of models."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not name.startswith("tests.") or _OWN.fullmatch(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _stand_in(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _torch() -> Any:
    return importlib.import_module("torch")


def ids(shape: Sequence[int], vocab_size: int, rng: Any = None, name: str | None = None) -> Any:
    """Whole numbers below ``vocab_size``, from Python's generator: the same beside any torch."""
    draw = rng or DRAWS
    count = 1
    for size in shape:
        count *= size
    numbers = [draw.randint(0, max(vocab_size - 1, 0)) for _ in range(count)]
    return _torch().tensor(numbers, dtype=_torch().long).view(tuple(shape))


def floats(shape: Sequence[int], scale: float = 1.0, rng: Any = None, name: Any = None) -> Any:
    """Numbers in [0, scale), from Python's generator."""
    draw = rng or DRAWS
    count = 1
    for size in shape:
        count *= size
    numbers = [draw.random() * scale for _ in range(count)]
    return _torch().tensor(numbers, dtype=_torch().float).view(tuple(shape))


def mask(shape: Sequence[int], rng: Any = None, name: str | None = None) -> Any:
    """Zeros and ones; the first column is ones, so that no row is empty."""
    made = ids(shape, 2, rng)
    made[:, 0] = 1
    return made


class _Inputs:
    """What the test classes expect of their common bases: inputs for a class of models."""

    def _prepare_for_class(
        self, inputs_dict: dict[str, Any], model_class: Any, return_labels: bool = False
    ) -> dict[str, Any]:
        T = _torch()
        given = copy.deepcopy(inputs_dict)
        tester: Any = self.model_tester  # type: ignore[attr-defined]
        name = model_class.__name__
        kind = next((kind for pattern, kind in _HEADS if re.fullmatch(pattern, name)), "")
        first = next((v for v in given.values() if isinstance(v, T.Tensor) and v.ndim), None)
        rows = len(first) if first is not None else getattr(tester, "batch_size", 1)
        if kind == "choice":
            choices = getattr(tester, "num_choices", 4)
            given = {
                k: v.unsqueeze(1).expand(-1, choices, *v.shape[1:]).contiguous()
                if isinstance(v, T.Tensor) and v.ndim > 1
                else v
                for k, v in given.items()
            }
        if not return_labels or "labels" in given:
            return given
        if kind in ("sequence", "choice"):
            given["labels"] = T.zeros(rows, dtype=T.long)
        elif kind == "span":
            given["start_positions"] = given["end_positions"] = T.zeros(rows, dtype=T.long)
        elif kind == "token":
            tokens = given.get("decoder_input_ids", given.get("input_ids"))
            if tokens is not None:
                given["labels"] = T.zeros_like(tokens)
        return given


class Mixin(_Inputs):
    """The base of tests of models."""


class Backbones(_Inputs):
    """The base of tests of backbones, which some have beside the other."""


def _imported(name: str) -> types.ModuleType:
    """A test file; what it names that is not there is stood in for while it is imported."""
    absent: list[str] = []
    try:
        for _ in range(20):
            try:
                return importlib.import_module(name)
            except ModuleNotFoundError as error:
                sys.modules[str(error.name)] = _stand_in(str(error.name))
                absent.append(str(error.name))
            except ImportError as error:
                missing = re.search(r"cannot import name '(\w+)'", str(error))
                if missing is None or error.name not in sys.modules:
                    raise
                made = _Stand(missing[1], (), {"stands_for": missing[1]})
                setattr(sys.modules[error.name], missing[1], made)
    finally:
        for module in absent:
            del sys.modules[module]
    raise ImportError(f"{name} needs too much that is not there")


def _test_classes(folder: Path, family: str, file: str) -> Iterator[Any]:
    if not any(isinstance(finder, _Helpers) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Helpers())
        sys.path.insert(0, str(folder.parent))
    module = _imported(f"tests.models.{family}.{file}")
    for name, found in vars(module).items():
        own = isinstance(found, type) and found.__module__ == module.__name__
        named = ("all_model_classes", "model_tester_class")
        if own and name.endswith("Test") and any(getattr(found, n, None) for n in named):
            yield found


def _set_up(test_class: Any) -> Any:
    """A test as it is before its methods run, which is when some infer their model classes."""
    test = test_class("run")
    test.setUp()
    return test


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((folder / "models").glob("*/test_modeling_*.py")):
        if not re.search(r"test_modeling_(tf|flax)_", path.name):
            yield path.parent.name, path.stem


def names_in(folder: Path) -> list[str]:
    """``family:file:test:class`` of each class of models that a test in the folder names."""
    names: dict[str, str] = {}
    for family, file in _files(folder):
        try:
            for test in _test_classes(folder, family, file):
                for kind in (
                    getattr(test, "all_model_classes", None) or _set_up(test).all_model_classes
                ):
                    names.setdefault(
                        kind.__name__, f"{family}:{file}:{test.__name__}:{kind.__name__}"
                    )
        except Exception as error:  # noqa: BLE001  # a file for another release, or for another library
            print(f"{file}: {type(error).__name__}: {str(error)[:160]}", file=sys.stderr)
    return sorted(names.values())


_LABELLED: dict[str, bool] = {}  # by name, whether the model took labels when it was first made


def model_of(folder: Path, name: str) -> tuple[Any, dict[str, Any]]:
    """The model of a name, and the inputs that its test gives it: the same each time."""
    T = _torch()
    family, file, test_name, kind_name = name.split(":")
    found = {test.__name__: test for test in _test_classes(folder, family, file)}
    DRAWS.seed(0)
    random.seed(0)
    importlib.import_module("numpy").random.seed(0)
    test = _set_up(found[test_name])
    config, inputs = test.model_tester.prepare_config_and_inputs_for_common()
    kind = {kind.__name__: kind for kind in test.all_model_classes}[kind_name]
    T.manual_seed(0)
    model = kind(config).eval()
    refused: Exception | None = None
    for labelled in [_LABELLED[name]] if name in _LABELLED else (True, False):
        try:
            given = test._prepare_for_class(inputs, kind, return_labels=labelled)
            with T.no_grad():
                model(**given)
        except Exception as error:  # noqa: BLE001  # the labels of a common base that is not here
            refused = refused or error
            continue
        _LABELLED[name] = labelled
        return model, given
    raise refused or ValueError("no inputs")
