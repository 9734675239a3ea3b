"""What `inspect.signature` is told of functions and methods that operators give.

A face takes ``*args, **kwargs`` and leaves it to the overloads what they mean. Their parameters are
in the schemas; here they are put together into one signature, when somebody first asks for it.
PyTorch's builtins have none: `inspect` raises ValueError for them.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.schema import Argument

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD
_SEVERAL = inspect.Parameter.VAR_POSITIONAL
_NONE = inspect.Parameter.empty


class LateSignature(inspect.Signature):
    """A signature whose parameters are made when they are first read."""

    __slots__ = ("_make",)
    _make: Callable[[], Iterable[inspect.Parameter]]

    @classmethod
    def of(cls, make: Callable[[], Iterable[inspect.Parameter]]) -> LateSignature:
        """The signature without annotations of the parameters that ``make`` gives."""
        made = cls.__new__(cls)
        made._make = make
        return made

    def __getattr__(self, name: str) -> object:
        """Fill in what `inspect.Signature` keeps, of which nothing is there before."""
        if name not in inspect.Signature.__slots__:
            raise AttributeError(name)
        super().__init__([*self._make()])
        return object.__getattribute__(self, name)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled and copied as the plain signature that it says."""
        return inspect.Signature, ([*self.parameters.values()],)


def parameters_of(
    overloads: Sequence[OpOverload],
    *,
    method: bool,
    listed: bool,
    makes: bool,
    synonyms: Mapping[str, str],
) -> Iterator[inspect.Parameter]:
    """The parameters of a function or method that calls these overloads.

    Those of the overload with the most by position come first. What only others have follows by
    keyword, and has a default, written ``...`` where the schemas tell none, if some have it not.

    listed: the sizes may be given one by one. makes: there is ``requires_grad``, as factories have
    it. synonyms: other keywords that are understood, and which parameter each means.
    """
    forms = [{_shown(a, method): a for a in o._schema.arguments} for o in overloads]
    named = [{n: a for n, a in form.items() if not a.is_out} for form in forms]
    positional = max(([n for n, a in form.items() if not a.kwarg_only] for form in named), key=len)
    found: dict[str, inspect.Parameter] = {}
    optional = False
    for at, name in enumerate(dict.fromkeys([*positional, *itertools.chain(*named)])):
        default = _default(name, named)
        kind: inspect._ParameterKind = _PLAIN if at < len(positional) else _KEYWORD
        if listed and at >= method:
            kind = _KEYWORD if at > method else _SEVERAL
        if kind is _SEVERAL:
            default = _NONE
        elif kind is _PLAIN and optional and default is _NONE:
            default = ...
        optional = optional or default is not _NONE
        found[name] = inspect.Parameter(name, kind, default=default)
    more: dict[str, object] = {"requires_grad": False} if makes else {}
    if forms != named and not method:
        more["out"] = None
    for synonym, meant in synonyms.items():
        if meant in found:
            more[synonym] = found[meant].default
    for name, default in more.items():
        found.setdefault(name, inspect.Parameter(name, _KEYWORD, default=default))
    yield from found.values()


def _default(name: str, forms: Iterable[Mapping[str, Argument]]) -> object:
    """What a parameter is where it is not given, as all the forms of a call have it."""
    own = [form.get(name) for form in forms]
    defaults = [a.default for a in own if a is not None and a.has_default_value()]
    if defaults:
        return defaults[0]
    return ... if None in own else _NONE


def _shown(argument: Argument, method: bool) -> str:
    """The name of a parameter as programs write it."""
    if argument.name == "self" and not method:
        return "input"
    return "from_" if argument.name == "from" else argument.name  # of `random_`; Python's own word
