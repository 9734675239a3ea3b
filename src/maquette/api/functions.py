"""The functional face: every aten operator as a torch-named function, found when first used.

``from maquette.aten import functions as mq`` then ``mq.conv2d(...)``. What is no operator
(`tensor`, `from_numpy` ...) is defined in `creation.py` and handed on here.
"""

from __future__ import annotations

from maquette.api.choosing_functions import (
    _segment_reduce,
    cdist,
    nonzero,
    norm,
    stft,
    tensor_split,
    unique,
    unique_consecutive,
)
from maquette.api.creation import (
    as_tensor,
    asarray,
    from_file,
    from_numpy,
    frombuffer,
    tensor,
)
from maquette.api.default_device import (
    NAMES,
    get_default_device,
    set_default_device,
    told_of_device,
)
from maquette.api.from_schema import Face, find_function, function_names
from maquette.api.lu_function import lu
from maquette.api.product_functions import (
    chain_matmul,
    einsum,
    einsum_arguments,
    tensordot,
)
from maquette.api.variadic import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_tensors,
    cartesian_prod,
    meshgrid,
    split,
)
from maquette.aten.catalogue import explain
from maquette.aten.random.random_factories import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from maquette.core.errors import MissingName
from maquette.dispatch.torch_function import overridable

# Python over several operators: handlers of ``__torch_function__`` see each as one call.
for _name in (
    "_segment_reduce", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "lu", "meshgrid", "norm", "split",
    "stft", "tensordot", "unique", "unique_consecutive",
):  # fmt: skip
    globals()[_name] = overridable(globals()[_name])
    globals()[_name].__module__ = "maquette"
for _name in ("nonzero", "tensor_split"):  # operators of PyTorch, which overloads tell apart there
    globals()[_name] = overridable(globals()[_name], as_written=True)
    globals()[_name].__module__ = "maquette"
einsum = overridable(einsum, arranged=einsum_arguments)
einsum.__module__ = "maquette"


def __getattr__(name: str) -> Face:
    found = None if name.startswith("__") else find_function(name)
    if found is None:
        raise MissingName(lambda: _what_is_missing(name))
    globals()[name] = told_of_device(found) if name in NAMES else found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *function_names()})


def _what_is_missing(name: str) -> str:
    hint = "" if name.startswith("__") else explain("aten", name)
    return f"module 'maquette' has no attribute '{name}'.{hint}"


__all__ = [
    "_segment_reduce",
    "Generator",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "meshgrid",
    "seed",
    "set_rng_state",
    "split",
    "as_tensor",
    "asarray",
    "cdist",
    "chain_matmul",
    "einsum",
    "from_file",
    "from_numpy",
    "frombuffer",
    "get_default_device",
    "lu",
    "nonzero",
    "norm",
    "set_default_device",
    "stft",
    "tensor",
    "tensor_split",
    "unique",
    "unique_consecutive",
    "tensordot",
]
