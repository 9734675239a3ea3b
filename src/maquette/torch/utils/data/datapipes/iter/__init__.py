"""`torch.utils.data.datapipes.iter`: the pipes that are read one sample after another."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data.datapipes.iter.callable import (
    CollatorIterDataPipe as Collator,
)
from maquette.torch.utils.data.datapipes.iter.callable import (
    MapperIterDataPipe as Mapper,
)
from maquette.torch.utils.data.datapipes.iter.combinatorics import (
    SamplerIterDataPipe as Sampler,
)
from maquette.torch.utils.data.datapipes.iter.combinatorics import (
    ShufflerIterDataPipe as Shuffler,
)
from maquette.torch.utils.data.datapipes.iter.combining import (
    ConcaterIterDataPipe as Concater,
)
from maquette.torch.utils.data.datapipes.iter.combining import (
    MultiplexerIterDataPipe as Multiplexer,
)
from maquette.torch.utils.data.datapipes.iter.combining import (
    ZipperIterDataPipe as Zipper,
)
from maquette.torch.utils.data.datapipes.iter.filelister import (
    FileListerIterDataPipe as FileLister,
)
from maquette.torch.utils.data.datapipes.iter.fileopener import (
    FileOpenerIterDataPipe as FileOpener,
)
from maquette.torch.utils.data.datapipes.iter.grouping import (
    BatcherIterDataPipe as Batcher,
)
from maquette.torch.utils.data.datapipes.iter.grouping import (
    GrouperIterDataPipe as Grouper,
)
from maquette.torch.utils.data.datapipes.iter.grouping import (
    UnBatcherIterDataPipe as UnBatcher,
)
from maquette.torch.utils.data.datapipes.iter.routeddecoder import (
    RoutedDecoderIterDataPipe as RoutedDecoder,
)
from maquette.torch.utils.data.datapipes.iter.selecting import (
    FilterIterDataPipe as Filter,
)
from maquette.torch.utils.data.datapipes.iter.sharding import (
    ShardingFilterIterDataPipe as ShardingFilter,
)
from maquette.torch.utils.data.datapipes.iter.splitting import (
    DemultiplexerIterDataPipe as Demultiplexer,
)
from maquette.torch.utils.data.datapipes.iter.splitting import (
    ForkerIterDataPipe as Forker,
)
from maquette.torch.utils.data.datapipes.iter.streamreader import (
    StreamReaderIterDataPipe as StreamReader,
)
from maquette.torch.utils.data.datapipes.iter.utils import (
    IterableWrapperIterDataPipe as IterableWrapper,
)

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "RoutedDecoder",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]
__getattr__ = forward(__name__)
