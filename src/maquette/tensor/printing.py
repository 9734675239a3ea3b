"""How tensors print: values by PyTorch's rules, fakes and meta tensors by what is known of them.

Nothing here calls an operator: printing reads arrays, so it shows nothing to modes, records nothing
and guards nothing. The one idea: a *style* (digits, scientific or not, column width) is chosen once
from the finite, nonzero values that will be shown, then every element is written in it (T48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maquette.core.dtype import bool_, default_complex_dtype, get_default_dtype, int64
from maquette.core.layout import (
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from maquette.tensor.backend import backend_of
from maquette.tensor.parameter import Parameter
from maquette.tensor.sparse import SPARSE_LAYOUTS, CooParts, nnz_of, parts_of, tensors_of
from maquette.tensor.tensor import PRINTER, Tensor
from maquette.tensor.up_to_date import up_to_date

Array = npt.NDArray[np.generic]
Write = Callable[[object], str]


class PrintOptions(NamedTuple):
    """What `set_printoptions` sets.

    precision: digits after the point. threshold: more elements than this are summarised, by
    ``edgeitems`` at each edge of each dimension. linewidth: columns. sci_mode: None to choose.
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=float("inf")),
}
_options = [PrintOptions()]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print from here on; a ``profile`` is the start, the rest overrides it.

    profile: "default", "short" or "full"; another changes nothing, as in PyTorch: public programs
    ask for a "long" one.
    """
    options = _options[0]
    known = _PROFILES.get(profile) if profile is not None else None
    if known is not None:
        options = known
    _options[0] = PrintOptions(
        options.precision if precision is None else precision,
        options.threshold if threshold is None else threshold,
        options.edgeitems if edgeitems is None else edgeitems,
        options.linewidth if linewidth is None else linewidth,
        sci_mode,
    )


def get_printoptions() -> dict[str, object]:
    """The options in force, by name."""
    return _options[0]._asdict()


def options_in_force() -> PrintOptions:
    """The options in force."""
    return _options[0]


@contextmanager
def printoptions(
    *,
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> Iterator[None]:
    """`set_printoptions` for the block."""
    before = _options[0]
    set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)
    try:
        yield
    finally:
        _options[0] = before


# --- one element ---------------------------------------------------------------------


class Style(NamedTuple):
    """How the elements of one array are written: ``width`` columns, by ``write``."""

    width: int
    write: Write

    def column(self, value: object) -> str:
        """The element, right-aligned."""
        return self.write(value).rjust(self.width)


def choose_style(shown: Array, options: PrintOptions) -> Style:
    """The style for these values: no complex ones."""
    if shown.dtype.kind in "biu":
        return Style(max((len(str(v)) for v in shown.reshape(-1)), default=1), str)
    values = shown.astype(np.float64).reshape(-1)
    values = values[np.isfinite(values) & (values != 0)]
    if not values.size:
        return Style(1, _fixed_writer(0))
    whole = bool(np.all(values == np.ceil(values)))
    scientific = options.sci_mode
    if scientific is None:
        scientific = _needs_exponent(np.abs(values), whole)
    write = _sci_writer(options) if scientific else _fixed_writer(0 if whole else options.precision)
    return Style(max(len(write(v)) for v in values.tolist()), write)


def _needs_exponent(magnitudes: npt.NDArray[np.float64], whole: bool) -> bool:
    low, high = magnitudes.min(), magnitudes.max()
    with np.errstate(over="ignore"):
        wide = high / low > 1000.0
    return bool(wide or high > 1.0e8 or (not whole and low < 1.0e-4))


def _sci_writer(options: PrintOptions) -> Write:
    return lambda value: f"{float(value):.{options.precision}e}"  # type: ignore[arg-type]  # a number


def _fixed_writer(digits: int) -> Write:
    def write(value: object) -> str:
        text = f"{float(value):.{digits}f}"  # type: ignore[arg-type]  # a number
        return text if digits or not text[-1].isdigit() else f"{text}."

    return write


class ComplexStyle(NamedTuple):
    """Two styles: real and imaginary parts have columns of their own."""

    real: Style
    imag: Style

    @property
    def width(self) -> int:
        """Columns of an element without its ``j``."""
        return self.real.width + self.imag.width + 1

    def column(self, value: complex) -> str:
        """The element: ``1.+2.j``."""
        imag = self.imag.column(value.imag).lstrip()
        sign = "" if imag[0] in "+-" else "+"
        return f"{self.real.column(value.real)}{sign}{imag}j"


AnyStyle = Style | ComplexStyle


# --- arrays --------------------------------------------------------------------------


def _edges(array: Array, edge: int) -> Array:
    """The elements that a summary shows."""
    for dim, size in enumerate(array.shape):
        if size > 2 * edge:
            keep = [*range(edge), *range(size - edge, size)]
            array = np.take(array, keep, axis=dim)
    return array


def format_array(array: Array, indent: int, options: PrintOptions) -> str:
    """The nested brackets for an array; lines after the first start ``indent`` columns in."""
    if array.size == 0:
        return "[]"
    summarise = array.size > options.threshold
    shown = _edges(array, options.edgeitems) if summarise else array
    style: AnyStyle
    if array.dtype.name == "complex32":
        array, shown = array.astype(np.complex64), shown.astype(np.complex64)
    if array.dtype.kind == "c":
        style = ComplexStyle(choose_style(shown.real, options), choose_style(shown.imag, options))
    else:
        style = choose_style(shown, options)
    return _nested(array, indent, style, options, summarise)


def _nested(
    array: Array, indent: int, style: AnyStyle, options: PrintOptions, summarise: bool
) -> str:
    if array.ndim == 0:
        return style.column(array.item())
    if array.ndim == 1:
        return _row(array, indent, style, options, summarise)
    inner: Callable[[int], str] = lambda i: _nested(  # noqa: E731  # used twice, below
        array[i], indent + 1, style, options, summarise
    )
    parts = _elided(len(array), options.edgeitems if summarise else -1, inner)
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row(array: Array, indent: int, style: AnyStyle, options: PrintOptions, summarise: bool) -> str:
    values = array.tolist()
    edge = options.edgeitems if summarise else -1
    parts = _elided(len(values), edge, lambda i: style.column(values[i]), " ..." if edge else "...")
    columns = (options.linewidth - indent) / (style.width + 2)
    per_line = max(1, int(columns))
    lines = [", ".join(parts[at : at + per_line]) for at in range(0, len(parts), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines or [""]) + "]"


def _elided(size: int, edge: int, part: Callable[[int], str], dots: str = "...") -> list[str]:
    """The parts, or (edge not negative) those at both ends around dots."""
    if edge < 0 or size <= 2 * edge:
        return [part(i) for i in range(size)]
    ends = [part(i) for i in range(edge)], [part(i) for i in range(size - edge, size)]
    return [*ends[0], dots, *ends[1]]


# --- tensors -------------------------------------------------------------------------


def array_of(t: Tensor) -> Array | None:
    """The values on the host, conjugate and negative bits resolved; None where there is no data."""
    up_to_date(t)
    data = t._mq_data
    if t.fake_mode is not None or data is None:
        return None
    array: Array = backend_of(t.meta.device.type).to_host(data)
    if t.is_conj():
        array = np.conj(array)
    if t.is_neg():
        array = np.negative(array)
    return array


def tensor_text(t: Tensor, contents: str | None = None) -> str:
    """What ``repr`` of a tensor gives. contents: stands in the place of the values."""
    if t.fake_mode is not None and contents is None:
        return _fake_text(t)
    plain = type(t) in (Tensor, Parameter)
    prefix = "tensor(" if plain else f"{type(t).__name__}("
    if contents is None:
        text = _text(t, prefix, array_of(t))
    else:
        width = _options[0].linewidth
        text = with_suffixes(prefix + contents, _suffixes(t, np.empty(0)), len(prefix), width)
    if isinstance(t, Parameter) and not plain:
        text = f"Parameter({text})"
    return f"Parameter containing:\n{text}" if Parameter in type(t).__mro__ else text


def _fake_text(t: Tensor) -> str:
    if not t._is_param:
        return _text(t, f"{type(t).__name__}(", None)
    return f"Parameter({_text(t, f'{type(t).__name__}(', None)})"


def _text(t: Tensor, prefix: str, array: Array | None) -> str:
    options = _options[0]
    if t.meta.layout in SPARSE_LAYOUTS:
        return _sparse_text(t, prefix, options)
    body = "..." if array is None else format_array(array, len(prefix), options)
    return with_suffixes(prefix + body, _suffixes(t, array), len(prefix), options.linewidth)


def _sparse_text(t: Tensor, prefix: str, options: PrintOptions) -> str:
    """The parts of a sparse tensor one below the other, and what is known of the whole."""
    parts, indent = parts_of(t), " " * len(prefix)
    coo = isinstance(parts, CooParts)
    suffixes = []
    if t.meta.device.type not in ("cpu", "meta") or (
        t.meta.device.type == "meta" and t.fake_mode is None
    ):
        suffixes.append(f"device='{t.meta.device}'")
    suffixes.append(f"size={_shape_text(t.meta.shape)}")
    if array_of(parts.values) is not None:
        suffixes.append(f"nnz={nnz_of(t)}")
    if t.meta.dtype not in (get_default_dtype(), default_complex_dtype(), int64, bool_):
        suffixes.append(f"dtype={t.meta.dtype}")
    suffixes.append(f"layout={t.meta.layout}")
    history = _history(t)
    suffixes += [] if history is None else [history]
    names = _PART_NAMES[t.meta.layout]
    shown = [
        _part_text(name, part, len(prefix), options)
        for name, part in zip(names, tensors_of(parts), strict=True)
    ]
    body = prefix + f",\n{indent}".join(shown)
    if coo:  # the sizes start a line
        body += f",\n{indent}{suffixes.pop(0)}"
    return with_suffixes(body, suffixes, len(prefix), options.linewidth)


_PART_NAMES = {
    sparse_coo: ("indices", "values"),
    sparse_csr: ("crow_indices", "col_indices", "values"),
    sparse_bsr: ("crow_indices", "col_indices", "values"),
    sparse_csc: ("ccol_indices", "row_indices", "values"),
    sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def _part_text(name: str, part: Tensor, indent: int, options: PrintOptions) -> str:
    prefix = f"{name}=tensor("
    array = array_of(part)
    body = "..." if array is None else format_array(array, indent + len(prefix), options)
    if array is None or part.meta.numel == 0:
        body += f", size={_shape_text(part.meta.shape)}"
    return f"{prefix}{body})"


def _suffixes(t: Tensor, array: Array | None) -> list[str]:
    """What is not plain about a tensor, in PyTorch's order."""
    meta = t.meta
    usual = {get_default_dtype()}
    suffixes = []
    if meta.device.type != "cpu":
        suffixes.append(f"device='{meta.device}'")
    if array is None or (meta.ndim != 1 if meta.numel == 0 else not _options[0].edgeitems):
        suffixes.append(f"size={_shape_text(meta.shape)}")
    if array is not None and meta.numel:
        usual |= {int64, bool_, default_complex_dtype()}
    if meta.dtype not in usual:
        suffixes.append(f"dtype={meta.dtype}")
    if meta.layout is not strided:
        suffixes.append(f"layout={meta.layout}")
    history = _history(t)
    return suffixes if history is None else [*suffixes, history]


def _shape_text(shape: Sequence[object]) -> str:
    inside = ", ".join(map(str, shape))
    return f"({inside},)" if len(shape) == 1 else f"({inside})"


def _history(t: Tensor) -> str | None:
    try:
        node = t.grad_fn
    except RuntimeError:  # of a view whose memory was mutated against the rules
        return "grad_fn=<Invalid>"
    if node is not None:
        return f"grad_fn=<{node.name().rpartition('::')[2]}>"
    return "requires_grad=True" if t.requires_grad else None


def with_suffixes(text: str, suffixes: Sequence[str], indent: int, linewidth: int) -> str:
    """The text, the suffixes and the closing bracket; a suffix that is too long starts a line."""
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += f", {suffix}"
            used += len(suffix) + 2
    return text + ")"


PRINTER[0] = tensor_text
