"""`GraphModule`: a module whose ``forward`` is a graph, written as Python and compiled.

Every instance has a class of its own, since ``forward`` is the class's. What the code is is
`codegen.py`'s business; here it is made into a function with its source in tracebacks, and the
module is copied, pickled and written to a folder.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

from maquette.dispatch.generated import generate_in
from maquette.fx import saving
from maquette.fx.codegen import PythonCode, _custom_builtins
from maquette.fx.compatibility import compatibility
from maquette.fx.graph import Graph
from maquette.fx.node import Node
from maquette.fx.pytree_codegen import PyTreeCodeGen
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter
from maquette.tensor.tensor import Tensor

_numbers = itertools.count()
_OWN_FILES = __file__.rpartition("fx")[0]  # the package


# --- source to function ----------------------------------------------------------------------


def forward_from_source(source: str, names: dict[str, Any], label: str = "") -> FunctionType:
    """The function ``forward`` of generated source, which tracebacks will show."""
    file = f"<eval_with_key>.{next(_numbers)}{f' from {label}' if label else ''}"
    forward = generate_in(file, source, "forward", dict(names))
    assert isinstance(forward, FunctionType)
    return forward


_forward_from_src = forward_from_source

# What is kept of a module's attributes when it is traced and transformed.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class _CodeOnlyModule(Module):
    """A module made of the attributes of another, without what makes those of its class."""

    def __init__(self, body: dict[str, object]) -> None:
        super().__init__()
        self.__dict__ = body


# --- attributes by path ----------------------------------------------------------------------


def parent_of(module: Any, path: str) -> tuple[Any, str]:
    """The module that a path's last name is in, made of empty modules where there is none."""
    *prefix, last = path.split(".")
    for name in prefix:
        inner = getattr(module, name, None)
        if inner is None:
            inner = Module()
            setattr(module, name, inner)
        module = inner
    return module, last


def copy_attribute(from_module: Any, to_module: Module, path: str) -> None:
    """Give one module what another has at a path, the same object."""
    *prefix, last = path.split(".")
    for name in prefix:
        from_module = getattr(from_module, name)
        inner = getattr(to_module, name, None)
        if inner is from_module:
            return  # a submodule that is copied as a whole
        if inner is None:
            inner = Module()
            setattr(to_module, name, inner)
        to_module = inner
    set_attribute(to_module, last, getattr(from_module, last))


def set_attribute(module: Any, name: str, value: Any) -> None:
    """Set an attribute; a tensor that is no parameter becomes a buffer."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


_copy_attr = copy_attribute


def _assign_attr(value: Any, module: Any, path: str) -> None:
    """Set the attribute at a path, with empty modules on the way."""
    owner, name = parent_of(module, path)
    set_attribute(owner, name, value)


def _get_attr(model: Any, path: str) -> Any:
    """The attribute at a path."""
    for name in path.split("."):
        model = getattr(model, name)
    return model


class _LateForward:
    """Stands for ``forward`` in the class of a graph module until it is asked for."""

    def __init__(self, module: GraphModule) -> None:
        self._module = weakref.ref(module)

    def __get__(self, module: GraphModule | None, cls: type) -> Any:
        owner = self._module()
        assert owner is not None, "a graph module's forward is asked for when the module is gone"
        owner.recompile()
        made: Any = vars(type(owner))["forward"]
        return made if module is None else made.__get__(module, cls)


# --- the module ------------------------------------------------------------------------------


@compatibility(is_backward_compatible=True)
class GraphModule(Module):
    """A module that runs a graph; `recompile` after changing the graph.

    root: a module, of which the attributes that the graph names are taken over, or a dict that has
    them by path; RuntimeError for one that it has not.
    """

    _mq_asks_for_members = False  # its `__getattr__` makes the code when it is first wanted
    meta: dict[str, Any]
    _graph: Graph
    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        """An instance of a new class, so that it can have a ``forward`` of its own."""
        base = next(c for c in cls.__mro__ if c.__qualname__.split(".")[-1] != "GraphModuleImpl")

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]  # found at run time
            __module__ = GraphModule.__module__

        made = super().__new__(GraphModuleImpl)
        assert isinstance(made, GraphModule)
        return made

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        self.__class__.__name__ = class_name
        if isinstance(root, Module):
            self._take_from_module(root, graph)
        elif isinstance(root, dict):
            self._take_from_dict(root, graph)
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        local = "<locals>" in getattr(graph._tracer_cls, "__qualname__", "")
        # Straight into the dict: `Module.__setattr__` looks for members first, 2 us each.
        self._mq_attributes.update(
            meta={},
            _tracer_cls=None if local else graph._tracer_cls,  # else it could not be pickled
            _tracer_extras=graph._tracer_extras,
        )
        object.__setattr__(self, "graph", graph)
        # A tracer's root is mostly an empty module, which would look for it at length.
        if isinstance(root, Module) and ("meta" in root._mq_attributes or type(root) is not Module):
            self.meta.update(getattr(root, "meta", {}))

    def _take_from_module(self, root: Module, graph: Graph) -> None:
        if hasattr(root, "training"):
            self._mq_attributes["training"] = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                assert isinstance(node.target, str)
                copy_attribute(root, self, node.target)

    def _take_from_dict(self, root: dict[str, Any], graph: Graph) -> None:
        paths: list[str] = []
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                assert isinstance(node.target, str)
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        f"provided in ``root``!"
                    )
                paths.append(node.target)
        for path in sorted(paths, key=lambda path: path.count(".")):  # what contains others first
            _assign_attr(root[path], self, path)

    # --- the graph -------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that runs; assigning another recompiles."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        assert isinstance(g, Graph), f"Expected a Graph instance, but got {type(g)}"
        self._mq_attributes["_graph"] = g
        g.owning_module = self
        self._write_later()

    def _write_later(self) -> None:
        """Have the code written when it is first asked for; many graphs are never run."""
        cls: Any = type(self)
        for name in ("_code", "_lineno_map", "_prologue_start"):
            self._mq_attributes.pop(name, None)
        self._set_specs()
        cls.forward = _LateForward(self)
        cls.__call__ = _calling(cls)

    def _set_specs(self) -> None:
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen) and codegen.pytree_info is not None:
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec

    def __getattr__(self, name: str) -> Any:
        if name in ("_code", "_lineno_map", "_prologue_start") and "_graph" in self._mq_attributes:
            self.recompile()
            return self._mq_attributes[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @compatibility(is_backward_compatible=True)
    def recompile(self) -> PythonCode:
        """Write the graph as Python again and run that from now on."""
        self._set_specs()
        written = self._graph.python_code(root_module="self")
        self._code = written.src
        self._lineno_map = written._lineno_map
        self._prologue_start = written._prologue_start
        cls: Any = type(self)
        cls.forward = forward_from_source(self._code, written.globals, self._label())
        cls.__call__ = _calling(cls)
        return written

    def _label(self) -> str:
        """Where the traced program is, for the file name of the generated code."""
        fields = getattr(self._graph, "_co_fields", None)
        if not fields:
            return ""
        return f"{fields['co_filename']}:{fields['co_firstlineno']} in {fields['co_name']}"

    @property
    def code(self) -> str:
        """The graph as Python source."""
        return self._code

    # --- submodules ------------------------------------------------------------------

    @compatibility(is_backward_compatible=False)
    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a path; False where something else than a module is on the way."""
        *prefix, last = target.split(".")
        at: Any = self
        for name in prefix:
            inner = getattr(at, name, None)
            if inner is None:
                inner = Module()
                setattr(at, name, inner)
            if not isinstance(inner, Module):
                return False
            at = inner
        at.add_module(last, m)
        return True

    @compatibility(is_backward_compatible=False)
    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path; False where there is none."""
        *prefix, last = target.split(".")
        at: Any = self
        for name in prefix:
            at = getattr(at, name, None)
            if not isinstance(at, Module):
                return False
        if not isinstance(getattr(at, last, None), Module):
            return False
        delattr(at, last)
        return True

    @compatibility(is_backward_compatible=False)
    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node calls or fetches from, nor are within one that is."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            assert isinstance(node.target, str)
            parts = node.target.split(".")
            used |= {".".join(parts[:i]) for i in range(1, len(parts) + 1)}
            if node.op == "call_module":
                try:
                    called = self.get_submodule(node.target)
                except AttributeError:
                    continue
                used |= {f"{node.target}.{name}" for name, _ in called.named_modules()}
        for path in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(path)

    # --- text ------------------------------------------------------------------------

    @compatibility(is_backward_compatible=False)
    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of this module and of graph modules in it, with shapes and source lines.

        print_output: print it too.
        """
        shown = readable(
            self, self._get_name(), include_stride, include_device, expanded_def=expanded_def
        )
        if print_output:
            print(shown)  # noqa: T201  # it is asked to
        return shown

    def __str__(self) -> str:
        shown = super().__str__()
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([shown, self._code, hint])

    # --- copies ----------------------------------------------------------------------

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)  # of that name, as PyTorch's copies are
        self.graph.owning_module = self  # making the copy has taken it over
        made.meta = dict(self.meta)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        state = {k: v for k, v in self._mq_attributes.items() if k != "_graph"}
        made._mq_attributes.update(copy.deepcopy(state, memo))
        made.__class__.__name__ = "GraphModule"
        made.graph = copy.deepcopy(self._graph, memo)
        for hook in self._graph._deepcopy_hooks:
            hook(made)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """The state and the code, as PyTorch reads them; the graph itself is for `load_module`."""
        written = self.recompile()
        body = {k: v for k, v in self._mq_shown().items() if k not in _NOT_PICKLED}
        base = next(
            c
            for c in type(self).__mro__
            if c.__qualname__.split(".")[-1] != "GraphModuleImpl" and c is not type(self)
        )
        if body.get("_tracer_extras") is None:
            body.pop("_tracer_extras", None)  # PyTorch has it only where there are some
        body["_graphmodule_cls_name"] = self._get_name()
        body["_code"] = written.src
        body[saving.RECORDS] = saving.records_in_bytes(base, self._graph, written.src)
        return reduce_graph_module, (body, saving.import_block(written.globals))

    def _replicate_for_data_parallel(self) -> GraphModule:
        made = type(self).__new__(type(self))
        made._mq_attributes.update(self._mq_attributes)
        made._is_replica = True
        cls: Any = type(made)
        cls.forward, cls.__name__ = type(self).forward, self._get_name()
        cls.__call__ = _calling(cls)
        return made

    # --- hooks -----------------------------------------------------------------------

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        """Have ``f(old, new, user)`` called when a node uses another one instead, for a block."""
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        assert callable(f), "replace_node hook must be a callable."
        self._graph._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._graph._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        assert callable(f), "create_node hook must be a callable."
        self._graph._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._graph._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        assert callable(f), "erase_node hook must be a callable."
        self._graph._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], Any]) -> None:
        self._graph._erase_node_hooks.remove(f)

    # --- files -----------------------------------------------------------------------

    @compatibility(is_backward_compatible=False)
    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Write a Python package that has this module as the class ``module_name``.

        Weights are beside it in ``state_dict.pt``; submodules are pickled one by one.
        """
        saving.write_folder(self, Path(folder), module_name)


class _Carrier(Module):
    """A plain module, to hold state while it is copied."""

    def __init__(self) -> None:
        super().__init__()


_NOT_PICKLED = ("_graph", "_code", "_lineno_map", "_prologue_start", "_in_spec", "_out_spec")


def _calling(cls: Any) -> Callable[..., Any]:
    """``__call__`` of a graph module's class: errors say which line of the graph failed."""

    def __call__(self: GraphModule, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return super(cls, self).__call__(*args, **kwargs)
        except Exception as error:
            _name_line(self, error)
            raise

    return __call__


def _name_line(module: GraphModule, error: Exception) -> None:
    """Add to an error the line of the graph's code in which it came up, the innermost's first.

    The line and its neighbours are written to stderr, too, for programs that look for it there,
    as PyTorch writes it.
    """
    code = type(module).forward.__code__
    at = found = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        own = frame.f_code.co_filename.startswith((_OWN_FILES, "<maquette"))
        if not own or (
            frame.f_code.co_name == "forward" and isinstance(frame.f_locals.get("self"), Module)
        ):
            found = at  # the innermost frame of a module, or that is not of this package
        at = at.tb_next
    if found is None or found.tb_frame.f_code is not code:
        return
    at = found
    lines = linecache.getlines(code.co_filename)
    says = (
        f"Call using an FX-traced Module, line {at.tb_lineno} of the traced Module's "
        f"generated forward function:"
    )
    *before, line = [text.rstrip() for text in lines[: at.tb_lineno]][-2:] or [""]
    after = [text.rstrip() for text in lines[at.tb_lineno : at.tb_lineno + 2]]
    error.add_note(f"{says} {line.strip()}")
    sys.stderr.write("\n".join([says, *before, line, "~~~ <--- HERE", *after, ""]))


def readable(
    module: Any,
    name: str,
    include_stride: bool = False,
    include_device: bool = False,
    *,
    expanded_def: bool = False,
) -> str:
    """See `GraphModule.print_readable`."""
    graph = getattr(module, "graph", None)
    assert isinstance(graph, Graph), "print_readable must be used on a module with a graph"
    code = graph.python_code(
        "self",
        verbose=True,
        include_stride=include_stride,
        include_device=include_device,
        expanded_def=expanded_def,
    ).src.lstrip("\n")
    parts = [indented(f"class {name}(torch.nn.Module):\n{code}")]
    for child_name, child in module.named_children():
        if hasattr(child, "graph"):
            inner = readable(
                child, child_name, include_stride, include_device, expanded_def=expanded_def
            )
            parts.append(indented(f"\n{inner}"))
    return "\n".join(parts) if len(parts) == 1 else "".join(parts)


def indented(text: str, by: int = 4) -> str:
    """All lines but the first moved in; blank ones left empty."""
    first, *rest = text.split("\n")
    return "\n".join([first, *[f"{' ' * by}{line}" if line.strip() else "" for line in rest]])


@compatibility(is_backward_compatible=True)
def reduce_graph_module(body: dict[Any, Any], import_block: str) -> Any:
    """A graph module of the state that PyTorch pickles: its code is run and traced again.

    Where the state has the graph itself, and its code still, nothing is traced.
    """
    records = body.pop(saving.RECORDS, None)
    found = None if records is None else saving.records_of_code(records, body.get("_code"))
    if found is not None:
        name = body.pop("_graphmodule_cls_name")
        del body["_code"]
        return saving.load_module(found[0], name, body, found[1])
    from maquette.fx.tracing.tracer import Tracer  # noqa: PLC0415  # the tracer makes graph modules

    class KeepModules(Tracer):
        def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
            return True

    carrier = _Carrier()
    carrier.__dict__.update(body)
    source = saving.imports_from_here(import_block) + (body.get("_code") or body["code"])
    cls: Any = type("_Carrier", (_Carrier,), {"forward": forward_from_source(source, {})})
    carrier.__class__ = cls
    graph = KeepModules().trace(carrier)
    made = GraphModule(carrier, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    made.__dict__.update({k: v for k, v in body.items() if k not in made.__dict__})
    return made


_custom_builtins = _custom_builtins  # by PyTorch's name for this module
__all__ = ["GraphModule", "forward_from_source", "reduce_graph_module"]
