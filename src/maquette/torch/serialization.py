"""`torch.save` and `torch.load`: checkpoints as safetensors files; PyTorch's own files can be read.

A checkpoint - nested dicts, lists and tuples of tensors and plain values - is one safetensors file:
`maquette.tensor.saving` writes the tensors, and the nesting around them stands as JSON in the
file's metadata. A flat dict of tensors needs none, so any safetensors reader knows it. Whole
objects, such as modules, are not saved: loading never runs code. PyTorch's zip files are read by
`zip_files.py`.
"""

from __future__ import annotations

import io
import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, cast

from maquette.core.device import device
from maquette.core.dtype import all_dtypes, dtype
from maquette.core.size import Size
from maquette.tensor.saving import File, Place, load_with_metadata
from maquette.tensor.saving import save as save_tensors
from maquette.tensor.tensor import Tensor
from maquette.torch import zip_files

_STRUCTURE = "maquette.structure"
_DTYPES = {kind.name: kind for kind in all_dtypes}
_PLAIN = (bool, int, float, str, type(None))


def save(obj: object, f: File, **options: object) -> None:
    """Write a checkpoint: tensors and plain values in nested dicts, lists and tuples.

    f: a path, or a file open for writing bytes. options: PyTorch's, which have no meaning here.
    Raises TypeError for anything else, with its place; of modules and optimizers, save the
    ``state_dict()``.
    """
    if isinstance(obj, Mapping) and _is_flat(obj):
        save_tensors(obj, f)
        return
    tensors: dict[str, Tensor] = {}
    structure = _structure(obj, "", tensors)
    save_tensors(tensors, f, metadata={_STRUCTURE: json.dumps(structure)})


def _is_flat(obj: Mapping[object, object]) -> bool:
    return all(isinstance(k, str) and isinstance(v, Tensor) for k, v in obj.items())


def load(
    f: File,
    map_location: Place = None,
    pickle_module: object = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **options: object,
) -> object:
    """What `save` wrote, what PyTorch's ``save`` wrote, or a safetensors file's dict of tensors.

    map_location: a device, or a dict of devices by the device saved. Raises TypeError for a
    function there, and ValueError or ``pickle.UnpicklingError`` for what is no checkpoint: nothing
    but tensors and plain values is ever made, whatever ``weights_only`` says.
    """
    if callable(map_location):
        raise TypeError("map_location: expected a device or a dict of devices, got a function")
    with _opened(f) as file:
        if zip_files.is_zip(file):
            return zip_files.load(file, map_location)
        tensors, metadata = load_with_metadata(file, map_location)
    text = metadata.get(_STRUCTURE)
    return tensors if text is None else _rebuilt(json.loads(text), tensors)


@contextmanager
def _opened(f: File) -> Iterator[IO[bytes]]:
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            yield file
    elif f.seekable():
        yield f
    else:
        yield io.BytesIO(f.read())


# --- the nesting as JSON -------------------------------------------------------------
#
# Numbers, strings and None are themselves; everything else is an object with one key, its kind.


def _structure(obj: object, place: str, tensors: dict[str, Tensor]) -> object:
    if isinstance(obj, Tensor):
        name = place or "tensor"
        tensors[name] = obj
        return {"tensor": name}
    if isinstance(obj, Mapping):
        kind = "ordered" if isinstance(obj, OrderedDict) else "dict"
        return {
            kind: [
                [_structure(k, f"{place}.key", tensors), _structure(v, _join(place, k), tensors)]
                for k, v in obj.items()
            ]
        }
    for kind, cls in (("size", Size), ("list", list), ("tuple", tuple)):
        if isinstance(obj, cls) and not hasattr(obj, "_fields"):
            items = cast("list[object]", obj)
            return {kind: [_structure(v, _join(place, i), tensors) for i, v in enumerate(items)]}
    return _leaf(obj, place)


def _join(place: str, key: object) -> str:
    return f"{place}.{key}" if place else str(key)


def _leaf(obj: object, place: str) -> object:
    if isinstance(obj, _PLAIN) and type(obj) in _PLAIN:
        return obj
    if isinstance(obj, complex):
        return {"complex": [obj.real, obj.imag]}
    if isinstance(obj, dtype):
        return {"dtype": obj.name}
    if isinstance(obj, device):
        return {"device": str(obj)}
    if isinstance(obj, set):
        return {"set": sorted(_leaf(v, place) for v in obj)}  # type: ignore[type-var]  # or an error
    raise TypeError(
        f"save(): {place or 'the object'} is a {type(obj).__module__}.{type(obj).__qualname__}, "
        f"which a checkpoint cannot hold: it holds tensors, numbers, strings, dicts, lists and "
        f"tuples. Of a module or an optimizer, save the state_dict()"
    )


def _rebuilt(node: object, tensors: dict[str, Tensor]) -> object:
    if not isinstance(node, dict):
        return node
    ((kind, value),) = node.items()
    match kind:
        case "tensor":
            return tensors[value]
        case "dict" | "ordered":
            pairs = [(_rebuilt(k, tensors), _rebuilt(v, tensors)) for k, v in value]
            return OrderedDict(pairs) if kind == "ordered" else dict(pairs)
        case "list" | "tuple" | "size" | "set":
            items = [_rebuilt(v, tensors) for v in value]
            return {"list": list, "tuple": tuple, "size": Size, "set": set}[kind](items)
        case "complex":
            return complex(*value)
        case "dtype":
            return _DTYPES[value]
        case "device":
            return device(value)
    raise ValueError(f"this checkpoint holds a {kind!r}, which is not known here")
