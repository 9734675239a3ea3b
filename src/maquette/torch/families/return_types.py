"""`torch.return_types`: the classes of results whose parts have names.

The operators' schemas name the parts; the classes are made by `api/result_classes.py`. A class of
the form with ``out=`` has its own name, ``max_out``, as in PyTorch.
"""

from __future__ import annotations

import sys

from maquette.api.result_classes import result_class
from maquette.dispatch.packet import find_packet

# Operators with named results that programs reach by a public name.
_PUBLIC = """
    aminmax cummax cummin frexp geqrf histogram kthvalue linalg_cholesky_ex linalg_eig linalg_eigh
    linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_lstsq linalg_lu linalg_lu_factor
    linalg_lu_factor_ex linalg_qr linalg_slogdet linalg_solve_ex linalg_svd lu_unpack max median min
    mode nanmedian qr slogdet sort svd topk triangular_solve
""".split()
_WITHOUT_OUT = ("histogramdd",)
_PRIVATE = """
    _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd _lu_with_info
    _scaled_dot_product_flash_attention_for_cpu _unpack_dual
""".split()
__all__ = sorted(
    [*_PUBLIC, *_WITHOUT_OUT, *[f"{n}_out" for n in _PUBLIC], "pytree_register_structseq"]
)


def pytree_register_structseq(cls: type) -> None:
    """Nothing: each class here is a node of pytrees from the start."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "all_return_types"})


def __getattr__(name: str) -> object:
    if name == "all_return_types":
        found: object = [_class(n) for n in __all__ if n != "pytree_register_structseq"]
    elif name in __all__ or name.removesuffix("_out") in _PRIVATE:
        found = _class(name)
    else:
        raise AttributeError(f"module 'torch.return_types' has no attribute '{name}'")
    setattr(sys.modules[__name__], name, found)
    return found


def _class(name: str) -> type[tuple[object, ...]]:
    return result_class(name, _fields(name.removesuffix("_out")))


def _fields(name: str) -> tuple[str, ...]:
    packet = find_packet(f"aten::{name}")
    for overload in () if packet is None else packet.overloads():
        names = [r.name for r in getattr(packet, overload)._schema.returns]
        if len(names) > 1 and all(names):
            return tuple(str(n) for n in names)
    raise AttributeError(f"torch.return_types.{name}: the operator's results have no names")
