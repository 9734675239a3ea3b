"""Storages that were read from a file, on the devices where the file or the caller wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.core.device import canonical, cpu, device
from maquette.core.dtype import dtype
from maquette.dispatch.tls import tls
from maquette.tensor.copying import rebuild_storage
from maquette.tensor.cuda_devices import devices as cuda_devices
from maquette.tensor.saving import FileError
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.typed_storage import TypedStorage
from maquette.torch.saving._utils import StoredElements
from maquette.torch.saving.locations import restored_elsewhere

MapLocation = (
    str | device | Mapping[str, str] | Callable[[UntypedStorage, str], UntypedStorage | None] | None
)
Bytes = npt.NDArray[np.uint8]


class CallersError(BaseException):
    """Carries an error of a function of the caller's past those who speak of damaged files."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def callers_errors() -> Iterator[None]:
    """Let errors of functions that the caller gave leave the block as they are."""
    try:
        yield
    except CallersError as carried:
        raise carried.error from None


def check_map_location(map_location: object) -> None:
    """TypeError for what says no places."""
    kinds = str | device | Mapping
    if not (map_location is None or callable(map_location) or isinstance(map_location, kinds)):
        raise TypeError(
            f"load(): map_location should be a device, its name, a dict of names or a function of "
            f"a storage and its device's name, got {map_location!r}"
        )


def _placed(
    function: Callable[[UntypedStorage, str], object], storage: UntypedStorage, location: str
) -> object:
    try:
        given = function(storage, location)
        if given is not None and not isinstance(given, UntypedStorage | TypedStorage):
            raise TypeError(f"map_location should give a storage or None, got {given!r}")
    except Exception as error:
        raise CallersError(error) from error
    return given


def restored(raw: Bytes, kind: dtype, location: str, map_location: MapLocation) -> StoredElements:
    """The elements of ``raw``, where ``map_location`` puts what was at ``location``.

    FileError for a device that is not here.
    """
    given: Any = None
    if callable(map_location) or map_location is None:
        storage = rebuild_storage(raw.nbytes, cpu, raw, False)
        if callable(map_location):
            given = _placed(map_location, storage, location)
        else:
            given = _placed(restored_elsewhere, storage, location)
    if given is not None:
        untyped = getattr(given, "untyped", None)
        storage = given if untyped is None else untyped()
        return StoredElements(storage, kind, storage.device)
    return _moved(raw, kind, canonical(_place(location, map_location)))


def _moved(raw: Bytes, kind: dtype, where: device) -> StoredElements:
    if tls.st.fake_mode is not None:  # whose tensors are made of data on cpu
        return StoredElements(rebuild_storage(raw.nbytes, cpu, raw, False), kind, where)
    data = None if where.type == "meta" else raw
    return StoredElements(rebuild_storage(raw.nbytes, where, data, False), kind, where)


def _place(saved: str, map_location: MapLocation) -> device:
    wanted: object = saved
    if isinstance(map_location, Mapping):
        wanted = map_location.get(saved, saved)
    elif map_location is not None and not callable(map_location):
        wanted = map_location
    try:
        found = wanted if isinstance(wanted, device) else device(str(wanted))
    except RuntimeError:
        raise FileError(
            f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with "
            f"{wanted})"
        ) from None
    if found.type in _ABSENT and tls.st.fake_mode is None and not _ABSENT[found.type]():
        raise FileError(
            f"Attempting to deserialize object on a {found.type.upper()} device but torch."
            f"{found.type}.is_available() is False. If you are running on a CPU-only machine, "
            f"please use torch.load with map_location=torch.device('cpu') to map your storages to "
            f"the CPU."
        )
    return found


# Devices that may not be here, and who knows it.
_ABSENT: dict[str, Callable[[], object]] = {"cuda": cuda_devices, "xpu": lambda: False}
