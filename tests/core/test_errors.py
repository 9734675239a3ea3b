"""The check functions."""

from collections.abc import Callable

import pytest

from maquette.core import errors


@pytest.mark.parametrize(
    "check, error",
    [
        (errors.check, RuntimeError),
        (errors.check_index, IndexError),
        (errors.check_type, TypeError),
        (errors.check_value, ValueError),
        (errors.check_not_implemented, NotImplementedError),
    ],
)
def test_each_check_raises_its_error(
    check: Callable[[bool, errors.Message], None], error: type[Exception]
) -> None:
    check(True, lambda: pytest.fail("a message is built on failure only"))
    with pytest.raises(error, match="what was given"):
        check(False, lambda: "what was given")
