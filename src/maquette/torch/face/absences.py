"""Parts of torch that are not here, as modules that can be imported and say so when used.

Every public name in such a module is a class: it can be imported, derived from and asked after, and
calling it raises NotImplementedError with advice. There are no files behind these modules.
"""

from __future__ import annotations

import importlib
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from maquette.dispatch.torch_function import is_overridden, offered

_ONE_PROCESS = "there is one process; run the program without a launcher"
_NO_DEVICE = "there is no CUDA device here; plan with maquette.plan"
_TRACE = "trace with torch.fx or make_fx, or plan with maquette.plan"
_ELSEWHERE = "do this with PyTorch itself"
_PYTHON = "Python runs programs; there is no compiler"

ADVICE = {
    "_inductor": _PYTHON,
    "distributed._shard": _ONE_PROCESS,
    **dict.fromkeys(("distributed._symmetric_memory", "distributed.remote_device"), _ONE_PROCESS),
    **dict.fromkeys(("_dynamo.compiled_autograd", "_dynamo.convert_frame"), _PYTHON),
    "_export": _TRACE,
    "backends.kleidiai": _NO_DEVICE,
    "jit._recursive": _PYTHON,
    "cuda._memory_viz": _NO_DEVICE,
    "_higher_order_ops.inline_asm_elementwise": "write the operator in Python",
    "_awaits": "call the function itself",
    "_lobpcg": "use torch.linalg.eigh, which gives all eigenvalues",
    "_sources": "use Python's inspect and ast",
    "autograd._functions": "call the operator, or write a torch.autograd.Function",
    "utils._zip": "use Python's zipfile",
    "utils.backend_registration": "name the device with torch.library, or use PyTorch itself",
    "utils.mkldnn": "use the module itself",
    "_meta_registrations": "call the operator on meta tensors; its page has the shape rule",
    "_size_docs": _ELSEWHERE,
    "_thread_safe_fork": _PYTHON,
    "ao": _ELSEWHERE,
    "backends.xeon": _ONE_PROCESS,
    "contrib": "use torch.utils.tensorboard",
    "autograd.profiler_legacy": "use torch.profiler, or Python's cProfile",
    "distributed._composable": _ONE_PROCESS,
    "distributed._functional_collectives": _ONE_PROCESS,
    "distributed._tensor": _ONE_PROCESS,
    "distributed.algorithms": _ONE_PROCESS,
    "distributed.autograd": _ONE_PROCESS,
    **dict.fromkeys(
        (
            f"distributed.checkpoint.{name}"
            for name in "_fsspec_filesystem logger logging_handlers optimizer planner "
            "planner_helpers quantized_hf_storage resharding staging storage utils".split()
        ),
        _ONE_PROCESS,
    ),
    **dict.fromkeys(
        (
            f"distributed.{name}"
            for name in "argparse_util c10d_logger collective_utils config debug flight_recorder "
            "logging_handlers remote_device".split()
        ),
        _ONE_PROCESS,
    ),
    "distributed.constants": _ONE_PROCESS,
    "distributed.device_mesh": _ONE_PROCESS,
    "distributed.elastic": _ONE_PROCESS,
    "distributed.fsdp": _ONE_PROCESS,
    "distributed.launch": _ONE_PROCESS,
    "distributed.launcher": _ONE_PROCESS,
    "distributed.nn": _ONE_PROCESS,
    "distributed.optim": _ONE_PROCESS,
    "distributed.pipelining": _ONE_PROCESS,
    "distributed.rpc": _ONE_PROCESS,
    "distributed.run": _ONE_PROCESS,
    "distributed.tensor": _ONE_PROCESS,
    "distributed.utils": _ONE_PROCESS,
    **dict.fromkeys(
        (
            f"cuda.{name}"
            for name in "comm gds green_contexts jiterator nccl profiler sparse tunable".split()
        ),
        _NO_DEVICE,
    ),
    "export": _TRACE,
    **dict.fromkeys(
        (
            f"fx.experimental.{name}"
            for name in "accelerator_partitioner dynamic_spec meta_tracer migrate_gradual_types "
            "partitioner_utils validator".split()
        ),
        _TRACE,
    ),
    **dict.fromkeys(
        (
            f"fx.passes.{name}"
            for name in "backends net_min_base param_fetch regional_inductor runtime_assert".split()
        ),
        _TRACE,
    ),
    **dict.fromkeys(
        (
            f"jit.{name}"
            for name in "frontend generate_bytecode mobile quantized supported_ops "
            "unsupported_tensor_ops".split()
        ),
        _PYTHON,
    ),
    "mps.profiler": _NO_DEVICE,
    "nativert": _ELSEWHERE,
    "nn.attention.experimental": _ELSEWHERE,
    "nn.attention.varlen": "attend to each sequence, or to nested tensors",
    "nn.backends": "call torch.nn.functional",
    "nn.cpp": "write the module in Python",
    "nn.intrinsic": _ELSEWHERE,
    "nn.modules._functions": "use the module itself, or torch.autograd.Function",
    **dict.fromkeys(("nn.parallel._functions", "nn.parallel.comm"), _NO_DEVICE),
    "nn.qat": _ELSEWHERE,
    "nn.quantizable": _ELSEWHERE,
    "nn.quantized": _ELSEWHERE,
    "nn.utils._expanded_weights": "call torch.nn.utils._per_sample_grad",
    "numa": _ONE_PROCESS,
    **dict.fromkeys((f"onnx.symbolic_opset{n}" for n in range(7, 21)), _ELSEWHERE),
    **dict.fromkeys(("onnx._internal", "onnx.errors", "onnx.utils"), _ELSEWHERE),
    **dict.fromkeys(("onnx.operators", "onnx.ops", "onnx.verification"), _ELSEWHERE),
    "onnx.testing": _ELSEWHERE,
    "package": "save a state_dict with torch.save",
    "quantization": _ELSEWHERE,
    **dict.fromkeys(
        ("sparse._triton_ops", "sparse._triton_ops_meta", "sparse.semi_structured"),
        "use a dense or a COO tensor",
    ),
    "utils._debug_mode": "trace with make_fx, or write a TorchDispatchMode that prints",
    "utils.hipify": _ELSEWHERE,
    "utils.jit": _PYTHON,
    "utils.throughput_benchmark": "use torch.utils.benchmark",
    "utils.backcompat": "write the program for the PyTorch of today",
    "utils.benchmark.utils.valgrind_wrapper": "measure with Timer.blocked_autorange",
    "utils.bottleneck": "use cProfile",
    "utils.bundled_inputs": _ELSEWHERE,
    "utils.cpp_extension": "write the operator with maquette.library",
    "utils.cpp_backtrace": _PYTHON,
    "utils.debug_log": "use Python's logging",
    "utils.data.backward_compatibility": "use torch.utils.data.DataLoader",
    "utils.data.datapipes.dataframe": "map a pipe by a function of data frames",
    "utils.mobile_optimizer": _ELSEWHERE,
    "utils.model_dump": _ELSEWHERE,
    "utils.show_pickle": "use Python's pickletools",
    "utils.viz": "record memory with maquette.plan",
}
"""By path below ``torch``, what to do instead; submodules of these are absent likewise."""

_FACE = "maquette.torch."


def advice_for(path: str) -> str | None:
    """What is said of the absent module at ``torch.<path>``; None if it is not absent."""
    parts = path.split(".")
    beginnings = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((ADVICE[b] for b in beginnings if b in ADVICE), None)


_RAISED = {"Error": RuntimeError, "Exception": Exception, "Warning": UserWarning}


class Absent(type):
    """The class of stand-ins: calling one says what is absent."""

    _said: str

    def __call__(cls, *args: object, **kwargs: object) -> object:
        if is_overridden(args, kwargs):
            return offered(cls, args, kwargs)
        raise NotImplementedError(cls._said)

    @classmethod
    def named(mcs, place: str, name: str, advice: str) -> type:
        """The stand-in for a name of the module ``place``.

        Of an error or a warning it is one, which nothing here raises: programs catch it, and name
        it in filters of warnings.
        """
        said = f"{place}.{name} is not supported by maquette: {advice}"
        raised = next((kind for end, kind in _RAISED.items() if name.endswith(end)), None)
        if raised is not None:
            return type(name, (raised,), {"__module__": place, "__doc__": said})
        return mcs(name, (), {"_said": said, "__module__": place, "__doc__": said})


class _Module(ModuleType):
    """A module whose public names are stand-ins, made when first asked for."""

    def __getattr__(self, name: str) -> Any:
        place = self.__name__.replace(_FACE, "torch.")
        if name.startswith("__") or f"{place}.{name}" in _ASKED:
            raise AttributeError(f"module '{place}' has no attribute '{name}'")
        if name == "is_available":
            return _unavailable
        if name in _SUBMODULES:
            return importlib.import_module(f"{self.__name__}.{name}")
        if name in _WITH_FLOATS and place.partition(".quanti")[1]:
            return getattr(importlib.import_module(f"{_FACE}{_WITH_FLOATS[name]}"), name)
        found = Absent.named(place, name, str(advice_for(place[6:])))
        setattr(self, name, found)
        return found


def _unavailable() -> bool:
    """False: what the module has is absent."""
    return False


# Submodules that programs reach as attributes, ``torch.ao.quantization.fx``.
_SUBMODULES = frozenset(
    "_decomposed config decomposition dynamic experimental functional fx intrinsic modules nn "
    "parallel placement_types qat quantizable quantization quantized reference sparse "
    "state_dict".split()
)


# What a program that could be quantized is written with, and that computes with floats: found in
# each of the absent modules that PyTorch has it in.
_WITH_FLOATS = {
    **dict.fromkeys(
        ("FXFloatFunctional", "FloatFunctional"), "ao.nn.quantized.modules.functional_modules"
    ),
    **dict.fromkeys(("DeQuantStub", "QuantStub", "QuantWrapper"), "ao.quantization.stubs"),
}

# Names by which programs ask whether the module is really there.
_ASKED = frozenset(("torch.distributed.rpc.api",))


class Loader:
    """Loads an absent module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that says what it is not."""
        module = _Module(spec.name)
        module.__doc__ = f"Not supported by maquette: {advice_for(spec.name.removeprefix(_FACE))}."
        module.__path__ = []
        vars(module)["__all__"] = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: there is no code."""


_BELOW: dict[str, set[str]] = {}
"""By the path of a package, which of its submodules are absent."""
for _path in ADVICE:
    _BELOW.setdefault(_path.rpartition(".")[0], set()).add(_path.rpartition(".")[2])


def offer_below(package: ModuleType, path: str) -> None:
    """Let the absent submodules of ``torch.<path>`` be attributes of the package that serves it.

    PyTorch imports them with the package, and programs write ``nn.quantized.FloatFunctional``. A
    package that looks names up itself finds them without this.
    """
    below = _BELOW.get(path)
    if below is None or "__getattr__" in vars(package):
        return

    def __getattr__(name: str) -> ModuleType:
        if name not in below:
            raise AttributeError(f"module 'torch.{path}' has no attribute '{name}'")
        return importlib.import_module(f"{_FACE}{path}.{name}")

    vars(package)["__getattr__"] = __getattr__


def spec_of(fullname: str) -> ModuleSpec:
    """The spec of the absent module ``maquette.torch.<path>``."""
    return ModuleSpec(fullname, cast(None, Loader()), is_package=True)
