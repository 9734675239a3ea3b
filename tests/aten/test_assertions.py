"""Operators that assert: of values when they run, of metadata always."""

from __future__ import annotations

import pytest

import maquette as mq

aten = mq.ops.aten


@pytest.mark.parametrize("value", [True, 2, -0.5, 1j])
def test_a_value_that_is_not_zero_passes(value: complex) -> None:
    assert aten._assert_async(mq.tensor(value)) is None
    assert aten._assert_async.msg(mq.tensor([[value]]), "never") is None


@pytest.mark.parametrize("value", [False, 0, 0.0, 0j])
def test_zero_is_refused_with_the_message(value: complex) -> None:
    with pytest.raises(RuntimeError, match="single nonzero value, but got zero"):
        aten._assert_async(mq.tensor(value))
    with pytest.raises(RuntimeError, match=r"^told so$"):
        aten._assert_async.msg(mq.tensor(value), "told so")


def test_a_fake_value_passes_but_not_several() -> None:
    mode = mq.FakeTensorMode()
    with mode:
        aten._assert_async.msg(mode.from_tensor(mq.tensor(False)), "unknown")
        with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
            aten._assert_async.msg(mode.from_tensor(mq.ones(2)), "unknown")


def test_a_number_is_checked_in_a_fake_run_too() -> None:
    aten._assert_scalar(3, "never")
    with pytest.raises(RuntimeError, match=r"^no$"):
        aten._assert_scalar(0, "no")
    with mq.FakeTensorMode(), pytest.raises(RuntimeError, match=r"^no$"):
        aten._assert_scalar(False, "no")


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("sizes", {"size": [3, 2]}),
        ("strides", {"stride": [1, 2]}),
        ("dtype", {"dtype": mq.float64}),
        ("device", {"device": mq.device("meta")}),
        ("layout", {"layout": mq.sparse_coo}),
    ],
)
def test_metadata_that_differ_are_refused(what: str, expected: dict[str, object]) -> None:
    """Finding 32."""
    x = mq.ones(2, 3)
    aten._assert_tensor_metadata(
        x, [2, 3], [3, 1], mq.float32, device=mq.device("cpu"), layout=mq.strided
    )
    with pytest.raises(RuntimeError, match=f"Tensor {what} mismatch! Expected: "):
        aten._assert_tensor_metadata(x, **expected)
    mode = mq.FakeTensorMode()
    with mode, pytest.raises(RuntimeError, match=f"Tensor {what} mismatch! Expected: "):
        aten._assert_tensor_metadata(mode.from_tensor(x), **expected)


def test_a_range_is_held_by_numbers_and_learnt_of_symbols() -> None:
    size = mq.symbolic.ShapeEnv().create_unbacked_symint()
    aten.sym_constrain_range_for_size(size, min=2, max=7)
    assert mq.symbolic.statically_known_true(size <= 7)
    aten.sym_constrain_range(-5)
    with pytest.raises(RuntimeError, match=r"-1 between \[0, 9223372036854775807\]"):
        aten.sym_constrain_range_for_size(-1)


def test_the_functional_form_of_a_range_gives_its_token_back_as_a_copy() -> None:
    token = mq.ones(2)
    kept = aten._functional_sym_constrain_range_for_size(3, 1, 5, token)
    assert kept.data_ptr() != token.data_ptr()
    with pytest.raises(RuntimeError, match="Invalid value range for 8"):
        aten._functional_sym_constrain_range(8, 1, 5, token)
