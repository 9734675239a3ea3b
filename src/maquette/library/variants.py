"""In-place and ``out=`` forms of an operator, derived from its functional page.

Their schema is the page's text with the write annotated, their shape rule the page's rule followed
by the checks that writing needs (PyTorch's result casting, no broadcasting of the target, no
internal overlap), their kernel the page's kernel followed by a copy into the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import cast

from maquette.core.dtype import can_cast, dtype, from_numpy_dtype
from maquette.core.errors import check
from maquette.core.fitting import c_name
from maquette.core.meta import TensorMeta
from maquette.core.strides import repeats
from maquette.core.symbols import alike, expect_alike
from maquette.dispatch.operator import OpOverload
from maquette.library.advice import check_advised
from maquette.library.in_blocks import written_by_loop
from maquette.tensor.backend import Array, backend_for, byte_strides, is_array

Rule = Callable[..., object]
DtypeCheck = Callable[[str, dtype, dtype], None]


def inplace_schema(schema: str, name: str | None = None) -> str:
    """``aten::add.Tensor(Tensor self, ...) -> Tensor`` to ``aten::add_.Tensor``'s or ``name``'s."""
    head, _, rest = schema.partition("(")
    base, dot, overload = head.partition(".")
    target = f"{base}_{dot}{overload}" if name is None else f"{base.partition('::')[0]}::{name}"
    arguments = rest.rpartition("->")[0].rstrip()
    written = arguments.replace("Tensor self", "Tensor(a!) self", 1)
    return f"{target}({written} -> Tensor(a!)"


def out_schema(schema: str, overload: str | None = None) -> str:
    """``aten::add.Tensor(...) -> Tensor`` to that of ``aten::add.out``."""
    head, _, rest = schema.partition("(")
    base, _, own = head.partition(".")
    name = overload or ("out" if own in ("", "Tensor") else f"{own}_out")
    arguments = rest.rpartition("->")[0].rstrip().removesuffix(")")
    star = ", " if "*," in arguments.replace(" ", "") else ", *, "
    if not arguments:
        star = "*, "
    return f"{base}.{name}({arguments}{star}Tensor(a!) out) -> Tensor(a!)"


def check_writable(name: str, target: TensorMeta) -> None:
    """Refuse to write where one memory location stands for several elements (T41)."""
    if not repeats(target.shape, target.strides):
        return
    check_advised(
        check,
        target.numel == 0,
        lambda: (
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        ),
        lambda: f"{name} writes to {target} with strides {target.strides}.",
    )


def check_castable(name: str, result: dtype, target: dtype) -> None:
    """Refuse a result of a higher category than the tensor it goes into (T34)."""
    check(
        can_cast(result, target),
        lambda: (
            f"result type {result.scalar_name} can't be cast to the desired output type "
            f"{target.scalar_name}"
        ),
    )


def check_same_dtype(name: str, result: dtype, target: dtype) -> None:
    """Refuse an output of another dtype than the result, for operators that do not convert."""
    check(
        result is target,
        lambda: (
            f"Expected out tensor to have dtype {c_name(result)}, but got {c_name(target)} instead "
            f"(expected scalar_type {result.scalar_name} but found {target.scalar_name})"
        ),
    )


def inplace_shape(base: OpOverload) -> Rule:
    """The shape rule of the in-place form of ``base``: the target's own meta, or a refusal."""

    def rule(self: TensorMeta, *rest: object) -> TensorMeta:
        assert base.shape_rule is not None
        result = base.shape_rule(self, *rest)
        assert isinstance(result, TensorMeta)
        name = f"{base._opname}_"
        check_castable(name, result.dtype, self.dtype)
        check(
            expect_alike(result.shape, self.shape),
            lambda: (
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(result.shape)}"
            ),
        )
        check_writable(name, self)
        return self

    return rule


def out_shape(base: OpOverload, count: int, check_dtype: DtypeCheck = check_castable) -> Rule:
    """The shape rule of the ``out=`` form: each of ``count`` outputs kept if it fits."""

    def rule(*args: object) -> object:
        assert base.shape_rule is not None
        results = base.shape_rule(*args[:-count])
        pairs = zip(_listed(results, count), args[-count:], strict=True)
        fitted = [_fitted(base._opname, result, out, check_dtype) for result, out in pairs]
        return fitted[0] if count == 1 else tuple(fitted)

    return rule


def _listed(results: object, count: int) -> Sequence[object]:
    return (results,) if count == 1 else cast(Sequence[object], results)


def _fitted(name: str, result: object, out: object, check_dtype: DtypeCheck) -> TensorMeta:
    """The output's own meta if it has the result's shape, else the one it is resized to."""
    assert isinstance(result, TensorMeta)
    assert isinstance(out, TensorMeta)
    check_dtype(name, result.dtype, out.dtype)
    if alike(result.shape, out.shape):
        check_writable(name, out)
        return out
    # Resizing keeps the offset (T6); the strides are those of a fresh result.
    return TensorMeta.of(out.dtype, result.shape, result.strides, out.offset, out.device)


def writing(base: OpOverload) -> Rule:
    """The kernel of ``base`` followed by a copy into its first argument."""

    def kernel(xp: ModuleType, *args: object) -> None:
        assert base.array_kernel is not None
        if not written_by_loop(base, xp, args):
            _write(xp, args[0], base.array_kernel(xp, *args))

    return kernel


def writing_out(base: OpOverload, count: int) -> Rule:
    """The kernel of ``base`` followed by copies into the last ``count`` arguments."""

    def kernel(xp: ModuleType, *args: object) -> None:
        assert base.array_kernel is not None
        operands, targets = args[:-count], args[-count:]
        results = _listed(base.array_kernel(xp, *operands), count)
        if any(_is_half(a) for a in operands) and not all(_is_half(t) for t in targets):
            results = _rounded(base, operands, results)
        for target, result in zip(targets, results, strict=True):
            _write(xp, target, result)

    return kernel


def _is_half(value: object) -> bool:
    return getattr(getattr(value, "dtype", None), "name", "") in ("float16", "bfloat16")


def _rounded(
    base: OpOverload, operands: Sequence[object], results: Sequence[object]
) -> list[object]:
    """Results with the precision of the functional form, whatever the outputs could hold.

    Kernels work on 16-bit floats in single precision and leave the rounding to the array that takes
    the values; a wider ``out=`` would not round them.
    """
    assert base.shape_rule is not None
    metas = _listed(base.shape_rule(*map(_meta_of, operands)), len(results))
    return [
        values.astype(meta.dtype.numpy)
        if isinstance(meta, TensorMeta) and is_array(values) and meta.itemsize == 2
        else values
        for values, meta in zip(results, metas, strict=True)
    ]


def _meta_of(value: object) -> object:
    """The meta of an array, an argument of another kind itself."""
    if isinstance(value, tuple | list):
        return tuple(map(_meta_of, value))
    if not is_array(value):
        return value
    steps = tuple([step // value.dtype.itemsize for step in byte_strides(value)])
    return TensorMeta.of(from_numpy_dtype(value.dtype), value.shape, steps)


def _write(xp: ModuleType, target: object, values: object) -> None:
    backend = backend_for(xp)
    backend.write(cast(Array, target), backend.as_array(values))
