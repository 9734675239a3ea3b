"""Parts of torch that are not here: importable, and plain about it when they are used."""

import importlib
import subprocess
import sys
import warnings

import pytest

import maquette.torch as torch
from maquette.torch.face import absences

INSTALLED = "import maquette.torch; maquette.torch.install()\n"


def _run(program):
    return subprocess.run(
        [sys.executable, "-c", INSTALLED + program], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("path", sorted(absences.ADVICE))
def test_an_absent_module_says_when_used_what_it_is_not(path):
    module = importlib.import_module(f"maquette.torch.{path}")
    name = min(vars(module).get("ABSENT", ["Thing"]))  # one that is there in part names the rest
    with pytest.raises(NotImplementedError, match=rf"torch\.{path}\.{name} is not supported by"):
        getattr(module, name)()


def test_absent_classes_can_be_asked_after_and_derived_from():
    from maquette.torch.distributed.fsdp import FullyShardedDataParallel

    class Mine(FullyShardedDataParallel):
        pass

    assert not isinstance(1, FullyShardedDataParallel)
    with pytest.raises(NotImplementedError, match="one process"):
        Mine()


def test_absent_packages_have_submodules():
    assert "parallel" in _run("import torch.distributed.tensor.parallel as p; print(p.__name__)")


def test_libraries_that_ask_for_the_version_of_torch_are_told():
    assert (
        _run("import importlib.metadata as m; print(m.version('torch'))").strip()
        == torch.__version__
    )


def test_streams_and_events_order_nothing_and_wait_for_nothing():
    stream = torch.cuda.Stream()
    event = stream.record_event()
    with torch.cuda.stream(stream):
        torch.cuda.current_stream().wait_event(event)
    assert stream.query()
    assert event.elapsed_time(stream.record_event()) >= 0
    with (
        pytest.raises(RuntimeError, match="no CUDA device"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        pass


def test_what_would_be_fetched_is_not(tmp_path):
    torch.hub.set_dir(tmp_path)
    with pytest.raises(RuntimeError, match="maquette fetches nothing"):
        torch.hub.load_state_dict_from_url("https://example.com/a-1234.pth")
    (tmp_path / "checkpoints").mkdir()
    torch.save({"a": torch.ones(1)}, tmp_path / "checkpoints" / "a-1234.pth")
    found = torch.hub.load_state_dict_from_url("https://example.com/a-1234.pth")
    assert found["a"].item() == 1.0


def test_standard_containers_come_apart_by_private_functions():
    tree = torch.utils._pytree
    pairs, context = tree._dict_flatten_with_keys({"a": 1, "b": 2})
    assert [(str(k), v) for k, v in pairs] == [("['a']", 1), ("['b']", 2)]
    assert tree._dict_unflatten([3, 4], context) == {"a": 3, "b": 4}
    spec = tree.tree_structure({"a": [1, (2, 3)], "b": None})
    assert tree.treespec_loads(tree.treespec_dumps(spec)) == spec


@pytest.mark.parametrize(
    "constraint, good, bad",
    [
        ("positive", [1.0], [0.0]),
        ("unit_interval", [0.5], [1.5]),
        ("nonnegative_integer", [2.0], [0.5]),
        ("real", [1.0], [float("nan")]),
        ("boolean", [1.0], [0.5]),
        ("simplex", [0.25, 0.75], [0.5, 0.75]),
        ("one_hot", [0.0, 1.0], [1.0, 1.0]),
        ("lower_cholesky", [[1.0, 0.0], [2.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]),
        ("positive_definite", [[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]]),
    ],
)
def test_constraints_say_which_values_they_allow(constraint, good, bad):
    allowed = getattr(torch.distributions.constraints, constraint)
    assert bool(allowed.check(torch.tensor(good)).all())
    assert not bool(allowed.check(torch.tensor(bad)).all())


def test_marks_for_the_script_compiler_can_be_imported():
    from maquette.torch.jit.annotations import BroadcastingList2, is_function_or_method

    assert BroadcastingList2[int] is None
    assert is_function_or_method(test_marks_for_the_script_compiler_can_be_imported)


def test_decorators_for_what_is_absent_give_back_what_they_mark():
    assert torch.compiler.substitute_in_graph(max)(min) is min
    assert torch.jit.interface(int) is int


def _divide_unless(kind):
    try:
        return 1 / 0
    except kind:
        return 0


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("cuda", "CudaError"),
        ("", "JITException"),
        ("", "FatalError"),
        ("onnx", "OnnxExporterError"),
        ("package", "PackagingError"),
    ],
)
def test_absent_errors_can_be_caught(path: str, name: str) -> None:
    module = importlib.import_module(f"maquette.torch.{path}".rstrip("."))
    kind = getattr(module, name)
    with pytest.raises(ZeroDivisionError):
        _divide_unless(kind)
    assert issubclass(kind, Exception)


def test_an_absent_warning_can_be_named_in_a_filter() -> None:
    errors = importlib.import_module("maquette.torch.onnx.errors")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=errors.OnnxExporterWarning)
