"""`torch.utils._sympy.numbers`: the ends of intervals that have none."""

from __future__ import annotations

from maquette.symbolic.ranges import INFINITY as int_oo


class _End(type):
    """The class of an infinite end: such ends are plain floats here."""

    end: float

    def __call__(cls) -> float:
        return cls.end

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, float) and value == cls.end


class IntInfinity(metaclass=_End):
    """The upper end of an interval of integers that has none."""

    end = int_oo


class NegativeIntInfinity(metaclass=_End):
    """The lower end of an interval of integers that has none."""

    end = -int_oo


__all__ = ["IntInfinity", "NegativeIntInfinity", "int_oo"]
