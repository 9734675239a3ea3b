"""Stores: small values by name, through which processes meet; here those of one process.

A value is bytes; a counter is the text of its number, as other processes would read it. Waiting for
a name that nobody sets ends at the timeout: another thread may set it.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

_TIMEOUT = timedelta(seconds=300)


class DistError(RuntimeError):
    """Something in `torch.distributed` failed."""


class DistStoreError(DistError):
    """A store did not answer in time."""


class DistBackendError(DistError):
    """A backend failed."""


class DistNetworkError(DistError):
    """A connection failed."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has nothing."""


class Store:
    """Values by name; subclasses say where they are kept, in `_values`."""

    def __init__(self) -> None:
        self._timeout = _TIMEOUT
        self._changed = threading.Condition(threading.RLock())
        self._held: dict[str, bytes] = {}

    @contextlib.contextmanager
    def _values(self) -> Iterator[dict[str, bytes]]:
        """The values, to be read and changed in the block."""
        with self._changed:
            yield self._held
            self._changed.notify_all()

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Keep a value."""
        with self._values() as values:
            values[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        """The value of a name, when there is one; DistStoreError at the timeout."""
        self.wait([key])
        with self._values() as values:
            return values[key]

    def add(self, key: str, amount: int) -> int:
        """Count on, from 0 where there is no counter yet; gives the new count."""
        with self._values() as values:
            count = int(values.get(key, b"0")) + amount
            values[key] = str(count).encode()
            return count

    def append(self, key: str, value: str | bytes) -> None:
        """Add to the end of a value."""
        with self._values() as values:
            values[key] = values.get(key, b"") + _bytes(value)

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Set a value that is as expected, or absent with "" expected; gives what is there then."""
        with self._values() as values:
            if values.get(key, b"") == _bytes(expected):
                values[key] = _bytes(desired)
            return values.get(key, _bytes(expected))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all names have values."""
        with self._values() as values:
            return all(key in values for key in keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all names have values; DistStoreError at the timeout."""
        until = time.monotonic() + (timeout or self._timeout).total_seconds()
        while not self.check(keys):
            left = until - time.monotonic()
            if left <= 0:
                raise DistStoreError(f"Wait timeout: nobody has set {', '.join(keys)}")
            with self._changed:
                self._changed.wait(min(left, 0.05))

    def delete_key(self, key: str) -> bool:
        """Forget a value; gives whether there was one."""
        with self._values() as values:
            return values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many names have values."""
        with self._values() as values:
            return len(values)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """`get` of several names."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """`set` of several names."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` work: True."""
        return True


class HashStore(Store):
    """A store in memory."""


class FileStore(Store):
    """A store in a file, which processes one after the other may open."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        self.world_size = world_size

    @contextlib.contextmanager
    def _values(self) -> Iterator[dict[str, bytes]]:
        file = Path(self.path)
        with self._changed:
            raw = file.read_text() if file.exists() else "{}"
            self._held = {key: bytes.fromhex(text) for key, text in json.loads(raw or "{}").items()}
            yield self._held
            now = json.dumps({key: value.hex() for key, value in self._held.items()})
            if now != raw:
                file.write_text(now)
            self._changed.notify_all()


class TCPStore(Store):
    """The store of a server: here in memory, for the one process that there is.

    Raises NotImplementedError for more workers, or where it is not to be the server.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if not is_master or (world_size or 1) > 1:
            raise NotImplementedError(
                f"TCPStore of {world_size} workers, is_master={is_master}: maquette has process "
                f"groups of one process only, and no server for others"
            )
        self.host, self.port = host_name, port
        self._timeout = timeout


class PrefixStore(Store):
    """Another store, with a prefix before each name."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix = prefix
        self.underlying_store = store

    @contextlib.contextmanager
    def _values(self) -> Iterator[dict[str, bytes]]:
        beginning = f"{self.prefix}/"
        with self.underlying_store._values() as values:
            own = {
                k.removeprefix(beginning): v for k, v in values.items() if k.startswith(beginning)
            }
            before = dict(own)
            yield own
            for key in before.keys() - own.keys():
                del values[beginning + key]
            values.update({beginning + key: value for key, value in own.items()})


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
