"""`_convolution_double_backward`, PyTorch's name for the gradients of a convolution's gradients.

They stand with `convolution_backward`, as its derivative; here they have an operator's form.
"""

from __future__ import annotations

from collections.abc import Sequence

from maquette.aten.nn.conv.convolution import convolution_backward_gradients
from maquette.library.page import define
from maquette.tensor.tensor import Tensor

_convolution_double_backward = define(
    "aten::_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, "
    "Tensor weight, Tensor self, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> "
    "(Tensor, Tensor, Tensor)"
)
_convolution_double_backward.describe(
    "For gradients of a convolution's three gradients: those of the gradient that came in, of the "
    "input and of the weight."
)


@_convolution_double_backward.composite
def double_backward(
    ggI: Tensor | None,  # the schema's names
    ggW: Tensor | None,
    ggb: Tensor | None,
    gO: Tensor,
    weight: Tensor,
    self: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[Tensor | None, ...]:
    geometry = (stride, padding, dilation, transposed, output_padding, groups)
    return convolution_backward_gradients((ggI, ggW, ggb), gO, self, weight, *geometry, output_mask)
