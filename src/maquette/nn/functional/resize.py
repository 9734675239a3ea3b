"""Images made larger or smaller, or sampled along a grid; pixels moved between space and channels.

Lives here: what `size` and `scale_factor` mean and which operator a mode and a rank ask for. The
sampling is the operators'.
"""

import math
import warnings
from collections.abc import Sequence
from typing import TypeVar

from maquette.api import functions as mq
from maquette.tensor import Tensor

T = TypeVar("T", int, float)

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
# Operators by (mode, number of dimensions, antialias); those that interpolate take align_corners.
_NEAREST = {
    ("nearest", 3): "upsample_nearest1d",
    ("nearest", 4): "upsample_nearest2d",
    ("nearest", 5): "upsample_nearest3d",
    ("nearest-exact", 3): "_upsample_nearest_exact1d",
    ("nearest-exact", 4): "_upsample_nearest_exact2d",
    ("nearest-exact", 5): "_upsample_nearest_exact3d",
}
_SMOOTH = {
    ("linear", 3, False): "upsample_linear1d",
    ("bilinear", 4, False): "upsample_bilinear2d",
    ("bilinear", 4, True): "_upsample_bilinear2d_aa",
    ("trilinear", 5, False): "upsample_trilinear3d",
    ("bicubic", 4, False): "upsample_bicubic2d",
    ("bicubic", 4, True): "_upsample_bicubic2d_aa",
    ("lanczos", 4, True): "_upsample_lanczos2d_aa",
}
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_TAKES = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}
_AREA = {3: "adaptive_avg_pool1d", 4: "adaptive_avg_pool2d", 5: "adaptive_avg_pool3d"}
_ANTIALIASED = ("bilinear", "bicubic", "lanczos")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize (batch, channels, *space) to `size`, or by `scale_factor`.

    mode: nearest, nearest-exact, area, linear (3-d), bilinear, bicubic, lanczos (4-d), trilinear
    (5-d). recompute_scale_factor: derive the sampling step from the rounded size.

    Raises ValueError for arguments that contradict one another, NotImplementedError for a mode
    that does not take the input's number of dimensions.
    """
    _check_options(input, size, scale_factor, mode, align_corners, recompute_scale_factor)
    if antialias and not (mode in _ANTIALIASED and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            f"a 4-D tensor as input; got mode {mode} and {input.dim()}-D."
        )
    space = input.shape[2:]
    sizes = None if size is None else _per_dimension("size", size, space)
    factors = None if scale_factor is None else _per_dimension("scale_factor", scale_factor, space)
    if factors is not None and (recompute_scale_factor or mode == "area"):
        sizes, factors = [math.trunc(n * factor) for n, factor in zip(space, factors)], None
    return _resample(input, sizes, factors, mode, bool(align_corners), bool(antialias))


def _check_options(
    input: Tensor,
    size: int | Sequence[int] | None,
    scale_factor: float | Sequence[float] | None,
    mode: str,
    align_corners: bool | None,
    recompute_scale_factor: bool | None,
) -> None:
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            f"| bicubic | trilinear; got mode {mode}."
        )
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined; got both.")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined; got neither.")
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")


_SAID = {"size": "output", "scale_factor": "scale_factor"}


def _per_dimension(name: str, value: T | Sequence[T], space: Sequence[int]) -> Sequence[T]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [value] * len(space)
    if len(value) != len(space):
        kind = "output size" if name == "size" else name
        raise ValueError(
            f"Input and {_SAID[name]} must have the same number of spatial dimensions, but got "
            f"input with spatial dimensions of {list(space)} and {kind} of {value}."
        )
    if name == "size" and not all(_is_whole(n) for n in value):
        raise TypeError(_not_sizes(value))
    return value


def _is_whole(n: object) -> bool:
    if isinstance(n, Tensor):
        return not n.is_floating_point()
    return not isinstance(n, float | str)


def _not_sizes(value: Sequence[object]) -> str:
    return (
        "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], "
        f"but got size with types {[type(n) for n in value]}"
    )


def _resample(
    input: Tensor,
    sizes: Sequence[int] | None,
    factors: Sequence[float] | None,
    mode: str,
    align_corners: bool,
    antialias: bool,
) -> Tensor:
    ndim = input.dim()
    if mode == "area" and ndim in _AREA:
        return getattr(mq, _AREA[ndim])(input, sizes)
    if (mode, ndim) in _NEAREST:
        return getattr(mq, _NEAREST[mode, ndim])(input, sizes, factors)
    if (mode, ndim, antialias) in _SMOOTH:
        op = getattr(mq, _SMOOTH[mode, ndim, antialias])
        return op(input, sizes, align_corners, factors)
    if mode == "lanczos" and ndim == 4:
        raise ValueError("Lanczos mode requires antialias=True")
    takes = _TAKES.get(mode)
    if takes is not None and ndim in _AREA:
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {takes}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: "
        f"{_MODES} (got {mode})"
    )


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` by its deprecated name."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=2,
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with mode nearest, by its deprecated name."""
    warnings.warn("upsample_nearest is deprecated. Use interpolate instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with mode bilinear and aligned corners, by its deprecated name."""
    warnings.warn("upsample_bilinear is deprecated. Use interpolate instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Sample an image at the points of `grid`, whose coordinates run from -1 to 1."""
    for name, value, known, words in (
        ("mode", mode, GRID_SAMPLE_INTERPOLATION_MODES, "'bilinear', 'nearest' or 'bicubic'"),
        (
            "padding_mode",
            padding_mode,
            GRID_SAMPLE_PADDING_MODES,
            "'zeros', 'border', or 'reflection'",
        ),
    ):
        if value not in known:
            raise ValueError(
                f"nn.functional.grid_sample(): expected {name} to be {words}, but got: '{value}'"
            )
    align_corners = _default_align_corners(align_corners)
    how, outside = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    return mq.grid_sampler(input, grid, how, outside, align_corners)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of sampling points of affine maps: theta (batch, 2, 3) or (batch, 3, 4)."""
    align_corners = _default_align_corners(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D maps; got size {size}."
        )
    n = len(size) - 2
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (n, n + 1):
        raise ValueError(
            f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True: their one point is the middle. "
            "See the documentation of affine_grid for details.",
            stacklevel=2,
        )
    return mq.affine_grid_generator(theta, list(size), align_corners)


def _default_align_corners(align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False "
            "since 1.3.0. Please specify align_corners=True if the old behavior is desired. See "
            "the documentation of grid_sample for details.",
            stacklevel=3,
        )
        return False
    return align_corners


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, c * r * r, h, w) to (*, c, h * r, w * r)."""
    return mq.pixel_shuffle(input, upscale_factor)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, c, h * r, w * r) to (*, c * r * r, h, w)."""
    return mq.pixel_unshuffle(input, downscale_factor)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`channel_shuffle`."""
    return mq.native_channel_shuffle(input, groups)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Deal the channels of `groups` groups out again, one of each group in turn."""
    return mq.channel_shuffle(input, groups)
