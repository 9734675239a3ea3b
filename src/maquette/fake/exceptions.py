"""The errors of fake tensors and their mode (F106)."""

from __future__ import annotations

from maquette.core.device_rules import DeviceMismatchError


class _ReasonedException(RuntimeError):
    """An error whose text is its ``reason``; two of a class with equal reasons are equal."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.reason == getattr(other, "reason", None)

    def __hash__(self) -> int:
        return hash((type(self), self.reason))


class UnsupportedFakeTensorException(_ReasonedException):
    """A tensor that cannot be made fake; ``reason`` says why."""


class UnsupportedMutationAliasingException(_ReasonedException):
    """An operator writes to, or aliases, what its schema does not say; ``reason`` names it."""


class MetadataMismatchError(_ReasonedException):
    """Real and fake execution disagree; ``reason`` says on what."""


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


# One error class for devices that do not go together: the fake answer is the eager's.
FakeTensorDeviceMismatchError = DeviceMismatchError
