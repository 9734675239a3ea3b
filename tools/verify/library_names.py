"""What public libraries name of torch is there: every ``torch.*`` that their sources touch.

    python tools/verify/library_names.py [LIBRARY ...]

Reads the sources of `transformers` and `timm`, or the libraries that are named, without running
them: chains of attributes that begin with ``torch``, and ``from torch... import ...``. A name that
is not here fails, but for what PyTorch does not have either: devices and operators that other
packages add. A library that is not installed is passed by, and said to be.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

# Packages of their own put these into torch; the libraries ask whether they are there.
_ADDED = re.compile(
    r"torch\.(npu|tpu|mlu|musa|hpu|sdaa|gcu|neuron|corex)(\..*)?|torch\.classes\..*"
    r"|torch\.backends\.(mudnn|musa)(\..*)?|torch\.mps\.clear_graph_cache"  # asked by hasattr
    r"|torch\.ops\.(?!aten\.|prim\.|higher_order\.).*|torch\.version\.(cann|corex|musa)"
)


def names_in(source: str) -> Iterator[str]:
    """The names of torch that a source touches, dotted."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            chain = _chain(node)
            if chain is not None:
                yield chain
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            if module == "torch" or module.startswith("torch."):
                yield from (f"{module}.{name.name}" for name in node.names if name.name != "*")


def _chain(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not (isinstance(node, ast.Name) and node.id == "torch"):
        return None
    return ".".join(["torch", *reversed(parts)])


def is_there(name: str) -> bool:
    """Whether the name leads somewhere: modules are asked, other objects know their own names."""
    found: object = importlib.import_module("maquette.torch")
    path = "torch"
    for part in name.split(".")[1:]:
        path += f".{part}"
        if not isinstance(found, types.ModuleType):
            return True
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(path.replace("torch", "maquette.torch", 1))
            except ImportError as error:  # of another package: the module is there, and asks for it
                return not (error.name or "maquette").startswith(("maquette", "torch"))
    return True


def absent(folder: Path) -> dict[str, Path]:
    """The names that are not here, each with a file that touches it."""
    seen: dict[str, Path] = {}
    for file in sorted(folder.rglob("*.py")):
        for name in names_in(file.read_text()):
            seen.setdefault(name, file)
    return {n: f for n, f in seen.items() if not _ADDED.fullmatch(n) and not is_there(n)}


def main() -> int:
    """Print what is absent of each library; 1 if anything is."""
    failed = False
    for library in sys.argv[1:] or ["transformers", "timm"]:
        spec = importlib.util.find_spec(library)
        if spec is None or spec.origin is None:
            print(f"{library}: not installed here, passed by")
            continue
        found = absent(Path(spec.origin).parent)
        for name, file in sorted(found.items()):
            print(f"{library}: {name} is absent; {file} touches it")
        print(f"{library}: {len(found)} names absent")
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
