"""The share of operators that run compiled: what counts, and how the page tells of it."""

import compiled_share


def test_overloads_run_or_have_a_reason():
    rows = list(compiled_share.replay("numpy", ["mul.Tensor", "mul_.Tensor", "nonzero"], 2))
    ran = {row.name: row.ran == row.calls for row in rows}
    assert ran == {
        "aten.mul.Tensor": True,
        "aten.mul_.Tensor": True,
        "aten.nonzero.default": False,
        "aten.nonzero.out": False,
    }
    page = compiled_share.document({"numpy": [vars(row) for row in rows]})
    assert "**2 of 4 overloads (50.0%)**, 8 calls." in page
    assert "| its result's size, or a number that it reads, is data | `nonzero.default`" in page


def test_the_exit_status_says_whether_the_share_is_reached():
    assert compiled_share.main(["--engine", "numpy", "--ops", "nonzero", "--each", "1"]) == 0
    given = ["--engine", "numpy", "--ops", "nonzero", "--each", "1", "--require", "0.9"]
    assert compiled_share.main(given) == 1
