"""`get_kernel`: what serves an operator at a key now, as something to call later.

A handle keeps the kernel that was on top when it was fetched, so that an override may call what it
overrides.
"""

from __future__ import annotations

from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Boxed, Kernel
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, KeyLike
from maquette.dispatch.operator import OpOverload, keys_of
from maquette.dispatch.schemas.matching import bind
from maquette.dispatch.tls import tls


class KernelHandle:
    """A kernel of an operator, immune to later overrides; made by `get_kernel`."""

    def __init__(self, op: OpOverload, key: DispatchKey, kernel: Kernel) -> None:
        self._op = op
        self._key = key
        self._kernel = kernel
        self._built: dict[int, Boxed] = {}

    def __repr__(self) -> str:
        place = self._kernel.place or self._op.place
        return f"<KernelHandle({self._op.name()} at {self._key.name}, from {place})>"

    def call_boxed(self, keyset: DispatchKeySet, /, *args: object, **kwargs: object) -> object:
        """Run the kernel as if ``keyset`` were the effective key set.

        Raises RuntimeError when the operator has been destroyed.
        """
        op = self._op
        if not op.alive:
            op._raise_stale()
        params = bind(op._schema, args, kwargs, takes_numbers=op.takes_numbers)
        ks = keyset.raw_repr() | (keys_of(params) & ~K.VISIBLE & tls.st.keep)
        built = self._built.get(ks)
        if built is None:
            made = self._kernel.factory(op, ks)
            if made is None:
                raise RuntimeError(f"{self} falls through: it has nothing to run")
            built = self._built[ks] = made
        return built(ks, *params)


def kernel_handle(op: OpOverload, key: KeyLike) -> KernelHandle:
    """A handle on what serves ``op`` at a runtime key now, composites included.

    Raises ValueError for an unknown key, RuntimeError for an alias key or where nothing serves it.
    """
    found = key if isinstance(key, DispatchKey) else K.parse_dispatch_key(key)
    if found is None:
        raise ValueError(f"get_kernel: {key!r} is no dispatch key; list(DispatchKey) has them all")
    if K.is_alias_key(found):
        raise RuntimeError(
            f"get_kernel: {found.name} is an alias key, for which no kernel runs; name a runtime "
            f"key, such as CPU"
        )
    kernel = op.kernel_at(found)
    if kernel is None:
        raise RuntimeError(f"get_kernel: no kernel of {op.name()} serves {found.name}")
    return KernelHandle(op, found, kernel)
