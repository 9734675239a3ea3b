"""Messages that stand alone, with more in a note."""

import pytest

from maquette.core.errors import check_value
from maquette.library.advice import advised, check_advised


def test_advice_is_a_note_and_not_in_the_message() -> None:
    with pytest.raises(ValueError) as caught:
        check_advised(check_value, False, lambda: "too short", lambda: "it has 3")
    assert str(caught.value) == "too short"
    assert caught.value.__notes__ == ["it has 3"]


def test_nothing_is_said_where_the_check_holds() -> None:
    check_advised(check_value, True, pytest.fail, pytest.fail)


def test_an_advised_error_is_the_error_itself() -> None:
    error = KeyError("x")
    assert advised(error, "try y") is error
