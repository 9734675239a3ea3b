"""`infer_schema`: from a Python signature to the text of a schema.

Which annotations have a schema type, and how defaults and mutation are written. The one idea: an
annotation is looked up in tables made once, from types to text; whatever is not in them is refused
with the parameter and the signature.
"""

from __future__ import annotations

import collections.abc
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from maquette.core.device import device
from maquette.core.dtype import dtype
from maquette.dispatch.tags import Tag
from maquette.tensor.tensor import Tensor

Number = int | float | bool
_UNIONS = (typing.Union, types.UnionType)
_NONE = type(None)
_NAMES: dict[object, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    dtype: "ScalarType",
    device: "Device",
}
_NUMBER_CLASSES = {int, float, bool}
# The elements that lists may have, and those of lists that may be None.
_ELEMENTS = ("Tensor", "Tensor?", "SymInt", "float", "bool", "Scalar")
_OPTIONAL_LISTS = ("SymInt", "float", "bool")
_LISTS = (list, collections.abc.Sequence)
_VALID = (
    "Tensor, int, float, bool, str, int | float | bool, torch.dtype, torch.device, Optional of "
    "each; list and Sequence of Tensor, Optional[Tensor], int, float, bool, int | float | bool; "
    "Optional of a list of int, float or bool; classes registered by register_opaque_type"
)


def infer_schema(
    prototype_function: Callable[..., object],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Tag | Sequence[Tag] = (),
) -> str:
    """The schema of a function from its annotations, nameless or with ``op_name`` before it.

    mutates_args: the names of the tensors that the function writes to, or "unknown" for all of
    them. Raises ValueError with the signature and the parameter for anything a schema cannot say.
    Unlike PyTorch 2.13 it also reads postponed element types (``List['Tensor']``) and callable
    objects.

    >>> def f(x: Tensor, n: int = 3, *, s: float = 2.5) -> Tensor: ...
    >>> infer_schema(f, mutates_args=())
    '(Tensor x, SymInt n=3, *, float s=2.5) -> Tensor'
    """
    given = [tags] if isinstance(tags, Tag) else list(tags)
    assert not {Tag.inplace, Tag.out} <= set(given), "the tags out and inplace exclude each other"
    reader = _Reader(prototype_function)
    parameters = reader.parameters()
    written = reader.written(parameters, mutates_args)
    _check_tagged(reader, given, parameters, written)
    arguments = ", ".join(reader.arguments(parameters, written))
    schema = f"({arguments}) -> {reader.returns(parameters, written, given)}"
    return schema if op_name is None else op_name + schema


class _Parameter:
    """One parameter: its name, the text of its type, its default, and how it is passed."""

    def __init__(self, name: str, type_: str, default: str, *, kwarg_only: bool, at: int) -> None:
        self.name = name
        self.type = type_
        self.default = default
        self.kwarg_only = kwarg_only
        self.at = at

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("Tensor")


class _Reader:
    """Reads one function's signature; all its errors show that signature."""

    def __init__(self, fn: Callable[..., object]) -> None:
        self.signature = inspect.signature(fn)
        self.space = _globals_of(fn)

    def fail(self, message: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {message}. Got func with signature {self.signature}")

    # --- parameters ------------------------------------------------------------------

    def parameters(self) -> list[_Parameter]:
        return [self._parameter(i, p) for i, p in enumerate(self.signature.parameters.values())]

    def _parameter(self, at: int, p: inspect.Parameter) -> _Parameter:
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            self.fail(
                f"the parameter {p.name} is {p.kind.description}; do not use positional-only, "
                f"*args or **kwargs parameters"
            )
        if p.annotation is p.empty:
            self.fail(f"the parameter {p.name} must have a type annotation")
        annotation = self._evaluated(p.annotation, f"the parameter {p.name}")
        type_ = self._type_text(annotation)
        if type_ is None:
            self._fail_type(p.name, annotation)
        default = "" if p.default is p.empty else self._default_text(p, type_)
        kwarg_only = p.kind is p.KEYWORD_ONLY
        return _Parameter(p.name, type_, default, kwarg_only=kwarg_only, at=at)

    def _evaluated(self, annotation: object, what: str) -> object:
        """An annotation as a type: strings are evaluated in the function's globals."""
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, self.space)
            except (NameError, SyntaxError, AttributeError, TypeError) as error:
                self.fail(
                    f"the annotation {annotation!r} of {what} cannot be evaluated ({error}). It is "
                    "a string, maybe from 'from __future__ import annotations' (postponed "
                    f"evaluation); names in it must be globals of the function's module"
                )
        if isinstance(annotation, typing.ForwardRef):
            return self._evaluated(annotation.__forward_arg__, what)
        arguments = typing.get_args(annotation)
        if not any(map(_is_postponed, arguments)):
            return annotation
        inside = tuple([self._evaluated(a, what) for a in arguments])
        origin = typing.get_origin(annotation)
        if origin in _UNIONS:
            return typing.Union[inside]  # noqa: UP007  # made of values
        return origin[inside] if origin is not None else annotation

    def _type_text(self, annotation: object) -> str | None:
        """The schema text of a parameter's annotation; None where it has none."""
        inner = _optional_inner(annotation)
        if inner is not None:
            text = self._plain_text(inner) or self._list_text(inner, _OPTIONAL_LISTS)
            return None if text is None else f"{text}?"
        return (
            self._plain_text(annotation)
            or self._list_text(annotation, _ELEMENTS)
            or _opaque_text(annotation, "reference", "value")
        )

    def _plain_text(self, annotation: object) -> str | None:
        if typing.get_origin(annotation) in _UNIONS:
            return "Scalar" if set(typing.get_args(annotation)) == _NUMBER_CLASSES else None
        return _NAMES.get(annotation) if isinstance(annotation, type) else None

    def _list_text(self, annotation: object, elements: Sequence[str]) -> str | None:
        if typing.get_origin(annotation) not in _LISTS:
            return None
        element, *_ = typing.get_args(annotation) or (object,)  # of a bare List, anything
        inner = _optional_inner(element)
        text = self._plain_text(element if inner is None else inner)
        text = text if inner is None or text is None else f"{text}?"
        return f"{text}[]" if text in elements else None

    def _fail_type(self, name: str, annotation: object) -> NoReturn:
        hint = ""
        arguments = typing.get_args(annotation)
        if typing.get_origin(annotation) is tuple and len(set(arguments) - {...}) == 1:
            element = self._plain_text(arguments[0])
            if element in _ELEMENTS:
                hint = f". For a tuple, annotate it as list[{_shown(arguments[0])}]"
        self.fail(
            f"the parameter {name} has the unsupported type {_shown(annotation)}{hint}. The valid "
            f"types are: {_VALID}"
        )

    def _default_text(self, p: inspect.Parameter, type_: str) -> str:
        text = _literal(p.default)
        if text is None or not _default_fits(p.default, type_):
            self.fail(
                f"the parameter {p.name} has a default of type {type(p.default).__name__} "
                f"({p.default!r}), which a parameter of type {type_} cannot have; defaults are "
                f"None, int, float, bool, str, torch.dtype or torch.device, of the parameter's type"
            )
        return text

    # --- what is written -------------------------------------------------------------

    def written(
        self, parameters: list[_Parameter], mutates_args: str | Iterable[str]
    ) -> dict[str, str]:
        """The alias annotation of each written parameter."""
        tensors = {p.name for p in parameters if p.is_tensor}
        if mutates_args == "unknown":
            names = tensors
        elif isinstance(mutates_args, str):
            self.fail(
                f"mutates_args is an iterable of parameter names or 'unknown', not {mutates_args!r}"
            )
        else:
            names = set(mutates_args)
        known = {p.name for p in parameters}
        if not names <= known:
            self.fail(f"{names - known} in mutates_args were not found among the parameters")
        for name in sorted(names - tensors):
            self.fail(f"mutates_args names '{name}', which is no Tensor or list of them")
        return {p.name: f"(a{p.at}!)" for p in parameters if p.name in names}

    def arguments(self, parameters: list[_Parameter], written: dict[str, str]) -> list[str]:
        """The arguments as the schema writes them."""
        texts: list[str] = []
        starred = False
        for p in parameters:
            if p.kwarg_only and not starred:
                texts.append("*")
                starred = True
            alias = written.get(p.name, "")
            type_ = p.type.replace("Tensor", f"Tensor{alias}", 1)
            texts.append(f"{type_} {p.name}" + (f"={p.default}" if p.default else ""))
        return texts

    # --- returns ---------------------------------------------------------------------

    def returns(
        self, parameters: list[_Parameter], written: dict[str, str], tags: list[Tag]
    ) -> str:
        """The text after the arrow."""
        annotation = self.signature.return_annotation
        if annotation is inspect.Signature.empty:
            self.fail("the return must have a type annotation")
        annotation = self._evaluated(annotation, "the return")
        if Tag.out in tags or Tag.inplace in tags:
            return self._written_returns(annotation, list(written.values()))
        if annotation is None or annotation is _NONE:
            return "()"
        arguments = typing.get_args(annotation)
        if typing.get_origin(annotation) is not tuple:
            return self._return_text(annotation)
        if annotation in (tuple, typing.Tuple) or ... in arguments:  # noqa: UP006  # the bare one
            self._fail_return(annotation)
        texts = [self._return_text(a) for a in arguments]
        return f"(({texts[0]}))" if len(texts) == 1 else f"({', '.join(texts)})"

    def _return_text(self, annotation: object) -> str:
        if typing.get_origin(annotation) is list and typing.get_args(annotation) == (Tensor,):
            return "Tensor[]"
        text = self._plain_text(annotation)
        if text not in ("Tensor", "SymInt", "float", "bool", "Scalar"):
            text = _opaque_text(annotation, "reference")
        if text is None:
            self._fail_return(annotation)
        return text

    def _fail_return(self, annotation: object) -> NoReturn:
        self.fail(
            f"the return has the unsupported type {_shown(annotation)}. The valid types are: None, "
            f"Tensor, list[Tensor], int, float, bool, int | float | bool, or a tuple of these"
        )

    def _written_returns(self, annotation: object, aliases: list[str]) -> str:
        """The returns of an operator tagged out or inplace: its written arguments, in order."""
        annotations = (annotation,)
        if typing.get_origin(annotation) is tuple:
            annotations = typing.get_args(annotation)
        if annotations != (Tensor,) * len(aliases):
            self.fail(
                f"the return must be {len(aliases)} Tensor(s), one for each written argument, but "
                f"is annotated {_shown(annotation)}"
            )
        texts = [f"Tensor{alias}" for alias in aliases]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _check_tagged(
    reader: _Reader, tags: list[Tag], parameters: list[_Parameter], written: dict[str, str]
) -> None:
    if Tag.inplace in tags:
        first = next((p for p in parameters if not p.kwarg_only), None)
        if first is None or first.type != "Tensor" or list(written) != [first.name]:
            reader.fail(
                "Tag.inplace: mutates_args must be exactly the first positional parameter, a "
                f"Tensor; it is {sorted(written)}"
            )
    if Tag.out in tags:
        outs = [p for p in parameters if p.name in written]
        if not outs or any(not p.kwarg_only or p.type != "Tensor" for p in outs):
            reader.fail(
                f"Tag.out: mutates_args must name keyword-only parameters of type Tensor, at least "
                f"one; it is {sorted(written)}"
            )


def _opaque_text(annotation: object, *types: str) -> str | None:
    """The schema type of a registered opaque class of one of these types."""
    if not isinstance(annotation, type):
        return None
    from maquette.library.objects.opaque_types import opaque_info  # noqa: PLC0415  # few programs have any

    info = opaque_info(annotation)
    return None if info is None or info.typ not in types else info.class_name


def _is_postponed(annotation: object) -> bool:
    """Whether an annotation has a string in it."""
    if isinstance(annotation, (str, typing.ForwardRef)):
        return True
    return any(map(_is_postponed, typing.get_args(annotation)))


def _globals_of(fn: object) -> dict[str, object]:
    """The globals in which a callable's annotations are to be read."""
    inner = inspect.unwrap(fn) if callable(fn) else fn
    while hasattr(inner, "func"):  # functools.partial
        inner = inner.func
    inner = getattr(inner, "__func__", inner)
    if not hasattr(inner, "__globals__"):
        inner = type(inner).__call__
    return dict(getattr(inner, "__globals__", {}))


def _optional_inner(annotation: object) -> object | None:
    """``T`` of ``Optional[T]``, where T may itself be a union; else None."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) not in _UNIONS or _NONE not in arguments:
        return None
    rest = tuple([a for a in arguments if a is not _NONE])
    return typing.Union[rest] if rest else None  # noqa: UP007  # made of values


def _shown(annotation: object) -> str:
    return annotation.__name__ if type(annotation) is type else str(annotation)


def _literal(value: object) -> str | None:
    """A default as the schema language writes it; None where it cannot."""
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return str(value) if not math.isnan(value) else "nan"
    if isinstance(value, dtype):
        return value.name
    if isinstance(value, (str, device)):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return None


def _default_fits(value: object, type_: str) -> bool:
    if value is None:  # of a type that does not say so too, as many write it
        return type_.endswith("?") or type_ in _DEFAULTS.keys() - {"Device"} | {"Tensor"}
    allowed = _DEFAULTS.get(type_.removesuffix("?"), ())
    return type(value) in allowed


_DEFAULTS: dict[str, tuple[type, ...]] = {
    "SymInt": (int, bool),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "Scalar": (int, float, bool),
    "ScalarType": (type(dtype), dtype),
    "Device": (device, str),
}
