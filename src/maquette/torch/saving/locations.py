"""Where storages of files go, by the tags that files have: ``cpu``, ``meta``, ``cuda:0``."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from maquette.tensor.storage import UntypedStorage
from maquette.tensor.typed_storage import TypedStorage

Storage = UntypedStorage | TypedStorage


class SourceChangeWarning(Warning):
    """A module's source is another than when it was saved: files of today do not say."""


class StorageType:
    """What the unpickler of zip files makes of the name of a storage class: its dtype."""

    def __init__(self, name: str) -> None:
        kind: Any = normalize_storage_type(name)
        self._dtype: object = kind.dtype

    @property
    def dtype(self) -> object:
        """The dtype of its elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


Tagger = Callable[[Storage], str | None]
Deserializer = Callable[[Storage, str], Storage | None]


class _Package(NamedTuple):
    """How storages of a device are tagged and brought back; the least priority is asked first."""

    priority: int
    tagger: Tagger
    deserializer: Deserializer


def _device_of(storage: Storage) -> str:
    return str(storage.device)


def _on_host(storage: Storage, location: str) -> Storage | None:
    kind = location.partition(":")[0]
    if kind == storage.device.type:
        return storage
    if kind not in ("cpu", "meta"):
        return None
    moved: Storage = storage.to(device=kind)
    return moved


_PACKAGES = [_Package(10, _device_of, _on_host)]


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Tag storages as ``tagger`` says and bring them back by ``deserializer``; None: not its own.

    Packages are asked in the order of their priorities; that of cpu and of all devices here is 10.
    """
    _PACKAGES.append(_Package(priority, tagger, deserializer))
    _PACKAGES.sort(key=lambda package: package.priority)


def restored_elsewhere(storage: Storage, location: str) -> Storage | None:
    """What a registered package makes of a storage with its tag; None where none knows the tag."""
    asked = (p.deserializer(storage, location) for p in _PACKAGES if p.tagger is not _device_of)
    return next((found for found in asked if found is not None), None)


def location_tag(storage: Storage) -> str:
    """The tag that `save` writes for a storage: its device, if no package says another."""
    tags = (package.tagger(storage) for package in _PACKAGES)
    return next(filter(None, tags))


def default_restore_location(storage: Storage, location: str) -> Storage:
    """The storage where a tag says; RuntimeError for a device that is not here."""
    for package in _PACKAGES:
        found = package.deserializer(storage, location)
        if found is not None:
            return found
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with "
        f"{location}): there is no such device here; give map_location='cpu'"
    )


def normalize_storage_type(storage_type: type | str) -> type:
    """The class of torch's, ``torch.FloatStorage``, of a class of a device's, or of its name."""
    import maquette.torch as torch  # noqa: PLC0415  # it imports this

    name = storage_type if isinstance(storage_type, str) else storage_type.__name__
    found: type = getattr(torch, name)
    return found


def check_module_version_greater_or_equal(
    module: ModuleType, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's version is as new as required.

    Raises RuntimeError for a version that is not made of numbers, or warns of none.
    """
    try:
        parts = [int(part) for part in module.__version__.split(".")[: len(req_version_tuple)]]
    except ValueError as error:
        if error_if_malformed:
            raise RuntimeError(
                f"'{module.__name__}' module version string is malformed '{module.__version__}' "
                f"and cannot be compared with tuple {req_version_tuple}"
            ) from error
        return True
    return tuple(parts) >= req_version_tuple


def validate_cuda_device(location: str) -> int:
    """RuntimeError: there is no such device to load to."""
    raise RuntimeError(
        f"Attempting to deserialize object on a CUDA device ({location}) but "
        f"torch.cuda.is_available() is False. If you are running on a CPU-only machine, please use "
        f"torch.load with map_location=torch.device('cpu') to map your storages to the CPU."
    )


__all__ = [
    "SourceChangeWarning",
    "StorageType",
    "check_module_version_greater_or_equal",
    "default_restore_location",
    "location_tag",
    "normalize_storage_type",
    "register_package",
    "validate_cuda_device",
]
