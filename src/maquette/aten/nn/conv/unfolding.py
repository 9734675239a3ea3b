"""The sliding blocks of images as columns (`im2col`), and columns added up to images (`col2im`).

Each is the other's adjoint, hence its derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import ModuleType

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.batching_forms import folded
from maquette.aten.common.element_types import check_no_integers
from maquette.aten.nn.conv.sliding_windows import cropped, fold, padded, reach, windows
from maquette.core.dtype import bool_
from maquette.core.errors import check
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_true, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import define

Ints = Sequence[int]


def _check_blocks(name: str, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> None:
    _check_pair(f"{name}: kernel_size", kernel, 1)
    _check_pair(f"{name}: dilation", dilation, 1)
    _check_pair(f"{name}: padding", padding, 0)
    _check_pair(f"{name}: stride", stride, 1)


def _check_pair(what: str, values: Ints, least: int) -> None:
    check(len(values) == 2, lambda: f"{what}: expected 2 numbers, but got {len(values)}")
    check(
        min(values) >= least,
        lambda: f"{what} should be at least {least}, but got {list(values)}",
    )


def _places(space: Ints, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints) -> list[int]:
    return [
        (n + 2 * p - reach(k, d)) // s + 1
        for n, k, d, p, s in zip(space, kernel, dilation, padding, stride)
    ]


im2col = define(
    "aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
    "-> Tensor"
)
im2col.describe("The blocks of images [N, C, H, W] as columns: [N, C * k, count].")


@im2col.shape
def im2col_shape(
    self: TensorMeta, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> TensorMeta:
    _check_blocks("im2col", kernel, dilation, padding, stride)
    check_no_integers("im2col_out_cpu", self.dtype)
    check(
        self.ndim in (3, 4) and not any(is_true(n == 0) for n in self.shape[-3:]),
        lambda: (
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(self.shape)}"
        ),
    )
    places = _places(self.shape[-2:], kernel, dilation, padding, stride)
    check(
        all(expect_true(n >= 1) for n in places),
        lambda: (
            f"Given input with spatial size ({', '.join(map(str, self.shape[-2:]))}), "
            f"kernel_size={tuple(kernel)}, dilation={tuple(dilation)}, padding={tuple(padding)}, "
            f"calculated shape of the array of sliding blocks as ({places[0]}, {places[1]}), but "
            f"its components must be at least one."
        ),
    )
    channels = self.shape[-3] * prod(kernel)
    return self.fresh((*self.shape[:-3], channels, prod(places)))


@im2col.kernel
def im2col_kernel(
    xp: ModuleType, self: Array, kernel: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> Array:
    places = _places(self.shape[-2:], kernel, dilation, padding, stride)
    around = padded(xp, self, padding, padding)
    view = windows(xp, around, kernel, stride, dilation, places)
    return view.reshape(*self.shape[:-3], self.shape[-3] * prod(kernel), prod(places))


col2im = define(
    "aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, "
    "int[2] padding, int[2] stride) -> Tensor",
    tags=[Tag.core],
)
col2im.describe("Blocks [N, C * k, count] added where they overlap into images [N, C, H, W].")


@col2im.shape
def col2im_shape(
    self: TensorMeta,
    output_size: Ints,
    kernel: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
) -> TensorMeta:
    _check_blocks("col2im", kernel, dilation, padding, stride)
    check_no_integers("col2im_out_cpu", self.dtype)
    check(
        self.ndim in (2, 3) and not any(is_true(n == 0) for n in self.shape[-2:]),
        lambda: (
            f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(self.shape)}"
        ),
    )
    check(
        self.shape[-2] % prod(kernel) == 0,
        lambda: (
            f"Expected size of input's dimension 1 to be divisible by the product of "
            f"kernel_size, but got input.size(1)={self.shape[-2]} and kernel_size={tuple(kernel)}."
        ),
    )
    places = _places(output_size, kernel, dilation, padding, stride)
    check(
        all(expect_true(n >= 1) for n in places),
        lambda: (
            f"Given output_size={tuple(output_size)}, kernel_size={tuple(kernel)}, "
            f"dilation={tuple(dilation)}, padding={tuple(padding)}, stride={tuple(stride)}, "
            f"calculated shape of the array of sliding blocks as ({places[0]}, {places[1]}), which "
            "is too small (non-positive)"
        ),
    )
    check(
        self.shape[-1] == prod(places),
        lambda: (
            f"Given output_size={tuple(output_size)}, kernel_size={tuple(kernel)}, "
            f"dilation={tuple(dilation)}, padding={tuple(padding)}, stride={tuple(stride)}, "
            f"expected size of input's dimension 2 to match the calculated number of sliding "
            f"blocks {places[0]} * {places[1]} = {prod(places)}, but got "
            f"input.size(2)={self.shape[-1]}."
        ),
    )
    return self.fresh((*self.shape[:-2], self.shape[-2] // prod(kernel), *output_size))


@col2im.kernel
def col2im_kernel(
    xp: ModuleType,
    self: Array,
    output_size: Ints,
    kernel: Ints,
    dilation: Ints,
    padding: Ints,
    stride: Ints,
) -> Array:
    places = _places(output_size, kernel, dilation, padding, stride)
    channels = self.shape[-2] // prod(kernel)
    columns = wide(self) if self.dtype != bool_.numpy else self.astype(xp.int64)
    columns = columns.reshape(*self.shape[:-2], channels, *kernel, *places)
    around = [n + 2 * p for n, p in zip(output_size, padding)]
    return cropped(fold(xp, columns, around, stride, dilation), padding, output_size)


col2im.linear(
    self=lambda grad, kernel_size, dilation, padding, stride: im2col(
        grad, kernel_size, dilation, padding, stride
    )
)
col2im.batching(folded)
im2col.linear(
    self=lambda grad, self_meta, kernel_size, dilation, padding, stride: col2im(
        grad, self_meta.shape[-2:], kernel_size, dilation, padding, stride
    )
)
im2col.batching(folded)
