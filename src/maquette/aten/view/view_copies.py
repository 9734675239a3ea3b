"""Copies of views: each view operator as one that shares nothing, with its ``out=`` form.

Schema, checks and derivative are the view's own; the result is its contiguous clone. For graphs
without aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maquette.aten.common.operators import aten
from maquette.aten.elementwise import conjugate
from maquette.aten.elementwise.complex_parts import view_as_complex, view_as_real
from maquette.aten.view import views
from maquette.aten.view.copies import clone, write_exact_out, write_outs
from maquette.aten.view.reshaping import narrow_start, reshape
from maquette.aten.view.splitting import split, split_with_sizes, unbind
from maquette.aten.view.view_gradients import slice_backward
from maquette.core.broadcast import wrap_dim
from maquette.core.errors import check
from maquette.core.layout import contiguous_format
from maquette.core.meta import TensorMeta
from maquette.core.views import as_strided_check
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor

Ints = tuple[int, ...]


def _copied(result: object) -> object:
    if isinstance(result, (list, tuple)):
        return [clone(part, memory_format=contiguous_format) for part in result]
    return clone(result, memory_format=contiguous_format)


def copy_schema(view_schema: str) -> str:
    """``aten::t(Tensor(a) self) -> Tensor(a)`` to ``aten::t_copy(Tensor self) -> Tensor``."""
    plain = view_schema.replace("Tensor(a -> *)", "Tensor").replace("Tensor(a)", "Tensor")
    head, _, rest = plain.partition("(")
    name, dot, overload = head.partition(".")
    return f"{name}_copy{dot}{overload}({rest}"


def out_name(overload: str) -> str:
    """The ``out=`` form's overload name: ``out``, or ``int_out`` of ``int``."""
    return f"{overload}_out" if overload else "out"


def copy_page(view: OperatorPage, definition: Callable[..., object] | None = None) -> OperatorPage:
    """Define the copying form of a view operator, and its ``out=`` form."""
    view_of = definition or view
    schema = copy_schema(view.op._schema_text)
    page = define(schema, tags=[Tag.view_copy])
    page.describe(f"As `{view.op.overloadpacket.__name__}`, with its elements copied.")

    def copied(*params: object) -> object:
        positional, keywords = _call(view, params)
        return _copied(view_of(*positional, **keywords))

    page.explicit(copied)
    page.facts.derivatives = view.facts.derivatives
    _out_page(page, schema)
    return page


def _call(page: OperatorPage, params: Sequence[object]) -> tuple[list[object], dict[str, object]]:
    """Positional and keyword-only arguments of canonical parameters."""
    arguments = page.op._schema.arguments
    pairs = list(zip(arguments, params, strict=False))
    positional = [p for a, p in pairs if not a.kwarg_only]
    return positional, {a.name: p for a, p in pairs if a.kwarg_only}


def _out_page(page: OperatorPage, schema: str) -> None:
    head, _, rest = schema.partition("(")
    name, _, overload = head.partition(".")
    arguments, _, result = rest.rpartition(") -> ")
    star = ", " if "*, " in arguments else ", *, "
    listed = result == "Tensor[]"
    out, returned = ("Tensor(a!)[] out", "()") if listed else ("Tensor(a!) out", "Tensor(a!)")
    tags = [Tag.out] if listed else [Tag.generated, Tag.out, Tag.view_copy]
    form = define(f"{name}.{out_name(overload)}({arguments}{star}{out}) -> {returned}", tags=tags)

    def into(*params: object) -> object:
        positional, keywords = _call(page, params[:-1])
        return write_results(params[-1], page(*positional, **keywords), listed)

    form.explicit(into)


def write_results(out: object, result: object, listed: bool) -> object:
    """Write one result, or several, to what ``out=`` names."""
    if not listed:
        return write_exact_out(out, result)
    assert isinstance(out, tuple)
    assert isinstance(result, (list, tuple))
    check(
        len(out) == len(result),
        lambda: f"out= expects {len(result)} tensors, got {len(out)}",
    )
    write_outs(out, result, write_exact_out)
    return None


def _as_strided_within(
    self: Tensor, size: Ints, stride: Ints, storage_offset: int | None
) -> object:
    """The view, after the check (T7) that a call below ADInplaceOrView would miss."""
    offset = self.meta.offset if storage_offset is None else storage_offset
    as_strided_check(size, stride, offset, self.meta.itemsize, self._storage.nbytes())
    return views.as_strided(self, size, stride, storage_offset)


copy_page(views.as_strided, _as_strided_within)
for _view in (
    views.alias,
    views.diagonal,
    views.expand,
    views.permute,
    views.select,
    views.slice,
    views.squeeze,
    views.squeeze_dim,
    views.squeeze_dims,
    views.t,
    views.transpose,
    views.unfold,
    views.unsqueeze,
    views.detach,
    views.view_as_dtype,
    views._reshape_alias,
    conjugate._conj,
    conjugate._neg_view,
    view_as_complex,
    view_as_real,
    split,
    split_with_sizes,
    unbind,
):
    copy_page(_view)

# A copy may have any shape of as many elements.
copy_page(views.view, reshape)

lift_fresh_copy = define("aten::lift_fresh_copy(Tensor self) -> Tensor", tags=[Tag.view_copy])
lift_fresh_copy.describe("A copy of a tensor that no transform or mode has seen.")
lift_fresh_copy.explicit(_copied)
_out_page(lift_fresh_copy, lift_fresh_copy.op._schema_text)
lift_fresh_copy.facts.derivatives = views.alias.facts.derivatives

narrow_copy = define(
    "aten::narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor",
    tags=[Tag.view_copy],
)
narrow_copy.describe("`length` slices along `dim` from `start` on, as a copy.")


def _narrow_copy(self: Tensor, dim: int, start: int, length: int) -> object:
    if self.meta.ndim:
        # A RuntimeError for one too large, an IndexError for one too small, as in PyTorch.
        check(
            dim < self.meta.ndim,
            lambda: f"narrow_copy: dimension {dim} is out of range for {self.meta}",
        )
        wrap_dim(dim, self.meta.ndim)
    first = narrow_start(self.meta, dim, start, length)
    check(length >= 0, lambda: "narrow(): length must be non-negative.")
    return _copied(aten.slice(self, dim, first, first + length, 1))


narrow_copy.explicit(_narrow_copy)


@narrow_copy.derivative("self")
def narrow_copy_grad(
    grad: Tensor, self_meta: TensorMeta, dim: int, start: int, length: int
) -> tuple[object]:
    first = narrow_start(self_meta, dim, start, length)
    return (slice_backward(grad, self_meta.shape, dim, first, first + length, 1),)


narrow_copy_out = define(
    "aten::narrow_copy.out(Tensor self, int dim, SymInt start, SymInt length, *, Tensor(a!) out) "
    "-> Tensor(a!)",
    tags=[Tag.out],
)
narrow_copy_out.explicit(
    lambda self, dim, start, length, out: write_exact_out(
        out, _narrow_copy(self, dim, start, length)
    )
)
