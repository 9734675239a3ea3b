"""Where storages of files go, by the tags that files have: ``cpu``, ``meta``, ``cuda:0``."""

from __future__ import annotations

from types import ModuleType
from typing import Any

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


def location_tag(storage: Storage) -> str:
    """The tag that `save` writes for a storage: its device."""
    return str(storage.device)


def default_restore_location(storage: Storage, location: str) -> Storage:
    """The storage on the device that a tag names; RuntimeError for a device that is not here."""
    kind = location.partition(":")[0]
    if kind == storage.device.type:
        return storage
    if kind in ("cpu", "meta"):
        moved: Storage = storage.to(device=kind)
        return moved
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
    "validate_cuda_device",
]
