"""Names of the face that are both a submodule and a function, and names that are not there."""

import importlib
import sys
import time
from types import ModuleType

import pytest

import maquette as mq
import maquette.torch as torch


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("autograd", "gradcheck"),
        ("autograd", "variable"),
        ("nn.utils", "weight_norm"),
        ("nn.utils", "spectral_norm"),
    ],
)
@pytest.mark.parametrize("root", ["torch", "maquette.torch"])
def test_a_function_stays_callable_when_its_module_is_imported(
    installed: ModuleType, root: str, path: str, name: str
) -> None:
    """Finding 25."""
    module = importlib.import_module(f"{root}.{path}.{name}")
    found = getattr(importlib.import_module(f"{root}.{path}"), name)
    assert isinstance(module, ModuleType)
    assert callable(found)
    assert not isinstance(found, ModuleType)


@pytest.mark.parametrize("place", ["ops.aten", "linalg", "nn", "special"])
def test_names_that_are_not_there_cost_no_search(place: str) -> None:
    """Finding 41: similar names are looked for when the error is shown (30 ms a name)."""
    module = importlib.import_module("maquette.torch")
    for part in place.split("."):
        module = getattr(module, part)
    hasattr(module, "no_such_name")
    start = time.perf_counter()
    for _ in range(100):
        assert not hasattr(module, "no_such_name")
    assert time.perf_counter() - start < 0.2


def test_the_error_of_a_missing_name_names_similar_ones() -> None:
    """Finding 41."""
    with pytest.raises(AttributeError, match="Did you mean"):
        _ = torch.softmaxx


@pytest.mark.parametrize("name", ["sin", "cat", "float32", "Tensor", "save", "nn", "FloatTensor"])
def test_dir_shows_functions_that_nobody_has_asked_for(name: str) -> None:
    """Finding 41."""
    assert name in dir(torch)


def test_dir_of_namespaces_of_operators_shows_all() -> None:
    """Finding 41."""
    assert {"mm", "add_", "linalg_qr"} <= set(dir(torch.ops.aten))


def test_dir_of_linalg_shows_its_functions() -> None:
    """Finding 41."""
    assert {"qr", "svd", "LinAlgError"} <= set(dir(torch.linalg))


def test_a_star_import_takes_functions_and_no_modules() -> None:
    """Finding 41."""
    taken: dict[str, object] = {}
    exec("from maquette.torch import *", taken)
    assert {"sin", "zeros", "float32"} <= taken.keys()
    assert not {"nn", "optim", "install"} & taken.keys()


@pytest.mark.parametrize("name", ["zero", "copy", "unique_dim"])
def test_names_that_pytorch_has_not_are_not_there(name: str) -> None:
    """Finding 41: these are operators and no functions."""
    assert not hasattr(torch, name)
    assert hasattr(torch.ops.aten, name)


def test_a_module_that_needs_what_is_not_installed_is_no_attribute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.endswith("tensorboard")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delattr(torch.utils, "tensorboard", raising=False)
    assert not hasattr(torch.utils, "tensorboard")
    with pytest.raises(ModuleNotFoundError, match="tensorboard"):
        importlib.import_module("maquette.torch.utils.tensorboard")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("view", r"torch\.Tensor\.view"),
        ("add_", r"torch\.Tensor\.add_"),
        ("gelu", r"torch\._C\._nn\.gelu"),
        ("linalg_qr", r"torch\._C\._linalg\.linalg_qr"),
        ("gelu_backward", r"torch\.ops\.aten\.gelu_backward"),
    ],
)
def test_what_is_no_function_of_torch_says_where_it_is(name: str, place: str) -> None:
    """Programs tell versions apart by ``hasattr(torch, name)``."""
    assert name not in dir(torch)
    with pytest.raises(AttributeError, match=place):
        getattr(torch, name)
    assert callable(getattr(mq, name))


@pytest.mark.parametrize("name", ["check", "core", "plan", "array_api", "overridable"])
def test_names_of_maquette_are_none_of_torch(name: str) -> None:
    assert not hasattr(torch, name)


def test_functions_in_place_are_told() -> None:
    assert {"relu_", "abs_", "zero_", "detach_"} <= set(torch.__all__)
    assert {"add_", "view_as", "silu_"}.isdisjoint(dir(torch))


def test_generated_code_names_functions_by_their_homes() -> None:
    graph = mq.fx.Graph()
    x = graph.placeholder("x")
    for function in (mq.gelu, mq.linalg_inv, mq.fft_fft, mq.relu):
        x = graph.call_function(function, (x,))
    graph.output(x)
    source = graph.python_code("self").src
    for name in ("_C._nn.gelu", "_C._linalg.linalg_inv", "_C._fft.fft_fft", "relu"):
        assert f"torch.{name}(" in source
