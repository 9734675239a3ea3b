"""`torch.utils.dlpack`: exchanging memory with other libraries."""

from __future__ import annotations

import enum

from maquette.tensor.interchange import from_dlpack, to_dlpack


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of kinds of devices, by its header ``dlpack.h``."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
