"""Resizing of images and their like: nearest, linear and cubic, with or without smoothing.

Every operator is one rule of `resampling.py` applied to its dimensions. Each has a ``.vec`` form,
which takes factors in place of sizes, and a backward page that gives gradients back along the same
taps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np

from maquette.aten.common.accumulation import Array, wide
from maquette.aten.common.backward_checks import check_floats_only
from maquette.aten.common.batching_forms import folded
from maquette.aten.common.element_types import check_no_halves_on_cpu
from maquette.aten.nn.resize.resampling import (
    Rule,
    Taps,
    cubic_taps,
    linear_taps,
    nearest_exact_taps,
    nearest_taps,
    resampled,
    resampled_back,
    resampled_bytes,
    smooth_taps,
)
from maquette.autograd.formulas import naming
from maquette.core.dtype import uint8
from maquette.core.errors import check, check_not_implemented
from maquette.core.layout import contiguous_format
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike, is_true
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]
Scales = Sequence[float | None]


def _check_sizes(name: str, input_size: Ints, output_size: Ints, dims: int) -> None:
    check(
        len(output_size) == dims,
        lambda: (
            f"{name}: It is expected output_size equals to {dims}, but got size {len(output_size)}"
        ),
    )
    check(
        len(input_size) == dims + 2,
        lambda: (
            f"{name}: It is expected input_size equals to {dims + 2}, but got size "
            f"{len(input_size)}"
        ),
    )
    check(
        not any(is_true(n <= 0) for n in (*input_size[2:], *output_size)),
        lambda: (
            f"{name}: Input and output sizes should be greater than 0, but got input "
            f"{tuple(input_size[2:])} output {tuple(output_size)}"
        ),
    )
    check(
        not is_true(input_size[1] == 0),
        lambda: (
            f"{name}: Non-empty {dims + 2}D data tensor expected but got a tensor with sizes "
            f"{list(input_size)}"
        ),
    )


def _split(parameters: Sequence[object], aligns: bool) -> tuple[bool, Scales]:
    """The trailing parameters: align_corners, where there is one, and the factors."""
    if aligns:
        return bool(parameters[0]), parameters[1:]  # type: ignore[return-value]  # numbers or None
    return False, parameters  # type: ignore[return-value]  # numbers or None


class Family:
    """One kind of resampling in a number of dimensions: its pages and what they share."""

    def __init__(
        self,
        name: str,
        dims: int,
        rule: Callable[[bool], Rule],
        *,
        aligns: bool,
        vec_tags: Sequence[Tag] = (),
        back_keeps_format: bool = False,
        bytes_allowed: bool = True,
        autocast: bool = True,
        halves_on_cpu: bool = True,
    ) -> None:
        self.name, self.dims, self.rule, self.aligns = name, dims, rule, aligns
        self.back_keeps_format = back_keeps_format
        self.bytes_allowed = bytes_allowed
        self.autocast = autocast  # whether it is on PyTorch's list of float32 operators
        self.halves_on_cpu = halves_on_cpu
        self.page = self._forward()
        self.backward = self._backward()
        self.vec = self._vec(vec_tags)

    def _tail(self) -> str:
        names = {1: ["scales"], 2: ["scales_h", "scales_w"]}.get(
            self.dims, ["scales_d", "scales_h", "scales_w"]
        )
        align = "bool align_corners, " if self.aligns else ""
        return align + ", ".join(f"float? {n}=None" for n in names)

    def taps(self, size: Ints, out: Ints, align: bool, scales: Scales, kind: object) -> list[Taps]:
        """The taps of each dimension, the last first."""
        rule = self.rule(align)
        precision = np.float64 if kind == np.float64 or kind == np.uint8 else np.float32
        each = zip(reversed(size), reversed(out), reversed(scales))
        return [rule(n, m, s, precision) for n, m, s in each]

    def _forward(self) -> OperatorPage:
        page = define(
            f"aten::{self.name}(Tensor self, SymInt[{self.dims}] output_size, {self._tail()}) -> "
            f"Tensor"
        )
        if self.autocast:
            page.autocast(cuda="float32")
        page.batching(folded)

        @page.shape
        def upsample_shape(input: TensorMeta, output_size: Ints, *parameters: object) -> TensorMeta:
            _check_sizes(self.name, input.shape, output_size, self.dims)
            kind = input.dtype
            check_not_implemented(
                kind.is_floating_point or (kind is uint8 and self.bytes_allowed),
                lambda: f"\"{self.name}\" not implemented for '{kind.scalar_name}'",
            )
            if not self.halves_on_cpu:
                check_no_halves_on_cpu("compute_index_ranges_weights", input)
            shape = (*input.shape[:2], *output_size)
            return input.fresh(shape).like(memory_format=input.suggested_format)

        @page.kernel
        def upsample_kernel(
            xp: ModuleType, input: Array, output_size: Ints, *parameters: object
        ) -> Array:
            align, scales = _split(parameters, self.aligns)
            x = wide(input)
            taps = self.taps(x.shape[2:], output_size, align, scales, x.dtype)
            if x.dtype == np.uint8 and not all(each.is_choice for each in taps):
                return resampled_bytes(xp, x, taps)
            return resampled(xp, x, taps)

        page.linear(self=self._gradient())
        return page

    def _gradient(self) -> Callable[..., object]:
        """The formula for `self`, naming exactly the operator's parameters."""

        @naming("grad", "self_meta", "output_size", *self._parameters())
        def formula(grad: Tensor, meta: TensorMeta, output_size: Ints, *rest: object) -> object:
            return self.backward(grad, output_size, meta.shape, *rest)

        return formula

    def _parameters(self) -> list[str]:
        """The names of the operator's parameters after the size of its result."""
        return [part.split()[1].split("=")[0] for part in self._tail().split(", ")]

    def _backward(self) -> OperatorPage:
        page = define(
            f"aten::{self.name}_backward(Tensor grad_output, SymInt[{self.dims}] output_size, "
            f"SymInt[{self.dims + 2}] input_size, {self._tail()}) -> Tensor"
        )
        page.batching(folded)

        @page.shape
        def upsample_backward_shape(
            grad: TensorMeta, output_size: Ints, input_size: Ints, *parameters: object
        ) -> TensorMeta:
            _check_sizes(f"{self.name}_backward", input_size, output_size, self.dims)
            expected = (*input_size[:2], *output_size)
            check(
                expect_alike(grad.shape, expected),
                lambda: (
                    f"{self.name}_backward: Expected grad_output of shape {list(expected)}, "
                    f"got {grad}"
                ),
            )
            check_floats_only(f"{self.name}_backward", grad)
            order = grad.suggested_format if self.back_keeps_format else contiguous_format
            return grad.fresh(tuple(input_size)).like(memory_format=order)

        @page.kernel
        def upsample_backward_kernel(
            xp: ModuleType,
            grad: Array,
            output_size: Ints,
            input_size: Ints,
            *parameters: object,
        ) -> Array:
            align, scales = _split(parameters, self.aligns)
            g = wide(grad)
            taps = self.taps(input_size[2:], output_size, align, scales, g.dtype)
            return resampled_back(xp, g, input_size[:1:-1], taps)

        page.linear(grad_output=self._second_gradient())
        return page

    def _second_gradient(self) -> Callable[..., object]:
        @naming("grad", "output_size", *self._parameters())
        def formula(*values: object) -> object:
            return self.page(*values)

        return formula

    def _vec(self, tags: Sequence[Tag]) -> OperatorPage:
        align = "bool align_corners, " if self.aligns else ""
        page = define(
            f"aten::{self.name}.vec(Tensor input, SymInt[]? output_size, {align}"
            f"float[]? scale_factors) -> Tensor",
            tags=tags,
        )

        @page.composite
        def upsample_by_factors(
            input: Tensor, output_size: Ints | None, *parameters: object
        ) -> object:
            *align_corners, factors = parameters
            size = _size_of(input, output_size, factors, self.dims)
            scales = factors if factors is not None else [None] * self.dims
            return self.page(input, size, *align_corners, *scales)  # type: ignore[misc]  # a list

        return page


def _size_of(input: Tensor, size: Ints | None, factors: object, dims: int) -> list[int]:
    check(
        (size is None) != (factors is None),
        lambda: (
            f"Must specify exactly one of output_size and scale_factors; got {size} and {factors}"
        ),
    )
    if size is not None:
        return list(size)
    assert isinstance(factors, (tuple, list))
    check(
        len(factors) == dims,
        lambda: f"expected {dims} scale factors, got {list(factors)}",
    )
    return [_whole(n * f) for n, f in zip(input.shape[2:], factors)]


def _whole(size: float) -> int:
    check(
        size.__class__ is not float or -(2.0**63) <= size < 2.0**63,
        lambda: f"value cannot be converted to type int64_t without overflow: a size of {size}",
    )
    return math.trunc(size)


def _nearest(dims: int, tags: Sequence[Tag] = ()) -> tuple[Family, Family]:
    keeps = dims == 2
    return (
        Family(
            f"upsample_nearest{dims}d",
            dims,
            lambda align: nearest_taps,
            aligns=False,
            vec_tags=tags,
            back_keeps_format=keeps,
        ),
        Family(
            f"_upsample_nearest_exact{dims}d",
            dims,
            lambda align: nearest_exact_taps,
            aligns=False,
            back_keeps_format=keeps,
        ),
    )


nearest1d, nearest_exact1d = _nearest(1)
describe("upsample_nearest1d", "Signals [N, C, L] resampled to a size, by the nearest element.")
nearest2d, nearest_exact2d = _nearest(2, [Tag.core])
describe("upsample_nearest2d", "Images [N, C, H, W] resampled to a size, by the nearest element.")
nearest3d, nearest_exact3d = _nearest(3)
describe(
    "upsample_nearest3d",
    "Volumes [N, C, D, H, W] resampled to a size, by the nearest element.",
)
linear1d = Family("upsample_linear1d", 1, linear_taps, aligns=True, bytes_allowed=False)
describe("upsample_linear1d", "Signals [N, C, L] resampled to a size, by linear interpolation.")
bilinear2d = Family(
    "upsample_bilinear2d",
    2,
    linear_taps,
    aligns=True,
    vec_tags=[Tag.core],
    back_keeps_format=True,
)
describe("upsample_bilinear2d", "Images [N, C, H, W] resampled to a size, by linear interpolation.")
trilinear3d = Family(
    "upsample_trilinear3d",
    3,
    linear_taps,
    aligns=True,
    back_keeps_format=True,
    bytes_allowed=False,
)
describe(
    "upsample_trilinear3d",
    "Volumes [N, C, D, H, W] resampled to a size, by linear interpolation.",
)
bicubic2d = Family("upsample_bicubic2d", 2, cubic_taps, aligns=True)
describe("upsample_bicubic2d", "Images [N, C, H, W] resampled to a size, by cubic interpolation.")
bilinear2d_aa = Family(
    "_upsample_bilinear2d_aa",
    2,
    lambda align: smooth_taps(align, "triangle"),
    aligns=True,
    halves_on_cpu=False,
    back_keeps_format=True,
)
bicubic2d_aa = Family(
    "_upsample_bicubic2d_aa",
    2,
    lambda align: smooth_taps(align, "cubic"),
    aligns=True,
    halves_on_cpu=False,
)
lanczos2d_aa = Family(
    "_upsample_lanczos2d_aa",
    2,
    lambda align: smooth_taps(align, "lanczos"),
    aligns=True,
    halves_on_cpu=False,
    autocast=False,
)
