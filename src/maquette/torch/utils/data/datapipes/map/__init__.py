"""`torch.utils.data.datapipes.map`: the pipes whose samples have keys."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from maquette.torch.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from maquette.torch.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from maquette.torch.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from maquette.torch.utils.data.datapipes.map.grouping import BatcherMapDataPipe as Batcher
from maquette.torch.utils.data.datapipes.map.utils import (
    SequenceWrapperMapDataPipe as SequenceWrapper,
)

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
__getattr__ = forward(__name__)
