"""`CrossRefFakeMode`: real programs, each operator of which is repeated on fakes (F101)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maquette.core.layout import strided
from maquette.core.meta import TensorMeta
from maquette.core.pytree import tree_leaves, tree_map
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.fake.exceptions import MetadataMismatchError, UnsupportedFakeTensorException
from maquette.fake.mode import FakeTensorMode
from maquette.fake.real.to_real import try_convert_fake_to_real
from maquette.symbolic import ShapeEnv
from maquette.tensor.tensor import Tensor

# What makes tensors of plain data or storages has nothing to be repeated.
_LEFT_OUT = frozenset({
    "aten::lift_fresh", "aten::lift_fresh_copy", "aten::lift",
    "aten::set_.source_Storage_storage_offset",
})  # fmt: skip
_UNLIKE = frozenset({Tag.dynamic_output_shape, Tag.inplace_view, Tag.data_dependent_output})


__all__ = [
    "CrossRefFakeMode",
    "MetadataMismatchError",
    "output_alias_each_other",
    "outputs_alias_inputs",
    "outputs_are_inputs",
    "try_convert_fake_to_real",
]


class CrossRefFakeMode(TorchDispatchMode):
    """Compares what operators give with what their shape rules say.

    ignore_op_fn: which operators not to repeat. check_strides, check_aliasing: whether strides, and
    memory that results share with arguments or each other, have to agree. only_check_ops_with_meta
    changes nothing, as in PyTorch, where each operator counts as one with a kernel for meta. Raises
    AssertionError for another number of results, MetadataMismatchError for another size, stride,
    offset, dtype, requires_grad or sharing, UnsupportedOperatorException for an operator without a
    shape rule or fake implementation.
    """

    def __init__(
        self,
        ignore_op_fn: Callable[[OpOverload], bool] | None = None,
        *,
        check_strides: bool = True,
        check_aliasing: bool = True,
        only_check_ops_with_meta: bool = True,
    ) -> None:
        super().__init__()
        self.ignore_op_fn = ignore_op_fn or (lambda op: False)
        self.check_strides = check_strides
        self.check_aliasing = check_aliasing
        self.only_check_ops_with_meta = only_check_ops_with_meta

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = (tuple(args), dict(kwargs or {}))
        repeated = self._on_fakes(func, given) if self._is_checked(func) else None
        result = func(*given[0], **given[1])
        if repeated is not None:
            self._compare(func, (given, result), repeated)
        return result

    def _is_checked(self, op: OpOverload) -> bool:
        left_out = op.name() in _LEFT_OUT or self.ignore_op_fn(op)
        return not (left_out or _UNLIKE.intersection(op.tags))

    def _on_fakes(self, op: OpOverload, given: Any) -> tuple[Any, Any] | None:
        """The fakes of the arguments, and the result for them; None where there are none."""
        try:
            with FakeTensorMode(shape_env=ShapeEnv()) as mode, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the real call gives them

                def fake_of(value: Any) -> Any:
                    if not isinstance(value, Tensor):
                        return value
                    return mode.from_tensor(value, static_shapes=True)

                fakes: Any = tree_map(fake_of, given)
                return fakes, op(*fakes[0], **fakes[1])
        except UnsupportedFakeTensorException:
            return None

    def _compare(self, op: OpOverload, real: tuple[Any, Any], fake: tuple[Any, Any]) -> None:
        context = f"When comparing the output of {op} on FakeTensor and concrete Tensors, found"
        results, fakes = tree_leaves(real[1]), tree_leaves(fake[1])
        assert len(results) == len(fakes), (
            f"{context} mismatch in number of returns {len(fakes)} != {len(results)}"
        )
        if self.check_aliasing:
            _check_aliasing(context, real, fake)
        for i, (r, f) in enumerate(zip(results, fakes, strict=True)):
            assert isinstance(r, Tensor) == isinstance(f, Tensor), (
                f"{context} mismatched number of tensor outputs: output {i} is {r!r}, {f!r} by the "
                f"fake"
            )
            if isinstance(r, Tensor):
                self._check_tensor(context, i if len(results) > 1 else None, r, f)

    def _check_tensor(self, context: str, i: int | None, real: Tensor, fake: Any) -> None:
        where = "" if i is None else f" for output[{i}]"
        for fact, r, f in _facts(real, fake, strides=self.check_strides):
            if r != f:
                raise MetadataMismatchError(
                    f"{context} mismatched tensor metadata{where}: {fact} is {r} for real, {f} by "
                    f"the fake"
                )


def _facts(real: Tensor, fake: Tensor, *, strides: bool) -> list[tuple[str, object, object]]:
    """What the two are like, by name; of memory only what elements can tell."""
    r, f = real.meta, fake.meta
    found: list[tuple[str, object, object]] = [
        ("the size", tuple(r.shape), tuple(f.shape)),
        ("the dtype", r.dtype, f.dtype),
        ("the layout", r.layout, f.layout),
        ("requires_grad", real.requires_grad, fake.requires_grad),
    ]
    if r.layout is strided and f.layout is strided and r.shape == f.shape:
        found.append(("the storage offset", r.offset, f.offset))
        if strides and r.numel > 0:
            found.append(("the stride of dimensions larger than 1", _steps(r), _steps(f)))
    return found


def _steps(meta: TensorMeta) -> list[int]:
    return [s for s, n in zip(meta.strides, meta.shape, strict=True) if n > 1]


def _check_aliasing(context: str, real: tuple[Any, Any], fake: tuple[Any, Any]) -> None:
    for name, relation in _RELATIONS.items():
        r, f = relation(real[1], real[0]), relation(fake[1], fake[0])
        if r != f:
            raise MetadataMismatchError(f"{context} mismatch in {name} check {f} != {r}")


def _memory(values: Any) -> list[int]:
    tensors = [t for t in tree_leaves(values) if isinstance(t, Tensor)]
    return [id(t._storage) for t in tensors if t.meta.layout is strided]


def outputs_alias_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether a tensor among the one shares its storage with a tensor among the other."""
    return not set(_memory(inputs)).isdisjoint(_memory(outputs))


def outputs_are_inputs(outputs: Any, inputs: Any) -> bool:
    """Whether a tensor among the one is the very object that one among the other is."""
    given = {id(t) for t in tree_leaves(inputs) if isinstance(t, Tensor)}
    return any(id(t) in given for t in tree_leaves(outputs) if isinstance(t, Tensor))


def output_alias_each_other(outputs: Any) -> bool:
    """Whether two of the tensors share a storage."""
    memory = _memory(outputs)
    return len(set(memory)) < len(memory)


_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "outputs_alias_inputs": outputs_alias_inputs,
    "outputs_are_inputs": outputs_are_inputs,
    "outputs_alias_each_other": lambda outputs, inputs: output_alias_each_other(outputs),
}
