"""The errors of work in outline (F106)."""

from __future__ import annotations

from maquette.core.device_rules import DeviceMismatchError


class UnsupportedFakeTensorException(RuntimeError):
    """A tensor that cannot be made fake; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _OperatorException(RuntimeError):
    """An error whose text is the operator it is about, ``func``."""

    def __init__(self, func: object) -> None:
        super().__init__(str(func))
        self.func = func

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.func is getattr(other, "func", None)

    def __hash__(self) -> int:
        return hash((type(self), id(self.func)))


class DynamicOutputShapeException(_OperatorException):
    """The shape of the result depends on data, which a fake tensor does not have."""


class DataDependentOutputException(_OperatorException):
    """The result is a number that depends on data."""


class UnsupportedOperatorException(_OperatorException):
    """No shape rule, decomposition or fake implementation is known for the operator."""


class MetadataMismatchError(RuntimeError):
    """Real and fake execution disagree; ``reason`` says on what."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# One error class for devices that do not go together: the fake answer is the eager's.
FakeTensorDeviceMismatchError = DeviceMismatchError
