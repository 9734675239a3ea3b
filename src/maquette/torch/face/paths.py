"""Which module of maquette serves which of torch's module paths.

A path is served by the longest of its beginnings that stands in the table, with the rest of the
path appended; a path without one, by the file of this package at that path. So
``torch.nn.modules.conv`` is ``maquette.nn.modules.conv``, because ``nn`` is ``maquette.nn``, and a
package's new module needs no entry.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder

from maquette.torch.face.absences import advice_for

_FACE = "maquette.torch"


def _distributions(**families: str) -> dict[str, str]:
    """PyTorch has a file for each distribution; here one has a family."""
    return {
        f"distributions.{name}": f"{_FACE}.distributions.{family}"
        for family, names in families.items()
        for name in names.split()
    }


def _each(module: str, names: str, below: str = "utils") -> dict[str, str]:
    """Small modules of PyTorch that one file has together."""
    return {f"{below}.{name}": module for name in names.split()}


PACKAGES = {
    "_C._cpu": "maquette.torch.devices.cpu",
    "_C._autograd": "maquette.torch.autograd.internals",
    "_C._VariableFunctions": "maquette.torch._VF",
    "_C._functions": "maquette.torch.autograd.c_functions",
    "_C._nn": "maquette.torch._nn_functions",
    **{f"_C._{family}": "maquette.api.functions" for family in ("fft", "linalg", "special")},
    "_C._functorch": "maquette.torch._functorch.levels",
    "_decomp": "maquette.fx.decompositions",
    "_decomp.decompositions": "maquette.torch.helpers.decompositions",
    "_dynamo.source": "maquette.symbolic.program.sources",
    "_higher_order_ops": "maquette.higher_order",
    "_inductor.decomposition": "maquette.torch.helpers.inductor_rules",
    "_custom_ops": "maquette.torch._custom_op.by_name",
    "_library.effects": "maquette.library.effects",
    "_library.fake_class_registry": "maquette.library.objects.script_objects",
    "_library.fake_profile": "maquette.library.fake_profile",
    "_library.opaque_object": "maquette.library.objects.opaque_types",
    "_library.triton": "maquette.higher_order.triton",
    "_opaque_base": "maquette.library.objects.opaque_types",
    "_prims": "maquette.torch.prims",
    "_prims_common": "maquette.torch.prims_common",
    "_prims_common.wrappers": "maquette.torch.helpers.prims_wrappers",
    "_refs": "maquette.torch.helpers.refs",
    "_refs.fft": "maquette.torch.families.fft",
    "_refs.linalg": "maquette.torch.families.linalg",
    "_refs.nn": "maquette.nn",
    "_refs.special": "maquette.torch.families.special",
    "_subclasses.fake_impls": "maquette.fake",
    "_subclasses.fake_tensor": "maquette.fake",
    "_subclasses.fake_utils": "maquette.fake.real.cross_reference",
    "_subclasses.functional_tensor": "maquette.torch.tracing.functional_tensors",
    "_subclasses.meta_utils": "maquette.fake.described.meta_utils",
    "_subclasses.schema_check_mode": "maquette.fake.real.schema_check",
    "_tensor": "maquette.torch.saving.tensor_module",
    "_tensor_str": "maquette.torch.helpers.tensor_str",
    "_utils": "maquette.torch.saving._utils",
    "accelerator": "maquette.torch.devices.accelerator",
    **_each("maquette.torch.devices.accelerator", "graphs memory", "accelerator"),
    "amp": "maquette.amp",
    "autograd.anomaly_mode": "maquette.autograd.anomaly",
    "autograd.forward_ad": "maquette.transforms.forward_ad",
    "autograd.function": "maquette.autograd.function",
    "autograd.grad_mode": "maquette.autograd.grad_mode",
    "autograd.graph": "maquette.autograd.graph",
    "compiler.config": "maquette.torch._dynamo.compiler_config",
    "cpu": "maquette.torch.devices.cpu",
    "cpu.amp": "maquette.torch.devices.cpu_amp",
    **_each("maquette.torch.devices.cpu_amp", "autocast_mode grad_scaler", "cpu.amp"),
    **_each("maquette.torch.cuda.amp", "autocast_mode common grad_scaler", "cuda.amp"),
    "cuda.graphs": "maquette.torch.cuda",
    "cuda.memory": "maquette.torch.cuda",
    **_distributions(
        base="distribution exp_family",
        bounded="continuous_bernoulli mixture_same_family von_mises",
        continuous="cauchy exponential generalized_pareto laplace normal uniform",
        discrete="bernoulli binomial categorical geometric multinomial negative_binomial "
        "one_hot_categorical poisson",
        divergence="kl",
        gammas="beta chi2 dirichlet fishersnedecor gamma studentT",
        multivariate="lkj_cholesky lowrank_multivariate_normal multivariate_normal wishart",
        relaxed="relaxed_bernoulli relaxed_categorical",
        transformed="gumbel half_cauchy half_normal inverse_gamma kumaraswamy log_normal "
        "logistic_normal pareto transformed_distribution weibull",
    ),
    "distributed.distributed_c10d": "maquette.torch.distributed",
    "distributed.rendezvous": "maquette.torch.distributed.rendezvous",
    **_each(
        "maquette.torch.distributed.checkpoint.states",
        "api state_dict_loader state_dict_saver",
        "distributed.checkpoint",
    ),
    "distributed.checkpoint.state_dict": "maquette.torch.distributed.member_states",
    "fft": "maquette.torch.families.fft",
    "export": "maquette.torch.tracing.export",
    "export.dynamic_shapes": "maquette.torch.tracing.dims",
    "functional": "maquette.torch.helpers.functional",
    "futures": "maquette.torch.helpers.futures",
    "fx": "maquette.fx",
    "fx._compatibility": "maquette.fx.compatibility",
    "fx._lazy_graph_module": "maquette.fx.lazy_graph_module",
    "fx._pytree": "maquette.fx.pytree_spec",
    "fx._symbolic_trace": "maquette.fx.tracing.tracer",
    "fx._utils": "maquette.fx.node_context",
    "fx.experimental": "maquette.torch.tracing.fx_experimental",
    "fx.experimental._config": "maquette.torch.tracing.symbolic_config",
    "fx.proxy": "maquette.fx.tracing.proxy",
    "fx.experimental.const_fold": "maquette.fx.passes.const_fold",
    "fx.experimental.debug": "maquette.fx.experimental.debug",
    "fx.experimental.graph_gradual_typechecker": "maquette.fx.gradual_types",
    "fx.experimental.merge_matmul": "maquette.fx.experimental.merge_matmul",
    "fx.experimental.normalize": "maquette.fx.experimental.normalize",
    "fx.experimental.optimization": "maquette.fx.experimental.optimization",
    "fx.experimental.refinement_types": "maquette.fx.gradual_types.unification",
    "fx.experimental.schema_type_annotation": "maquette.fx.experimental.schema_type_annotation",
    "fx.experimental.proxy_tensor": "maquette.fx.tracing.proxy_tensor",
    "fx.experimental.recording": "maquette.symbolic.errors",
    "fx.experimental.rewriter": "maquette.fx.tracing.rewriter",
    "fx.experimental.sym_node": "maquette.torch.tracing.sym_node",
    "fx.experimental.unification": "maquette.fx.gradual_types.unification",
    "fx.experimental.unify_refinements": "maquette.fx.gradual_types.inferring",
    "fx.experimental.symbolic_shapes": "maquette.torch.tracing.symbolic_shapes",
    "library": "maquette.library",
    "linalg": "maquette.torch.families.linalg",
    "masked": "maquette.torch.families.masked",
    "masked._ops": "maquette.torch.families.masked",
    "masked.maskedtensor": "maquette.torch.masked_tensors",
    "mps": "maquette.torch.devices.mps",
    "mps.event": "maquette.torch.devices.mps",
    "mtia": "maquette.torch.devices.mtia",
    **_each("maquette.torch.devices.mtia", "memory mtia_graph", "mtia"),
    "ao.nn.quantized.modules.functional_modules": "maquette.torch.families.float_functional",
    "ao.quantization.fx._decomposed": "maquette.torch.families.quantized_decomposed",
    "ao.quantization.stubs": "maquette.torch.families.quantization_stubs",
    "nn": "maquette.nn",
    "nn.modules.channelshuffle": "maquette.nn.modules.shaping.channelshuffle",
    "nn.modules.flatten": "maquette.nn.modules.shaping.flatten",
    "nn.modules.fold": "maquette.nn.modules.shaping.fold",
    **_each(
        "maquette.nn.modules.loss",
        "linear_cross_entropy linear_cross_entropy_options",
        "nn.modules",
    ),
    "nn.modules.padding": "maquette.nn.modules.shaping.padding",
    "nn.modules.pixelshuffle": "maquette.nn.modules.shaping.pixelshuffle",
    "nn.modules.upsampling": "maquette.nn.modules.shaping.upsampling",
    "ops": "maquette.ops",
    "optim": "maquette.optim",
    "optim._adafactor": "maquette.optim.adafactor",
    "optim._muon": "maquette.optim.muon",
    "serialization": "maquette.torch.saving.serialization",
    "nested": "maquette.torch.families.nested",
    "nested._internal": "maquette.nested",
    "nested._internal.nested_tensor": "maquette.torch.families.jagged",
    "sparse": "maquette.torch.families.sparse",
    "quasirandom": "maquette.torch.families.quasirandom",
    "special": "maquette.torch.families.special",
    "return_types": "maquette.torch.families.return_types",
    "storage": "maquette.torch.saving.storage",
    "torch_version": "maquette.torch.face.torch_version",
    "profiler.profiler": "maquette.torch.profiler",
    "profiler.itt": "maquette.torch.profiling.itt",
    "monitor": "maquette.torch.profiling.monitor",
    "_appdirs": "maquette.torch.helpers.appdirs",
    "_classes": "maquette.torch.classes",
    "_jit_internal": "maquette.torch.helpers.jit_internal",
    "_linalg_utils": "maquette.torch.helpers.linalg_utils",
    "_logging": "maquette.torch.helpers.logging",
    "_lowrank": "maquette.torch.families.low_rank",
    "_weights_only_unpickler": "maquette.torch.helpers.weights_only",
    "_vendor.packaging": "packaging",  # where it is installed
    "_compile": "maquette.torch.helpers.environment",
    "_environment": "maquette.torch.helpers.environment",
    **_each("maquette.torch.helpers.environment", "_helion _triton"),
    "utils.serialization": "maquette.torch.helpers.serialization",
    "utils.serialization.config": "maquette.torch.helpers.serialization_config",
    **_each(
        "maquette.torch.helpers.wrappers",
        "_exposed_in _functools _import_utils _stats _thunk _typing_utils",
    ),
    "utils._cxx_pytree": "maquette.torch.utils._pytree",
    "utils._config_module": "maquette.torch.helpers.config_module",
    "utils._contextlib": "maquette.torch.helpers.contexts",
    "utils._foreach_utils": "maquette.torch.helpers.foreach_utils",
    "utils._ordered_set": "maquette.torch.helpers.ordered_set",
    "utils.benchmark.utils": "maquette.torch.utils.benchmark",
    "utils.data._utils.collate": "maquette.torch.utils.data.collate",
    "utils.data._utils.fetch": "maquette.torch.utils.data.fetching",
    "utils.data._utils.pin_memory": "maquette.torch.utils.data.pinning",
    "utils.data._utils.worker": "maquette.torch.utils.data.workers",
    "signal.windows.windows": "maquette.torch.signal.windows",
    "xpu": "maquette.torch.devices.xpu",
    **_each("maquette.torch.devices.xpu", "graphs memory random streams", "xpu"),
}


# Packages of this face that torch does not have.
_OWN = frozenset(
    (
        "devices",
        "face",
        "families",
        "functorch",
        "helpers",
        "masked_tensors",
        "profiling",
        "saving",
        "tracing",
    )
)

_FOUND: dict[str, str] = {}
_REMEMBERED = 4096


def resolve(path: str) -> str | None:
    """The name of the module that serves ``torch.<path>``; None if there is none."""
    found = _FOUND.get(path)
    if found is None:
        target = _target(path)
        found = target if exists(target) else ""
        if not found and advice_for(path) is not None:
            found = f"{_FACE}.{path}"
        # Files do not come and go; what asks for names that are not there asks often.
        if len(_FOUND) < _REMEMBERED:
            _FOUND[path] = found
    return found or None


def _target(path: str) -> str:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        package = PACKAGES.get(".".join(parts[:length]))
        if package is not None:
            return ".".join((package, *parts[length:]))
    return f"{_FACE}.{path}"


def serves(module: str, path: str) -> bool:
    """Whether ``torch.<path>`` is this module."""
    return _target(path) == module


_PATHS: dict[str, str] = {}
"""The path that each package serves, the shortest of several. Asked for every class that is named,
who looks `PACKAGES` through takes a fifth of a model's first step."""
for _path in sorted(PACKAGES, key=len):
    _PATHS.setdefault(PACKAGES[_path], _path)


def torch_path(module: str) -> str:
    """The path below ``torch`` that a module of maquette serves; "" for the top."""
    if module == _FACE or module == "maquette":
        return ""
    own = module.removeprefix(f"{_FACE}.")
    if module != own and _target(own) == module and own.partition(".")[0] not in _OWN:
        return own
    package = module
    while package:
        path = _PATHS.get(package)
        if path is not None:
            return path + module.removeprefix(package)
        package = package.rpartition(".")[0]
    return module.removeprefix(f"{_FACE}.") if module.startswith(f"{_FACE}.") else ""


def exists(module: str) -> bool:
    """Whether a module of maquette can be imported, as a file or as one that is absent."""
    if module in sys.modules or advice_for(module.removeprefix(f"{_FACE}.")) is not None:
        return True
    parent = module.rpartition(".")[0]
    if parent and not exists(parent):
        return False
    folders = getattr(importlib.import_module(parent), "__path__", ()) if parent else None
    # Files only: the finders of `installing.py` ask here.
    return PathFinder.find_spec(module, folders) is not None


def top_level() -> list[str]:
    """The submodules of torch: those that other packages serve, and the files of this one."""
    here = os.listdir(os.path.dirname(os.path.dirname(__file__)))
    files = {name.removesuffix(".py") for name in here if not name.startswith("__")}
    return sorted(({path.partition(".")[0] for path in PACKAGES} | files) - _OWN)
