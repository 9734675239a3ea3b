"""Where modules and classes say they are: under `install`, where PyTorch has them.

Programs ask: a tracer keeps what is ``m.__module__.startswith("torch.nn")`` as a call, and
``print(type(x))`` is to say ``<class 'torch.Tensor'>``. Pickles by reference find them there too,
since each of torch's paths is a name of the module that serves it.
"""

from __future__ import annotations

import sys
from operator import methodcaller
from types import FunctionType, ModuleType
from typing import Any

from maquette.api.attach import TOLD
from maquette.api.function_homes import function_home
from maquette.aten.linalg.factorizations import LinAlgError
from maquette.autograd.custom import FunctionCtx
from maquette.autograd.function import Function
from maquette.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from maquette.autograd.saved.hooks import saved_tensors_hooks
from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.core.limits import finfo, iinfo
from maquette.core.size import Size
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.torch_function import TorchFunctionMode
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.streams.generator import Generator
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.face.absences import offer_below
from maquette.torch.face.files import torch_file
from maquette.torch.face.opaque_dtypes import qscheme
from maquette.torch.face.paths import PACKAGES, serves, torch_path
from maquette.transforms.functional.wrapper import FunctionalWrapper
from maquette.transforms.wrappers import BatchedTensor, DualTensor, GradTrackingTensor

_FACE = "maquette.torch"
_HOMES: dict[type, str] = {
    **dict.fromkeys((Tensor, Size, device, dtype, layout, memory_format, finfo, iinfo), "torch"),
    # In PyTorch they are plain tensors, and libraries ask a class for its package (opt_einsum).
    **dict.fromkeys((BatchedTensor, GradTrackingTensor, DualTensor, FunctionalWrapper), "torch"),
    **dict.fromkeys((Parameter, Buffer), "torch.nn.parameter"),
    **dict.fromkeys((UntypedStorage, TypedStorage), "torch.storage"),
    **dict.fromkeys((Function, FunctionCtx), "torch.autograd.function"),
    **dict.fromkeys(
        (enable_grad, inference_mode, no_grad, set_grad_enabled), "torch.autograd.grad_mode"
    ),
    **dict.fromkeys((FakeTensor, FakeTensorMode), "torch._subclasses.fake_tensor"),
    qscheme: "torch",
    Generator: "torch._C",
    LinAlgError: "torch.linalg",
    TorchDispatchMode: "torch.utils._python_dispatch",
    TorchFunctionMode: "torch.overrides",
    saved_tensors_hooks: "torch.autograd.graph",
}
# Where programs meet classes. All of maquette's would cost 3 ms of a program's first step.
_MET = (
    "amp", "ao", "autograd", "cpu", "cuda", "distributed", "distributions", "export", "futures",
    "fx", "hub", "jit", "library", "masked", "monitor", "multiprocessing", "nn", "optim",
    "profiler", "quasirandom", "serialization", "sparse", "utils", "xpu",
)  # fmt: skip
_FUNCTIONS = (
    "maquette.nn.functional", "maquette.nn.init", "maquette.nn.utils", "maquette.fx.graph_module",
    "maquette.torch.utils.data.collate",
)  # fmt: skip
# Pickles name a method by the module that it says; before, by its class alone.
_BY_MODULE = sys.version_info >= (3, 13)
# Of whose classes functions are kept by what is pickled: since CPython 3.13 by the module they say.
_MEMBERS = "maquette.optim"
_named: set[type | FunctionType] = set()
_handed: dict[type | FunctionType, str] = {}  # each once, however often `install` holds


def name_types() -> None:
    """Let the types that everybody meets say their places in torch, until `restore`."""
    for kind, home in _HOMES.items():
        _name(kind, home)
    for found, place in list(_handed.items()):
        _name_handed(found, place)
    if _BY_MODULE:
        _name_members(Tensor, "maquette", "torch")


# The paths above those of `PACKAGES`. To look for a path below each module's among them took a
# twentieth of a model's first step.
_ABOVE = {path[:i] for path in PACKAGES for i, letter in enumerate(path) if letter == "."}


def name_loaded(package: str) -> None:
    """Name what is loaded of a package as torch does in `sys.modules`, while `install` holds.

    Its absent submodules become attributes, installed or not.
    PyTorch has ``torch.nn.init`` there from the beginning, and libraries look it up there. The
    classes that the modules define say that they are where PyTorch has them.
    """
    path = torch_path(package)
    offer_below(sys.modules[package], path)
    if sys.modules.get("torch") is not sys.modules[_FACE]:
        return
    beginning = f"{package}."
    # Thousands are loaded: by `filter` and a function in C 0.3 ms of a program's first step less.
    within = filter(methodcaller("startswith", beginning), list(sys.modules))
    for name in (package, *within):
        module = sys.modules.get(name)
        below = path + name.removeprefix(package)
        if module is not None and serves(name, below):
            sys.modules.setdefault(f"torch.{below}", module)
            if below.startswith(_MET):
                _name_classes(module)
            if below in _ABOVE:
                # A file here is a package there: its submodules are imported through it.
                vars(module).setdefault("__path__", [])


def name_found(found: object, place: str) -> None:
    """Name a class or function that ``torch.<place>`` hands on, while `install` holds.

    Where PyTorch has the file of its module, there; else where it was found. What is handed on
    before is named by `install`, for it is not looked up again.
    """
    if isinstance(found, type | FunctionType):
        _handed[found] = place
        if sys.modules.get("torch") is sys.modules[_FACE]:
            _name_handed(found, place)


def _name_handed(found: Any, place: str) -> None:
    module = found.__module__ or ""
    if module == "maquette":  # the function of an operator
        _name(found, function_home(found.__name__) or "torch")
    elif module.startswith("maquette."):
        own = torch_path(module) or module.startswith(_FACE)
        _name(found, torch_file(module, found.__name__) if own else f"torch.{place}".rstrip("."))


def _name_classes(module: ModuleType) -> None:
    own = module.__name__
    listed = vars(module).get("__all__", ())
    kinds = type | FunctionType if own.startswith(_FUNCTIONS) else type
    for name, value in list(vars(module).items()):
        if not isinstance(value, kinds):
            continue
        if value.__module__ == own:
            home = torch_file(own, name)
            _name(value, home)
            if own.startswith(_MEMBERS):
                _name_members(value, own, home)
        elif name in listed:
            name_found(value, torch_path(own))


def _name_members(kind: Any, own: str, home: str) -> None:
    """Name the functions of a class that say they are of the module ``own``."""
    for value in list(vars(kind).values()):
        function = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(function, FunctionType) and function.__module__ == own:
            if function.__qualname__.startswith(f"{kind.__qualname__}."):
                _name(function, home)


def _name_late(method: object) -> None:
    """Name a method of tensors that is made while `install` holds."""
    if sys.modules.get("torch") is sys.modules[_FACE] and isinstance(method, FunctionType):
        _name(method, "torch")


if _BY_MODULE:
    TOLD.append(_name_late)


def _name(kind: Any, home: str) -> None:
    if kind not in _named:
        _named.add(kind)
        kind._mq_home = kind.__module__  # by which lower layers know their own classes
    kind.__module__ = home


def restore() -> None:
    """Let all classes say again where they are."""
    kind: Any
    for kind in _named:
        kind.__module__ = kind._mq_home
        del kind._mq_home
    _named.clear()
