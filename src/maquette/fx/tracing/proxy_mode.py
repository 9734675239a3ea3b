"""`ProxyTorchDispatchMode`: a dispatch mode that records every operator as a node and runs it.

It is what `make_fx` enters. It sees operators as any mode does, below autograd or, at the key
PreDispatch, above everything; kernels know nothing of it. What a traced tensor is in the graph is
kept in `tracked.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from maquette.core import pytree
from maquette.core.symbols import node_of
from maquette.dispatch import pre_dispatch as pre_dispatch_stack
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.modes import (
    TorchDispatchMode,
    disable_current_modes,
    get_dispatch_mode,
    unset_infra_mode,
)
from maquette.dispatch.modes import _put_back as put_back
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.pre_dispatch import TorchDispatchModeKey
from maquette.dispatch.registry import ops
from maquette.dispatch.schemas.schema import Argument as SchemaArgument
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.fake.tensor import FakeTensor
from maquette.fx import traceback as fx_traceback
from maquette.fx.immutable_collections import immutable_dict, immutable_list
from maquette.fx.node import Argument, Node
from maquette.fx.tracing.proxy import user_frame, user_stack
from maquette.fx.tracing.recording import NO_KEYWORDS, PLAIN, PLAIN_TENSORS, recorder
from maquette.fx.tracing.tracked import track, track_plain
from maquette.tensor.storage import OBSERVERS
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.tracing.operator_tracing import PythonKeyTracer

aten = ops.aten
DecompositionTable = Mapping[Any, Callable[..., Any]]
CONSTANT_NUMEL_LIMIT = 1


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Records operators on tensors of a trace in the graph of a tracer.

    tracing_mode: "real", "fake" or "symbolic". pre_dispatch: see operators before autograd and
    decomposition. decomposition_table: what to run instead of an operator, by operator.
    """

    _mode_key = TorchDispatchModeKey.PROXY
    supports_higher_order_operators = True

    def __init__(
        self,
        tracer: PythonKeyTracer,
        tracing_mode: str,
        pre_dispatch: bool = False,
        _allow_fake_constant: bool = False,
        _error_on_data_dependent_ops: bool = True,
        decomposition_table: DecompositionTable | None = None,
    ) -> None:
        super().__init__(DispatchKey.PreDispatch if pre_dispatch else None)
        self.tracer = tracer
        self.tracing_mode = tracing_mode
        self.pre_dispatch = pre_dispatch
        self.enable_tracing = True
        self.record_stack_traces = tracer.record_stack_traces
        self._notes_origin = tracer.record_stack_traces or tracer.record_module_stack
        self.decompositions = {} if decomposition_table is None else decomposition_table
        self._plans: dict[Any, _Plan] = {}
        own = type(self).__torch_dispatch__ is ProxyTorchDispatchMode.__torch_dispatch__
        self._answers_of_operators: dict[Any, Callable[..., object]] | None
        self._answers_of_operators = {} if own and not self._notes_origin else None
        self._error_on_data_dependent_ops = _error_on_data_dependent_ops
        self._allow_fake_constant = _allow_fake_constant
        self._outer: list[Any] = []  # by open block, the mode of the trace that this one is in

    def __enter__(self) -> Self:
        """A trace inside of another is none of its steps: that one waits."""
        self._outer.append(unset_infra_mode(TorchDispatchModeKey.PROXY))
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        outer = self._outer.pop()
        if not self._outer:
            self._forget_plans()  # recorders hold this mode, which else ends at a collection
        if outer is not None:
            put_back(outer, DispatchKey.PreDispatch if outer.pre_dispatch else None)

    def tracers(self) -> Iterator[PythonKeyTracer]:
        """The tracers of this trace and of those that it is in."""
        mode: ProxyTorchDispatchMode | None = self
        while mode is not None:
            yield mode.tracer
            mode = mode._outer[-1] if mode._outer else None

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Add the node of a call and run it, without this mode; its result."""
        if types and self._leaves(types, (args, kwargs)):
            return NotImplemented
        kwargs = kwargs or {}
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = self._plan_of(func)
            self._record_from_now_on(func, plan)
        if plan.instead is not None:
            with self:
                answer = plan.instead(*args, **kwargs)
            if answer is not NotImplemented:
                return answer
        tracer = self.tracer
        by_id = tracer.tensor_table.by_id
        inputs: list[Node] = []
        made: list[Argument] = []
        constant = True
        # Numbers and tensors of the trace here, which most arguments are; all else by a call.
        for a in args:
            if a.__class__ in PLAIN:
                made.append(a)
                continue
            found = by_id.get(id(a))
            if found is not None:
                used, value, alive, _, _ = found
                if alive() is a:
                    inputs.append(used)
                    if value is None:
                        constant = False
                    made.append(used)
                    continue
            rest = _Arguments(self, constant=constant)
            made.append(rest.one(a))
            inputs += rest.inputs
            constant = rest.constant
        node_kwargs = NO_KEYWORDS
        if kwargs:
            rest = _Arguments(self, constant=constant)
            node_kwargs = rest.named(kwargs)
            inputs += rest.inputs
            constant = rest.constant
        known = None
        if plan.asks_data and inputs:
            if constant:
                return self._on_constants(func, args, kwargs)
            if self._error_on_data_dependent_ops and not _asks_fakes((args, kwargs)):
                self._refuse_number(func, args)
        elif constant and inputs and not plan.random:
            known = self._known_answer(func, args, kwargs)
        node = tracer.graph.add_call(plan.target, tuple(made), node_kwargs, inputs, plan.name)
        noted = self._notes_origin or (fx_traceback.OPEN and fx_traceback.inherits())
        if noted:
            self._note_origin(node)
        if plan.is_plain:
            result = func(*args, **kwargs) if kwargs else func._call(*args)
        else:
            if plan.lifts and tls.st.fake_mode is None:
                func = plan.target  # a copy: what the program writes to it is not the constant
            result = func(*args, **kwargs)
            if plan.written:
                self._track_written(plan.written, args, kwargs, node)
            if plan.lifts and result.numel() <= CONSTANT_NUMEL_LIMIT:
                known = _real_copy(args[0])
        if result.__class__ in PLAIN_TENSORS and not (noted or OBSERVERS):
            track_plain(tracer, result, node, known)
        else:
            track(tracer, result, node, known)
        return result

    # --- one call --------------------------------------------------------------------

    def _leaves(self, types: tuple[type, ...], params: object) -> bool:
        """Whether a call is left to the classes of its arguments: the trace sees what they run."""
        table = self.tracer.tensor_table
        return any(
            leaf.__class__ in types and leaf not in table for leaf in pytree.tree_iter(params)
        )

    def decompose_by(self, decompositions: DecompositionTable) -> None:
        """Decompose by another table from now on."""
        self.decompositions = decompositions
        self._forget_plans()

    def _forget_plans(self) -> None:
        self._plans.clear()
        if self._answers_of_operators is not None:
            self._answers_of_operators.clear()

    @classmethod
    def is_infra_mode(cls) -> bool:
        """A thread has at most one of these."""
        return True

    def _plan_of(self, func: Any) -> _Plan:
        graph = self.tracer.graph
        name = graph._target_to_str(getattr(func, "_opname", None) or func.__name__)
        instead = self.decompositions.get(func)
        if not isinstance(func, OpOverload):  # a higher-order operator without a rule for us
            return _Plan(func, name, instead, (), False, False, False, False)
        if instead is None and not self.pre_dispatch and func._can_decompose():
            instead = func.decompose
        elif instead is None:
            instead = func.facts.body
        written = [
            (i, a.name) for i, a in enumerate(func._schema.arguments) if _is_returned(func, a)
        ]
        lifts = func in (_lift_fresh, aten.lift_fresh_copy.default)
        return _Plan(
            aten.lift_fresh_copy.default if func is _lift_fresh else func,
            graph._target_to_str("lift_fresh_copy") if lifts else name,
            instead,
            tuple(written),
            Tag.data_dependent_output in func.tags or func is _to_number,
            Tag.nondeterministic_seeded in func.tags,
            lifts,
            not (lifts or written),
        )

    def _record_from_now_on(self, func: Any, plan: _Plan) -> None:
        """Have the operator's recorder answer its calls, where recording is all there is to do."""
        answers = self._answers_of_operators
        if answers is None or not plan.is_plain or plan.instead is not None or plan.asks_data:
            return
        made = recorder(self, func, plan.name)
        if made is not None:
            answers[func] = made

    def _note_origin(self, node: Node) -> None:
        """Where in the program a node comes from, as far as that is asked for."""
        if self.record_stack_traces:
            node.stack_trace = user_stack()
        inherited = fx_traceback.inherited_meta()
        if inherited:
            node.meta.update(inherited)
        elif self.tracer.record_module_stack and self.tracer.module_stack:
            node.meta["nn_module_stack"] = dict(self.tracer.module_stack)

    def symbol(self, number: Any) -> Argument:
        """What a symbolic number is in the graph; RuntimeError where nothing there gives it."""
        node: Any = node_of(number)
        for constant in (node.maybe_as_bool(), node.maybe_as_int(), node.maybe_as_float()):
            if constant is not None:
                return constant
        found = self.tracer.symbol_nodes.find(number)
        if found is None:
            raise RuntimeError(
                f"make_fx: {number} is no size of an input of the trace, nor computed from one; "
                f"pass the tensor whose size it is as an argument"
            )
        return found

    # --- values that are known -------------------------------------------------------

    def _known_answer(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result for real where all tensors among the arguments have known values.

        None where it has more than one element, or is anything but a tensor or several.
        """
        answer = self._on_constants(func, args, kwargs)
        parts = answer if isinstance(answer, tuple | list) else [answer]
        if not all(isinstance(part, Tensor) for part in parts):
            return None
        small = sum(part.numel() for part in parts) <= CONSTANT_NUMEL_LIMIT
        return answer if small else None

    def _on_constants(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        table = self.tracer.tensor_table
        with disable_current_modes():
            return func(*_with_constants(args, table), **_with_constants(kwargs, table))

    def _refuse_number(self, func: OpOverload, args: tuple[Any, ...]) -> NoReturn:
        frame = user_frame(sys._getframe(1))
        found = self.tracer.tensor_table.get(args[0])
        where = ""
        if frame is not None:
            where = f", in {frame.f_code.co_name} at {frame.f_code.co_filename}:{frame.f_lineno}"
        of = "" if found is None else f" of %{found.node.name}, {args[0].meta}"
        raise RuntimeError(
            f"It appears that you're trying to get value out of a tracing tensor with {func} - "
            f"erroring out! It's likely that this is caused by data-dependent control flow or "
            f"similar. It may be possible to trace this with dynamic shapes; try setting "
            f"tracing_mode='symbolic' in your make_fx call. (It was called{of}{where})"
        )

    # --- writes ----------------------------------------------------------------------

    def _track_written(
        self,
        written: tuple[tuple[int, str], ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        node: Node,
    ) -> None:
        """What is written is the node of the write from then on."""
        table = self.tracer.tensor_table
        for position, name in written:
            value = args[position] if position < len(args) else kwargs.get(name)
            if isinstance(value, Tensor):
                table.put(value, node)


@dataclass(frozen=True, slots=True)  # whose fields are read faster than a tuple's
class _Plan:
    """What there is to know of an operator to record its calls.

    target: what the node calls. instead: what is run in its place, unless that declines. written:
    position and name of parameters that are. asks_data: whether its result is a number that only
    data could tell. random: whether it draws random numbers. lifts: whether its result is its
    argument, new to the trace. is_plain: whether it is an overload of which nothing of that is so,
    and its entry may be called.
    """

    target: Any
    name: str
    instead: Callable[..., Any] | None
    written: tuple[tuple[int, str], ...]
    asks_data: bool
    random: bool
    lifts: bool
    is_plain: bool


def _is_returned(func: OpOverload, argument: SchemaArgument) -> bool:
    """Whether the one result of an operator is this argument, which it writes."""
    returns = func._schema.returns
    return argument.is_write and len(returns) == 1 and returns[0].alias_info == argument.alias_info


class _Arguments:
    """Arguments of a call as a node has them.

    ``inputs`` gathers the nodes among them; ``constant``: whether each of these has a known value.
    """

    __slots__ = ("constant", "inputs", "mode")

    def __init__(self, mode: ProxyTorchDispatchMode, *, constant: bool = True) -> None:
        self.mode = mode
        self.inputs: dict[Node, None] = {}
        self.constant = constant

    def all_of(self, args: tuple[Any, ...]) -> tuple[Argument, ...]:
        """Positional arguments."""
        return tuple([self.one(a) for a in args])

    def named(self, kwargs: dict[str, Any]) -> dict[str, Argument]:
        """Keyword arguments."""
        return immutable_dict({k: self.one(v) for k, v in kwargs.items()})

    def one(self, a: Any) -> Argument:
        """An argument: nodes for tensors and symbols."""
        cls = a.__class__
        if cls in PLAIN:
            return a
        if isinstance(a, Tensor):
            tracer = self.mode.tracer
            found = tracer.tensor_table.get(a)
            if found is None:
                tracer.create_arg(a)
                found = tracer.tensor_table.get(a)
                assert found is not None
            self.inputs[found.node] = None
            self.constant = self.constant and found.constant is not None
            return found.node
        if cls is list:
            return immutable_list([self.one(x) for x in a])
        if isinstance(a, tuple):
            items = [self.one(x) for x in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if cls is dict:
            return self.named(a)
        made = self.mode.symbol(a) if node_of(a) is not None else self.mode.tracer.create_arg(a)
        if isinstance(made, Node):
            self.inputs[made] = None
            self.constant = False
        return made


_lift_fresh = aten.lift_fresh.default
_to_number = aten._local_scalar_dense.default


def _with_constants(value: Any, table: Any) -> Any:
    """Arguments with known values for the tensors of a trace."""
    if isinstance(value, Tensor):
        return table.get(value).constant
    if isinstance(value, list | tuple):
        return type(value)([_with_constants(v, table) for v in value])
    if isinstance(value, dict):
        return {k: _with_constants(v, table) for k, v in value.items()}
    return value


def _asks_fakes(params: object) -> bool:
    """Whether a fake is among parameters: the fake mode gives a symbol for a number, or refuses."""
    return any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_iter(params))


def _real_copy(t: Tensor) -> Tensor | None:
    """A private copy of a real tensor, or of a fake's known value; None for another fake."""
    source = t.constant if isinstance(t, FakeTensor) else t
    if source is None:
        return None
    with disable_current_modes():
        return source.clone()


# --- which modes are active ------------------------------------------------------------------


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The active proxy mode, before or below autograd, or None."""
    found = pre_dispatch_stack.get_mode_pre_dispatch(TorchDispatchModeKey.PROXY)
    found = found or get_dispatch_mode(TorchDispatchModeKey.PROXY)
    return found if isinstance(found, ProxyTorchDispatchMode) else None


get_innermost_proxy_mode = get_proxy_mode


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[ProxyTorchDispatchMode | None]:
    """Without a trace for the block, which gets the mode that was active."""
    mode: Any = unset_infra_mode(TorchDispatchModeKey.PROXY)
    try:
        yield mode
    finally:
        if mode is not None:
            put_back(mode, DispatchKey.PreDispatch if mode.pre_dispatch else None)


@contextmanager
def maybe_disable_proxy_mode() -> Iterator[ProxyTorchDispatchMode | None]:
    """`disable_proxy_modes_tracing`, by another of PyTorch's names."""
    with disable_proxy_modes_tracing() as mode:
        yield mode
