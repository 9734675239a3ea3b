"""Functions that record the calls of one operator: what most steps of a trace need.

`ProxyTorchDispatchMode.__torch_dispatch__` records any call and says what recording is. For an
operator that writes nothing, a function is generated from its schema that does the same for common
arguments, tensors of the trace and plain values, and leaves every other call to the mode. It gets
the parameters as kernels do: nothing is put into the form of a user's handler and looked through
again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from maquette.dispatch.generated import generate
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import is_default, normaliser
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.fake.tensor import FakeTensor
from maquette.fx import traceback as fx_traceback
from maquette.fx.immutable_collections import immutable_dict, immutable_list
from maquette.fx.tracing.tracked import track, track_plain
from maquette.tensor.storage import OBSERVERS
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.tracing.proxy_mode import ProxyTorchDispatchMode

PLAIN = frozenset((int, float, bool, str, type(None), complex))
PLAIN_TENSORS = frozenset((Tensor, FakeTensor))
NO_KEYWORDS: dict[str, Any] = immutable_dict()
Recorder = Callable[..., object]


def recorder(mode: ProxyTorchDispatchMode, op: OpOverload, name: str) -> Recorder | None:
    """A function ``(ks, *params)`` that records a call in the trace of a mode and runs it.

    name: what its nodes ask to be called. None for an operator that is not known by a tensor.
    """
    schema = op._schema
    if "recorder" not in schema.memo:
        source = _source(schema, takes_numbers=op.takes_numbers)
        schema.memo["recorder"] = source and generate(source, "make", "recorder", _space(schema))
    make: Any = schema.memo["recorder"]
    if make is None:
        return None
    as_seen = normaliser(schema)

    def otherwise(*params: object) -> object:
        args, kwargs = as_seen(params)
        return mode.__torch_dispatch__(op, (), args, kwargs)

    tracer = mode.tracer
    made: Recorder = make(op, name, tracer, otherwise)
    return made


def _space(schema: FunctionSchema) -> dict[str, object]:
    defaults = {f"_d{i}": a.default for i, a in enumerate(schema.arguments)}
    return {
        "_PLAIN": PLAIN, "_TENSORS": PLAIN_TENSORS, "_NO_KEYWORDS": NO_KEYWORDS,
        "_open": fx_traceback.OPEN, "_observers": OBSERVERS, "_is_default": is_default,
        "_list": immutable_list, "_track": track, "_track_plain": track_plain, **defaults,
    }  # fmt: skip


def _source(schema: FunctionSchema, *, takes_numbers: bool) -> str | None:
    """Source of ``make``, which gives the recorder of a trace; None where no tensor is certain."""
    arguments = schema.arguments
    first = next((i for i, a in enumerate(arguments) if a.type.kind == "tensor"), None)
    if first is None or schema.is_vararg or schema.is_varret:
        return None
    params = ", ".join([f"p{i}" for i in range(len(arguments))])
    body = ["if _open:", "    return otherwise(PARAMS)"]
    users: list[str] = []
    for i, argument in enumerate(arguments):
        if argument.kwarg_only:
            body += [f"if {_given(i)}:", "    return otherwise(PARAMS)"]
        elif not _is_tensor(argument):
            body += _plain_lines(i, argument)
        elif i != first and (takes_numbers or argument.type.is_optional):
            body += [f"if p{i}.__class__ in _PLAIN:", f"    n{i} = p{i}", "else:"]
            body += [f"    {line}" for line in _tensor_lines(i)]
            users.append(f"if n{i} is not p{i}:")
            users += [f"    {line}" for line in _user_lines(i)]
        else:
            body += _tensor_lines(i)
            users += _user_lines(i)
    body += [*_args_lines(arguments), "node = add_call(op, args, _NO_KEYWORDS, (), name)", *users]
    body.append(f"result = (kernels.get(ks) or resolve(ks))(ks, {params})")
    body += ["if result.__class__ in _TENSORS and not _observers:"]
    body += ["    _track_plain(tracer, result, node, None)", "else:"]
    body += ["    _track(tracer, result, node, None)", "return result"]
    lines = ["def make(op, name, tracer, otherwise):"]
    lines += ["    known = tracer.tensor_table.by_id.get"]
    lines += ["    add_call, kernels, resolve = tracer.graph.add_call, op._table, op.resolve"]
    lines += [f"    def record(ks, {params}):", *[f"        {line}" for line in body]]
    return "\n".join([*lines, "    return record\n"]).replace("PARAMS", params)


def _is_tensor(argument: Argument) -> bool:
    type = argument.type
    return (type.elem if type.is_optional else type).kind == "tensor"


def _given(i: int) -> str:
    """Whether a parameter is another value than its default."""
    return f"p{i} is not _d{i} and not _is_default(p{i}, _d{i})"


def _tensor_lines(i: int) -> list[str]:
    """Lines that find the node of a tensor whose value is not known."""
    lines = [f"e{i} = known(id(p{i}))"]
    lines += [f"if e{i} is None or e{i}[2]() is not p{i} or e{i}[1] is not None:"]
    return [*lines, "    return otherwise(PARAMS)", f"n{i} = e{i}[0]"]


def _user_lines(i: int) -> list[str]:
    """`Node._note_user`, without the call where it is the first."""
    lines = [f"if n{i}._users is None:", f"    n{i}._users = node", "else:"]
    return [*lines, f"    n{i}._note_user(node)"]


def _plain_lines(i: int, argument: Argument) -> list[str]:
    """Lines for a parameter that is no tensor: plain values, and lists of them."""
    otherwise = "    return otherwise(PARAMS)"
    lines = [f"n{i} = p{i}"]
    type = argument.type.elem if argument.type.is_optional else argument.type
    if type.is_list:
        lines += [f"if p{i}.__class__ is tuple and _PLAIN.issuperset(map(type, p{i})):"]
        lines += [f"    n{i} = _list(p{i})", f"elif p{i} is not None:", otherwise]
        return lines
    return [*lines, f"if p{i}.__class__ not in _PLAIN:", otherwise]


def _args_lines(arguments: tuple[Argument, ...]) -> list[str]:
    """Lines that make the arguments of a node, without defaults at the end."""
    count = sum(not a.kwarg_only for a in arguments)
    lines: list[str] = []
    branch = "if"
    while count and arguments[count - 1].has_default_value():
        lines += [f"{branch} {_given(count - 1)}:", f"    args = {_tuple(count)}"]
        branch = "elif"
        count -= 1
    if not lines:
        return [f"args = {_tuple(count)}"]
    return [*lines, "else:", f"    args = {_tuple(count)}"]


def _tuple(count: int) -> str:
    return "(" + "".join([f"n{i}, " for i in range(count)]) + ")"
