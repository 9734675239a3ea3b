"""``out=`` forms of operators whose results only data can size: selections and positions.

Their functional forms are called, and what they find is written into the output, which is resized.
"""

from __future__ import annotations

from maquette.aten.common.memory_overlap import refuse_overlap
from maquette.aten.indexing.gathering import masked_select, nonzero
from maquette.aten.indexing.index import index
from maquette.aten.indexing.repeat_interleave import repeats_to_positions
from maquette.aten.view.copies import write_exact_out
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.library.variants import check_writable
from maquette.tensor.tensor import Tensor


def _dynamic_out(base: OperatorPage, schema: str, *apart: str) -> None:
    """Define the ``out=`` form of ``base``; arguments whose memory is to be apart from the output.

    The output is an argument by keyword, the last, as in the schema.
    """
    page = define(schema, tags=[Tag.dynamic_output_shape, Tag.out])
    by_keyword = [a.name for a in base.op._schema.arguments if a.kwarg_only]

    def into(*params: object) -> object:
        out = params[-1]
        assert isinstance(out, Tensor)
        check_writable(base.op._opname, out.meta)
        given = params[: len(params) - 1 - len(by_keyword)]
        found = base(*given, **dict(zip(by_keyword, params[len(given) :])))
        assert isinstance(found, Tensor)
        if found.meta.ndim == 2 and base is nonzero:
            if out.meta.shape != found.meta.shape and out.dtype is found.dtype:
                out.resize_(found.meta.shape[::-1]).t_()  # by dimension, as they are found
        return write_exact_out(out, found)

    page.explicit(into)
    refuse_overlap(page, *apart)


_dynamic_out(
    masked_select,
    "aten::masked_select.out(Tensor self, Tensor mask, *, Tensor(a!) out) -> Tensor(a!)",
    "self",
    "mask",
)
_dynamic_out(nonzero, "aten::nonzero.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "self")
_dynamic_out(
    index,
    "aten::index.Tensor_out(Tensor self, Tensor?[] indices, *, Tensor(a!) out) -> Tensor(a!)",
    "self",
)
_dynamic_out(
    repeats_to_positions,
    "aten::repeat_interleave.Tensor_out(Tensor repeats, *, SymInt? output_size=None, "
    "Tensor(a!) out) -> Tensor(a!)",
    "repeats",
)
