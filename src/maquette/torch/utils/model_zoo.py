"""`torch.utils.model_zoo`: `torch.hub`'s files under an old name."""

from __future__ import annotations

from maquette.torch.hub import download_url_to_file as _download_url_to_file
from maquette.torch.hub import load_state_dict_from_url, tqdm

load_url = load_state_dict_from_url

__all__ = ["_download_url_to_file", "load_state_dict_from_url", "load_url", "tqdm"]
