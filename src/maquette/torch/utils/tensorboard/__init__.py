"""`torch.utils.tensorboard`: figures of a run, written as ``tensorboard`` reads them."""

from __future__ import annotations

from tensorboard.summary.writer.record_writer import RecordWriter

from maquette.torch.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
