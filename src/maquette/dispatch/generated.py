"""Functions made from source text: the one place where maquette generates code.

A few hot functions are written out for one operator, because a loop over its parameters would cost
more than its work; beside each stands the plain form that says what it does and is the tests'
oracle. The one idea: a distinct text is compiled once, however many operators share it, under a
file name of its own that `linecache` knows, so that tracebacks and debuggers show the generated
lines. Code that nobody runs any more takes its lines along.
"""

from __future__ import annotations

import functools
import linecache
import weakref
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any, NamedTuple, cast

from maquette.core.remembered import epoch, remember
from maquette.dispatch.kept.code import kept_code
from maquette.dispatch.kept.stamps import stamp


class Text(NamedTuple):
    """A source that is written when it is first needed: an earlier process may have done so.

    To write a text of 30 lines took as long as to read its code: a tenth of a model's first step.
    facts: everything that the text depends on, of classes whose ``repr`` tells all: equal facts
    must be of equal texts.
    """

    facts: tuple[object, ...]
    write: Callable[[], str]


Source = str | Text
_CODE: dict[object, CodeType] = {}
_OWNERS: dict[str, weakref.ref[CodeType]] = {}  # whose lines `linecache` has under a file name
PREFIX = "<maquette "
"""What the file names of generated code begin with."""


def generate(source: Source, name: str, kind: str, space: dict[str, object]) -> Callable[..., Any]:
    """The function that ``source`` defines, without defaults, with ``space`` as its globals.

    kind: a word for the file name, as in ``<maquette record 1f6a09c3>``.
    """
    code = _CODE.get(_key(source, kind))
    if code is None:
        code = function_code(source, kind)
    else:
        # A copy of the code for each function, since CPython specializes code for the globals it
        # last ran with: 100 M instructions a Llama 70B forward, 103 M with one code for all
        # (callgrind). The copy holds the first, whose lines are shown as long as it lives.
        code = code.replace(co_consts=(*code.co_consts, code))
    return FunctionType(code, space, name)


def generate_later(
    source: Source,
    name: str,
    kind: str,
    space: dict[str, object],
    plain: Callable[..., object],
    after: int = 1,
) -> Callable[..., Any]:
    """A function like `generate`'s that calls ``plain`` the first time, and is made for the second.

    after: how often it calls ``plain``, where that is not once. So what a program calls once, as
    much around a model's layers is, needs no code of its own. The function stays the same object:
    whoever calls it often may keep it. It has no defaults.
    """
    calls = 0

    def turn(args: tuple[object, ...]) -> object:
        nonlocal calls
        calls += 1
        if calls <= after:
            return plain(*args)
        later.__code__ = generate(source, name, kind, space).__code__
        return later(*args)

    later = FunctionType(_LATER, space, name)
    space["_turn"] = turn
    return later


def generate_in(file: str, source: str, name: str, space: dict[str, object]) -> Callable[..., Any]:
    """`generate` of a whole module's source, under a file name that its caller chose.

    For source that is a program's own, as a graph's: nothing is shared with equal ones.
    """
    code = compile(source, file, "exec")
    _show(source, _function_in(code, name))
    return defined_by(code, name, space)


def defined_by(code: CodeType, name: str, space: dict[str, object]) -> FunctionType:
    """The function called ``name`` that compiled code defines, with ``space`` as its globals."""
    exec(code, space)
    made = space[name]
    assert isinstance(made, FunctionType)
    return made


def function_code(source: Source, kind: str) -> CodeType:
    """The code of the function that generated source defines, made once for a text or its facts.

    Code that an earlier process compiled is read (`kept/code.py`), not compiled again.
    """
    key = _key(source, kind)
    code = _CODE.get(key)
    if code is None:
        text, code = _of_text(source, kind) if isinstance(source, str) else _of_facts(source, kind)
        _show(text, code)
        remember(_CODE, key, code, epoch())
    return code


def _key(source: Source, kind: str) -> object:
    return source if isinstance(source, str) else (kind, source.facts)


def _of_text(source: str, kind: str) -> tuple[str, CodeType]:
    """A source and its code, as it is kept or compiled now."""
    digest = blake2b(f"{kind}: {source}".encode(), digest_size=16).digest()
    code = kept_code.find(digest)
    if not isinstance(code, CodeType):
        code = _compiled(source, kind)
        kept_code.keep(digest, code)
    return source, code


def _of_facts(text: Text, kind: str) -> tuple[str, CodeType]:
    """`_of_text`, but what is kept is found without its source."""
    known = stamp()
    if known is None:
        return _of_text(text.write(), kind)
    digest = blake2b(repr((kind, text.facts)).encode(), digest_size=16, key=known).digest()
    kept = kept_code.find(digest)
    if not isinstance(kept, tuple):
        source = text.write()
        kept = _compiled(source, kind), source
        kept_code.keep(digest, kept)
    code, source = kept
    return source, code


def _compiled(source: str, kind: str) -> CodeType:
    digest = blake2b(f"{kind}: {source}".encode(), digest_size=16).hexdigest()
    return _function_in(compile(source, f"{PREFIX}{kind} {digest[:8]}>", "exec"))


def short_code(source: str, kind: str) -> CodeType:
    """The code of a function of one line, which many functions have until they are made."""
    return _function_in(compile(source, f"{PREFIX}{kind}>", "exec"))


def _function_in(code: CodeType, name: str | None = None) -> CodeType:
    """The code of the function of a name, or of the first, that a module's code defines."""
    functions = [c for c in code.co_consts if isinstance(c, CodeType)]
    return next(c for c in functions if name is None or c.co_name == name)


def _show(source: str, function: CodeType) -> None:
    """Have tracebacks show the lines that a function's code is from, as long as that is there."""
    file = function.co_filename
    # Typed as a list: who asks `linecache` indexes and counts its lines, and no more.
    linecache.cache[file] = (len(source), None, cast(list[str], _Lines(source)), file)
    # Equal code that is made later takes this place: the older owner's end is of no account then.
    _OWNERS[file] = _Owner(function, file)


class _Lines(Sequence[str]):
    """The lines of a source, cut when they are first asked for, which few ever are.

    Cut at once they were a sixth of the memory that a first step fills.
    """

    def __init__(self, source: str) -> None:
        self._source = source

    @functools.cached_property
    def _cut(self) -> list[str]:
        return self._source.splitlines(keepends=True)

    def __len__(self) -> int:
        return len(self._cut)

    def __getitem__(self, index: Any) -> Any:
        return self._cut[index]


class _Owner(weakref.ref[CodeType]):
    """A code that lines are shown for: its end takes them along."""

    __slots__ = ("file",)
    file: str

    def __new__(cls, function: CodeType, file: str) -> _Owner:
        self = super().__new__(cls, function, _forget)
        self.file = file
        return self


def _forget(owner: Any) -> None:
    linecache.cache.pop(owner.file, None)
    _OWNERS.pop(owner.file, None)


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level deeper, as one text that stands for them: generating is most of a first call.

    By `replace`, as a string for each line took a fiftieth of a model's first step.
    """
    text = "\n".join(lines)
    return ["    " + text.replace("\n", "\n    ")] if text else []


def called_with(
    names: list[str], passed: list[str], kind: str, function: object
) -> Callable[..., Any]:
    """A kernel ``(ks, *names)`` that calls ``function`` with ``passed``, source over the names."""
    source = f"def _kernel(_ks, {', '.join(names)}):\n    return _function({', '.join(passed)})\n"
    return generate(source, "_kernel", kind, {"_function": function})


_LATER = short_code("def _later(*args): return _turn(args)", "later")
