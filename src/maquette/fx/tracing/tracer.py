"""`Tracer` and `symbolic_trace`: a function or module becomes a graph by running it on proxies.

Modules of `nn` are kept as calls (*leaves*), others are traced through. While a trace runs, calls
of modules, parameters read from them, and functions given to `wrap` are diverted to the tracer
(`patching.py`); what proxies record by themselves is in `proxy.py`.
"""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import math
import operator
import sys
import types
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from maquette.api import functions
from maquette.api.checks import _assert
from maquette.api.function_homes import own_module
from maquette.autograd.grad_mode import set_grad_enabled
from maquette.core import pytree
from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.graph_module import GraphModule
from maquette.fx.node import Argument, Node, base_types, has_side_effect
from maquette.fx.pytree_codegen import PyTreeCodeGen, _PyTreeInfo
from maquette.fx.tracing.patching import Patcher, find_proxy, tracing
from maquette.fx.tracing.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter
from maquette.tensor.tensor import Tensor

_orig_module_call: Callable[..., Any] = Module.__call__
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_proxyable_classes: dict[type, None] = {}
# Methods, (class, name), whose calls traces record; PyTorch's name for the list.
_wrapped_methods_to_patch = Patcher._methods


# --- placeholders for concrete arguments -----------------------------------------------------


@compatibility(is_backward_compatible=False)
class PHBase:
    """In ``concrete_args``: an input that stays one."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


@compatibility(is_backward_compatible=False)
class PHWithMeta(PHBase):
    """A `PH` whose attributes go over to the placeholder's node."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def _annotation(function: Callable[..., Any], name: str) -> Any:
    """The type of a parameter, or of the result; our own functions say ``Any`` for none."""
    found = function.__annotations__.get(name)
    ours = own_module(function).startswith("maquette.")  # some have none
    return None if ours and found in (Any, "Any") else found


def _transfer_attrs(fr: PHBase, to: Node) -> None:
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


class ProxyableClassMeta(type):
    """A class whose objects are made by nodes when their arguments are proxies."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made: Any = cls.__new__(cls, *args, **kwargs)  # type: ignore[arg-type]  # a class of this kind
        if not is_fx_tracing():
            made.__init__(*args, **kwargs)
            return made
        found = find_proxy(args, kwargs)
        if found is None:
            made.__init__(*args, **kwargs)
            return made
        return found.tracer.create_proxy("call_function", cls, args, kwargs)


def is_fx_tracing() -> bool:
    """Whether this thread is tracing symbolically."""
    return tracing.depth > 0


is_fx_symbolic_tracing = is_fx_tracing


# --- the tracer ------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
class Tracer(TracerBase):
    """Traces functions and modules; override `is_leaf_module`, `call_module`, `create_arg`...

    autowrap_modules: modules whose functions are recorded as calls, not run. autowrap_functions:
    functions that are. param_shapes_constant: whether shapes of parameters are plain numbers, so
    that a program may branch on them.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[int, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs: dict[Any, str] = {}
        self._constant_names: dict[str, int] = {}

    # --- constants -------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def create_arg(self, a: Any) -> Argument:
        """Parameters, buffers, modules and other tensors become attributes of the root."""
        if isinstance(a, Proxy):
            return self.node_of(a)
        if isinstance(a, Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a, "_param_constant")
        if isinstance(a, Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            return self._constant(a, "_tensor_constant")
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            return self._constant(a, f"_{type(a).__name__}_constant_")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple([self.create_arg(x) for x in a])
            return self.create_node("call_function", a.__class__, args, {})
        return super().create_arg(a)

    def _constant(self, value: Any, prefix: str) -> Node:
        """A node that fetches ``value``, which becomes an attribute of the root if need be."""
        name = self._attribute_of(value)
        if name is None:
            name = self.get_fresh_qualname(prefix)
            self.tensor_attrs[_key(value)] = name
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    def _attribute_of(self, value: Any) -> str | None:
        return self.tensor_attrs.get(_key(value))

    @compatibility(is_backward_compatible=True)
    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of: the prefix and a number."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # --- modules ---------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module is kept as a call: those of `nn` are, but for `Sequential`."""
        home = m.__module__
        ours = home.startswith(("maquette.nn", "torch.nn"))
        return ours and type(m).__name__ != "Sequential"

    @compatibility(is_backward_compatible=True)
    def path_of_module(self, mod: Module) -> str:
        """Where a module is in the root; NameError if it is not there."""
        if self.submodule_paths is None:
            for name, module in self.root.named_modules():
                if mod is module:
                    return name
            raise NameError("module is not installed as a submodule")
        path = self.submodule_paths.get(id(mod))
        if path is None:
            raise NameError("module is not installed as a submodule")
        assert isinstance(path, str)
        return path

    @compatibility(is_backward_compatible=True)
    def call_module(
        self,
        m: Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What a call of a module is: a node for a leaf, else what ``forward`` gives."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            times = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{times}" if times > 0 else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = times + 1
            try:
                if not self.is_leaf_module(m, path):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", path, args, kwargs)
            finally:
                self.module_stack.popitem(last=True)  # type: ignore[call-arg]  # ordered

    @compatibility(is_backward_compatible=False)
    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What a module's attribute is in the trace: a proxy for a parameter, else itself."""
        if isinstance(attr_val, Parameter):
            found = self._attribute_proxy(
                attr_val, self.root.named_parameters(), parameter_proxy_cache
            )
            return attr_val if found is None else found
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self._attribute_proxy(
                attr_val, self.root.named_buffers(), parameter_proxy_cache
            )
            return attr_val if found is None else found
        return attr_val

    def _attribute_proxy(self, value: Any, known: Any, cache: dict[str, Any]) -> Any:
        for name, candidate in known:
            if candidate is not value:
                continue
            if name not in cache:
                options: dict[str, Any] = {}
                # Programs' own tracers may have a `create_proxy` from before there was a factory.
                taken = inspect.signature(self.create_proxy).parameters
                if self.param_shapes_constant and "proxy_factory_fn" in taken:
                    options["proxy_factory_fn"] = functools.partial(
                        ParameterProxy, self, name=name, param=value
                    )
                cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
            return cache[name]
        return None

    # --- arguments of the traced function --------------------------------------------

    @compatibility(is_backward_compatible=False)
    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Placeholders for the parameters of a function, and the function that takes them."""
        plain = inspect.unwrap(root_fn)
        code = plain.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        first = 0
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            first = 1
            args.append(self.root)
        defaults = _defaults(plain)
        own = names[first:total]
        if isinstance(concrete_args, tuple):
            if len(own) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(own)} arguments but got {len(concrete_args)} concrete "
                    f"arguments"
                )
            concrete_args = dict(zip(own, concrete_args))
        make = lambda name: self._proxy_placeholder(name, concrete_args, defaults, plain)  # noqa: E731
        args += [make(name) for name in own]
        if code.co_kwonlyargcount > 0 or code.co_flags & _VARIADIC:
            rest = iter(names[total:])
            if code.co_flags & inspect.CO_VARARGS:
                args.append(make("*" + next(rest)))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(make("**" + next(rest)))
            if plain is root_fn or code.co_flags & _VARIADIC:
                root_fn = _all_positional(root_fn, len(args))
            else:
                root_fn = _by_keyword(root_fn, names[code.co_argcount : total])
        flat, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        self.graph._codegen = PyTreeCodeGen(_PyTreeInfo(names[:total], spec, None))
        return self._flattened(root_fn, spec), flat

    def _flattened(self, function: Callable[..., Any], spec: pytree.TreeSpec) -> Callable[..., Any]:
        """The function over the leaves of its arguments."""

        def flatten_fn(*args: Any) -> Any:
            nested: Any = pytree.tree_unflatten(list(args), spec)
            out, out_spec = pytree.tree_flatten(function(*nested))
            codegen = self.graph._codegen
            assert isinstance(codegen, PyTreeCodeGen)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        defaults: dict[str, Any],
        function: Callable[..., Any],
    ) -> Any:
        default = (defaults[name],) if name in defaults else ()
        if concrete_args is not None and name in concrete_args:
            return self._concrete(name, concrete_args[name], default)
        annotation = _annotation(function, name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _concrete(self, name: str, value: Any, default: tuple[Any, ...]) -> Any:
        """The known value of a parameter: an input for each leaf, checked to be the value."""
        count = 0

        def leaf(x: Any) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                if x is not PH:
                    _transfer_attrs(x, out.node)
                return out
            if isinstance(x, bool) or type(x) in base_types.__args__:  # type: ignore[attr-defined]  # a union
                message = f"{name} has been specialized to have value {x} but got another value"
                self.create_proxy("call_function", _assert, (out == x, message), {})
            elif x is None:
                message = f"{name} has been specialized to have value None but got another value"
                self.create_proxy("call_function", assert_is_none, (out, message), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to "
                    f"specialized function. It is up to the user to make sure that your inputs "
                    f"match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return x

        return leaf(value) if value is PH else pytree.tree_map(leaf, value)

    # --- tracing ---------------------------------------------------------------------

    @compatibility(is_backward_compatible=True)
    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> Graph:
        """The graph of a module's ``forward`` (`traced_func_name`), or of a function.

        concrete_args: values of parameters that are not to be inputs, nested with `PH` where parts
        of one are.
        """
        function = self._begin(root)
        self.graph = Graph(tracer_cls=type(self))
        code = function.__code__
        self.graph._co_fields = {  # type: ignore[attr-defined]  # for the name of generated code
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
        }
        self.tensor_attrs = _tensors_of(self.root)
        names = function.__globals__
        runner, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with Patcher() as patcher, tracing:
            self._patch(patcher, names)
            result = self.create_arg(runner(*args))
        annotation = _annotation(function, "return")
        self.create_node("output", "output", (result,), {}, type_expr=annotation)
        self.submodule_paths = None
        return self.graph

    def _begin(self, root: Module | Callable[..., Any]) -> FunctionType:
        """Set the root and what is known of it; the function that is to be run."""
        self.module_stack = collections.OrderedDict()
        self.num_calls = {}
        self.node_name_to_scope = {}
        self.scope = Scope("", None)
        if not isinstance(root, Module):
            self.root: Module = Module()
            self.root_module_name = ""
            self.submodule_paths = None
            function = root if isinstance(root, FunctionType) else getattr(root, "__call__")  # noqa: B004, B009
            if isinstance(root, types.MethodType):
                raise TypeError(
                    f"trace(root): a bound method cannot be traced, got {root}; pass its module, "
                    f"and set traced_func_name for another method than forward"
                )
        else:
            self.root = root
            assert hasattr(type(root), self.traced_func_name), (
                f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
            )
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {id(mod): name for name, mod in root.named_modules()}
        assert isinstance(function, FunctionType), (
            f"trace(root): expected a module or a Python function, got {type(root).__name__}"
        )
        return function

    def _patch(self, patcher: Patcher, names: dict[str, Any]) -> None:
        cache: dict[str, Any] = {}
        read = Module.__getattribute__
        tracer = self
        busy = False

        def module_getattr(module: Module, attr: str) -> Any:
            nonlocal busy
            value = read(module, attr)
            if busy or not isinstance(value, Tensor | Module):
                return value
            busy = True  # what the tracer itself reads is not part of the program
            try:
                return tracer.getattr(attr, value, cache)
            finally:
                busy = False

        def module_call(module: Module, /, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _orig_module_call(module, *args, **kwargs)

            within = getattr(getattr(module, "forward", module), "__globals__", {})
            patcher.wrap_functions(within, tracer._autowrap_function_ids)
            return tracer.call_module(module, forward, args, kwargs)

        patcher.patch_method(Module, "__getattribute__", module_getattr)
        patcher.patch_method(Module, "__call__", module_call)
        patcher.wrap_registered()
        patcher.wrap_functions(names, self._autowrap_function_ids)
        for module in self._autowrap_search:
            patcher.wrap_functions(vars(module), self._autowrap_function_ids)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = type(self).__new__(type(self))
        made.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_autowrap_search"})
        made._autowrap_search = list(self._autowrap_search)
        return made


def _key(value: Any) -> Any:
    """Tensors and the like are told apart by identity."""
    return id(value)


def _tensors_of(root: Module) -> dict[Any, str]:
    """The tensors that are attributes in a module, and no parameters or buffers, by path."""
    found: dict[Any, str] = {}
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                found[_key(value)] = f"{path}.{name}" if path else name
    return found


def _defaults(function: Any) -> dict[str, Any]:
    """By parameter, the defaults of a function."""
    if hasattr(function, "__signature__"):  # else its code tells, without `inspect`: 30 us less
        parameters = inspect.signature(function).parameters.items()
        return {n: p.default for n, p in parameters if p.default is not inspect.Parameter.empty}
    given = function.__defaults__ or ()
    count = function.__code__.co_argcount
    names = function.__code__.co_varnames[count - len(given) : count]
    return dict(zip(names, given)) | (function.__kwdefaults__ or {})


def _all_positional(function: Callable[..., Any], count: int) -> FunctionType:
    """The function with ``*args`` and the like as plain parameters, so that they can be proxies."""
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=function.__code__.co_flags & ~_VARIADIC,
    )
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__annotations__ = function.__annotations__
    return made


def _by_keyword(function: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    """The function with its last parameters, which it takes by keyword, by position."""

    @functools.wraps(function)
    def positional(*args: Any) -> Any:
        at = len(args) - len(names)
        return function(*args[:at], **dict(zip(names, args[at:])))

    return positional


def assert_is_none(value: Any, msg: str) -> None:
    """AssertionError unless an input that was None when traced is None."""
    assert value is None, msg


_assert_is_none = assert_is_none
for _called_for_what_it_does in (
    _assert,
    assert_is_none,
    functions._assert_async,
    operator.setitem,
    set_grad_enabled,
):
    has_side_effect(_called_for_what_it_does)


@compatibility(is_backward_compatible=True)
def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Have traces record calls of a function, without tracing what is in it.

    Called at the top level of the module that has the function, with it or its name; or used as a
    decorator there. Gives back what it was given.

    Raises NotImplementedError elsewhere, RuntimeError for what is neither.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    assert caller is not None
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    Patcher.register(caller.f_globals, name)
    return fn_or_name


@compatibility(is_backward_compatible=True)
def symbolic_trace(
    root: Module | Callable[..., Any],
    concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
) -> GraphModule:
    """A module or function as a `GraphModule`; see `Tracer.trace`.

    >>> from maquette import fx
    >>> print(fx.symbolic_trace(lambda x, y: x * 2 + y).code.strip())
    def forward(self, x, y):
        mul = x * 2;  x = None
        add = mul + y;  mul = y = None
        return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)


__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "builtins",
    "symbolic_trace",
    "sys",
    "wrap",
]
