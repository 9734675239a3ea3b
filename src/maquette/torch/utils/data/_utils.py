"""`torch.utils.data._utils`: how batches are collated and what workers do, at torch's paths."""

from __future__ import annotations

from maquette.torch.face.forwarding import forward
from maquette.torch.utils.data import collate
from maquette.torch.utils.data import workers as worker
from maquette.torch.utils.data.workers import MP_STATUS_CHECK_INTERVAL

__all__ = ["MP_STATUS_CHECK_INTERVAL", "collate", "worker"]
__getattr__ = forward(__name__, "maquette.torch.utils.data")
