"""`torch.testing.assert_close`."""

import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch.testing import assert_close


def test_equal_values_are_close() -> None:
    assert_close(torch.ones(2), torch.ones(2))
    assert_close({"a": [1, 2.0]}, {"a": [1, 2.0]})
    assert_close(torch.ones(2), torch.ones(2) + 1e-7)


def test_what_differs_is_counted_and_placed() -> None:
    with pytest.raises(AssertionError, match=r"1 / 2 \(50\.0%\)[\s\S]*at index \(1,\)"):
        assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))


def test_the_item_that_failed_is_named() -> None:
    with pytest.raises(AssertionError, match=r"item \['a'\]\[1\]"):
        assert_close({"a": [1.0, 2.0]}, {"a": [1.0, 3.0]})


@pytest.mark.parametrize("attribute", ["shape", "dtype", "device", "stride()"])
def test_attributes_must_match(attribute: str) -> None:
    a = torch.ones(2, 2)
    others = {
        "shape": torch.ones(4),
        "dtype": torch.ones(2, 2, dtype=torch.float64),
        "device": torch.ones(2, 2, device="meta"),
        "stride()": torch.ones(2, 2).t(),
    }
    with pytest.raises(AssertionError) as error:
        assert_close(a, others[attribute], check_stride=True)
    assert f"'{attribute}'" in str(error.value)


def test_dtypes_need_not_match_when_told() -> None:
    assert_close(torch.ones(2), torch.ones(2, dtype=torch.float64), check_dtype=False)


def test_nan_is_close_to_nan_when_told() -> None:
    nan = torch.tensor([float("nan")])
    assert_close(nan, nan, equal_nan=True)
    with pytest.raises(AssertionError):
        assert_close(nan, nan)


def test_integers_are_compared_exactly() -> None:
    with pytest.raises(AssertionError, match="not equal"):
        assert_close(torch.tensor([2**53]), torch.tensor([2**53 + 1]))


def test_tolerances_go_together() -> None:
    with pytest.raises(ValueError, match="rtol and atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    assert_close(1.0, 1.05, rtol=0.1, atol=0.0)


def test_a_message_replaces_or_extends_the_text() -> None:
    with pytest.raises(AssertionError, match=r"^own$"):
        assert_close(1, 2, msg="own")
    with pytest.raises(AssertionError, match=r"^before: Scalars"):
        assert_close(1, 2, msg=lambda text: f"before: {text}")


def test_arrays_are_compared_too() -> None:
    assert_close(np.ones(2), np.ones(2))
    with pytest.raises(AssertionError, match="1 / 2"):
        assert_close(np.ones(2), np.array([1.0, 2.0]))


def test_fakes_have_no_values_to_compare() -> None:
    fake = torch._subclasses.FakeTensorMode().from_tensor(torch.ones(2))
    with pytest.raises(NotImplementedError, match="compares values"):
        assert_close(fake, fake)


def test_bools_are_close_where_they_are_equal() -> None:
    bools = mq.tensor([True, False])
    assert mq.allclose(bools, bools)
    assert mq.isclose(bools, ~bools).tolist() == [False, False]


def test_the_old_function_has_wider_tolerances_and_takes_lists() -> None:
    with pytest.warns(FutureWarning, match="assert_close"):
        torch.testing.assert_allclose([1.0, np.nan], [1.00009, np.nan])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_allclose([1.0], [1.00012])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match=r"^so far$"):
        torch.testing.assert_allclose(torch.ones(1).bfloat16(), [1.02], msg="so far")


@pytest.mark.parametrize(
    "pair",
    [
        (np.ones(1), torch.ones(1)),
        (1, torch.tensor(1)),
        (torch.ones(1), [1.0]),
        ("a", "a"),
        (np.array("a"), np.array("a")),
    ],
)
def test_what_is_not_of_one_kind_is_not_compared(pair: tuple[object, object]) -> None:
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        assert_close(*pair)


def test_subclasses_are_of_another_kind_where_they_are_not_allowed() -> None:
    parameter, plain = torch.nn.Parameter(torch.ones(1)), torch.ones(1)
    assert_close(parameter, plain)
    with pytest.raises(TypeError, match="Parameter'> and"):
        assert_close(parameter, plain, allow_subclasses=False)


def test_numbers_of_arrays_are_numbers_of_their_kind() -> None:
    assert_close(np.float64(1), 1.0)
    assert_close(np.int64(3), 3)


def test_booleans_are_equal_or_not() -> None:
    with pytest.raises(AssertionError, match="Booleans mismatch: True is not False"):
        assert_close(True, np.bool_(False))


def test_differences_are_told_in_the_dtype_of_the_values() -> None:
    with pytest.raises(AssertionError, match=r"relative difference: 0\.3333333432674408 at"):
        assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]))
    with pytest.raises(AssertionError, match=r"absolute difference: 1 at index \(1,\)\n"):
        assert_close(torch.tensor([1, 2]), torch.tensor([1, 3]))
