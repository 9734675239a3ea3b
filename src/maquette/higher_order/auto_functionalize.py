"""An operator that mutates arguments, called so that it mutates copies: as one functional call.

`auto_functionalized` copies each argument. `auto_functionalized_v2` copies bases, of which
arguments may be views, so that two views of one base see each other's mutations. Functionalization
calls forms without functional twin by the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.dispatch.operator import OpOverload
from maquette.higher_order.common import FunctionalHop, record
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators


class AutoFunctionalized(FunctionalHop):
    """``higher_order.auto_functionalized(op, **kwargs)``: results, then each mutated argument's.

    The operator runs on clones of the arguments that it mutates; nothing of the caller's changes.
    """

    def __init__(self) -> None:
        super().__init__("auto_functionalized", cacheable=True)

    def __call__(  # type: ignore[override]  # it states its parameters
        self, /, _mutable_op: Any, **kwargs: Any
    ) -> Any:
        if not can_auto_functionalize(_mutable_op):
            raise AssertionError(
                f"Cannot auto-functionalize op {_mutable_op}: {self.name()} takes an operator that "
                f"mutates arguments and returns no alias of one"
            )
        return super().__call__(_mutable_op, **kwargs)

    def eager(self, op: OpOverload, **kwargs: Any) -> Any:
        given = dict(kwargs)
        mutated = [a.name for a in op._schema.arguments if a.is_write]
        for name in mutated:
            given[name] = _cloned(given.get(name))
        result = op(**given)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        if not op._schema.returns:
            results = (None,)
        return (*results, *[given[name] for name in mutated])

    def functional(self, ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with ctx.redispatch_to_next():
            return ctx.wrap_tensors(self(*args, **ctx.unwrap_tensors(kwargs)))

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        return record(mode, self, args, kwargs)


def can_auto_functionalize(op: Any) -> bool:
    """Whether an operator mutates arguments and gives no alias of one."""
    if not isinstance(op, OpOverload) or not op._schema.is_mutable:
        return False
    return all(r.alias_info is None for r in op._schema.returns)


def _cloned(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_cloned(v) for v in value]
    return operators.clone(value) if isinstance(value, Tensor) else value


class AutoFunctionalizedV2(AutoFunctionalized):
    """``higher_order.auto_functionalized_v2(op, **kwargs, _all_bases=[...])``.

    Gives the operator's results, then each base's new value. A mutated argument ``x`` is not passed
    itself: ``_x_base_index`` says which base it is of, None that it is None. How it views the base
    is said by ``_x_alias=True`` (it is the base; also without any), by ``_x_slice_dim``,
    ``_x_slice_start`` and ``_x_slice_end``, or by ``_x_size``, ``_x_stride`` and
    ``_x_storage_offset``. A list ``xs`` has ``_xs_length``, and ``_xs_0_...`` for each member.
    """

    def __init__(self) -> None:
        FunctionalHop.__init__(self, "auto_functionalized_v2", cacheable=True)

    def eager(self, op: OpOverload, **kwargs: Any) -> Any:
        given = dict(kwargs)
        bases = [_cloned(t) for t in given.pop("_all_bases", [])]
        for argument in op._schema.arguments:
            if argument.is_write:
                given[argument.name] = _rebuilt(argument.name, given, bases)
        result = op(**given)
        results = result if isinstance(result, tuple) else (result,)
        return (*results, *bases)

    def of_values(self, op: OpOverload, values: Sequence[Any]) -> tuple[Any, ...] | None:
        """Results of a form on plain values, then the new values of what it mutates; none mutated.

        None where the operator cannot call the form.
        """
        if not can_auto_functionalize(op):
            return None
        named: dict[str, Any] = {}
        bases: list[Any] = []
        for argument, value in zip(op._schema.arguments, values):
            if argument.is_write:
                _describe(argument.name, value, named, bases)
            else:
                named[argument.name] = value
        found: tuple[Any, ...] = self(op, **named, _all_bases=bases)
        return found


def _rebuilt(name: str, given: dict[str, Any], bases: list[Any]) -> Any:
    """A mutated argument, from what a call says of it, which is taken out of ``given``."""
    length = given.pop(f"_{name}_length", None)
    if length is not None:
        return [_rebuilt(f"{name}_{i}", given, bases) for i in range(length)]
    said = {
        key: given.pop(f"_{name}_{key}")
        for key in (
            "base_index", "alias", "size", "stride", "storage_offset",
            "slice_dim", "slice_start", "slice_end",
        )
        if f"_{name}_{key}" in given
    }  # fmt: skip
    if "base_index" not in said:
        raise AssertionError(
            f"auto_functionalized_v2: expected _{name}_base_index, the number of the base in "
            f"_all_bases that the mutated argument {name} is of, or None; got {sorted(given)}"
        )
    if said["base_index"] is None:
        return None
    base = bases[said["base_index"]]
    if "slice_dim" in said:
        bounds = (said["slice_dim"], said["slice_start"], said["slice_end"])
        return operators.slice(base, *bounds)
    if "size" in said:
        return operators.as_strided(base, said["size"], said["stride"], said["storage_offset"])
    return base


def _describe(name: str, value: Any, named: dict[str, Any], bases: list[Any]) -> None:
    if isinstance(value, (list, tuple)):
        named[f"_{name}_length"] = len(value)
        for i, member in enumerate(value):
            _describe(f"{name}_{i}", member, named, bases)
        return
    named[f"_{name}_base_index"] = None if value is None else len(bases)
    if value is not None:
        bases.append(value)


auto_functionalized = AutoFunctionalized()
auto_functionalized_v2 = AutoFunctionalizedV2()

__all__ = [
    "AutoFunctionalized",
    "AutoFunctionalizedV2",
    "auto_functionalized",
    "auto_functionalized_v2",
    "can_auto_functionalize",
]
