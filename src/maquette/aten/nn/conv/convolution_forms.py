"""The names that users call convolutions by: `conv1d` to `conv3d`, transposed, with named padding.

All are definitions by `convolution`. They add a batch dimension of 1 where there is none, and find
the padding that keeps sizes the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.aten.common.operators import aten
from maquette.aten.nn.conv.convolution import convolution
from maquette.aten.nn.conv.sliding_windows import expanded
from maquette.core.errors import check
from maquette.core.symbols import is_true
from maquette.library.advice import check_advised
from maquette.library.page import OperatorPage, define, describe
from maquette.tensor.tensor import Tensor

Ints = Sequence[int]


def _batched(name: str, dims: int, input: Tensor) -> Tensor:
    """The input with a batch dimension; RuntimeError for any other rank."""
    check(
        input.ndim in (dims + 1, dims + 2),
        lambda: (
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but "
            f"got input of size: {list(input.shape)}"
        ),
    )
    return input.unsqueeze(0) if input.ndim == dims + 1 else input


def _check_weight(weight: Tensor) -> None:
    check_advised(
        check,
        weight.ndim >= 3,
        lambda: "weight should have at least three dimensions",
        lambda: f"It is {weight.meta}.",
    )


def _named_forms(dims: int) -> tuple[OperatorPage, OperatorPage]:
    """`conv<dims>d` and its form with padding "same" or "valid"."""
    name = f"conv{dims}d"
    ones, zeros = [1] * dims, [0] * dims
    start = f"aten::{name}(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{dims}] "
    end = f"SymInt[{dims}] dilation={ones}, SymInt groups=1) -> Tensor"
    plain = define(f"{start}stride={ones}, SymInt[{dims}] padding={zeros}, {end}")
    named = define(
        f'{start.replace(name, f"{name}.padding")}stride={ones}, str padding="valid", {end}'
    )

    @plain.composite
    def with_numbers(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Ints,
        padding: Ints,
        dilation: Ints,
        groups: int,
    ) -> Tensor:
        _check_weight(weight)
        batched = _batched(name, dims, input)
        out = convolution(
            batched, weight, bias, stride, padding, dilation, False, [0] * dims, groups
        )
        return out if batched is input else out.squeeze(0)

    @named.composite
    def with_name(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Ints,
        padding: str,
        dilation: Ints,
        groups: int,
    ) -> Tensor:
        _check_weight(weight)
        batched = _batched(name, dims, input)
        if padding == "same":
            out = _same(batched, weight, bias, stride, dilation, groups)
        else:
            check(padding == "valid", lambda: f"Invalid padding string: '{padding}'")
            out = convolution(batched, weight, bias, stride, [0], dilation, False, [0], groups)
        return out if batched is input else out.squeeze(0)

    return plain, named


def _same(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, dilation: Ints, groups: int
) -> Tensor:
    """Padded so that sizes stay; an odd amount is one more behind, in a copy of the input."""
    dims = weight.ndim - 2
    check(
        input.ndim == weight.ndim,
        lambda: (
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight"
            f"{list(weight.shape)}, but got {input.ndim}-dimensional input of size "
            f"{list(input.shape)} instead"
        ),
    )
    check_advised(
        check,
        groups > 0,
        lambda: "non-positive groups is not supported",
        lambda: f"groups is {groups}.",
    )
    check(
        all(is_true(s == 1) for s in stride),
        lambda: "padding='same' is not supported for strided convolutions",
    )
    totals = [d * (k - 1) for d, k in zip(expanded(dilation, dims), weight.shape[2:])]
    if any(total % 2 for total in totals):
        behind = [side for total in reversed(totals) for side in (0, total % 2)]
        input = aten.constant_pad_nd(input, _trimmed(behind), 0)
    padding = [total // 2 for total in totals]
    return convolution(input, weight, bias, stride, padding, dilation, False, [0] * dims, groups)


def _trimmed(padding: list[int]) -> list[int]:
    """Without the pairs of zeros at its end: dimensions that stay as they are."""
    while len(padding) > 2 and not any(padding[-2:]):
        padding = padding[:-2]
    return padding


def _transposed_form(dims: int) -> OperatorPage:
    name = f"conv_transpose{dims}d"
    ones, zeros = [1] * dims, [0] * dims
    overload = "" if dims == 1 else ".input"
    page = define(
        f"aten::{name}{overload}(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{dims}] "
        f"stride={ones}, SymInt[{dims}] padding={zeros}, SymInt[{dims}] output_padding={zeros}, "
        f"SymInt groups=1, SymInt[{dims}] dilation={ones}) -> Tensor"
    )

    @page.composite
    def transposed(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Ints,
        padding: Ints,
        output_padding: Ints,
        groups: int,
        dilation: Ints,
    ) -> Tensor:
        _check_weight(weight)
        batched = _batched(name, dims, input)
        out = convolution(
            batched, weight, bias, stride, padding, dilation, True, output_padding, groups
        )
        return out if batched is input else out.squeeze(0)

    return page


conv1d, conv1d_padding = _named_forms(1)
describe(
    "conv1d",
    "Cross-correlation of [N, C, L] or [C, L] with `weight` [out, C / groups, k], plus `bias`.",
)
conv1d_padding.autocast(cpu="lower")
conv1d.autocast("lower")
conv2d, conv2d_padding = _named_forms(2)
describe(
    "conv2d",
    "Cross-correlation of [N, C, H, W] or [C, H, W] with `weight` [out, C / groups, kH, kW], "
    "plus `bias`.",
)
conv2d_padding.autocast(cpu="lower")
conv2d.autocast("lower")
conv3d, conv3d_padding = _named_forms(3)
describe(
    "conv3d",
    "Cross-correlation of [N, C, D, H, W] with `weight` [out, C / groups, kD, kH, kW], plus "
    "`bias`.",
)
conv3d_padding.autocast(cpu="lower")
conv3d.autocast("lower")
conv_transpose1d = _transposed_form(1)
conv_transpose1d.describe("The transpose of `conv1d`, with `weight` [C, out / groups, k].")
conv_transpose1d.autocast("lower")
conv_transpose2d = _transposed_form(2)
conv_transpose2d.describe("The transpose of `conv2d`, with `weight` [C, out / groups, kH, kW].")
conv_transpose2d.autocast("lower")
conv_transpose3d = _transposed_form(3)
conv_transpose3d.describe("The transpose of `conv3d`, with `weight` [C, out / groups, kD, kH, kW].")
conv_transpose3d.autocast("lower")


def _slow_forms(name: str, dims: int, *, dilated: bool = False, transposed: bool = False) -> None:
    """A convolution under the name of one of PyTorch's kernels: the kernel's size is asked for."""
    ones, zeros = [1] * dims, [0] * dims
    after = f", SymInt[{dims}] output_padding={zeros}" if transposed else ""
    after += f", SymInt[{dims}] dilation={ones}" if dilated or transposed else ""
    page = define(
        f"aten::{name}(Tensor self, Tensor weight, SymInt[{dims}] kernel_size, Tensor? bias=None, "
        f"SymInt[{dims}] stride={ones}, SymInt[{dims}] padding={zeros}{after}) -> Tensor"
    )
    kind = "conv_transpose" if transposed else "conv"
    page.describe(f"`{kind}{dims}d` under a kernel's name: kernel_size is `weight`'s last sizes.")

    @page.composite
    def slow_convolution(
        self: Tensor,
        weight: Tensor,
        kernel_size: Ints,
        bias: Tensor | None,
        stride: Ints,
        padding: Ints,
        *rest: Ints,
    ) -> Tensor:
        check(
            list(weight.shape[2:]) == list(kernel_size),
            lambda: f"{name}: expected a weight of kernel_size {kernel_size}, got {weight.meta}",
        )
        output_padding = rest[0] if transposed else [0] * dims
        dilation = rest[-1] if rest else [1] * dims
        batched = _batched(name, dims, self)
        out = convolution(
            batched, weight, bias, stride, padding, dilation, transposed, output_padding, 1
        )
        return out if batched is self else out.squeeze(0)


_slow_forms("thnn_conv2d", 2)
_slow_forms("slow_conv3d", 3)
_slow_forms("slow_conv_dilated2d", 2, dilated=True)
_slow_forms("slow_conv_dilated3d", 3, dilated=True)
_slow_forms("slow_conv_transpose2d", 2, transposed=True)
_slow_forms("slow_conv_transpose3d", 3, transposed=True)


# --- under the name of what chooses a kernel ---------------------------------------------------


def _named_convolution(overload: str, switches: Sequence[str]) -> None:
    """`convolution` with switches of PyTorch's kernels, which choose nothing here."""
    name = f"_convolution.{overload}" if overload else "_convolution"
    sizes = "int[]" if overload == "deprecated" else "SymInt[]"
    page = define(
        f"aten::{name}(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, "
        f"SymInt[] padding, SymInt[] dilation, bool transposed, {sizes} output_padding, "
        f"SymInt groups, {', '.join(f'bool {switch}' for switch in switches)}) -> Tensor"
    )
    page.composite(lambda *given: convolution(*given[: -len(switches)]))
    page.autocast(cpu="lower" if overload else None, cuda="lower")


_SWITCHES = ("benchmark", "deterministic", "cudnn_enabled")
_named_convolution("", (*_SWITCHES, "allow_tf32"))
_named_convolution("deprecated", _SWITCHES)
describe("_convolution", "`convolution`; what chooses a kernel of cuDNN is not asked.")
