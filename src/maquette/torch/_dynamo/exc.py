"""`torch._dynamo.exc`: the errors of a compiler that is not here; programs name them to catch."""

from __future__ import annotations


class TorchDynamoException(RuntimeError):  # PyTorch's name
    """Any of them; nothing here raises one."""


class InternalTorchDynamoError(TorchDynamoException):
    """The compiler itself failed."""


class SkipFrame(TorchDynamoException):
    """A function is left to Python."""


class TorchRuntimeError(TorchDynamoException):
    """An operator refused its fake arguments."""


class InvalidBackend(TorchDynamoException):
    """A backend of that name is not known."""


class ResetRequired(TorchDynamoException):
    """What was compiled has to be forgotten first."""


class ShortenTraceback(TorchDynamoException):
    """An error whose traceback is cut."""


class BackendCompilerFailed(ShortenTraceback):
    """A backend refused a graph."""


class Unsupported(TorchDynamoException):
    """Python that cannot be captured."""


class RecompileError(TorchDynamoException):
    """A function was compiled again where that is an error."""


class UserError(TorchDynamoException):
    """The program cannot be captured as it is written."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """A higher-order operator's function cannot be captured."""


class FailOnRecompileLimitHit(Exception):
    """A function was compiled too often."""


class RestartAnalysis(TorchDynamoException):
    """What was captured is to be captured anew."""


class TensorifyScalarRestartAnalysis(RestartAnalysis):
    """Likewise, with numbers as tensors."""
