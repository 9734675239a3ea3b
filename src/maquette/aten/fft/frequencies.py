"""`fft_fftfreq` and `fft_rfftfreq`: the frequencies that a transform's values belong to."""

from __future__ import annotations

from types import ModuleType

from maquette.aten.common.axes import Array
from maquette.aten.common.tensor_options import new_meta
from maquette.aten.factory.factories import OPTIONS
from maquette.aten.view.copies import write_out
from maquette.core.device import device as Device
from maquette.core.dtype import dtype as DType
from maquette.core.dtype import get_default_dtype
from maquette.core.errors import check, check_not_implemented
from maquette.core.layout import layout as Layout
from maquette.core.meta import TensorMeta
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor


def _frequencies(name: str, *, half: bool) -> OperatorPage:
    """Frequencies in cycles per ``d`` of a transform of n values, all or the first half."""
    page = define(f"aten::fft_{name}(int n, float d=1., *, {OPTIONS}) -> Tensor")

    @page.shape
    def shape(
        n: int,
        d: float,
        dtype: DType | None,
        layout: Layout | None,
        device: Device | None,
        pin_memory: bool | None,
    ) -> TensorMeta:
        kind = dtype or get_default_dtype()
        check(
            kind.category >= 2,
            lambda: f"{name} requires a floating point or complex dtype; got {kind}",
        )
        check_not_implemented(
            not kind.is_complex,
            lambda: f"\"arange_cpu\" not implemented for '{kind.scalar_name}'",
        )
        count = int(n / 2) + 1 if half else n
        check(
            count >= 0,
            lambda: f"Trying to create tensor with negative dimension {count}: [{count}]",
        )
        return new_meta(name, (count,), kind, layout, device)

    @page.kernel
    def kernel(xp: ModuleType, n: int, d: float, dtype: DType | None, *options: object) -> Array:
        kind = dtype or get_default_dtype()
        work = kind.numpy if kind.itemsize >= 4 else xp.float32
        index = xp.arange(int(n / 2) + 1 if half else n, dtype=work)
        if not half:
            index[(n + 1) // 2 :] -= n
        found: Array = index * xp.divide(1.0, xp.asarray(n * d, xp.float64)).astype(work)
        return found

    out = define(
        f"aten::fft_{name}.out(int n, float d=1., *, Tensor(a!) out) -> Tensor(a!)",
        tags=[Tag.out],
    )

    @out.composite
    def out_composite(n: int, d: float, out: Tensor) -> Tensor:
        return write_out(out, page(n, d, dtype=out.dtype, device=out.device))

    return page


fft_fftfreq = _frequencies("fftfreq", half=False)
fft_fftfreq.describe("The frequencies of an `fft` of `n` points at distance `d`: a vector of n.")
fft_rfftfreq = _frequencies("rfftfreq", half=True)
fft_rfftfreq.describe(
    "The frequencies of an `rfft` of `n` points at distance `d`: a vector of ``n // 2 + 1``."
)
