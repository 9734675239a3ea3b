"""``mq.ops``: namespaces, look-up and loading of files (D89, D90, D92, D93)."""

import sys
import types

import pytest

import maquette as mq
from maquette.dispatch.registry import OpNamespace, Ops

# --- look-up ---------------------------------------------------------------------------------


def test_D89_any_name_is_a_namespace(ns):
    assert hasattr(mq.ops, ns)
    assert ns in list(mq.ops)
    assert getattr(mq.ops, ns) is getattr(mq.ops, ns)


def test_D89_all_are_module_objects(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    namespace = getattr(mq.ops, ns)
    assert isinstance(mq.ops, types.ModuleType)
    assert isinstance(namespace, types.ModuleType)
    assert sys.modules["maquette.ops"] is mq.ops


def test_D89_operators_are_bound_when_asked_for(lib, ns):
    lib.define("f(Tensor x) -> Tensor")
    namespace = getattr(mq.ops, ns)
    assert list(namespace) == []
    assert namespace.f is namespace.f
    assert list(namespace) == ["f"]
    assert "f" in dir(namespace)


def test_D89_dunders_are_no_namespaces():
    assert not hasattr(mq.ops, "__wrapped__")
    with pytest.raises(AttributeError, match="__nope__"):
        _ = mq.ops.__nope__


def test_D90_a_missing_operator_names_itself(ns):
    with pytest.raises(AttributeError, match=f"'nope'.*'{ns}'"):
        _ = getattr(mq.ops, ns).nope


@pytest.mark.parametrize("name", ["__origin__", "__self__"])
def test_D90_these_are_no_operators(ns, name):
    with pytest.raises(AttributeError, match=name):
        getattr(getattr(mq.ops, ns), name)


def test_D90_a_failed_look_up_is_not_remembered(lib, ns):
    namespace = getattr(mq.ops, ns)
    assert not hasattr(namespace, "later")
    lib.define("later(Tensor x) -> Tensor")
    assert hasattr(namespace, "later")


# --- loading ---------------------------------------------------------------------------------

SOURCE = """
from maquette.library import Library
lib = Library({ns!r}, "FRAGMENT")
lib.define("loaded(Tensor x) -> Tensor")
lib.impl("loaded", lambda x: x.clone(), "CPU")
"""


def test_D92_import_module_imports(tmp_path, monkeypatch):
    (tmp_path / "some_ops_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert mq.ops.import_module("some_ops_module") is None
    assert sys.modules.pop("some_ops_module").value == 1


def test_D92_errors_come_unchanged():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        mq.ops.import_module("no_such_module")


def test_D93_a_file_of_operators_is_run_once(tmp_path, ns, x):
    path = tmp_path / "operators.py"
    path.write_text(SOURCE.format(ns=ns))
    mq.ops.load_library(path)
    mq.ops.load_library(str(path))  # a second run would define the operator twice
    assert getattr(mq.ops, ns).loaded(x).shape == (2, 3)
    assert str(path.resolve()) in mq.ops.loaded_libraries
    assert isinstance(mq.ops.loaded_libraries, set)


@pytest.mark.parametrize("text", [None, "1/0\n", "def ("])
def test_D93_a_failure_is_an_os_error_with_its_cause(tmp_path, text):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    before, modules = set(mq.ops.loaded_libraries), set(sys.modules)
    with pytest.raises(OSError, match=r"broken.py") as caught:
        mq.ops.load_library(path)
    assert caught.value.__cause__ is not None
    assert mq.ops.loaded_libraries == before
    assert set(sys.modules) == modules


def test_D93_shared_objects_that_are_no_modules_are_refused(tmp_path):
    path = tmp_path / "kernels.bin"
    path.write_bytes(b"\\x7fELF")
    with pytest.raises(OSError, match="Python source file or an extension module"):
        mq.ops.load_library(path)


def test_D89_an_empty_root_has_nothing():
    root = Ops()
    assert list(root) == []
    assert isinstance(root.anything, OpNamespace)
    assert list(root) == ["anything"]
