"""`import torch` is maquette: the finder, submodules, running scripts."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import maquette as mq
import maquette.torch as face
from maquette.torch.face.running import main


def test_install_makes_import_torch_find_the_face(installed: ModuleType) -> None:
    assert importlib.import_module("torch") is face


def test_submodules_are_the_rooms(installed: ModuleType) -> None:
    functional = importlib.import_module("torch.nn.functional")
    assert functional is importlib.import_module("maquette.nn.functional")
    assert face.nn.functional is functional


def test_submodules_keep_their_own_names_and_specs(installed: ModuleType) -> None:
    linear = importlib.import_module("torch.nn.modules.linear")
    assert linear.__name__ == "maquette.nn.modules.linear"
    assert linear.__spec__.name == "maquette.nn.modules.linear"


def test_paths_below_the_face_need_no_install() -> None:
    functional = importlib.import_module("maquette.torch.nn.functional")
    assert functional is importlib.import_module("maquette.nn.functional")


def test_packages_that_pytorch_has_copies_of_are_themselves() -> None:
    version = importlib.import_module("maquette.torch._vendor.packaging.version")
    assert version.parse is importlib.import_module("packaging.version").parse


def test_uninstall_leaves_no_torch_behind() -> None:
    face.install()
    importlib.import_module("torch.nn")
    face.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "torch"]


def test_install_again_is_harmless(installed: ModuleType) -> None:
    finders = list(sys.meta_path)
    face.install()
    assert sys.meta_path == finders


def test_install_refuses_when_pytorch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("torch")
    other.__version__ = "2.13.0"
    other.__file__ = "/elsewhere/torch/__init__.py"
    monkeypatch.setitem(sys.modules, "torch", other)
    with pytest.raises(RuntimeError, match=r"2\.13\.0.*/elsewhere/torch"):
        face.install()


def test_a_missing_submodule_is_named(installed: ModuleType) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no module torch\.nowhere"):
        importlib.import_module("torch.nowhere")


def test_a_file_of_the_face_is_loaded_once(installed: ModuleType) -> None:
    assert importlib.import_module("torch.cuda") is importlib.import_module("maquette.torch.cuda")


def test_what_is_loaded_is_found_in_sys_modules_too(installed: ModuleType) -> None:
    # Libraries replace functions of initial values there, so that what was loaded is kept.
    assert sys.modules["torch.nn.init"] is installed.nn.init
    assert (
        sys.modules["torch.nn.modules.linear"] is importlib.import_module("torch").nn.modules.linear
    )


SCRIPT = """
import sys
import torch
import torch.nn.functional as F
from neighbour import answer

print(__name__, sys.argv[1:], torch.__version__, F.relu(torch.ones(1)).shape, answer)
"""


def run(script: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "maquette.torch", str(script), *args]
    path = str(Path(mq.__file__).parents[1])
    return subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONPATH": path}, check=False
    )


def test_scripts_run_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("answer = 42\n")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run(script, "a", "--b")
    assert done.stderr == ""
    assert done.stdout == "__main__ ['a', '--b'] 2.13.0+maquette torch.Size([1]) 42\n"


STARTS_ANOTHER = """
import multiprocessing
import torch

def shape(tensor):
    print(torch.__name__, torch.stack([tensor, tensor]).shape)

if __name__ == "__main__":
    process = multiprocessing.get_context("METHOD").Process(target=shape, args=(torch.ones(3),))
    process.start()
    process.join()
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_started_afresh_have_torch_too(tmp_path: Path, method: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(STARTS_ANOTHER.replace("METHOD", method))
    done = run(script)
    assert done.stderr == ""
    assert done.stdout == "torch torch.Size([2, 3])\n"


def test_a_missing_script_is_named() -> None:
    with pytest.raises(SystemExit, match=r"no file 'nowhere\.py'"):
        main(["nowhere.py"])


def test_without_a_script_the_usage_is_shown() -> None:
    with pytest.raises(SystemExit, match="usage"):
        main([])


REFS_FIRST_AS_ATTRIBUTE = """
import torch
torch._refs
import torch._refs.nn.functional
print(torch._refs.nn.functional.__name__)
"""


def test_submodules_of_what_was_read_as_an_attribute_are_imported(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(REFS_FIRST_AS_ATTRIBUTE)
    assert run(script).stderr == ""


def test_functorch_comes_along(installed: ModuleType) -> None:
    functorch = importlib.import_module("functorch")
    control_flow = importlib.import_module("functorch.experimental.control_flow")
    assert functorch.FunctionalModule is face._functorch.make_functional.FunctionalModule
    assert control_flow.cond is face.cond
    with pytest.raises(ImportError, match="dim"):
        importlib.import_module("functorch.dim")


def test_functorch_is_gone_after_uninstalling(installed: ModuleType) -> None:
    importlib.import_module("functorch.einops")
    face.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "functorch"]
