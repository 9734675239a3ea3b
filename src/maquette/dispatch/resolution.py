"""Which registered kernel serves a key: the alias rules of the dispatcher (spec D55-D60).

The rules ask two questions about an operator (`HasKernels`) and know nothing else of it, so
overloads and higher-order operators share them. The one idea: kernels at alias keys fill the
table of runtime keys in a fixed order of precedence, and a composite definition steps back from
Autograd wherever the operator has a real kernel for that backend.
"""

from __future__ import annotations

from typing import Protocol

from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Factory, Kernel
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, KeyLike

_EXPLICIT = DispatchKey.CompositeExplicitAutograd
_EXPLICIT_NON_FUNCTIONAL = DispatchKey.CompositeExplicitAutogradNonFunctional
_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_IMPLICIT_NESTED = DispatchKey.CompositeImplicitAutogradNestedTensor


FALLBACKS: dict[DispatchKey, Factory] = {}
"""What serves a key for operators that have no kernel there; `operator.set_fallback` adds to it."""


class HasKernels(Protocol):
    """What the rules ask of an operator."""

    def name(self) -> str:
        """The qualified name, for errors."""

    def has_kernel_for_dispatch_key(self, key: DispatchKey) -> bool:
        """Whether a kernel is registered at exactly this key."""

    def has_kernel_for_any_dispatch_key(self, keys: DispatchKeySet) -> bool:
        """Whether a kernel is registered at a runtime key of the set."""


def serving_key(op: HasKernels, key: DispatchKey) -> DispatchKey | None:
    """The key whose registered kernel serves ``key``; None where only a fallback can.

    Raises RuntimeError where a composite definition and a kernel of a backend that shares
    AutogradOther both claim that key (D58).
    """
    if op.has_kernel_for_dispatch_key(key):
        return key
    undefined = key is DispatchKey.Undefined
    for alias in (_EXPLICIT_NON_FUNCTIONAL, _EXPLICIT):
        if _covers(op, alias, key, undefined=undefined):
            return alias
    differentiated = K.get_backend_keyset_from_autograd(key)
    explicit = op.has_kernel_for_dispatch_key(_EXPLICIT)
    own_kernel = explicit or op.has_kernel_for_any_dispatch_key(differentiated)
    if not own_kernel and _covers(op, _IMPLICIT_NESTED, key, undefined=False):
        return _IMPLICIT_NESTED
    if _covers(op, _IMPLICIT, key, undefined=undefined):
        if key is DispatchKey.AutogradOther:
            _check_unambiguous(op)
        if not own_kernel:
            return _IMPLICIT
    for alias in (DispatchKey.Autograd, DispatchKey.FuncTorchBatchedDecomposition):
        if _covers(op, alias, key, undefined=False):
            return alias
    return None


def resolve_key(op: HasKernels, key: KeyLike) -> DispatchKey:
    """The key whose kernel, or fallback, serves ``key`` for ``op``; Python overrides count (D60).

    Raises NotImplementedError where there is none.
    """
    key = K.as_key(key)
    serving = serving_key(op, key)
    if serving is not None:
        return serving
    if key not in FALLBACKS:
        raise NotImplementedError(
            f"could not find a kernel of {op.name()} that serves {key.name}, and there is no "
            f"fallback for that key"
        )
    return key


def fallback_kernel(key: DispatchKey) -> Kernel:
    """What serves a key for operators that have no kernel there, as though it were registered."""
    known = _FALLBACK_KERNELS.get(key)
    factory = FALLBACKS[key]
    if known is None or known.factory is not factory:
        known = Kernel(factory, only_with_grad=K.is_autograd_key(key))
        _FALLBACK_KERNELS[key] = known
    return known


_FALLBACK_KERNELS: dict[DispatchKey, Kernel] = {}


def has_backend_fallback(key: KeyLike) -> bool:
    """Whether a fallback serves every operator that has no kernel at this key (D54)."""
    return K.as_key(key) in FALLBACKS


def _covers(op: HasKernels, alias: DispatchKey, key: DispatchKey, *, undefined: bool) -> bool:
    """Whether ``op`` has a kernel at an alias that stands for ``key``, or ``key`` is Undefined."""
    member = undefined or K.is_included_in_alias(key, alias)
    return member and op.has_kernel_for_dispatch_key(alias)


def _check_unambiguous(op: HasKernels) -> None:
    if op.has_kernel_for_any_dispatch_key(K.autogradother_backends):
        raise RuntimeError(
            f"{op.name()}: ambiguous autogradother kernel: it has a CompositeImplicitAutograd "
            f"kernel and one for a backend that shares the key AutogradOther. Register a kernel at "
            f"AutogradOther, or at Autograd, to say which is meant."
        )
