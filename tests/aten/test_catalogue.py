"""The catalogue of PyTorch's operators, which explains the ones that maquette lacks."""

from __future__ import annotations

import json
import pathlib

import pytest

import maquette as mq
from maquette.aten.catalogue import schemas
from maquette.dispatch.registry import all_overloads

ROOT = pathlib.Path(__file__).resolve().parents[2]


def recorded() -> set[str]:
    rows = json.loads((ROOT / "conformance" / "overloads.json").read_text("utf-8"))
    return {row["schema"] for row in rows}


def test_catalogue_is_the_recordings() -> None:
    assert {s for group in schemas().values() for s in group} == recorded()


def test_every_operator_of_the_catalogue_is_there() -> None:
    assert not [name for name in schemas() if not hasattr(mq.ops.aten, name)]


def test_D90_missing_operator_error_has_its_schema_and_how_to_register(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(schemas(), "_of_tomorrow", ["aten::_of_tomorrow(Tensor self) -> Tensor"])
    words = r"Its schema:\n(  aten::.*\n)+.*register_kernel"
    with pytest.raises(AttributeError, match=words) as info:
        mq.ops.aten._of_tomorrow  # noqa: B018  # the look-up is the test
    assert "aten::_of_tomorrow" in str(info.value)


def test_unknown_name_gets_its_likes() -> None:
    with pytest.raises(AttributeError, match="Did you mean matmul"):
        mq.ops.aten.matmull  # noqa: B018  # the look-up is the test


def test_every_page_has_the_recorded_schema() -> None:

    known = {s.partition("(")[0]: s for s in recorded()}
    wrong = [
        (str(o._schema), known[o.name()])
        for o in all_overloads()
        if o.name() in known and str(o._schema) != known[o.name()]
    ]
    assert not wrong, wrong[:5]
