"""Where PyTorch has what a module of maquette defines: the files that classes say they are in.

Most stand at one path in both. What one file has here and another in PyTorch is in the tables; of a
file here that is several there, each class is in the one that is named like it.
"""

from __future__ import annotations

from maquette.api.function_homes import function_home
from maquette.torch.face.paths import PACKAGES, torch_path

# By the path that is served here; of a file that is served under no path, its own.
_FILES = {
    "_higher_order_ops.checkpoint": "utils.checkpoint",
    "_higher_order_ops.selective": "utils.checkpoint",
    "fx.codegen": "fx.graph",
    "fx.shapes": "fx.passes.shape_prop",
    "autograd.gradcheck_conventions": "autograd.gradcheck",
    "autograd.hooks": "utils.hooks",
    "devices.streams": "",
    "distributed.collectives": "distributed.distributed_c10d",
    "distributed.groups": "distributed.distributed_c10d",
    "distributed.stores": "distributed",
    "distributed.work": "distributed.distributed_c10d",
    "families.quasirandom": "quasirandom",
    "helpers.futures": "futures",
    "helpers.schema_types": "",
    "internals": "_C",
    "jit.inferred_types": "",
    "library.custom_op": "_library.custom_ops",
    "library.library": "library",
    "nn.base.loss": "nn.modules.loss",
    "nn.base.module": "nn.modules.module",
    "nn.base.pickling": "nn.modules.module",
    "nn.lazy_parameter": "nn.parameter",
    "nn.modules.attention": "nn.modules.activation",
    "nn.modules.cross_map": "nn.modules.normalization",
    "nn.modules.linear_cross_entropy": "nn.modules.loss",
    "nn.modules.parameter_container": "nn.modules.container",
    "nn.modules.ranking": "nn.modules.loss",
    "nn.modules.shaping.unpooling": "nn.modules.pooling",
    "optim._adafactor": "optim",
    "optim._muon": "optim",
    "profiling.event_list": "autograd.profiler_util",
    "profiling.events": "autograd.profiler_util",
    "profiling.steps": "profiler",
    "profiling.whole": "autograd.profiler",
    "saving.archives": "",
    "saving.layouts": "_utils",
    "saving.locations": "serialization",
    "saving.serialization": "serialization",
    "settings": "",
    "utils.benchmark.common": "utils.benchmark.utils.common",
    "utils.benchmark.compare": "utils.benchmark.utils.compare",
    "utils.benchmark.fuzzer": "utils.benchmark.utils.fuzzer",
    "utils.benchmark.timer": "utils.benchmark.utils.timer",
    "utils.data.collate": "utils.data._utils.collate",
    "utils.data.loader": "utils.data.dataloader",
    "utils.flop_formulas": "utils.flop_counter",
}
# By the path and the class.
_CLASSES = {
    ("_utils", "_get_layout"): "serialization",
    ("_utils", "_rebuild_from_type_v2"): "_tensor",
    ("devices.streams", "CUDAGraph"): "cuda.graphs",
    ("devices.streams", "StreamContext"): "cuda",
    ("distributions.base", "ExponentialFamily"): "distributions.exp_family",
    ("nn.modules.linear_cross_entropy", "LinearCrossEntropyOptions"): (
        "nn.modules.linear_cross_entropy_options"
    ),
    ("distributions.relaxed", "RelaxedOneHotCategorical"): "distributions.relaxed_categorical",
    ("saving.layouts", "_rebuild_njt"): "nested._internal.nested_tensor",
}
_LAZY = {"BatchNorm": "batchnorm", "Conv": "conv", "InstanceNorm": "instancenorm", "Lin": "linear"}
_ONE_FILE = ("distributions.transforms", "nn.functional", "optim.lr_scheduler")  # packages here


def torch_file(module: str, name: str) -> str:
    """Where PyTorch has a class or function of this name: ``torch.nn.modules.linear``."""
    path = torch_path(module)
    if module == "maquette":  # the function of an operator
        return function_home(name) or "torch"
    path = _CLASSES.get((path, name)) or _FILES.get(path or module.partition(".")[2], path)
    if path == "nn.modules.lazy":
        kinds = (file for kind, file in _LAZY.items() if name.startswith(f"Lazy{kind}"))
        path = f"nn.modules.{next(kinds, 'lazy')}"
    path = next((p for p in _ONE_FILE if path.startswith(f"{p}.")), path)
    path = _named_like(name, module) or path
    return f"torch.{path}" if path else "torch"


def _named_like(name: str, module: str) -> str | None:
    """Of PyTorch's files that this module has together, the one whose name the class begins with.

    ``OneHotCategoricalStraightThrough`` is in ``one_hot_categorical``.
    """
    files = _TOGETHER.get(module, ())
    like = (p for p in files if name.lower().startswith(_squeezed(p)))
    return max(like, key=len, default=None)


def _squeezed(path: str) -> str:
    return path.rpartition(".")[2].replace("_", "").lower()


_TOGETHER: dict[str, list[str]] = {}
for _path, _module in PACKAGES.items():
    if _path.startswith("distributions."):
        _TOGETHER.setdefault(_module, []).append(_path)
