"""`torch.utils.file_baton`: a lock that processes hold by a file, of which the first makes one."""

from __future__ import annotations

import os
import time
import warnings


class FileBaton:
    """A lock that is held while its file exists.

    wait_seconds: between looks in `wait`; warn_after_seconds: when `wait` warns once, None never.
    """

    def __init__(
        self,
        lock_file_path: str,
        wait_seconds: float = 0.1,
        warn_after_seconds: float | None = None,
    ) -> None:
        self.lock_file_path = lock_file_path
        self.wait_seconds = wait_seconds
        self.warn_after_seconds = warn_after_seconds
        self.fd: int | None = None

    def try_acquire(self) -> bool:
        """Whether this process made the file, and so holds the lock."""
        try:
            self.fd = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def wait(self) -> None:
        """Sleep until the file is gone."""
        patience = self.warn_after_seconds
        began = time.monotonic()
        while os.path.exists(self.lock_file_path):
            time.sleep(self.wait_seconds)
            if patience is not None and time.monotonic() - began > patience:
                warnings.warn(
                    f'Waited on lock file "{self.lock_file_path}" for {patience} seconds.',
                    stacklevel=2,
                )
                patience = None

    def release(self) -> None:
        """Give the lock back: the file is removed. OSError where there is none."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
        os.remove(self.lock_file_path)
