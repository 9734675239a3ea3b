"""`install`: from then on ``import torch`` is maquette, submodules included.

The one idea: a finder on ``sys.meta_path`` answers for ``torch`` and ``torch.*`` before any other.
It makes no modules: each of torch's paths becomes a second name for the module that serves it
(`paths.py`). Another finder, always there, does the same for ``maquette.torch.*``, so that ``import
maquette.torch.nn.functional`` works without installing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from maquette.dispatch.packet import LATE
from maquette.dispatch.registry import ops
from maquette.tensor.pickled_form import PickledForm, pickle_as
from maquette.torch.face import absences, class_names, paths
from maquette.torch.face.processes import Preparing

_FACE = "maquette.torch"
_REAL = "torch"
_BESIDE = "functorch"  # a package that PyTorch brings along


class _Second:
    """Loads a module that is there already under another name."""

    def __init__(self, name: str, target: str) -> None:
        self.name = name
        self.target = target
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system wrote the second name's spec over the module's own.
        module.__spec__ = self.spec
        self._keep_functions(module)
        class_names.name_loaded(self.target)

    def _keep_functions(self, package: ModuleType) -> None:
        """Name at once the submodules whose names in the package are functions.

        Importing a submodule sets it on its package: ``from torch.autograd.gradcheck import ...``
        would put the module in the place of the function `torch.autograd.gradcheck`. A submodule
        that stands in `sys.modules` already is not imported.
        """
        for name, value in list(vars(package).items()):
            loaded = sys.modules.get(f"{package.__name__}.{name}", value)
            if loaded is not value:
                sys.modules.setdefault(f"{self.name}.{name}", loaded)


class Finder:
    """Finds the modules of torch's paths under a root: ``torch`` or ``maquette.torch``."""

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname == self.root:
            return _second_name(fullname, _FACE)
        root, dot, rest = fullname.partition(f"{self.root}.")
        if root or not dot:
            return None
        served_by = paths.resolve(rest)
        if served_by == fullname:  # under its own name: a file of the face, or nothing
            return None if absences.advice_for(rest) is None else absences.spec_of(fullname)
        if served_by is None:
            # Not None: another finder would look in a package's folder and load a file twice.
            raise ModuleNotFoundError(
                f"maquette has no module torch.{rest}, or not yet", name=fullname
            )
        return _second_name(fullname, served_by)


class _Installed(Finder):
    """The finder of ``torch``; libraries that ask which torch is installed are told too."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] == _BESIDE:
            served_by = f"{_FACE}.{fullname}"
            return _second_name(fullname, served_by) if paths.exists(served_by) else None
        return super().find_spec(fullname, path, target) or _PROCESSES.spec_of(fullname, path)

    def find_distributions(self, context: Any = None) -> Iterable[object]:
        """The distributions of a name, or all: of ``torch``, ours."""
        if context is not None and context.name not in (None, _REAL):
            return []
        # Who asks has imported importlib.metadata; importing maquette.torch does without (16 ms).
        return [importlib.import_module(f"{_FACE}.face.metadata").StandIn()]


def _second_name(fullname: str, target: str) -> ModuleSpec:
    # Deriving from importlib.abc's classes would be right but for 20 ms of imports.
    loader = cast(None, _Second(fullname, target))
    return ModuleSpec(fullname, loader, is_package=True)


for _extension in ("_C", "_C_stable"):  # its name until torchvision 0.28, and since
    ops.stand_ins[f"torchvision/{_extension}"] = f"{_FACE}.families.vision_ops"


def _load_collectives() -> bool:
    importlib.import_module(f"{_FACE}.distributed.functional_operators")
    return True


LATE.update(dict.fromkeys(("_c10d_functional", "c10d_functional", "c10d"), _load_collectives))
_OUTSIDE = _Installed(_REAL)
_INSIDE = Finder(_FACE)
if not any(isinstance(finder, Finder) for finder in sys.meta_path):
    sys.meta_path.insert(0, _INSIDE)


class _TorchForm:
    """PyTorch's form of pickles, whose module is loaded by the first of them."""

    def __getattr__(self, kind: str) -> Any:
        form = importlib.import_module(f"{_FACE}.saving.plain_pickles").TorchForm()
        found = self.__dict__[kind] = getattr(form, kind)
        return found


_TORCH_FORM = cast(PickledForm, _TorchForm())


def install() -> None:
    """Let ``import torch`` find maquette in this process, until `uninstall`; again is harmless.

    Processes that `multiprocessing` starts from then on find it too, by any start method.

    Raises RuntimeError if PyTorch itself has been imported.
    """
    loaded = sys.modules.get(_REAL)
    face = sys.modules[_FACE]
    if loaded is not None and loaded is not face:
        raise RuntimeError(
            f"PyTorch {getattr(loaded, '__version__', '')} is imported already, from "
            f"{getattr(loaded, '__file__', None)}; maquette.torch.install() must come before the "
            f"first `import torch`"
        )
    if _OUTSIDE not in sys.meta_path:
        sys.meta_path.insert(0, _OUTSIDE)
    _PROCESSES.extend_loaded()
    sys.modules[_REAL] = face
    pickle_as(_TORCH_FORM)
    face.__name__ = _REAL  # programs ask it, to know whose tensors they have
    class_names.name_types()
    own = (f"{_FACE}.{name}" for name in paths.top_level())
    for package in {*paths.PACKAGES.values(), *own} & sys.modules.keys():
        class_names.name_loaded(package)


def uninstall() -> None:
    """Undo `install`: ``import torch`` finds PyTorch, if there is one; again is harmless."""
    if _OUTSIDE in sys.meta_path:
        sys.meta_path.remove(_OUTSIDE)
    class_names.restore()
    pickle_as(None)
    face = sys.modules[_FACE]
    face.__name__ = _FACE
    if sys.modules.get(_REAL) is not face:
        return
    for name in [name for name in sys.modules if name.partition(".")[0] in (_REAL, _BESIDE)]:
        del sys.modules[name]


def is_installed() -> bool:
    """Whether ``import torch`` finds maquette."""
    return _OUTSIDE in sys.meta_path


_PROCESSES = Preparing(install, is_installed)
