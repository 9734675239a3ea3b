"""Reading the zip files that PyTorch's own ``torch.save`` writes.

Such a file is a pickle beside the bytes of its storages. The pickle is read by an unpickler that
knows the few names by which tensors and plain containers are made, and refuses every other: reading
a file runs no code of its own, and gives no object state but what its class is known to keep.
Files of before PyTorch 1.6, which are no zips, are not read.
"""

from __future__ import annotations

import pickle
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import IO

from maquette.core.device import cpu, device
from maquette.core.dtype import all_dtypes, dtype
from maquette.core.meta import TensorMeta
from maquette.core.size import Size
from maquette.tensor.copying import rebuild_storage, rebuild_tensor
from maquette.tensor.parameter import Parameter
from maquette.tensor.saving import Place, place_of, read_bytes
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

_KINDS = {f"{kind.scalar_name}Storage": kind for kind in all_dtypes} | {
    "ByteStorage": all_dtypes[0],
    "UntypedStorage": all_dtypes[0],
}
_DTYPES = {kind.name: kind for kind in all_dtypes}


def is_zip(file: IO[bytes]) -> bool:
    """Whether a file, at its position, begins as a zip."""
    at = file.tell()
    start = file.read(4)
    file.seek(at)
    return start == b"PK\x03\x04"


def load(file: IO[bytes], map_location: Place = None) -> object:
    """What the file holds; ``pickle.UnpicklingError`` if it is more than tensors and containers."""
    with zipfile.ZipFile(file) as archive:
        index = next((n for n in archive.namelist() if n.endswith("/data.pkl")), None)
        if index is None:
            raise ValueError("this zip is no checkpoint of PyTorch's: it has no data.pkl")
        with archive.open(index) as data:
            return _Reader(data, archive, index.removesuffix("data.pkl"), map_location).load()


class _Stored:
    """A storage of the file, with the dtype that the file says it has."""

    def __init__(self, storage: UntypedStorage, kind: dtype, where: device) -> None:
        self.storage = storage
        self.kind = kind
        self.where = where


# In Python: of the one written in C, what restoring an object's state does cannot be changed.
class _Reader(pickle._Unpickler):
    def __init__(
        self, data: IO[bytes], archive: zipfile.ZipFile, folder: str, map_location: Place
    ) -> None:
        super().__init__(data, encoding="utf-8")
        self.archive = archive
        self.folder = folder
        self.map_location = map_location
        self.storages: dict[str, UntypedStorage] = {}

    def find_class(self, module: str, name: str) -> object:
        found: object = _KNOWN.get((module, name))
        if found is None and module in ("torch", "torch.storage"):
            found = _KINDS.get(name) or _DTYPES.get(name)
        if found is None:
            raise pickle.UnpicklingError(
                f"this file makes a {module}.{name}, which is no tensor and no plain container; "
                f"nothing else is loaded. Save the state_dict() instead of the object"
            )
        return found

    def persistent_load(self, pid: object) -> object:
        match pid:
            case ("storage", dtype() as kind, str(key), str(location), int()):
                return _Stored(self._storage(key), kind, place_of(location, self.map_location))
        raise pickle.UnpicklingError(f"this file refers to something unknown: {pid!r}")

    def _storage(self, key: str) -> UntypedStorage:
        if key not in self.storages:
            info = self.archive.getinfo(f"{self.folder}data/{key}")
            with self.archive.open(info) as file:
                raw = read_bytes(file, info.file_size)
            self.storages[key] = rebuild_storage(raw.nbytes, cpu, raw, False)
        return self.storages[key]

    def load_build(self) -> None:
        """BUILD: give the object on top of the stack its state."""
        stack: list[object] = self.stack  # type: ignore[attr-defined]  # typeshed lacks it
        state = stack.pop()
        _set_state(stack[-1], state)

    dispatch = dict(pickle._Unpickler.dispatch)


_Reader.dispatch[pickle.BUILD[0]] = _Reader.load_build  # type: ignore[assignment]  # its own method


# What objects keep beside their items: `state_dict` notes versions of modules on its dict.
_STATE: dict[type, frozenset[str]] = {OrderedDict: frozenset(("_metadata",))}


def _set_state(target: object, state: object) -> None:
    """Set attributes that the class of an object is known to keep; an error for any other."""
    declared = _STATE.get(type(target), frozenset())
    if not isinstance(state, dict) or not state.keys() <= declared:
        raise pickle.UnpicklingError(
            f"this file gives a {type(target).__name__} the state {state!r:.80}; expected "
            f"{' or '.join(sorted(declared)) or 'none'}. Save plain containers and tensors only"
        )
    vars(target).update(state)


def _tensor_v2(
    stored: _Stored,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    hooks: object = None,
    metadata: Mapping[str, bool] | None = None,
) -> Tensor:
    bits = metadata or {}
    meta = TensorMeta.of(stored.kind, tuple(shape), tuple(strides), offset)
    made = rebuild_tensor(
        Tensor,
        stored.storage,
        meta,
        bool(requires_grad),
        bool(bits.get("conj")),
        bool(bits.get("neg")),
    )
    if stored.where is cpu:
        return made
    moved: Tensor = made.to(stored.where)
    return moved


def _tensor_v3(
    stored: _Stored,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    requires_grad: bool,
    hooks: object,
    kind: dtype,
    metadata: Mapping[str, bool] | None = None,
) -> Tensor:
    stored = _Stored(stored.storage, kind, stored.where)
    return _tensor_v2(stored, offset, shape, strides, requires_grad, hooks, metadata)


def _parameter(data: Tensor, requires_grad: bool, hooks: object) -> Tensor:
    return Parameter(data, requires_grad)


def _parameter_with_state(
    data: Tensor, requires_grad: bool, hooks: object, state: Mapping[str, object]
) -> Tensor:
    made = Parameter(data, requires_grad)
    taken = [name for name in state if not name.isidentifier() or hasattr(Parameter, name)]
    if taken:
        raise pickle.UnpicklingError(
            f"this file sets {', '.join(map(repr, taken))} of a Parameter, which are no attributes "
            f"that a program may add"
        )
    vars(made).update(state)
    return made


_KNOWN: dict[tuple[str, str], Callable[..., object]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("builtins", "set"): set,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter_with_state,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch.serialization", "_get_layout"): lambda name: name,
}
