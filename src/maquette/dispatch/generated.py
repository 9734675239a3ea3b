"""Functions made from source text: the one place where maquette generates code.

A few hot functions are written out for one operator, because a loop over its parameters would cost
more than its work; beside each stands the plain form that says what it does and is the tests'
oracle. The one idea: a distinct text is compiled once, however many operators share it, under a
file name of its own that `linecache` knows, so that tracebacks and debuggers show the generated
lines. Code that nobody runs any more takes its lines along.
"""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from hashlib import blake2b
from types import CodeType, FunctionType
from typing import Any

from maquette.core.remembered import epoch, remember
from maquette.dispatch.kept_code import kept_code

_CODE: dict[str, CodeType] = {}
PREFIX = "<maquette "
"""What the file names of generated code begin with."""


def generate(source: str, name: str, kind: str, space: dict[str, object]) -> Callable[..., Any]:
    """The function called ``name`` that ``source`` defines, with ``space`` as its globals.

    kind: a word for the file name, as in ``<maquette record 1f6a09c3>``.
    """
    made = defined_by(compiled(source, kind), name, space)
    # A copy of the code for each function, since CPython specializes code for the globals it last
    # ran with: 100 M instructions a Llama 70B forward, 103 M with one code for all (callgrind).
    # The copy holds the code that was compiled, whose lines are shown as long as it lives.
    shared = made.__code__
    made.__code__ = shared.replace(co_consts=(*shared.co_consts, shared))
    return made


def generate_in(file: str, source: str, name: str, space: dict[str, object]) -> Callable[..., Any]:
    """`generate` of a whole module's source, under a file name that its caller chose.

    For source that is a program's own, as a graph's: nothing is shared with equal ones.
    """
    code = compile(source, file, "exec")
    _show(source, file, code, name)
    return defined_by(code, name, space)


def defined_by(code: CodeType, name: str, space: dict[str, object]) -> FunctionType:
    """The function called ``name`` that compiled code defines, with ``space`` as its globals."""
    exec(code, space)
    made = space[name]
    assert isinstance(made, FunctionType)
    return made


def compiled(source: str, kind: str) -> CodeType:
    """Compile generated source, the definition of a function, once per distinct text.

    Code that an earlier process compiled is read (`kept_code.py`), not compiled again.
    """
    code = _CODE.get(source)
    if code is None:
        digest = blake2b(f"{kind} {source}".encode(), digest_size=16).digest()
        file = f"{PREFIX}{kind} {digest.hex()[:8]}>"
        code = kept_code.find(digest)
        if code is None:
            code = compile(source, file, "exec")
            kept_code.keep(digest, code)
        _show(source, file, code)
        remember(_CODE, source, code, epoch())
    return code


def _show(source: str, file: str, code: CodeType, name: str | None = None) -> None:
    """Have tracebacks show the lines of code, as long as the function it defines is there.

    name: which of several functions that is, the first if nothing is said.
    """
    entry = (len(source), None, source.splitlines(keepends=True), file)
    linecache.cache[file] = entry
    functions = [c for c in code.co_consts if isinstance(c, CodeType)]
    owner = next(c for c in functions if name is None or c.co_name == name)
    weakref.finalize(owner, _forget_lines, file, entry).atexit = False


def _forget_lines(file: str, entry: object) -> None:
    if linecache.cache.get(file) is entry:  # else equal code has been made since
        del linecache.cache[file]


def called_with(
    names: list[str], passed: list[str], kind: str, function: object
) -> Callable[..., Any]:
    """A kernel ``(ks, *names)`` that calls ``function`` with ``passed``, source over the names."""
    source = f"def _kernel(_ks, {', '.join(names)}):\n    return _function({', '.join(passed)})\n"
    return generate(source, "_kernel", kind, {"_function": function})
