"""`torch.utils.serialization.config`: settings of saving and loading, kept and not used.

What `torch.save` and `torch.load` do follows their arguments and `torch.serialization`'s setters.
"""

import sys

from maquette.torch.helpers.config_module import install_config_module


class save:  # PyTorch's name
    """Settings of saving."""

    compute_crc32 = True
    use_pinned_memory_for_d2h = False
    storage_alignment = 64


class load:  # PyTorch's name
    """Settings of loading."""

    mmap = False
    endianness = None
    mmap_flags = None
    calculate_storage_offsets = False


install_config_module(sys.modules[__name__])
