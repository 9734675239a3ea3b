"""`FileOpener`: paths become open files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import no_length
from maquette.torch.utils.data.datapipes.utils.common import (
    StreamWrapper,
    get_file_binaries_from_pathnames,
)

__all__ = ["FileOpenerIterDataPipe"]


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[tuple[str, StreamWrapper]]):
    """Each path with its open file, which is closed when nobody holds it.

    mode: "r" or "t" for text, in ``encoding``, "b" for bytes. length: what ``len`` says; TypeError
    if it is -1. ValueError for other modes, and for an encoding of bytes.

    (functional name: ``open_files``)
    """

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe = datapipe
        self.mode = mode
        self.encoding = encoding
        self.length = length

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)

    def __len__(self) -> int:
        if self.length == -1:
            raise no_length(self)
        return self.length
