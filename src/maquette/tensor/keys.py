"""The key sets of tensors: by device, in inference mode, with the bits of lazy conjugation.

A key set is an ``int``; beside the keys that PyTorch shows it carries hidden bits, such as
REQUIRES_GRAD. Key sets of plain tensors are remembered in their metas.
"""

from __future__ import annotations

import functools

from maquette.core.device import device
from maquette.core.layout import layout as Layout
from maquette.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from maquette.core.meta import TensorMeta
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey

FAKE = K.functionality_bits(DispatchKey.Fake)
ADINPLACE = K.functionality_bits(DispatchKey.ADInplaceOrView)
CONJUGATE = K.functionality_bits(DispatchKey.Conjugate)
NEGATIVE = K.functionality_bits(DispatchKey.Negative)
# What a result never takes over from an argument: it is new to autograd and to constants.
NOT_INHERITED = ~(K.REQUIRES_GRAD | K.CONSTANT | K.TORCH_FUNCTION)


FAMILY: dict[object, str] = dict.fromkeys(
    (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc), "SparseCsr"
)
FAMILY[sparse_coo] = "Sparse"
"""The functionality that the backend's key of a sparse layout belongs to, as its name begins."""

# Key sets of plain tensors, each one object: calls compare them by identity first.
_KEYS: dict[int, int] = {}


def keys_for(meta: TensorMeta) -> int:
    """The key set of a plain tensor of this meta (D14), computed once per meta."""
    known = meta.keys
    if known:
        return known
    ks, fake, fake_grad = _key_sets(meta.device.type, meta.layout, meta.is_symbolic)
    meta.keys, meta.fake_keys, meta.fake_grad_keys = ks, fake, fake_grad
    return ks


@functools.cache  # a meta of symbols is new in each call: 3 us of a first call's 150
def _key_sets(device_type: str, layout: Layout, symbolic: bool) -> tuple[int, int, int]:
    """The keys of a plain tensor, of a fake one, and of a fake that requires a gradient."""
    backend = K.BACKEND_OF_DEVICE.get(device_type, "PrivateUse1")
    ks = K.key_bits(K.key_parse(FAMILY.get(layout, "") + backend))
    ks |= K.key_bits(K.key_parse("Autograd" + backend)) | ADINPLACE
    autocast = K.parse_dispatch_key("Autocast" + backend)
    if autocast is not None:
        ks |= K.key_bits(autocast)
    fake = ks | FAKE | (K.SYMBOLIC if symbolic else 0)
    fake_grad = fake | K.REQUIRES_GRAD
    return (
        _KEYS.setdefault(ks, ks),
        _KEYS.setdefault(fake, fake),
        _KEYS.setdefault(fake_grad, fake_grad),
    )


def fake_keys_for(meta: TensorMeta) -> int:
    """The key set of a fake tensor of this meta: its own device's keys, and Fake (D4)."""
    if not meta.fake_keys:
        keys_for(meta)
    return meta.fake_keys


def keys_for_device(where: device) -> int:
    """The backend bit and dense functionality of a device."""
    return K.key_bits(K.key_parse(K.BACKEND_OF_DEVICE.get(where.type, "PrivateUse1")))


def inference_keys(meta: TensorMeta) -> int:
    """Key set of a tensor born in inference mode: without ADInplaceOrView and Autograd (D14)."""
    return keys_for(meta) & ~(ADINPLACE | K.AUTOGRAD)
