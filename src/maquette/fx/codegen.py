"""How a graph is written as Python: `CodeGen` and what it yields, `PythonCode`.

The code is a user's program: it says ``import torch`` of the torch-named face and calls what it
calls by public names. The one idea: a `_Writer` gives each node one statement; whatever that
mentions that is no builtin becomes a global under a name of its own.
"""

from __future__ import annotations

import collections
import enum
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from maquette.core.device import device
from maquette.dispatch.base import OperatorBase
from maquette.fx.annotations import node_comment, value_text
from maquette.fx.magic import inplace_methods, magic_methods
from maquette.fx.names import Namespace, qualified_name, type_text
from maquette.fx.node import Argument, Node
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.graph import NodeList

BodyTransformer = Callable[[list[str]], list[str]]


# --- names that all generated code knows -----------------------------------------------------


class CustomBuiltin(typing.NamedTuple):
    """A global that generated code may use without asking: how it is imported, and what it is.

    obj: None for a module that the import statement finds when code first needs it.
    """

    import_str: str
    obj: Any


_CustomBuiltin = CustomBuiltin
_custom_builtins: dict[str, CustomBuiltin] = {}


def _register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """Let generated code use ``name`` for ``obj``, which ``import_str`` imports."""
    _custom_builtins[name] = CustomBuiltin(import_str, obj)


_register_custom_builtin("inf", "from math import inf", float("inf"))
_register_custom_builtin("nan", "from math import nan", float("nan"))
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
_register_custom_builtin("torch", "import maquette.torch as torch", None)
_register_custom_builtin("device", "from maquette.core.device import device", device)
_register_custom_builtin("fx_pytree", "import maquette.fx.pytree_spec as fx_pytree", None)
_register_custom_builtin("pytree", "import maquette.core.pytree as pytree", None)


def builtin_value(name: str) -> Any:
    """What generated code means by one of the names that it always knows."""
    known = _custom_builtins[name]
    if known.obj is None:
        module = import_module(known.import_str.split()[1])  # it may be of a higher layer
        known = _custom_builtins[name] = known._replace(obj=module)
    return known.obj


@dataclass
class PythonCode:
    """A graph as Python source.

    ``globals``: what the names mean that are not builtins. ``_lineno_map``: the number of the node
    that a line of the body comes from, by the number of the line, counted from the ``def``.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


# --- the writer ------------------------------------------------------------------------------

_MARK = "# COUNTER: "
_TYPING_NAMES = {
    list: typing.List,  # noqa: UP006  # `typing.List[int]` prints and compares as such
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


@dataclass(frozen=True)
class Style:
    """What generated code says besides what runs."""

    verbose: bool = False
    include_stride: bool = False
    include_device: bool = False


class _Writer:
    """Turns nodes into lines of one function's body, and gathers the globals these need."""

    def __init__(self, root: str, namespace: Namespace, style: Style) -> None:
        self.root = root
        self.namespace = namespace
        self.style = style
        self.body: list[str] = []
        self.parameters: list[str] = []
        self.returns = ""
        self.wrapped: dict[str, None] = {}
        self.globals: dict[str, Any] = {}
        self._last_uses: dict[Node, list[Node]] = {}
        self._comment = ""

    def add_global(self, hint: str, obj: Any) -> str:
        """The name under which the code reaches ``obj``, which becomes a global if need be."""
        if _is_public(hint, obj):
            return hint
        normalized = hint.replace(".", "_")
        known = self.globals.get(normalized, self.globals)
        if known is obj:
            return normalized
        name = self.namespace.create_name(normalized, obj)
        if name not in self.globals:
            self.globals[name] = obj
        return name

    def write(self, nodes: Iterable[Node]) -> None:
        """Add the statements of all nodes."""
        listed = list(nodes)
        self._last_uses = last_uses(listed)
        for i, node in enumerate(listed):
            if self.style.verbose:
                self._write_comment(node)
            self.body.append(f"{_MARK}{i}\n")
            getattr(self, f"_write_{node.op}")(node)
            self._write_deletions(node)

    def _write_comment(self, node: Node) -> None:
        comment = node_comment(node)
        if comment is None or comment == self._comment:
            return
        begun = any(not line.startswith(_MARK) for line in self.body)
        self._comment = comment
        self.body.append(f"\n{comment}\n" if begun else f"{comment}\n")

    def _write_deletions(self, node: Node) -> None:
        """Forget what is used for the last time, so that its memory can be freed."""
        if node.op == "placeholder":
            return
        if node.op == "output":
            self.body.append("\n")
            return
        over = [*self._last_uses.get(node, ()), *([] if node.users else [node])]
        names = " = ".join([*map(repr, over), "None"])
        self.body.append(f";  {names}\n" if over else "\n")

    # --- one method an op ------------------------------------------------------------

    def _write_placeholder(self, node: Node) -> None:
        default = f" = {self.text(node.args[0])}" if node.args else ""
        self.parameters.append(f"{node.target}{self._annotation(node)}{default}")
        plain = str(node.target).replace("*", "")
        if plain != repr(node):
            self.body.append(f"{node!r} = {plain}\n")

    def _write_call_method(self, node: Node) -> None:
        target = path_text(self.text(node.args[0]), str(node.target))
        self._assign(node, f"{target}({self.arguments(node.args[1:], node.kwargs)})")

    def _write_call_module(self, node: Node) -> None:
        target = path_text(self.root, str(node.target))
        self._assign(node, f"{target}({self.arguments(node.args, node.kwargs)})")

    def _write_get_attr(self, node: Node) -> None:
        self._assign(node, path_text(self.root, str(node.target)))

    def _write_output(self, node: Node) -> None:
        if node.type is not None:
            self.returns = f" -> {self.type_text(node.type)}"
        self.body.append(self.return_text(node))

    def return_text(self, node: Node) -> str:
        """The statement that returns a result; `CodeGen` replaces this."""
        return f"return {self.text(node.args[0])}"

    def _write_call_function(self, node: Node) -> None:
        target: Any = node.target
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", None) == "_operator":
            if name in magic_methods:
                self._assign(node, magic_methods[name].format(*map(self.text, node.args)))
                return
            if name in inplace_methods:
                self.body.append(
                    f"{inplace_methods[name].format(*map(self.text, node.args))};  "
                    f"{node!r}{self._annotation(node)} = {self.text(node.args[0])}"
                )
                return
        function = self.add_global(qualified_name(target), target)
        if function == "getattr" and _is_plain_getattr(node):
            self._assign(node, f"{self.text(node.args[0])}.{node.args[1]}")
            return
        if node.meta.get("is_wrapped", False):
            self.wrapped[function] = None
        self._assign(node, f"{function}({self.arguments(node.args, node.kwargs)})")

    def _assign(self, node: Node, value: str) -> None:
        self.body.append(f"{node!r}{self._annotation(node)} = {value}")

    def _annotation(self, node: Node) -> str:
        if node.type is not None:
            return f" : {self.type_text(node.type)}"
        if not self.style.verbose:
            return ""
        value = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
        shown = value_text(value, self.style.include_stride, self.style.include_device)
        return f': "{shown}"' if shown else ""

    # --- arguments -------------------------------------------------------------------

    def arguments(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> str:
        """What stands between the parentheses of a call."""
        named = [f"{key} = {self.text(value)}" for key, value in kwargs.items()]
        return ", ".join([*map(self.text, args), *named])

    def text(self, arg: Argument) -> str:
        """An argument as code."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple):
            if hasattr(arg, "_fields"):
                name = self.add_global(type_text(type(arg)), type(arg))
                return f"{name}({', '.join(map(self.text, arg))})"
            inner = ", ".join(map(self.text, arg))
            return f"({inner},)" if len(arg) == 1 else f"({inner})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.text, arg))}]"
        if isinstance(arg, dict):
            return f"{{{', '.join(f'{self.text(k)}: {self.text(v)}' for k, v in arg.items())}}}"
        if isinstance(arg, slice):
            return f"slice({self.text(arg.start)}, {self.text(arg.stop)}, {self.text(arg.step)})"
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type_text(type(arg)), type(arg))}.{arg.name}"
        if isinstance(arg, OperatorBase | types.FunctionType | type):
            name = type_text(arg) if isinstance(arg, type) else qualified_name(arg)
            return self.add_global(name, arg)
        if isinstance(arg, Tensor):
            return self.add_global("_tensor_constant", arg)
        return self._value_text(arg)

    def _value_text(self, arg: Any) -> str:
        """A constant as code; one of an opaque value type says how it is made."""
        if not hasattr(arg, "__fx_repr__"):
            return repr(arg)
        code, names = arg.__fx_repr__()
        for name, value in names.items():
            self.add_global(name, value)
        return str(code)

    def type_text(self, value: Any) -> str:
        """An annotation as code."""
        if value == ():
            return "()"
        if value is ...:
            return self.add_global("_", value)
        origin = typing.get_origin(value)
        arguments = typing.get_args(value)
        if isinstance(value, types.UnionType):
            return "|".join(map(self.type_text, arguments))
        if origin is None:
            return self.add_global(type_text(value), value)
        if isinstance(value, typing._GenericAlias):  # type: ignore[attr-defined]  # not `list[int]`
            origin = _TYPING_NAMES.get(origin, origin)
        name = self.add_global(type_text(origin), origin)
        if not arguments:
            return name
        return f"{name}[{','.join(map(self.type_text, arguments))}]"


def last_uses(nodes: list[Node]) -> dict[Node, list[Node]]:
    """By node, the nodes whose results it is the last to use."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
    return found


def path_text(base: str, path: str) -> str:
    """``base.a.b``, with `getattr` for what is no identifier."""
    for name in path.split("."):
        base = f"{base}.{name}" if name.isidentifier() else f'getattr({base}, "{name}")'
    return base


def _is_plain_getattr(node: Node) -> bool:
    args = node.args
    return len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier()


def _is_public(name: str, obj: Any) -> bool:
    """Whether code finds ``obj`` by ``name`` without a global of its own."""
    if obj is device or not name.startswith("torch."):
        return False
    if isinstance(obj, OperatorBase) or name.startswith("torch.ops."):
        return True
    at = builtin_value("torch")
    for part in name.split(".")[1:]:
        at = getattr(at, part, None)
    return at is obj or (isinstance(obj, types.FunctionType) and at is not None)


# --- code generators -------------------------------------------------------------------------


class CodeGen:
    """Writes a graph as a Python function; subclasses change its signature and its results."""

    # Functions to trace are written with this name.
    _func_name: str = "forward"

    def __init__(self) -> None:
        self._body_transformer: BodyTransformer | None = None

    def _format_multiline_args(self, args: list[str]) -> str:
        return "".join([f"{arg},\n" for arg in args])

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The line ``def forward(self, ...):``; free_vars: the parameters as they are written."""
        # If the original function did not have self as its first argument, we would have added it.
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            inner = "".join([f"\n    {v}," for v in free_vars])
            return f"def {self._func_name}({inner}\n){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: object | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """The statement that returns; repr_fn: writes the result, `repr` by default."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as the placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The result of the output node as the function returns it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the function uses besides those of the nodes, with what they mean."""
        return []

    def _gen_python_code(
        self,
        nodes: NodeList | Iterable[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
    ) -> PythonCode:
        """See `Graph.python_code`."""
        writer = _Writer(root_module, namespace, Style(verbose, include_stride, include_device))
        if type(self).generate_output is not CodeGen.generate_output:
            writer.return_text = lambda node: self.generate_output(  # type: ignore[method-assign]
                _AsCode(node.args[0], writer)
            )
        for name in _custom_builtins:
            writer.globals[name] = builtin_value(name)
            namespace.create_name(name, writer.globals[name])
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        writer.write(nodes)
        return self._assembled(writer, expanded_def)

    def _assembled(self, writer: _Writer, expanded_def: bool) -> PythonCode:
        body = writer.body or ["pass\n"]
        if not any(not line.startswith(_MARK) for line in body):
            body.append("pass\n")
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        wrap_lines = ""
        if writer.wrapped:
            wrap = writer.add_global("torch.fx._symbolic_trace.wrap", _wrap())
            wrap_lines = "\n".join([f'{wrap}("{name}")' for name in writer.wrapped])
        prologue = (
            self.gen_fn_def(writer.parameters, writer.returns)
            if not expanded_def
            else (self.gen_fn_def(writer.parameters, writer.returns, expanded_def=True))
        )
        lines, numbers = _without_marks("".join(body).lstrip("\n"), prologue.count("\n"))
        code = "\n".join([f"    {line}" for line in lines])
        source = f"\n{wrap_lines}\n\n{prologue}\n{code}"
        start = wrap_lines.count("\n") + 1
        return PythonCode(source, writer.globals, numbers, start)


class _AsCode:
    """An output's argument whose ``repr`` is how code writes it; for `CodeGen.generate_output`."""

    def __init__(self, value: Argument, writer: _Writer) -> None:
        self.value = value
        self._writer = writer

    def __repr__(self) -> str:
        return self._writer.text(self.value)

    def __iter__(self) -> Any:
        return iter([_AsCode(v, self._writer) for v in self.value])

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, at: Any) -> Any:
        return _AsCode(self.value[at], self._writer)


def _without_marks(body: str, offset: int) -> tuple[list[str], dict[int, int | None]]:
    """The lines of a body, and the number of the node that each comes from."""
    lines: list[str] = []
    numbers: dict[int, int | None] = {}
    current: int | None = None
    for line in body.split("\n"):
        if line.startswith(_MARK):
            current = int(line[len(_MARK) :])
            continue
        lines.append(line)
        numbers[len(lines) + offset] = current
    return lines, numbers


def _wrap() -> Any:
    from maquette.fx.tracing.tracer import wrap  # noqa: PLC0415  # the tracer makes graphs

    return wrap


__all__ = ["CodeGen", "CustomBuiltin", "PythonCode", "collections"]
