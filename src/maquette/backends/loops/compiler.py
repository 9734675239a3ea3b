"""How loops are compiled: `compiled` for a loop, `inlined` for a step within one.

Both are Numba's, kept on disk. Nothing is reordered unless a loop asks for it (`reordered`), so
that a loop gives the bits that NumPy's functions give one after another. Numba's types end here:
what it makes is called as the function that it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numba
from llvmlite import binding, ir
from numba.extending import intrinsic, overload, register_jitable

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = {"cache": True, "error_model": "numpy", "nogil": True}


def compiled(function: F) -> F:
    """A loop that computes just as it is written."""
    made: F = numba.njit(**_OPTIONS)(function)
    return made


def reordered(function: F) -> F:
    """A loop whose sums may be taken in any order and whose products may be fused with sums."""
    made: F = numba.njit(fastmath={"reassoc", "contract", "nsz"}, **_OPTIONS)(function)
    return made


def fused(function: F) -> F:
    """A loop in which a product and a sum may be rounded once."""
    made: F = numba.njit(fastmath={"contract"}, **_OPTIONS)(function)
    return made


def inlined(function: F) -> F:
    """A step that the loops which call it take in."""
    made: F = numba.njit(inline="always", error_model="numpy")(function)
    return made


def shared(function: Callable[..., Any]) -> None:
    """Let loops call a function that Python calls as well; it is compiled as it stands."""
    register_jitable(function)


def instead_of(function: Callable[..., Any]) -> Callable[[F], F]:
    """The step that loops take where they call a function of Python."""

    def given(step: F) -> F:
        overload(function, strict=False)(lambda *_: step)  # its names may differ
        return step

    return given


def polynomial(single: Sequence[float], double: Sequence[float]) -> Callable[[Any, Any], Any]:
    """A step ``(t, x)``: ``sum(c[i] * t**i)`` of a double ``t``, with products that may be fused.

    The coefficients are ``single`` where ``x`` is of single precision.
    """

    @intrinsic
    def evaluated(context: Any, t: Any, x: Any) -> Any:
        def written(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            coefficients = single if signature.args[1] == numba.float32 else double
            kind = ir.DoubleType()
            of_three = ir.FunctionType(kind, [kind] * 3)
            step = builder.module.declare_intrinsic("llvm.fmuladd", [kind], of_three)
            total = kind(coefficients[-1])
            for c in coefficients[-2::-1]:
                total = builder.call(step, [total, args[0], kind(c)])
            return total

        return numba.float64(t, x), written

    made: Callable[[Any, Any], Any] = evaluated
    return made


@intrinsic
def fma(context: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` of doubles, rounded once."""

    def written(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return numba.float64(numba.float64, numba.float64, numba.float64), written


@intrinsic
def called_at(context: Any, address: Any, i: Any, arguments: Any, steps: Any) -> Any:
    """Call the C function at an address with pointers: each argument and ``i`` of its steps on."""

    def written(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        passed = []
        for k in range(signature.args[2].count):
            start, step = (builder.extract_value(args[of], k) for of in (2, 3))
            at = builder.add(start, builder.mul(step, args[1]))
            passed.append(builder.inttoptr(at, pointer))
        function = ir.FunctionType(ir.VoidType(), [pointer] * len(passed)).as_pointer()
        builder.call(builder.inttoptr(args[0], function), passed)
        return context.get_dummy_value()

    return numba.void(numba.int64, numba.int64, arguments, steps), written


# --- float16, which Numba has no type for ------------------------------------------------------

converts_halves = any(binding.get_host_cpu_features().get(f) for f in ("f16c", "fullfp16"))
"""Whether the processor converts float16; where not, the two functions below cannot be compiled."""


@intrinsic
def single_of_half(typing: Any, bits: Any) -> Any:
    """The float32 that equals a float16, given by its 16 bits."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fpext(builder.bitcast(args[0], ir.HalfType()), ir.FloatType())

    return numba.float32(numba.uint16), made


@intrinsic
def half_of_single(typing: Any, value: Any) -> Any:
    """The 16 bits of the float16 that a float32 is rounded to, ties to even."""

    def made(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.fptrunc(args[0], ir.HalfType()), ir.IntType(16))

    return numba.uint16(numba.float32), made
