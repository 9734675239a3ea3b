"""Torch-named functions and methods, derived from the operators.

A *face* is a Python function over a packet of overloads: it takes what ``torch.sum`` or
``Tensor.view`` takes (sizes as separate integers, ``axis`` for ``dim``, ``input`` for ``self``,
Python types for dtypes, ``requires_grad`` of factories) and calls the overload that fits. No
operator is written again here; names that are no operators are in `creation.py` and `attach.py`.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable
from inspect import Parameter
from typing import Any, cast

from maquette.api.descriptions import description
from maquette.api.function_homes import FAMILIES, function_home
from maquette.api.inspection import LateSignature, parameters_of
from maquette.api.other_forms import other_forms
from maquette.api.result_classes import result_class
from maquette.api.signatures import fits, refused
from maquette.core.device import cpu, device
from maquette.core.dtype import dtype, int64
from maquette.core.errors import check
from maquette.core.fitting import check_int
from maquette.core.promotion import PYTHON_DTYPES
from maquette.core.size import Size
from maquette.dispatch.modes import WATCHED
from maquette.dispatch.operator import OpOverload, failed_to_bind
from maquette.dispatch.registry import OpOverloadPacket, find_packet, ops
from maquette.dispatch.schemas.choosing import classes_of
from maquette.dispatch.schemas.matching import MatchError
from maquette.dispatch.schemas.schema import Argument
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import (
    Overridden,
    call_with_defaults,
    is_overridden,
    offered,
    offered_in_python,
    offered_member,
)
from maquette.symbolic.numbers import SymInt
from maquette.tensor.tensor import Tensor

Face = Callable[..., Any]  # what an operator returns, its schema says
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}
_SYNONYMS = {**_NUMPY_NAMES, "input": "self", "x1": "self", "x2": "other"}
_DTYPES = frozenset((dtype, type(None)))
_LISTS = frozenset((list, tuple, Size))
_INTS = frozenset((int, SymInt))


def default_device() -> device | None:
    """Where this thread's factories put tensors that are told no device; None: nothing was said."""
    return cast("device | None", tls.st.default_device)


def face_of(packet: OpOverloadPacket, *, method: bool) -> Face:
    """The Python function for a packet; ``method``: its first argument is the tensor itself."""
    forms = _Forms(packet, at=1 if method else 0)
    full = _full(forms)
    face = full if forms.lenient or forms.said else _quick(forms, full)
    if forms.factory and face is not full:
        face = _where_nothing_is_said(full, face)
    if any(_gives_list(o) for o in forms.overloads):
        face = _giving_tuples(face)
    elif forms.name.startswith("_foreach_") and forms.name.endswith("_"):
        face = _giving_first(face)
    named = _named_results(forms.name, forms.overloads)
    if named:
        face = _giving_names(face, named)
    if forms.name in _DTYPES_FOR_NONE and not method:
        face = _with_dtype(face, _DTYPES_FOR_NONE[forms.name])
    if forms.mean_at is not None:
        face = _unreduced_unless_told(face, forms.mean_at)
    forms.face = face
    face.__name__ = forms.name
    face.__qualname__ = f"Tensor.{forms.name}" if method else forms.name  # where pickle looks
    face.__module__ = "maquette"
    face.__doc__ = description(packet)
    face.__signature__ = forms.signature()  # type: ignore[attr-defined]  # `inspect` asks for it
    return face


def requiring_grad(made: Tensor, requires_grad: bool) -> Tensor:
    """A tensor that a factory made, as a leaf that requires grad; TypeError if no bool says so."""
    kind = made.meta.dtype
    check(
        kind.is_floating_point or kind.is_complex,
        lambda: (
            f"Only Tensors of floating point and complex dtype can require gradients; this is "
            f"{kind}"
        ),
    )
    return made.requires_grad_(requires_grad)


class _Forms:
    """The overloads of a packet, and the forms of a call that a function takes and they do not.

    at: where the first parameter is that may be given as several integers.
    """

    face: Face
    """The function that programs call."""

    def __init__(self, packet: OpOverloadPacket, at: int) -> None:
        overloads = self.overloads = packet.usual_overloads()
        self.packet = packet
        self.name = packet.__name__
        self.at = at
        self.in_python = _IN_PYTHON.get(self.name) if at else None
        # Whether it is a method that takes nothing: handlers are told of plain tensors too.
        self.alone = bool(at) and not any(_takes_more(o) for o in overloads)
        self.only = overloads[0] if len(overloads) == 1 else None
        positional = [[a for a in o._schema.arguments if not a.kwarg_only][at:] for o in overloads]
        one_list = [p for p in positional if _one_list(p)]
        self.listed = bool(one_list) and not any(_takes_one_int(p) for p in positional)
        # ``squeeze(0, 1)``: one integer means another overload, several are one list.
        self.also_listed = bool(at) and any(len(p) == 1 for p in one_list)
        self.schemas = [frozenset(a.name for a in o._schema.arguments) for o in overloads]
        # Keywords that mean the same to the overloads; others are translated first.
        self.plain = frozenset.union(*self.schemas) - {"out"} if self.schemas else frozenset()
        self.mean_at = _place_of_mean(overloads) if "reduction" in self.plain else None
        self.written = _written_names(overloads)
        self.takes_device = any("device" in names for names in self.schemas)
        self.mixed = self.takes_device and any(
            "device" not in names and "out" not in names for names in self.schemas
        )
        self.factory = self.takes_device and any(_is_factory(o) for o in overloads)
        self.said = _said(self.schemas)
        self.lenient = _bool_or_dim(overloads, 1)

    def refused(
        self, error: MatchError, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> TypeError:
        """The error for a call that no overload takes, in a function's words."""
        return refused(self.name, self.overloads, error, args, kwargs, method=bool(self.at))

    def signature(self) -> LateSignature:
        """What `inspect.signature` is told: the parameters of the overloads, put together."""
        return LateSignature.of(self._parameters)

    def _parameters(self) -> list[Parameter]:
        if self.in_python is not None:
            return [*inspect.signature(self.in_python).parameters.values()]
        found = list(
            parameters_of(
                self.overloads,
                method=bool(self.at),
                listed=self.listed,
                makes=self.takes_device,
                synonyms=_NUMPY_NAMES,
            )
        )
        if self.mean_at is None:
            return found
        return [p.replace(default=0) if p.name == "reduction" else p for p in found]

    def other_form(
        self, full: Face, error: MatchError, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Call again as older forms and misnamed keywords mean it; else the error."""
        listed = args[self.at :]
        if self.also_listed and len(listed) > 1 and {type(size) for size in listed} <= _INTS:
            return full(*args[: self.at], listed, **kwargs)
        if any(isinstance(value, type) for value in args):  # ``x.view(int)``
            meant = tuple(PYTHON_DTYPES.get(v, v) if isinstance(v, type) else v for v in args)
            if meant != args:
                return full(*meant, **kwargs)
        for positional, named in other_forms(self.name, args, kwargs, self.overloads):
            with contextlib.suppress(TypeError):
                return full(*positional, **named)
        for overload in self.packet.seldom_overloads():
            if Tag.generated in overload.tags and self.name not in _GENERATED_FORMS:
                continue
            named = kwargs
            if isinstance(kwargs.get("out"), (tuple, list)):
                named = _several_outs(kwargs, _written_names([overload]))
            if fits(overload, args, named):
                return overload.call_as_public(args, named)
        for value in (*args, *kwargs.values()):
            check_int(value)
        raise self.refused(error, args, kwargs) from None

    def translated(self, full: Face, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Call with keywords under the schema's names, ``requires_grad`` and the default device."""
        unknown = {"out"} if self.at else set()
        if self.in_python is not None:  # such a method knows no other names than its own
            unknown = kwargs.keys() - inspect.signature(self.in_python).parameters
        for name in kwargs.keys() & unknown:
            raise TypeError(f"{self.name}() got an unexpected keyword argument {name!r}")
        kwargs = _translate(self.name, kwargs, self.schemas)
        if isinstance(kwargs.get("out"), (tuple, list)):
            kwargs = _several_outs(kwargs, self.written)
        grad: Any = kwargs.pop("requires_grad", False) if self.takes_device else False
        if default_device() is not None and kwargs.get("device") is None:
            if self.factory and not self.of_tensors(args, kwargs):
                kwargs["device"] = default_device()
        try:
            result = (self.only or self.packet).call_as_public(args, kwargs)
        except MatchError as error:
            result = self.other_form(full, error, args, kwargs)
        if grad and isinstance(result, Tensor):
            requiring_grad(result, grad)
        return result

    def of_tensors(self, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Whether a call is of tensors, by a form that is no factory: `normal` has both."""
        return self.mixed and any(isinstance(a, Tensor) for a in (*args, *kwargs.values()))

    def told(self, kwargs: dict[str, object]) -> dict[str, object]:
        """Keywords as modes see them: a factory's say where its result is, as in PyTorch."""
        named = {**self.said, **kwargs}
        if self.factory:
            named = {"device": default_device() or cpu, **named}
        if named.get("pin_memory", 0) is None:
            named["pin_memory"] = False
        return named

    def with_dimension(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """``x.var(0)`` names a dimension: functions take no integer for a bool, operators do."""
        kwargs = _translate(self.name, kwargs, self.schemas)
        args = (args[0], operator.index(cast("int", args[1])), *args[2:])
        strict = [o for o in self.overloads if o not in self.lenient]
        chosen = next((o for o in strict if fits(o, args, kwargs)), strict[0])
        try:
            return chosen.call_as_public(args, kwargs)
        except MatchError as error:
            raise self.refused(error, args, kwargs) from None

    def gathered(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments with sizes that were given one by one as one tuple: ``x.view(2, 3)``."""
        at = self.at
        first = args[at] if self.listed and len(args) > at else None
        is_int = isinstance(first, (int, SymInt)) and first.__class__ is not bool
        if first is not None and (len(args) > at + 1 or is_int):
            if is_int or hasattr(first, "__index__"):
                return (*args[:at], args[at:])
        return args


# Methods that PyTorch has in Python: handlers are told these parameters, defaults by name.
_IN_PYTHON: dict[str, Callable[..., object]] = {
    "split": lambda self, split_size, dim=0: None,
    "unflatten": lambda self, dim, sizes: None,
    "istft": lambda self, n_fft, hop_length=None, win_length=None, window=None, center=True,
    normalized=False, onesided=None, length=None, return_complex=False: None,
}  # fmt: skip


def _takes_more(overload: OpOverload) -> bool:
    """Whether a method takes anything besides its tensor by an overload."""
    given = [a for a in overload._schema.arguments if not (a.kwarg_only and a.is_write)]
    return len(given) > 1


def _full(forms: _Forms) -> Face:
    """The function that takes all forms of a call."""
    plain, only, packet = forms.plain, forms.only, forms.packet

    def full(*args: object, **kwargs: object) -> object:
        try:
            if forms.lenient and len(args) > 1 and _names_dimension(args[1]):
                return forms.with_dimension(args, kwargs)
            given, named = forms.gathered(args), kwargs
            odd = kwargs and not (
                kwargs.keys() <= plain and kwargs.get("dtype").__class__ in _DTYPES
            )
            if forms.takes_device and tls.st.include & WATCHED and "out" not in kwargs:
                named = kwargs if forms.of_tensors(args, kwargs) else forms.told(kwargs)
            if odd or (forms.factory and default_device() is not None):
                return forms.translated(full, given, named)
            # Straight to the generated entry: 0.6 us less than by translation (make bench).
            if only is None:
                return packet.call_as_public(given, named)
            return only.public_call(*given, **named) if named else only.public_call(*given)
        except Overridden:
            overridden = True  # errors of handlers are not to name this one
        except MatchError as error:
            return forms.other_form(full, error, given, named)
        except TypeError as error:
            if not failed_to_bind(error):
                raise
            overridden = False
        if not overridden:
            with contextlib.suppress(Overridden):
                return forms.translated(full, given, named)
        if forms.in_python is not None:
            return offered_in_python(forms.face, *call_with_defaults(forms.in_python, args, kwargs))
        ask = offered_member if forms.alone else offered
        return ask(forms.face, args, kwargs)

    return full


def _quick(forms: _Forms, full: Face) -> Face:
    """`full` for the common forms of a call: lists as lists, keywords that mean an overload."""
    at, only, listed, by_class = forms.at, forms.only, forms.listed, forms.packet.by_class
    # The keywords with which the only overload is called as it stands.
    as_it_stands = only is not None and not listed and not forms.takes_device
    names = forms.plain - {"dtype"} if as_it_stands else frozenset()

    def one(*args: object, **kwargs: object) -> object:
        """`quick` where there is one overload, and no list that may be written one by one."""
        if kwargs and not kwargs.keys() <= names:
            return quick(*args, **kwargs)
        try:
            return only.public_call(*args, **kwargs) if kwargs else only.public_call(*args)  # type: ignore[union-attr]  # there is one
        except Overridden:
            pass
        except MatchError as error:
            return forms.other_form(full, error, args, kwargs)
        except TypeError as error:
            if not failed_to_bind(error):
                raise
        return full(*args, **kwargs)

    def quick(*args: object, **kwargs: object) -> object:
        given, chosen = args, None
        if kwargs:
            # What is remembered by classes was matched as it stands: nothing is to be translated.
            if kwargs.keys() <= names:
                chosen = only
            elif not (listed or (at and "out" in kwargs)):  # methods have no `out`
                chosen = by_class.get(classes_of(args, kwargs))
        else:
            if listed and not (len(args) == at + 1 and args[at].__class__ in _LISTS):
                if len(args) <= at or args[at].__class__ not in _INTS:
                    return full(*args)
                given = (*args[:at], args[at:])  # sizes one by one
            # Two are most: written out, the call too, 0.15 us less (timeit, CPython 3.11).
            if len(given) == 2:
                one, two = given
                chosen = only or by_class.get((type(one), type(two)))
            else:
                chosen = only or by_class.get(tuple(map(type, given)))
        if chosen is None:
            return full(*args, **kwargs)
        try:
            if kwargs:
                return chosen.public_call(*given, **kwargs)
            return chosen.public_call(one, two) if len(given) == 2 else chosen.public_call(*given)
        except Overridden:
            pass
        except MatchError as error:
            if only is None and not fits(chosen, given, kwargs):
                return full(*args, **kwargs)
            return forms.other_form(full, error, given, kwargs)
        except TypeError as error:
            if not failed_to_bind(error):
                raise
        return full(*args, **kwargs)

    return one if only is not None and not listed else quick


def _where_nothing_is_said(full: Face, quick: Face) -> Face:
    """`quick` for calls of factories to which nothing is to be added (`rand(10)`: 8 to 6.5 us)."""

    def made(*args: object, **kwargs: object) -> object:
        st = tls.st
        if kwargs or st.default_device is not None or st.include & WATCHED:
            return full(*args, **kwargs)
        return quick(*args)

    return made


def _named_results(name: str, overloads: list[OpOverload]) -> dict[int, type[tuple[object, ...]]]:
    """For results that the schema names, ``(values, indices)``, their class by their number."""
    found: dict[int, type[tuple[object, ...]]] = {}
    for o in overloads:
        names = [r.name for r in o._schema.returns]
        if len(names) > 1 and all(names):
            found[len(names)] = result_class(name, tuple(names))
    return found


def _giving_names(face: Face, named: dict[int, type[tuple[object, ...]]]) -> Face:
    """Functions and methods give ``max(0).values`` where operators give plain tuples."""

    def with_names(*args: object, **kwargs: object) -> object:
        result = face(*args, **kwargs)
        if result.__class__ is tuple:
            made = named.get(len(result))
            if made is None:
                return result
            if result[-1].__class__ is list:  # the edges of `histogramdd`
                result = (*result[:-1], tuple(result[-1]))
            return tuple.__new__(made, result)
        return result

    return with_names


#: Functions that take ``dtype=None`` for a dtype of their own; the operators take the default one.
_DTYPES_FOR_NONE = {"randint": int64}


def _with_dtype(face: Face, kind: dtype) -> Face:
    def with_dtype(*args: object, **kwargs: object) -> object:
        if "dtype" in kwargs and kwargs["dtype"] is None:
            kwargs["dtype"] = kind
        return face(*args, **kwargs)

    return with_dtype


def _place_of_mean(overloads: list[OpOverload]) -> int | None:
    """Which positional argument is a ``reduction`` whose default is that of the mean, if any is."""
    for overload in overloads:
        for at, argument in enumerate(overload._schema.arguments):
            if argument.name == "reduction" and argument.default_value == 1:
                return at
    return None


def _unreduced_unless_told(face: Face, at: int) -> Face:
    """A loss as PyTorch's functions have it: its `Mean` is no number to them, and counts as 0.

    So ``torch.kl_div(x, y)`` has a value an element, and the operator ``aten::kl_div`` the mean.
    """

    def unreduced(*args: object, **kwargs: object) -> object:
        if len(args) <= at and "reduction" not in kwargs and not is_overridden(args, kwargs):
            kwargs["reduction"] = 0
        return face(*args, **kwargs)

    return unreduced


def _bool_or_dim(overloads: list[OpOverload], at: int) -> list[OpOverload]:
    """The overloads with a bool where another has dimensions."""
    kinds = {}
    for o in overloads:
        positional = [a for a in o._schema.arguments if not a.kwarg_only]
        kinds[o] = positional[at].type.base.kind if len(positional) > at else ""
    if not {"int", "symint"} & set(kinds.values()):
        return []
    return [o for o, kind in kinds.items() if kind == "bool"]


def _names_dimension(value: object) -> bool:
    """Whether functions take a value, which operators may take for a bool, for a dimension."""
    return value.__class__ is int or (isinstance(value, Tensor) and not value.meta.ndim)


def _gives_list(op: OpOverload) -> bool:
    returns = op._schema.returns
    return len(returns) == 1 and returns[0].type.is_list


def _giving_tuples(face: Face) -> Face:
    """Functions and methods give tuples where operators give lists."""

    def tupled(*args: object, **kwargs: object) -> object:
        result = face(*args, **kwargs)
        return tuple(result) if isinstance(result, list) else result

    return tupled


def _giving_first(face: Face) -> Face:
    """Functions that write each tensor of a list give that list, where operators give nothing."""

    def giving_first(*args: object, **kwargs: object) -> object:
        result = face(*args, **kwargs)
        return args[0] if result is None and args else result

    return giving_first


def _one_list(positional: list[Argument]) -> bool:
    """Whether the only positional parameter is a list of any number of integers."""
    if not positional or not positional[0].type.is_list or positional[0].type.size is not None:
        return False
    rest = [a for a in positional[1:] if not a.has_default_value()]
    return positional[0].type.elem.kind in ("int", "symint") and not rest


def _takes_one_int(positional: list[Argument]) -> bool:
    """Whether the first positional parameter is one integer, or None: ``squeeze(0)``."""
    if not positional:
        return False
    kind = positional[0].type
    return (kind.elem if kind.kind == "optional" else kind).kind in ("int", "symint")


def _is_factory(op: OpOverload) -> bool:
    arguments = op._schema.arguments
    takes_device = any(a.name == "device" for a in arguments)
    return takes_device and not any(a.type.written.startswith("Tensor") for a in arguments)


def _said(schemas: list[frozenset[str]]) -> dict[str, object]:
    """What modes are told of what makes memory beside its device: ``pin_memory``."""
    placed = [names for names in schemas if "device" in names]
    pinned = bool(placed) and all("pin_memory" in names for names in placed)
    return {"pin_memory": False} if pinned else {}


def given_dtype(function: str, value: object) -> dtype | None:
    """The dtype that is passed to a function: one of ours, or float, int, bool, complex for one."""
    if isinstance(value, dtype) or value is None:
        return value
    if not isinstance(value, type) or value not in PYTHON_DTYPES:
        what = type(value).__name__
        raise TypeError(f"{function}(): argument 'dtype' must be torch.dtype, not {what}")
    return PYTHON_DTYPES[value]


def _translate(
    function: str, kwargs: dict[str, object], schemas: list[frozenset[str]]
) -> dict[str, object]:
    """Keyword arguments under the schema's names, dtypes as dtypes.

    Raises TypeError for a dtype's code, which operators take and functions do not.
    """
    out: dict[str, object] = {}
    for name, value in kwargs.items():
        if name == "dtype":
            value = given_dtype(function, value)
        known = any(name in names for names in schemas)
        if not known and _SYNONYMS.get(name, name) not in kwargs:  # given twice, it is unknown
            name = _SYNONYMS.get(name, name)
        out[name] = value
    if "out" in out and out["out"] is None:
        del out["out"]
    return out


def _written_names(overloads: list[OpOverload]) -> dict[int, list[str]]:
    """For overloads of several outputs, their names by how many they are."""
    groups = [[a.name for a in o._schema.arguments if a.is_out] for o in overloads]
    return {len(names): names for names in groups if len(names) > 1}


def _several_outs(kwargs: dict[str, object], written: dict[int, list[str]]) -> dict[str, object]:
    """``out=(a, b)`` under the names that the schema has for a and b."""
    outs = kwargs["out"]
    assert isinstance(outs, (tuple, list))
    names = written.get(len(outs))
    if names is None:
        return kwargs
    rest = {name: value for name, value in kwargs.items() if name != "out"}
    return {**rest, **dict(zip(names, outs, strict=True))}


# Functions that take the `out=` that PyTorch generates; the others' are operators alone.
_GENERATED_FORMS = frozenset(("slice_scatter",))
_NO_FUNCTIONS = frozenset(("zero", "copy", "unique_dim", "_foreach_zero", "_foreach_copy"))
# What is no method in PyTorch, though it begins with ``self``: programs tell libraries and versions
# apart by ``hasattr(x, name)``, arrays from tensors by ``copy``. Besides these: operators of
# `torch.linalg` and its like, copies of views, tensors like another, pooling, losses and padding.
_METHODS_OF_A_KIND = frozenset(("index_copy", "narrow_copy"))
_OF_FUNCTIONS_ALONE = ("pool", "loss", "_pad", "pad_", "dropout_", "pixel_", "channel_shuffle")
_NO_METHODS = frozenset(
    """
    alias atleast_1d atleast_2d atleast_3d binary_cross_entropy binary_cross_entropy_with_logits
    bucketize celu celu_ combinations copy elu elu_ embedding_renorm_ fill frobenius_norm gelu gelu_
    glu hardsigmoid hardsigmoid_ hardswish hardswish_ hardtanh hardtanh_ histogramdd
    is_non_overlapping_and_dense is_strides_like_format kl_div leaky_relu leaky_relu_ lift
    lift_fresh log_sigmoid log_sigmoid_forward matrix_H mish mish_ nonzero_numpy nuclear_norm
    numpy_T one_hot pad relu6 relu6_ rsub selu selu_ silu silu_ slice slow_conv3d
    slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d softplus
    softshrink std_mean sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride tensordot
    thnn_conv2d threshold threshold_ unique_dim unique_dim_consecutive var_mean view_as_complex
    view_as_real zero
    """.split()
)


def function_names() -> list[str]:
    """The names of operators that programs call as functions: those `dir` shows.

    Without those of `torch.linalg` and its like, private operators, parts of others, and forms in
    place that are methods alone in PyTorch: `find_function` finds them all the same.
    """
    names = (name for name in dir(ops.aten) if not name.startswith("_"))
    return [
        name
        for name in names
        if not name.startswith(FAMILIES)
        and not (name.endswith(("_", "_backward")) and function_home(name) is None)
        and _function_packet(name) is not None
    ]


def find_function(name: str) -> Face | None:
    """The face of the aten operator ``name`` as a function, or None.

    Operators that PyTorch generates for transforms, such as ``aten::uniform``, are no functions.
    """
    packet = _function_packet(name)
    return None if packet is None else face_of(packet, method=False)


def _function_packet(name: str) -> OpOverloadPacket | None:
    packet = None if name in _NO_FUNCTIONS else find_packet(f"aten::{name}")
    if packet is None or all(Tag.generated in o.tags for o in packet.op_overloads()):
        return None
    return packet


def method_face(name: str) -> Face:
    """The face of the aten operator ``name`` as a method."""
    packet = find_packet(f"aten::{name}")
    assert packet is not None
    return face_of(packet, method=True)


def gives_method(packet: OpOverloadPacket) -> bool:
    """Whether some overload begins with ``self``; told by the text, for schemas are parsed late."""
    name = packet.__name__
    if name in _NO_METHODS or (name[0] != "_" and _is_function_alone(name)):
        return False
    for overload in packet._overloads.values():
        kind, found, _ = overload._schema_text.partition("(")[2].partition(" self")
        if found and (kind == "Tensor" or (kind.startswith("Tensor(") and kind.endswith(")"))):
            return True
    return False


def _is_function_alone(name: str) -> bool:
    """Whether operators of this kind are functions alone."""
    if name.startswith(FAMILIES) or name.endswith(("_copy", "_like")):
        return name not in _METHODS_OF_A_KIND
    return any(kind in name for kind in _OF_FUNCTIONS_ALONE)
