"""`RoutedDecoder`: files become what their names say."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.iter.lengths import length_of
from maquette.torch.utils.data.datapipes.utils.decoder import (
    Decoder,
    Handler,
    basichandlers,
    extension_extract_fn,
    imagehandler,
)

__all__ = ["RoutedDecoderIterDataPipe"]


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe[tuple[str, Any]]):
    """Of samples of a path and a stream, the path and what the first fitting handler makes of it.

    handlers: functions of a key and bytes; without any, those of plain files and of images.
    key_fn: a path's key, the ending of its name. Deprecated in PyTorch, which this says, too.

    (functional name: ``routed_decode``)
    """

    def __init__(
        self,
        datapipe: Iterable[tuple[str, Any]],
        *handlers: Handler,
        key_fn: Callable[[str], str] = extension_extract_fn,
    ) -> None:
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)
        warnings.warn(
            "`RoutedDecoderIterDataPipe()` and its functional API `.routed_decode()` are "
            "deprecated since 1.12 and will be removed in 1.13.",
            FutureWarning,
            stacklevel=2,
        )

    def add_handler(self, *handler: Handler) -> None:
        """Ask these handlers before the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for sample in self.datapipe:
            path = sample[0]
            yield path, self.decoder(sample)[path]

    def __len__(self) -> int:
        return length_of(self.datapipe, self)
