"""The check functions that every shape rule and kernel uses.

Each raises one kind of error with a message that is built only on failure: it says what was
expected, what was given and what to do. A symbolic condition that cannot be decided yet is
asserted when the program runs.
"""

from collections.abc import Callable

from maquette.core.symbols import expect_true

Message = Callable[..., str]  # called without arguments; in a loop it binds them as defaults


def check(condition: bool, message: Message) -> None:
    """Raise RuntimeError unless the condition holds."""
    if condition is not True and not expect_true(condition):
        raise RuntimeError(message())


def check_index(condition: bool, message: Message) -> None:
    """Raise IndexError unless the condition holds."""
    if condition is not True and not expect_true(condition):
        raise IndexError(message())


def check_type(condition: bool, message: Message) -> None:
    """Raise TypeError unless the condition holds."""
    if condition is not True and not expect_true(condition):
        raise TypeError(message())


def check_value(condition: bool, message: Message) -> None:
    """Raise ValueError unless the condition holds."""
    if condition is not True and not expect_true(condition):
        raise ValueError(message())


def check_not_implemented(condition: bool, message: Message) -> None:
    """Raise NotImplementedError unless the condition holds."""
    if condition is not True and not expect_true(condition):
        raise NotImplementedError(message())


class StridedOnly(RuntimeError):
    """A shape rule was asked for another layout; whoever has kernels for it may answer instead."""

    def __init__(self, name: str, layout: object) -> None:
        super().__init__(f"{name}: makes strided tensors only, got layout={layout}")
        self.layout = layout


class MissingName(AttributeError):
    """A name that is not there; what to say of it is worked out when the error is shown.

    `hasattr` asks for many names that are not there and reads no message: a search for similar
    names takes milliseconds, the error alone a microsecond.
    """

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message

    def __str__(self) -> str:
        return self._message()


def check_data(condition: bool, message: Message, kind: type[Exception] = RuntimeError) -> None:
    """For kernels: raise unless the values in the tensors allow the call; shape rules cannot."""
    if not condition:
        raise of_data(kind(message()))


def of_data(error: Exception) -> Exception:
    """Mark an error as coming from values, which a fake tensor has none of."""
    error.reads_data = True  # type: ignore[attr-defined]  # the mark is an attribute of its own
    return error
