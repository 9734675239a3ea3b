"""What the readable form of a graph says of a node beside its statement: shapes and origins.

``x: "f32[2, 3]"`` is the value that the node has, ``# File: model.py:3 in forward, code: ...`` the
line of the program that made it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from maquette.core.dtype import dtype
from maquette.core.meta import TensorMeta
from maquette.core.symbols import node_of
from maquette.fake.tensor import FakeTensor
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fx.node import Node

_FRAME = re.compile(r'^File "(.+)", line (\d+), in (.+)$')


def value_text(value: object, include_stride: bool = False, include_device: bool = False) -> str:
    """A value in short: ``f32[2, 3]``, ``Sym(s0)``; empty for what is not told."""
    if isinstance(value, Tensor):
        meta = value.meta
        strides = meta.strides if include_stride else None
        where = str(meta.device) if include_device else ""
        text = _tensor_text(meta.dtype, meta.shape, strides, where)
        plain = type(value) is Tensor or isinstance(value, FakeTensor)
        return text if plain else f"{type(value).__name__}({text})"
    if isinstance(value, TensorMeta):
        return _tensor_text(value.dtype, value.shape, None, "")
    if node_of(value) is not None:
        return f"Sym({value})"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return _tensor_text(value.dtype, tuple(value.shape), None, "")
    return ""


def _tensor_text(
    kind: dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None, where: str
) -> str:
    sizes = ", ".join(map(str, shape))
    stride = "" if strides is None else f"[{', '.join(map(str, strides))}]"
    return f"{kind.abbr}[{sizes}]{stride}{where}"


def node_comment(node: Node) -> str | None:
    """The comment that says where a node comes from; None where no comment is due."""
    if node.op in ("placeholder", "output"):
        return None
    if not node.stack_trace:
        return "# No stacktrace found for following nodes"
    found = last_frame(node.stack_trace)
    if found is None:
        return "# No stacktrace found for following nodes"
    file, line, name, code = found
    return f"# File: {file}:{line} in {name}, code: {code}"


def last_frame(trace: str) -> tuple[str, str, str, str] | None:
    """File, line, function and source line of a traceback's innermost frame."""
    lines = trace.strip().split("\n")
    for at in range(len(lines) - 1, -1, -1):
        match = _FRAME.match(lines[at].strip())
        if match is not None:
            code = lines[at + 1].strip() if at + 1 < len(lines) else ""
            return match[1], match[2], match[3], code
    return None
