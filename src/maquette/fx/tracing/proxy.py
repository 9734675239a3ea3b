"""`Proxy`: stands for a value while a function is traced, and records what is done with it.

Every operation on a proxy asks its *tracer* for a node and gives a proxy of that. What a tracer
does with modules, functions and constants is in `tracer.py`; here is what all tracers share.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import dis
import enum
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.core.layout import layout, memory_format
from maquette.dispatch.base import OperatorBase
from maquette.fx import traceback as fx_traceback
from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph, magic_methods, reflectable_magic_methods
from maquette.fx.node import Argument, Node, Target, base_types, map_aggregate
from maquette.fx.operator_schemas import check_for_mutable_operation
from maquette.tensor.tensor import Tensor

_CONSTANTS = (str, int, float, bool, complex, dtype, Tensor, device, memory_format, layout)
_OWN_FILES = __file__.rpartition("fx")[0]  # the package: its frames are not the user's


class TraceError(ValueError):
    """A program does with a proxy what no graph can hold."""


@compatibility(is_backward_compatible=False)
class Scope:
    """Which module is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


@compatibility(is_backward_compatible=False)
class ScopeContextManager:
    """Makes one scope say what another says, for a block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope = copy.copy(scope)
        scope.module_path = current_scope.module_path
        scope.module_type = current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exc: object) -> None:
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


# --- tracers ---------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
class TracerBase:
    """What tracers share: from operations on proxies to nodes of ``graph``.

    record_stack_traces: note in each node where the program made it. check_mutable_operations:
    refuse operators that write to their arguments. trace_asserts: record ``assert``.
    proxy_buffer_attributes: proxies for buffers, not for parameters only.
    """

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, type]]

    @compatibility(is_backward_compatible=True)
    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A node at the graph's insert point; override this to refuse or change some."""
        if kind == "call_function" and self.check_mutable_operations:
            assert not isinstance(target, str)
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        scope = getattr(self, "scope", None)
        if scope is not None:
            self.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)
        inherited = fx_traceback.inherited_meta()
        if inherited:
            node.meta.update(inherited)
        elif getattr(self, "module_stack", None):
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        return node

    @compatibility(is_backward_compatible=True)
    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node; override this for proxies of another class."""
        return Proxy(node, self)

    @compatibility(is_backward_compatible=True)
    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Record an operation on proxies and constants; the proxy of its result."""
        args_ = self.create_arg(args)
        kwargs_ = self.create_arg(kwargs)
        assert isinstance(args_, tuple)
        assert isinstance(kwargs_, dict)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        made = proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)
        if self.record_stack_traces and not made.node.stack_trace:
            made.node.stack_trace = user_stack()
        return made

    def _find_user_frame(self) -> FrameType | None:
        """The innermost frame that is neither ours nor generated code."""
        return user_frame(sys._getframe(1))

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a: Any) -> Argument:
        """What a value is as an argument of a node; NotImplementedError for what cannot be one."""
        if isinstance(a, Proxy):
            return self.node_of(a)
        if a.__class__ in SIMPLE or isinstance(a, _CONSTANTS):
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return type(a)(*[self.create_arg(x) for x in a])
            return tuple([self.create_arg(x) for x in a])
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {_checked_key(self.create_arg(k)): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if isinstance(a, range):
            return range(*[self.create_arg(x) for x in (a.start, a.stop, a.step)])
        if isinstance(a, OperatorBase | enum.Enum) or a is None or a is ...:
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: getattr(a, f.name) for f in dataclasses.fields(a)}
            kwargs = {name: self.create_arg(value) for name, value in fields.items()}
            return self.create_node("call_function", a.__class__, (), kwargs)
        if inspect.isfunction(a) or isinstance(a, type):
            return a
        raise NotImplementedError(
            f"argument of type: {type(a)} cannot be an argument of a node; pass numbers, strings, "
            f"tensors, proxies, or collections of these"
        )

    def node_of(self, proxy: Proxy) -> Node:
        """The node of a proxy; TraceError where it is one of another graph."""
        if proxy.node.graph is not getattr(self, "graph", proxy.node.graph):
            raise TraceError(_leaked(proxy))
        return proxy.node

    @compatibility(is_backward_compatible=True)
    def to_bool(self, obj: Proxy) -> bool:
        """Asked for ``if``, ``while``, ``and`` of a proxy: TraceError, unless overridden."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow" + _place(obj)
        )

    @compatibility(is_backward_compatible=True)
    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Asked for the items of a proxy: TraceError, unless overridden."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on pytorch.org"
            " for a more detailed explanation of what types of control flow can be traced, and "
            "check out the Proxy docstring for help troubleshooting Proxy iteration errors"
            + _place(obj)
        )

    @compatibility(is_backward_compatible=True)
    def keys(self, obj: Proxy) -> Any:
        """Asked for ``**proxy``: an attribute, unless overridden."""
        return Attribute(obj, "keys")()


SIMPLE = frozenset((int, float, bool, str, type(None), complex))


def _checked_key(key: Argument) -> Argument:
    def refuse(x: Argument) -> Argument:
        if isinstance(x, Node):
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
            )
        return x

    map_aggregate(key, refuse)
    return key


def user_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame from ``frame`` on that is a user's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN_FILES, "<maquette", "<eval_with_key>")):
            return frame
        frame = frame.f_back
    return None


def user_stack() -> str | None:
    """The user's frames as a traceback reads, the innermost last."""
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return None
    frames = [
        (f, line)
        for f, line in traceback.walk_stack(frame)
        if not f.f_code.co_filename.startswith((_OWN_FILES, "<maquette", "<frozen"))
    ]
    summary = traceback.StackSummary.extract(iter(frames), lookup_lines=False)
    summary.reverse()
    return "".join(summary.format())


def _leaked(a: Proxy) -> str:
    return (
        f"{a!r} of another trace is an argument here: it has no value in this graph. Return it "
        f"from the function that was traced, or compute it again; do not keep it outside"
        + _place(a)
    )


def _place(proxy: Proxy) -> str:
    """Which value an error is about, and the line of the user's program."""
    frame = user_frame(sys._getframe(1))
    where = f" (asked of {proxy!r}"
    if frame is not None:
        where += f", in {frame.f_code.co_name} at {frame.f_code.co_filename}:{frame.f_lineno}"
    return where + ")"


@compatibility(is_backward_compatible=False)
class GraphAppendingTracer(TracerBase):
    """A tracer for proxies that are made by hand, of nodes of a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = {}
        self.node_name_to_scope = {}


@compatibility(is_backward_compatible=False)
def assert_fn(x: object) -> None:
    """``assert x``, as a node."""
    assert x


# --- proxies ---------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
class Proxy:
    """A value that is not known yet: operators, functions and methods on it are recorded.

    Python decides about some things at once, and a proxy cannot be asked for them: ``if proxy:``,
    ``for x in proxy:``, ``len(proxy)``. A fixed number of items may be unpacked: ``a, b = proxy``.
    """

    _keys = -1  # no key set: operators leave the call to their exact path, which asks us

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        # A copy or a pickle asks before there are attributes.
        if k in ("node", "tracer"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        # __getattr__ would be asked for it.
        made = Proxy.__new__(type(self))
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        calling = None if frame is None else frame.f_back
        assert calling is not None
        count = _unpacked_count(calling)
        if count is not None:
            item: Any = self  # its __getitem__ is among Python's operators below
            return iter([item[i] for i in range(count)])
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            frame = inspect.currentframe()
            calling = None if frame is None else frame.f_back
            if calling is not None and _is_assert(calling):
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    @compatibility(is_backward_compatible=True)
    def keys(self) -> Any:
        """Asked when a ``**`` operator is on a proxy."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope" + _place(self)
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Any,
        types: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Record a call of a function or of a method of tensors with proxies among its arguments.

        RuntimeError for proxies of several tracers.
        """
        args = args or ()
        kwargs = kwargs or {}
        tracer = _only_tracer(cls, orig_method, args, kwargs)
        name = getattr(orig_method, "__name__", str(orig_method))
        if not isinstance(orig_method, OperatorBase) and is_tensor_method(orig_method):
            return tracer.create_proxy("call_method", name, args, kwargs)
        if isinstance(orig_method, OperatorBase):
            return tracer.create_proxy(
                "call_function", orig_method, args, kwargs, name=name.replace(".", "_")
            )
        return tracer.create_proxy(
            "call_function", orig_method, args, kwargs, name=tracer.graph._target_to_str(name)
        )


def is_tensor_method(function: Any) -> bool:
    """Whether a function is a method of `Tensor`."""
    return getattr(Tensor, getattr(function, "__name__", ""), None) is function


def _only_tracer(cls: type, method: Any, args: Any, kwargs: Any) -> TracerBase:
    tracers: dict[Any, None] = {}

    def note(a: Any) -> Any:
        if isinstance(a, cls):
            tracers[a.tracer] = None  # type: ignore[attr-defined]  # a proxy
        return a

    map_aggregate(args, note)
    map_aggregate(kwargs, note)
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(tracers)} while trying to trace operations "
            f"{method}"
        )
    return next(iter(tracers))


def _instruction(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    instructions = list(dis.get_instructions(frame.f_code))
    at = next(i for i, each in enumerate(instructions) if each.offset == frame.f_lasti)
    return instructions, at


def _unpacked_count(frame: FrameType) -> int | None:
    """How many values the running instruction unpacks, or None if it does something else."""
    instructions, at = _instruction(frame)
    current = instructions[at]
    return current.argval if current.opname == "UNPACK_SEQUENCE" else None


def _is_assert(frame: FrameType) -> bool:
    """Whether the running instruction is the test of an ``assert``."""
    instructions, at = _instruction(frame)
    rest = [i for i in instructions[at + 1 :] if i.opname not in ("CACHE", "TO_BOOL")]
    if instructions[at].opname == "UNARY_NOT" and rest:
        rest = rest[1:]
    if instructions[at].opname.startswith("POP_JUMP"):
        following = rest[0]
    elif rest and rest[0].opname.startswith("POP_JUMP") and len(rest) > 1:
        following = rest[1]
    else:
        return False
    return following.opname == "LOAD_ASSERTION_ERROR"


@compatibility(is_backward_compatible=True)
class Attribute(Proxy):
    """An attribute of a proxy: recorded as such only if it is used otherwise than called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # made when asked for
        """The node that fetches the attribute."""
        if self._node is None:
            fetch = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, fetch, {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


@compatibility(is_backward_compatible=False)
class ParameterProxy(Proxy):
    """A proxy of a parameter, whose shape is told from the parameter itself."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        assert isinstance(param, Tensor)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Any:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return self.param.nelement()


class MetaProxy(Proxy):
    """A proxy that has a fake of its value beside it, and computes those of results."""

    def __init__(
        self, node: Node, tracer: TracerBase | None = None, fake_mode: Any | None = None
    ) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Any,
        types: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        args = args or ()
        kwargs = kwargs or {}
        found = [a for a in args if isinstance(a, cls)]
        assert found, "No MetaProxy found in arguments, but one is expected."
        meta_proxy = found[0]
        made = super().__torch_function__(orig_method, types, args, kwargs)
        context = meta_proxy.fake_mode or contextlib.nullcontext()
        with context:
            values = [a.node.meta["val"] if isinstance(a, MetaProxy) else a for a in args]
            made.node.meta["val"] = orig_method(*values, **kwargs)
        return MetaProxy(made.node, made.tracer, meta_proxy.fake_mode)


# --- Python's operators ----------------------------------------------------------------------


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", function, args, kwargs)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Record ``operator.{function.__name__}``."
    return method


def _reflected(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Proxy, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (rhs, self), {})

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Record ``operator.{function.__name__}`` of the other operand and this one."
    return method


def _define_operators() -> None:
    for name in magic_methods:
        if name == "div":
            continue
        dunder = f"__{name.strip('_')}__"
        setattr(Proxy, dunder, _method(dunder, getattr(operator, name)))
    for name in reflectable_magic_methods:
        if name in ("div", "getitem"):
            continue
        dunder = f"__r{name.strip('_')}__"
        setattr(Proxy, dunder, _reflected(dunder, getattr(operator, name)))


_define_operators()


__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
    "base_types",
]
