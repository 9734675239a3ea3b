"""Undoing a max-pooling: values back to where they stood, zeros elsewhere.

Lives here: the size of what was pooled, which pooling forgets in part, and the check of a size that
is given. Putting values back is the operators' work.
"""

from collections.abc import Sequence

from maquette.api import functions as mq
from maquette.nn.functional.conv import Sizes
from maquette.nn.functional.pooling import each
from maquette.tensor import Tensor

Ints = Sequence[int]


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Ints | None = None,
) -> Tensor:
    """The values of `max_pool1d` at its `indices`: (*, places) to (*, length).

    output_size: the length before pooling, with or without batch and channels, where it was not
    the least that gives as many places. Raises ValueError if it gives another number.
    """
    size, _, _ = _unpooled(input, 1, kernel_size, stride, padding, output_size)
    column: Tensor = mq.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1])
    return column.squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Ints | None = None,
) -> Tensor:
    """The values of `max_pool2d` at its `indices`; see `max_unpool1d`."""
    size, _, _ = _unpooled(input, 2, kernel_size, stride, padding, output_size)
    return mq.max_unpool2d(input, indices, size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Ints | None = None,
) -> Tensor:
    """The values of `max_pool3d` at its `indices`; see `max_unpool1d`."""
    size, steps, margins = _unpooled(input, 3, kernel_size, stride, padding, output_size)
    return mq.max_unpool3d(input, indices, size, steps, margins)


def _unpooled(
    input: Tensor,
    dims: int,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Ints | None,
) -> tuple[list[int], list[int], list[int]]:
    """The size before pooling, stride and padding, each of `dims` numbers."""
    kernel = list(each(kernel_size, dims))
    steps = kernel if stride is None else list(each(stride, dims))
    margins = list(each(padding, dims))
    if any(len(given) != dims for given in (kernel, steps, margins)):
        raise RuntimeError(
            f"max_unpool{dims}d: kernel_size, stride and padding are a number or {dims} of them "
            f"each; got {kernel}, {steps} and {margins}"
        )
    places = list(input.shape)[-dims:]
    least = [(places[d] - 1) * steps[d] + kernel[d] - 2 * margins[d] for d in range(len(places))]
    if output_size is None:
        return least, steps, margins
    size = list(output_size)
    if len(size) == dims + 2:
        size = size[2:]
    if len(size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it "
            f"has a length of '{len(size)}'"
        )
    for d, (wanted, usual, step) in enumerate(zip(size, least, steps, strict=True)):
        if not usual - step < wanted < usual + step:
            raise ValueError(
                f'invalid output_size "{tuple(output_size)}" (dim {d} must be between '
                f"{usual - step} and {usual + step})"
            )
    return size, steps, margins
