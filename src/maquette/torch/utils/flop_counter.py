"""`torch.utils.flop_counter`: the FLOPs of matrix products, convolutions and attention, by module.

The counts are the operators' own (`maquette.library.costs`); which operators are counted is
PyTorch's choice. `maquette plan` counts all operators.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from maquette.core.symbols import node_of
from maquette.dispatch.higher_order import HigherOrderOperator
from maquette.dispatch.modes import TorchDispatchMode
from maquette.dispatch.module_calls import around_modules
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import node_observers, tls
from maquette.library.costs import cost_of
from maquette.torch.face.forwarding import forward
from maquette.torch.utils.flop_formulas import (
    BY_PAGE,
    flop_registry,
    register_flop_formula,
    shape_wrapper,
)

_GLOBAL = "Global"


class _Watcher(TorchDispatchMode):
    """Tells a counter of every operator, with the modules that it runs in."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self._counter = counter

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: tuple[type, ...],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if isinstance(func, OpOverload) and not self._counter.counts(func):
            with self:  # in inference mode composites come whole: their parts are counted
                parts = func.decompose(*args, **(kwargs or {}))
            if parts is not NotImplemented:
                return parts
        st = tls.st
        context = st.node_context
        inside = self._counter.running
        if not inside and isinstance(context, tuple):
            inside = context  # in backward: where the node was made
        st.node_context = inside
        result = func(*args, **(kwargs or {}))
        if isinstance(func, OpOverload | HigherOrderOperator):
            self._counter.count(func, inside, args, kwargs or {}, result)
        return result


class FlopCounterMode:
    """Counts FLOPs in a block: ``get_total_flops()``, ``get_flop_counts()``, ``get_table()``.

    mods: not needed any more, as in PyTorch. depth: how deep the table goes into modules. display:
    print the table at the end of the block. custom_mapping: from operators (packets) to functions
    of shapes, ``f(*shapes, out_shape=shape)``, for operators not counted or counted differently;
    a function with a true ``_get_raw`` is called with values, ``f(*args, out_val=result)``.
    """

    def __init__(
        self,
        mods: object = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: Mapping[Any, Callable[..., int]] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth, self.display = depth, display
        own = {
            op: f if getattr(f, "_get_raw", False) else shape_wrapper(f)
            for op, f in (custom_mapping or {}).items()
        }
        self.flop_registry = flop_registry | own
        self.flop_counts: dict[str, Counter[Any]] = defaultdict(Counter)
        self.running: tuple[str, ...] = ()
        self._watcher = _Watcher(self)
        self._around: Any = None
        self._context: object | None = None

    def counts(self, op: OpOverload) -> bool:
        """Whether calls of an operator are counted."""
        return op.overloadpacket in self.flop_registry

    def count(
        self,
        op: OpOverload | HigherOrderOperator,
        modules: tuple[str, ...],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        result: object,
    ) -> None:
        """Add the FLOPs of one call to the whole and to each module that it ran in."""
        packet = op.overloadpacket if isinstance(op, OpOverload) else op
        formula = self.flop_registry.get(packet)
        if formula is None:
            return
        if isinstance(op, OpOverload) and formula is BY_PAGE.get(op.overloadpacket):
            flops = cost_of(op, args, kwargs, result).flops  # of this overload
        else:
            flops = formula(*args, **kwargs, out_val=result)
        for name in {_GLOBAL, *modules}:
            # A number of sizes stays one: an int of it would be a guard.
            self.flop_counts[name][packet] += flops if node_of(flops) is not None else int(flops)

    def get_total_flops(self) -> int:
        """All FLOPs counted so far."""
        return sum(self.flop_counts[_GLOBAL].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """For each module by its path, and for ``"Global"``, the FLOPs by operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: modules to a depth, their operators, the share of the whole."""
        deepest = self.depth if depth is None else depth
        whole = self.get_total_flops() or 1
        rows = [("Module", "FLOP", "% Total")]
        named = sorted(name for name in self.flop_counts if name != _GLOBAL)
        for name in [_GLOBAL, *named]:
            level = 0 if name == _GLOBAL else name.count(".") + 1
            if level > deepest:
                continue
            counts = self.flop_counts[name]
            total = sum(counts.values())
            rows.append((" " * level + name, f"{total:,}", f"{100 * total / whole:.2f}%"))
            for packet, flops in counts.items():
                row = (" " * level + f" - {packet}", f"{flops:,}", f"{100 * flops / whole:.2f}%")
                rows.append(row)
        wide = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(f"{a:{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}" for a, b, c in rows)

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._around = around_modules(self._call)
        self._around.__enter__()
        node_observers.append(self)
        self._context = tls.st.node_context
        self._watcher.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._watcher.__exit__(*exc)
        tls.st.node_context = self._context
        node_observers.remove(self)
        self._around.__exit__(None, None, None)
        if self.display:
            print(self.get_table())  # noqa: T201  # what PyTorch's prints

    def _call(
        self, module: Any, run: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> object:
        before = self.running
        self.running = (*before, self._path(module, before))
        try:
            return run(*args, **kwargs)
        finally:
            self.running = before
            if not before:
                tls.st.node_context = self._context

    def _path(self, module: Any, outer: tuple[str, ...]) -> str:
        """The path of a module from the outermost one that runs, whose class begins it."""
        if not outer:
            self._names = {id(m): name for name, m in module.named_modules()}
            self._root = type(module).__name__
        name = self._names.get(id(module), type(module).__name__)
        return f"{self._root}.{name}" if name else self._root


__all__ = ["FlopCounterMode", "register_flop_formula"]
__getattr__ = forward(__name__, "maquette.torch.utils.flop_formulas")
