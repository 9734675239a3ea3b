"""`StreamReader`: what is in streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["StreamReaderIterDataPipe"]


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Of samples of a label and a stream, the label and what is read: all, or ``chunk`` at a time.

    A stream is closed after its end.

    (functional name: ``read_from_stream``)
    """

    def __init__(self, datapipe: IterDataPipe[tuple[str, Any]], chunk: int | None = None) -> None:
        self.datapipe = datapipe
        self.chunk = chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for label, stream in self.datapipe:
            while part := stream.read(self.chunk):
                yield label, part
            stream.close()
