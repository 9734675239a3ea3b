"""Pickles that PyTorch and maquette both read: objects under the names that PyTorch has for them.

A class of ours is written as the class of PyTorch's that it stands for (``torch.nn.modules.linear
Linear``) and found again by that name, so a file is read by both. `Pickler` keeps storages apart,
as checkpoints do; `Reader` makes, unless it may make anything, only what is known to be harmless.
"""

from __future__ import annotations

import codecs
import importlib
import pickle
import pickletools
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import IO, Any

from maquette.core.device import device
from maquette.core.dtype import all_dtypes, dtype
from maquette.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
)
from maquette.core.scalar_types import opaque_dtypes
from maquette.core.size import Size
from maquette.nested import NestedTensor, StridedNestedTensor
from maquette.tensor.copying import check_can_save
from maquette.tensor.parameter import Buffer, Parameter
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.face import files, paths
from maquette.torch.saving import _utils, layouts, storage
from maquette.torch.saving.crafted import (
    BoundedUnpickler,
    check_container,
    inner_call,
    short_text,
)
from maquette.torch.saving.forms import TYPED, reduced
from maquette.torch.saving.locations import location_tag

# --- PyTorch's names of things -------------------------------------------------------

_CLASSES: dict[object, tuple[str, str]] = {
    Tensor: ("torch", "Tensor"),
    Parameter: ("torch.nn.parameter", "Parameter"),
    Buffer: ("torch.nn.parameter", "Buffer"),
    Size: ("torch", "Size"),
    device: ("torch", "device"),
    dtype: ("torch", "dtype"),
    UntypedStorage: ("torch.storage", "UntypedStorage"),
    TypedStorage: ("torch.storage", "TypedStorage"),
}
# Where a name of PyTorch's is looked for if it is in another file here.
_WIDER = ("maquette.nn", "maquette.optim", "maquette.optim.lr_scheduler", "maquette.nn.parameter")


def torch_place(obj: object, name: str | None = None) -> tuple[str, str] | None:
    """The module and name that PyTorch has for one of maquette's objects; None for others'."""
    if isinstance(obj, dtype | layout | memory_format):
        return "torch", str(obj).removeprefix("torch.")
    known = _CLASSES.get(obj) if isinstance(obj, type | FunctionType) else None
    if known is not None:
        return known
    module = str(getattr(obj, "__module__", None) or "")
    name = name or str(getattr(obj, "__qualname__", None) or getattr(obj, "__name__", ""))
    if module == "torch" or module.startswith("torch."):
        return module, name
    if module.partition(".")[0] != "maquette":
        return None
    return files.torch_file(module, name), name


def find(module: str, name: str) -> object:
    """The object that has this name in PyTorch; AttributeError or ImportError if there is none."""
    if name.startswith("torch."):  # of protocol 4, by a file that imports torch
        module, name = "torch", name.removeprefix("torch.")
    if "." in name:
        owner, _, last = name.rpartition(".")
        return getattr(find(module, owner), last)
    if module == "torch":
        return getattr(importlib.import_module("maquette.torch"), name)
    served_by = paths.resolve(module.removeprefix("torch."))
    places = [served_by] if served_by is not None else []
    for place in (*places, *_WIDER):
        found: object = getattr(importlib.import_module(place), name, None)
        if found is not None:
            return found
    raise AttributeError(f"maquette has no {module}.{name}")


def _found(module: str, name: str) -> object:
    """What a module has by a dotted name; None if it has nothing there."""
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


# --- writing -------------------------------------------------------------------------

# Those whose ``__reduce_ex__`` is of plain pickles.
_OURS = (Tensor, Parameter, NestedTensor, StridedNestedTensor)


class Pickler(pickle._Pickler):
    """Pickles an object; the bytes of its storages are kept for the caller, by key.

    The pure Python one of the standard library, because only it lets names be chosen: some 20 us
    an object, which for the objects of a checkpoint is little beside its bytes.
    """

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.storages: dict[str, UntypedStorage] = {}
        self._keys: dict[object, str] = {}
        self._kinds: dict[int, type] = {}

    def save_global(self, obj: object, name: str | None = None) -> None:
        if not self._named_as_torch(obj, name):
            super().save_global(obj, name)  # type: ignore[misc]  # the pure Python class has it

    def _named_as_torch(self, obj: object, name: str | None = None) -> bool:
        place = torch_place(obj, name)
        if place is None:
            return False
        owner, dot, last = place[1].rpartition(".")
        if dot:  # of a class, which is named: since CPython 3.13 the module of the function is
            parent = _found(str(getattr(obj, "__module__", "")), owner)
            if getattr(parent, last, None) is not obj:
                return False
            self.save_reduce(getattr, (parent, last), obj=obj)  # type: ignore[attr-defined]
            return True
        self.write(b"c" + "\n".join([*place, ""]).encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]
        return True

    # The base class sends functions to its own `save_global`.
    dispatch = {**pickle._Pickler.dispatch, FunctionType: save_global}  # type: ignore[dict-item]

    def persistent_id(self, obj: object) -> object:
        if isinstance(obj, TypedStorage):
            return self._reference(obj.untyped(), obj.dtype)
        if isinstance(obj, UntypedStorage):
            return self._reference(obj, None)
        return None

    def _reference(self, untyped: UntypedStorage, kind: dtype | None) -> tuple[object, ...]:
        typed = TYPED.get(kind) if kind is not None else None
        cls = UntypedStorage if typed is None else typed
        # A file gives each storage one dtype, so only what holds nothing may have several.
        if not untyped.nbytes():
            place: object = id(untyped), cls
        elif self._kinds.setdefault(id(untyped), cls) is cls:
            place = id(untyped)
        else:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                "types: save one of them, and view it as the others when it is loaded"
            )
        key = self._keys.get(place)
        if key is None:
            key = self._keys[place] = str(len(self._keys))
            self.storages[key] = untyped
        numel = untyped.nbytes() // (1 if typed is None else typed.dtype.itemsize)
        return "storage", cls, key, location_tag(untyped), numel

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, Tensor):
            return self._reduced(obj)
        if isinstance(obj, dtype | memory_format):
            return str(obj).removeprefix("torch.")
        if isinstance(obj, layout):
            return _utils._get_layout, (str(obj),)
        if isinstance(obj, device):
            return device, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, Size):
            return Size, (tuple(obj),)
        return NotImplemented

    def _reduced(self, t: Tensor) -> object:
        own = type(t).__dict__.get("__reduce_ex__") or type(t).__dict__.get("__reduce__")
        if own is not None and type(t) not in _OURS:
            check_can_save(t)
            return t.__reduce_ex__(self.proto)  # type: ignore[attr-defined]
        return reduced(t, _elements)


def _elements(untyped: UntypedStorage, kind: dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=untyped, dtype=kind)


def pickler_of(base: type[Any]) -> type[Pickler]:
    """`Pickler` with the pickler that the caller chose below it, as those that write lambdas.

    TypeError for one that is not written in Python: it lets no names be chosen.
    """
    if base in (pickle.Pickler, pickle._Pickler):
        return Pickler
    if not issubclass(base, pickle._Pickler):
        raise TypeError(
            f"save(): the Pickler of pickle_module is {base}; expected a subclass of "
            f"pickle._Pickler, as dill's is. Pickle the object yourself, and save the bytes"
        )
    known: Any = base.dispatch

    class Chosen(Pickler, base):
        def _named(self, obj: Any) -> None:
            if not self._named_as_torch(obj):
                known[FunctionType if isinstance(obj, FunctionType) else type](self, obj)

        dispatch = {**known, FunctionType: _named, type: _named}  # type: ignore[dict-item]

    return Chosen


# --- reading -------------------------------------------------------------------------


def encoded(text: str, encoding: str) -> bytes:
    """Bytes as old protocols write them."""
    # No other codec is needed, and some of them unpack bombs.
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes written as text by the codec {short_text(encoding)}")
    return codecs.encode(text, "latin1")


def _constructors() -> Iterable[Callable[..., object]]:
    return (
        _utils._rebuild_tensor,
        _utils._rebuild_tensor_v2,
        _utils._rebuild_tensor_v3,
        _utils._rebuild_parameter,
        _utils._rebuild_parameter_with_state,
        _utils._rebuild_meta_tensor_no_storage,
        _utils._rebuild_qtensor,
        _utils._rebuild_from_type_v2,
        _utils._get_layout,
        layouts._rebuild_sparse_tensor,
        layouts._rebuild_nested_tensor,
        layouts._rebuild_njt,
    )


# What any file may make, by the names that PyTorch has.
_HARMLESS: dict[tuple[str, str], object] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("collections", "defaultdict"): defaultdict,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "complex"): complex,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "bytes"): bytes,
    ("builtins", "list"): list,
    ("builtins", "dict"): dict,
    ("builtins", "int"): int,
    ("_codecs", "encode"): encoded,
    ("torch", "UntypedStorage"): UntypedStorage,
    ("torch.nested._internal.nested_tensor", "NestedTensor"): NestedTensor,
    ("torch._dynamo.decorators", "_DimRange"): layouts.DimRange,
    **{place: made for made in _constructors() if (place := torch_place(made)) is not None},
    **{place: cls for cls, place in _CLASSES.items()},
    **{("torch", cls.__name__): cls for cls in TYPED.values()},
    **{("torch.storage", cls.__name__): cls for cls in TYPED.values()},
    **{("torch", kind.name): kind for kind in (*all_dtypes, *opaque_dtypes)},
    **{
        ("torch", kind.name): kind
        for kind in (contiguous_format, preserve_format, channels_last, channels_last_3d)
    },
}
# Those that files name as types only; called with a number, some take so much memory.
_ONLY_NAMED = (Tensor, NestedTensor, UntypedStorage, TypedStorage, dtype, *TYPED.values())
_CALLED = {id(obj) for obj in _HARMLESS.values() if callable(obj)} - {*map(id, _ONLY_NAMED)}
_SAFE: list[object] = []
# Those of the blocks that this thread is in.
_SAFE_HERE: ContextVar[tuple[object, ...]] = ContextVar("safe_globals", default=())


def add_safe_globals(safe_globals: Iterable[object]) -> None:
    """Let files make these classes and functions too; a pair gives one another name."""
    _SAFE.extend(safe_globals)


def get_safe_globals() -> list[object]:
    """Those that `add_safe_globals` was given, and the blocks that this thread is in."""
    return [*_SAFE, *_SAFE_HERE.get()]


def clear_safe_globals() -> None:
    """Forget them."""
    _SAFE.clear()
    _SAFE_HERE.set(())


@contextmanager
def safe_globals(safe_globals: Iterable[object]) -> Iterator[None]:
    """`add_safe_globals` for a block, in this thread."""
    token = _SAFE_HERE.set((*_SAFE_HERE.get(), *safe_globals))
    try:
        yield
    finally:
        _SAFE_HERE.reset(token)


def _allowed() -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for entry in get_safe_globals():
        obj, name = entry if isinstance(entry, tuple) else (entry, "")
        if name:
            module, _, last = str(name).rpartition(".")
            found[module, last] = obj
            continue
        own = (str(getattr(obj, "__module__", "")), str(getattr(obj, "__qualname__", "")))
        found[own] = obj
        found[torch_place(obj) or own] = obj
    return found


def refused_names(pickled: bytes) -> list[str]:
    """The names in a pickle that are neither harmless nor said to be safe, sorted."""
    allowed = _allowed()
    named = {_plain(module, name) for module, name in _names_in(pickled)}
    refused = (pair for pair in named if pair not in _HARMLESS and pair not in allowed)
    return sorted(".".join(pair) for pair in refused)


def _plain(module: str, name: str) -> tuple[str, str]:
    return "builtins" if module == "__builtin__" else module, name


def _names_in(pickled: bytes) -> Iterator[tuple[str, str]]:
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == "GLOBAL":
            module, _, name = str(argument).partition(" ")
            yield module, name
        elif opcode.name == "STACK_GLOBAL":
            yield strings[-2], strings[-1]
        elif isinstance(argument, str):
            strings.append(argument)


PersistentLoad = Callable[[tuple[object, ...]], object]


def trusting(base: type[pickle.Unpickler]) -> type[pickle.Unpickler]:
    """An unpickler of whatever the file names, by PyTorch's names or its own, for trusted files.

    base: the unpickler of the module that the caller chose, the standard library's mostly.
    """

    class TrustingReader(base):  # type: ignore[misc, valid-type]  # a class that the caller gives
        def __init__(self, file: IO[bytes], load_storage: PersistentLoad, encoding: str) -> None:
            super().__init__(file, encoding=encoding)
            self._load_storage = load_storage

        def find_class(self, module: str, name: str) -> object:
            found = _HARMLESS.get(_plain(module, name))
            if found is not None:
                return found
            if module == "torch" or module.startswith("torch."):
                return find(module, name)
            # With the file's names: int is `__builtin__.long` in protocol 2, which pickle knows.
            return super().find_class(module, name)

        def persistent_load(self, pid: object) -> object:
            return self._load_storage(reference(pid))

    return TrustingReader


class CarefulReader(BoundedUnpickler):
    """Unpickles only harmless things and those said to be safe, with the state they keep."""

    def __init__(
        self, file: IO[bytes], load_storage: PersistentLoad, encoding: str, nbytes: int = 0
    ) -> None:
        super().__init__(file, nbytes, encoding)
        self._load_storage = load_storage
        self._safe = _allowed()
        self._safe_calls = {id(obj) for obj in self._safe.values()} - _CALLED

    def find_class(self, module: str, name: str) -> object:
        module = "builtins" if module == "__builtin__" else module
        found = _HARMLESS.get((module, name)) or self._safe.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(
                f"Unsupported global: GLOBAL {module}.{name} was not an allowed global by default. "
                f"If you trust it, allow it by torch.serialization.add_safe_globals([{name}]) or "
                f"in a block `with torch.serialization.safe_globals([{name}])`"
            )
        return found

    def persistent_load(self, pid: object) -> object:
        return self._load_storage(reference(pid))

    def check_call(self, function: object, args: object) -> None:
        """An error for a call of what is not harmless, or of more than the file accounts for."""
        if id(function) in self._safe_calls:
            return
        if id(function) not in _CALLED:
            name = getattr(function, "__name__", short_text(function))
            raise pickle.UnpicklingError(
                f"this file calls {name} with {short_text(args)}, as no saved object does"
            )
        if isinstance(function, type):
            check_container(self.keys, function, args)
            _check_size(function, args)
        super().check_call(function, args)
        inner = inner_call(function, args)
        if inner is not None:
            self.check_call(*inner)

    def check_names(self, function: object, by_name: object) -> None:
        """Arguments by name are for what was said to be safe."""
        if id(function) not in self._safe_calls:
            super().check_names(function, by_name)

    def load_build(self) -> None:
        """BUILD: give the object on top of the stack its state."""
        stack: list[object] = self.stack  # type: ignore[attr-defined]  # typeshed lacks it
        if type(stack[-2]) in self._safe.values():
            super().load_build()  # type: ignore[misc]  # the pure Python class has it
            return
        state = stack.pop()
        if not isinstance(stack[-1], layouts.DimRange):  # which keeps nothing
            _set_state(stack[-1], state)

    dispatch = dict(BoundedUnpickler.dispatch)


CarefulReader.dispatch[pickle.BUILD[0]] = CarefulReader.load_build  # type: ignore[assignment]


def _check_size(function: object, args: object) -> None:
    """UnpicklingError for bytes of a number, for which no file holds them."""
    of_bytes = function in (bytes, bytearray) and isinstance(args, tuple)
    if of_bytes and args and not isinstance(args[0], str | bytes | list):  # type: ignore[index]
        raise pickle.UnpicklingError(
            f"this file calls {function.__name__} with {short_text(args)}, as no saved object does"  # type: ignore[attr-defined]
        )


# What objects keep beside their items: `state_dict` notes versions of modules on its dict.
_STATE: dict[type, frozenset[str]] = {OrderedDict: frozenset(("_metadata",))}


def _set_state(target: object, state: object) -> None:
    """Set attributes that the class of an object is known to keep; an error for any other."""
    declared = _STATE.get(type(target), frozenset())
    if not isinstance(state, dict) or not state.keys() <= declared:
        raise pickle.UnpicklingError(
            f"this file gives a {type(target).__name__} the state {short_text(state)}; expected "
            f"{' or '.join(sorted(declared)) or 'none'}. Save plain containers and tensors only"
        )
    vars(target).update(state)


_MOST_OF_A_REFERENCE = 6


def reference(pid: object) -> tuple[object, ...]:
    """The parts of a reference to a storage; ``pickle.UnpicklingError`` for what is none."""
    if not isinstance(pid, tuple) or len(pid) > _MOST_OF_A_REFERENCE:
        raise pickle.UnpicklingError(f"this file refers to something unknown: {short_text(pid)}")
    return tuple(map(as_text, pid))


def as_text(part: object) -> object:
    """A part of a reference: Python 2 wrote bytes, and with ``encoding="bytes"`` they stay so."""
    return part.decode("ascii") if isinstance(part, bytes) else part


def unpickle(
    file: IO[bytes],
    load_storage: PersistentLoad,
    *,
    trusted: type[pickle.Unpickler] | None,
    encoding: str,
    nbytes: int,
) -> object:
    """The next object of a file; ``pickle.UnpicklingError`` if it is not to be made.

    trusted: the unpickler that may make anything; None makes only what is harmless. nbytes: how
    long the whole file is.
    """
    if trusted is None:
        return CarefulReader(file, load_storage, encoding, nbytes).load()
    reader: Any = trusting(trusted)
    return reader(file, load_storage, encoding).load()


def storage_class(module: str, name: str) -> object | None:
    """The class of storages that a file names; None for any other name."""
    found = _HARMLESS.get((module, name))
    known = found is UntypedStorage or isinstance(found, storage._LegacyStorageMeta)
    return found if known else None


def kind_of(storage_type: object) -> dtype:
    """The dtype of the elements of a storage, by the class of it that a file names."""
    if isinstance(storage_type, storage._LegacyStorageMeta):
        return storage_type.dtype
    if storage_type is UntypedStorage:
        return _BY_NAME["uint8"]
    raise pickle.UnpicklingError(
        f"this file has a storage of the unknown kind {short_text(storage_type)}"
    )


_BY_NAME = {kind.name: kind for kind in all_dtypes}
