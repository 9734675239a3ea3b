"""Five operators of one's own, written with maquette's public names."""

from sample_ops.kv_cache import kv_append
from sample_ops.nucleus import nucleus, sample
from sample_ops.rms_norm import rms_norm
from sample_ops.sharded_embedding import embed, sharded_embedding
from sample_ops.vocabulary import Vocabulary, lookup

__all__ = [
    "Vocabulary",
    "embed",
    "kv_append",
    "lookup",
    "nucleus",
    "rms_norm",
    "sample",
    "sharded_embedding",
]
