"""Where a symbolic number comes from, as Python text over the inputs of a program.

A guard is checked on real inputs, so each symbol must be found in them: ``L['x'].size()[0]``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """Something that an expression in Python reaches; `name` is that expression."""

    @property
    def name(self) -> str:
        """The expression, evaluated with the inputs in ``L``."""
        raise NotImplementedError

    def is_ephemeral(self) -> bool:
        """Whether it is gone when guards are checked."""
        return False


@dataclass(frozen=True)
class LocalSource(Source):
    """A local variable of the program: an input."""

    local_name: str
    is_input: bool = False

    @property
    def name(self) -> str:
        """``L['x']``."""
        return f"L[{self.local_name!r}]"


@dataclass(frozen=True)
class GlobalSource(Source):
    """A global variable of the program."""

    global_name: str

    @property
    def name(self) -> str:
        """``G['x']``."""
        return f"G[{self.global_name!r}]"


@dataclass(frozen=True)
class EphemeralSource(Source):
    """A number that only a conversion knows of: no guard may be left that names it."""

    description: str = ""

    @property
    def name(self) -> str:
        """What it is for, in brackets: no expression."""
        return f"<ephemeral: {self.description}>"

    def is_ephemeral(self) -> bool:
        return True


@dataclass(frozen=True)
class ConstantSource(Source):
    """A name as it stands."""

    source_name: str

    @property
    def name(self) -> str:
        """The name."""
        return self.source_name


@dataclass(frozen=True)
class ChainedSource(Source):
    """Something that belongs to another source."""

    base: Source

    def is_ephemeral(self) -> bool:
        return self.base.is_ephemeral()


@dataclass(frozen=True)
class AttrSource(ChainedSource):
    """An attribute."""

    member: str = ""

    @property
    def name(self) -> str:
        """``L['x'].member``."""
        return f"{self.base.name}.{self.member}"


@dataclass(frozen=True)
class CallSource(ChainedSource):
    """What a method without arguments gives."""

    method: str = ""

    @property
    def name(self) -> str:
        """``L['x'].item()``."""
        return f"{self.base.name}.{self.method}()"


class TensorProperty(enum.Enum):
    """What of a tensor a number is."""

    SIZE = 0
    STRIDE = 1
    STORAGE_OFFSET = 2

    def method_name(self) -> str:
        """The method of tensors that tells it."""
        return {0: "size", 1: "stride", 2: "storage_offset"}[self.value]


@dataclass(frozen=True)
class TensorPropertySource(ChainedSource):
    """A size or stride of a tensor, or its storage offset."""

    prop: TensorProperty = TensorProperty.SIZE
    idx: int | None = None

    @cached_property
    def name(self) -> str:
        """``L['x'].size()[0]``."""
        method = f"{self.base.name}.{self.prop.method_name()}()"
        return method if self.idx is None else f"{method}[{self.idx}]"


def source_of(value: object) -> Source:
    """A source; a text is the name of a local variable, or an expression as it stands."""
    if isinstance(value, Source):
        return value
    if isinstance(value, str):
        return LocalSource(value) if value.isidentifier() else ConstantSource(value)
    name = getattr(value, "name", None)
    if name is None:
        raise AssertionError(f"expected a Source or a str, got {type(value).__name__}: {value!r}")
    return ConstantSource(str(name() if callable(name) else name))
