"""`torch.distributed.checkpoint.format_utils`: a checkpoint's folder as one file, and back.

Loading one file in several processes, with planners, is absent by name.
"""

from __future__ import annotations

import os

from maquette.torch.distributed.checkpoint.states import load_whole, save
from maquette.torch.face.forwarding import forward
from maquette.torch.saving import serialization


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write all that the checkpoint of a folder holds to a file, as `torch.save` does.

    Keys of mappings are texts in a folder, and stay so. CheckpointException for a folder that
    cannot be read; it has pickles, so read none that you do not trust.
    """
    serialization.save(load_whole(dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what a file of `torch.save` holds to a folder.

    The file may run code: read none that you do not trust. FileError for one that is damaged.
    """
    save(serialization.load(torch_save_path, weights_only=False), checkpoint_id=dcp_checkpoint_dir)


__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]
__getattr__ = forward(__name__)
