"""Products of 8-bit floats whose scales are described: one of all elements, one of each row."""

import enum
from collections.abc import Sequence
from typing import NoReturn

from maquette.api import functions as mq
from maquette.core.dtype import bfloat16, dtype
from maquette.tensor import Tensor


class ScalingType(enum.IntEnum):
    """What one scale is of."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """How scales of blocks lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: dtype | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of matrices of 8-bit floats [n, m] and [m, p], each times its scales: [n, p].

    A scale is of the whole matrix, or one of each row of the first and column of the second.

    Raises NotImplementedError for scales of blocks, for which no kernel on cpu is.
    """
    for recipe in (scale_recipe_a, scale_recipe_b):
        kinds = recipe if isinstance(recipe, list) else [recipe]
        if kinds not in ([ScalingType.TensorWise], [ScalingType.RowWise]):
            raise NotImplementedError(
                f"scaled_mm: expected scales by ScalingType.TensorWise or RowWise, got {recipe}; "
                f"multiply by scales of blocks before mm"
            )
    first = scale_a[0] if isinstance(scale_a, list) else scale_a
    second = scale_b[0] if isinstance(scale_b, list) else scale_b
    result: Tensor = mq._scaled_mm(
        mat_a, mat_b, first, second, bias, None, output_dtype, use_fast_accum
    )
    return result


def scaled_grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    offs: Tensor | None = None,
    output_dtype: dtype | None = bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> NoReturn:
    """NotImplementedError: as in PyTorch, cpu has no kernel of scaled products of groups."""
    raise NotImplementedError(
        f"scaled_grouped_mm: there is no kernel for {mat_a.meta} on cpu; multiply by the scales "
        f"and call grouped_mm"
    )


def assert_int_or_pair(arg: int | Sequence[int], arg_name: str, message: str) -> None:
    """AssertionError, with ``message`` and the name filled in, unless there are one or two."""
    if not isinstance(arg, int) and len(arg) != 2:
        raise AssertionError(message.format(arg_name))
