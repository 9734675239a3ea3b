"""Copies of what sparse tensors are made of, as there are of all views."""

from __future__ import annotations

from maquette.aten.sparse import parts
from maquette.aten.view.view_copies import copy_page

for _part in (
    parts._indices,
    parts._values,
    parts.indices,
    parts.values,
    parts.crow_indices,
    parts.col_indices,
    parts.ccol_indices,
    parts.row_indices,
):
    copy_page(_part)
