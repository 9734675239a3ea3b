"""Dispatch keys and key sets: which kernels a call may run, highest first (spec D1-D13).

A key set is one Python int, backend bits times functionality bits. `DispatchKey` names its
members, `DispatchKeySet` is the public, immutable view of such an int, and the module-level
functions work on the bare int for the dispatcher. Which keys a thread includes or excludes is in
`tls.py`; which kernel serves a key, in `operator.py`. The one idea: a per-backend runtime key
(``AutogradCUDA``) has no bit of its own; it is present iff both its functionality bit and its
backend bit are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

_BACKEND_NAMES = """
    CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta
"""
_FUNCTIONALITY_NAMES = """
    Dense FPGA Vulkan Metal Quantized CustomRNGKeyId MkldnnCPU Sparse SparseCsr NestedTensor
    BackendSelect Fake Python FuncTorchDynamicLayerBackMode Functionalize Conjugate Negative
    ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor Tracer
    AutocastCPU AutocastMTIA AutocastMAIA AutocastXPU AutocastIPU AutocastHPU AutocastXLA
    AutocastMPS AutocastCUDA AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor
    FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot
    FuncTorchDynamicLayerFrontMode TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode PreDispatch
    PythonDispatcher
"""
_BACKENDS = tuple(_BACKEND_NAMES.split())  # D2, low to high: bits from 0 up
_FUNCTIONALITIES = tuple(_FUNCTIONALITY_NAMES.split())  # D3, low to high: bits from 16 up
# The functionalities with one runtime key per backend, and how the names of those begin.
_FAMILIES = {
    "Dense": "",
    "Quantized": "Quantized",
    "Sparse": "Sparse",
    "SparseCsr": "SparseCsr",
    "NestedTensor": "NestedTensor",
    "AutogradFunctionality": "Autograd",
}
_WIDTH = len(_BACKENDS)
_FIRST_FAMILY_VALUE = len(_FUNCTIONALITIES) + 2  # PyTorch spends one number on "end of these"
_FIRST_ALIAS_VALUE = _FIRST_FAMILY_VALUE + len(_FAMILIES) * (_WIDTH + 1)

BACKENDS = (1 << _WIDTH) - 1
"""All backend bits."""
VISIBLE = (1 << _WIDTH + len(_FUNCTIONALITIES)) - 1
"""Every bit that a public key set can show."""
CONSTANT = VISIBLE + 1
"""Hidden bit: the tensor's value is known, though it is fake."""
REQUIRES_GRAD = CONSTANT << 1
"""Hidden bit: the tensor requires grad. A thread's ``keep`` drops it while grad mode is off."""
TORCH_FUNCTION = CONSTANT << 2
"""Hidden bit: a ``__torch_function__`` override or an active TorchFunctionMode wants the call."""
INFERENCE = CONSTANT << 3
"""Hidden bit: the thread is in inference mode, so that kernels are resolved for it."""
WATCHED = CONSTANT << 4
"""Hidden bit: autograd watches what it records (saved tensor hooks, anomaly detection)."""
SYMBOLIC = CONSTANT << 5
"""Hidden bit: a size, a stride or the offset of a fake tensor is symbolic."""
ALL_BITS = (CONSTANT << 6) - 1
"""Every bit, hidden ones included."""


class _KeyClass(type):
    """What makes `DispatchKey` feel like an enum: iteration, length, members by name."""

    def __iter__(cls) -> Iterator[DispatchKey]:
        return iter(_MEMBERS.values())

    def __len__(cls) -> int:
        return len(_MEMBERS)

    def __getattr__(cls, name: str) -> DispatchKey:
        # Members are plain class attributes; only names of other things come here.
        raise AttributeError(f"DispatchKey has no member {name!r}; list(DispatchKey) has them all")

    @property
    def __members__(cls) -> Mapping[str, DispatchKey]:
        return MappingProxyType(_MEMBERS)


class DispatchKey(metaclass=_KeyClass):
    """One dispatch key. The members are attributes of the class, made once: compare with ``is``.

    ``name``: "CPU"; ``value``: PyTorch's number for it; ``bits``: what it adds to a key set (none
    for an alias key); ``functionality_bits``: the part of that which is no backend bit, for an
    alias its members'; ``members``: as a key set's int, the runtime keys that an alias stands for,
    otherwise ``bits``. Keys are ordered by dispatch priority, alias keys last, so that ``sorted``
    agrees with the order in which a key set lists them. ``DispatchKey("CPU")`` and
    ``DispatchKey(49)`` find a member.

    >>> DispatchKey.CPU
    <DispatchKey.CPU: 49>
    >>> DispatchKey.CPU < DispatchKey.Python < DispatchKey.AutogradCPU
    True
    """

    __slots__ = ("bits", "functionality_bits", "members", "name", "priority", "value")

    name: str
    value: int
    priority: int
    bits: int
    functionality_bits: int
    members: int

    def __new__(cls, key: DispatchKey | str | int) -> DispatchKey:
        """The existing member of this name or number; no other can be made."""
        if not isinstance(key, int):
            return as_key(key)
        for member in _MEMBERS.values():
            if member.value == key:
                return member
        raise ValueError(f"{key} is not the number of a dispatch key")

    @property
    def is_alias(self) -> bool:
        """Whether the key stands for a group of runtime keys and has no bits of its own."""
        return self.value >= _FIRST_ALIAS_VALUE

    def __lt__(self, other: DispatchKey) -> bool:
        return self.priority < other.priority if isinstance(other, DispatchKey) else NotImplemented

    def __le__(self, other: DispatchKey) -> bool:
        return self.priority <= other.priority if isinstance(other, DispatchKey) else NotImplemented

    def __gt__(self, other: DispatchKey) -> bool:
        return self.priority > other.priority if isinstance(other, DispatchKey) else NotImplemented

    def __ge__(self, other: DispatchKey) -> bool:
        return self.priority >= other.priority if isinstance(other, DispatchKey) else NotImplemented

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __repr__(self) -> str:
        return f"<DispatchKey.{self.name}: {self.value}>"

    def __reduce__(self) -> tuple[Callable[[str], DispatchKey], tuple[str]]:
        return key_parse, (self.name,)


KeyLike = DispatchKey | str
"""Every function that takes a key also takes its name (D1)."""

_MEMBERS: dict[str, DispatchKey] = {}
# _RUNTIME[f][b]: the runtime key of the f-th functionality with the b-th backend, both counted from
# 1, as `int.bit_length` counts; row 0 is no functionality, column 0 no backend.
_RUNTIME: list[list[DispatchKey]] = []


def _add_member(name: str, value: int, priority: int, bits: int, members: int) -> DispatchKey:
    key = object.__new__(DispatchKey)
    key.name = name
    key.value = value
    key.priority = priority
    key.bits = bits
    key.functionality_bits = members & ~BACKENDS
    key.members = members
    _MEMBERS[name] = key
    setattr(DispatchKey, name, key)
    return key


def _add_functionality(position: int, name: str) -> None:
    bit = 1 << (_WIDTH + position - 1)
    priority = position * (_WIDTH + 1)
    key = _add_member(name, position, priority, bit, bit)
    row = [key] * (_WIDTH + 1)
    if name in _FAMILIES:
        row = [_UNDEFINED]
        value = _FIRST_FAMILY_VALUE + list(_FAMILIES).index(name) * (_WIDTH + 1)
        for b, backend in enumerate(_BACKENDS):
            bits = bit | 1 << b
            runtime_name = _FAMILIES[name] + backend
            row.append(_add_member(runtime_name, value + b + 1, priority + b + 1, bits, bits))
    _RUNTIME.append(row)


_UNDEFINED = _add_member("Undefined", 0, 0, 0, 0)
_RUNTIME.append([_UNDEFINED] * (_WIDTH + 1))
for _position, _name in enumerate(_FUNCTIONALITIES, start=1):
    _add_functionality(_position, _name)


def _bits_of(names: Iterable[str]) -> int:
    """The functionality bits of these names."""
    bits = 0
    for name in names:
        bits |= _MEMBERS[name].functionality_bits
    return bits


PER_BACKEND = _bits_of(_FAMILIES)
"""The functionality bits that name a runtime key only together with a backend bit."""
AUTOGRAD = _bits_of(("AutogradOther", "AutogradFunctionality", "AutogradNestedTensor"))
"""The functionality bits below which no call is recorded for the backward pass."""
AUTOCAST = _bits_of(name for name in _FUNCTIONALITIES if name.startswith("Autocast"))
"""The functionality bits of every device's autocast key."""
_ALONE = VISIBLE & ~BACKENDS & ~PER_BACKEND
_PYTHON_DISPATCHER = _bits_of(("PythonDispatcher",))

_OTHER_BACKENDS = _bits_of(
    ("FPGA", "Vulkan", "Metal", "CustomRNGKeyId", "MkldnnCPU", "Quantized", "Sparse", "SparseCsr")
)
_DENSE = _bits_of(("Dense",))
_NESTED = _bits_of(("NestedTensor",))
_AUTOGRAD_NESTED = _bits_of(("AutogradNestedTensor",))
_EXPLICIT = _OTHER_BACKENDS | _DENSE | BACKENDS
_NOT_FUNCTIONAL_BACKENDS = (_MEMBERS["XLA"].bits | _MEMBERS["Lazy"].bits) & BACKENDS
# D10: the runtime keys of each alias, as a key set's int.
_ALIASES = {
    "Autograd": AUTOGRAD | BACKENDS,
    "CompositeImplicitAutograd": _EXPLICIT | _NESTED | AUTOGRAD,
    "FuncTorchBatchedDecomposition": _bits_of(("FuncTorchBatched",)),
    "CompositeImplicitAutogradNestedTensor": _NESTED | _AUTOGRAD_NESTED | BACKENDS,
    "CompositeExplicitAutograd": _EXPLICIT,
    "CompositeExplicitAutogradNonFunctional": _EXPLICIT
    & ~_bits_of(("Sparse",))
    & ~_NOT_FUNCTIONAL_BACKENDS,
}
_FIRST_ALIAS_PRIORITY = (len(_FUNCTIONALITIES) + 1) * (_WIDTH + 1)
for _position, _name in enumerate(_ALIASES):
    _value, _priority = _FIRST_ALIAS_VALUE + _position, _FIRST_ALIAS_PRIORITY + _position
    _add_member(_name, _value, _priority, 0, _ALIASES[_name])


class DispatchKeySet:
    """An immutable set of dispatch keys: backend bits times functionality bits in one int (D5).

    Made from keys, their names and other sets; an alias key contributes nothing (D9). Iteration
    and ``repr`` give the runtime keys in ascending priority. Unlike PyTorch's, it is hashable.

    >>> DispatchKeySet("CPU") | DispatchKeySet("AutogradCUDA")
    DispatchKeySet(CPU, CUDA, AutogradCPU, AutogradCUDA)
    """

    __slots__ = ("_bits",)

    _bits: int

    def __init__(self, *keys: KeyLike | DispatchKeySet) -> None:
        bits = 0
        for key in keys:
            bits |= key._bits if isinstance(key, DispatchKeySet) else as_key(key).bits
        self._bits = bits

    @staticmethod
    def from_raw_repr(bits: int) -> DispatchKeySet:
        """The set of this int, less the dispatcher's hidden bits, which no public set has."""
        made = object.__new__(DispatchKeySet)
        made._bits = bits & VISIBLE
        return made

    def raw_repr(self) -> int:
        """The set as an int: backend bits from 0, functionality bits from 16."""
        return self._bits

    def has(self, key: KeyLike) -> bool:
        """Whether the key is present: for an alias key, any of its members (D9).

        Undefined is never present. PyTorch answers True for it, and for every alias key.
        """
        key = as_key(key)
        if key.is_alias:
            return _names_a_key(self._bits & key.members)
        return key is not _UNDEFINED and self._bits & key.bits == key.bits

    def add(self, key: KeyLike) -> DispatchKeySet:
        """The set with the key's bits."""
        return self.from_raw_repr(self._bits | as_key(key).bits)

    def remove(self, key: KeyLike) -> DispatchKeySet:
        """The set without the key's functionality (an alias: its members'), all backend bits kept.

        Removing one runtime key of a family therefore removes the whole family (D7).
        """
        return self.from_raw_repr(self._bits & ~as_key(key).functionality_bits)

    def highestPriorityTypeId(self) -> DispatchKey:
        """The key that a call with this set runs; Undefined for a set without runtime keys (D6)."""
        return highest(self._bits)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        if not isinstance(other, DispatchKeySet):
            return NotImplemented
        return self.from_raw_repr(self._bits | other._bits)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        if not isinstance(other, DispatchKeySet):
            return NotImplemented
        return self.from_raw_repr(self._bits & other._bits)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        if not isinstance(other, DispatchKeySet):
            return NotImplemented
        return self.from_raw_repr(self._bits & (~other._bits | BACKENDS))

    def __eq__(self, other: object) -> bool:
        return self._bits == other._bits if isinstance(other, DispatchKeySet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bits)

    def __contains__(self, key: KeyLike) -> bool:
        return self.has(key)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(runtime_keys(self._bits))

    def __len__(self) -> int:
        return len(runtime_keys(self._bits))

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"

    def __reduce__(self) -> tuple[Callable[[int], DispatchKeySet], tuple[int]]:
        return DispatchKeySet.from_raw_repr, (self._bits,)


# --- on ints: what the dispatcher calls -------------------------------------------------------


def key_bits(key: DispatchKey) -> int:
    """The bits that a key adds to a set: a functionality bit and, of a family, a backend bit."""
    return key.bits


def functionality_bits(key: DispatchKey) -> int:
    """The functionality bit of a key; of an alias key, those of all its members."""
    return key.functionality_bits


def highest(ks: int) -> DispatchKey:
    """The runtime key of highest priority in a key set's int; Undefined where there is none (D6).

    A per-backend functionality without any backend bit names no runtime key and is passed over.
    """
    backends = ks & BACKENDS
    functionalities = ks & VISIBLE if backends else ks & _ALONE
    return _RUNTIME[(functionalities >> _WIDTH).bit_length()][backends.bit_length()]


def runtime_keys(ks: int) -> list[DispatchKey]:
    """All runtime keys in a key set's int, in ascending priority."""
    backends = [b for b in range(1, _WIDTH + 1) if ks >> (b - 1) & 1]
    found: list[DispatchKey] = []
    for position, row in enumerate(_RUNTIME[1:]):
        bit = 1 << (_WIDTH + position)
        if ks & bit:
            found += [row[b] for b in backends] if bit & PER_BACKEND else row[:1]
    return found


def bits_above(key: DispatchKey) -> int:
    """The functionality bits strictly above a key's, PythonDispatcher excepted, and no hidden bits.

    Excluding them keeps what a handler at ``key`` calls from going through higher keys again.
    """
    return VISIBLE & ~_full_after(key) & ~key.bits


def is_autograd_key(key: DispatchKey) -> bool:
    """Whether this is one of the Autograd runtime or functionality keys (not the alias)."""
    return key.bits & AUTOGRAD != 0


def _names_a_key(ks: int) -> bool:
    """Whether a key set's int has any runtime key."""
    return ks & _ALONE != 0 or (ks & PER_BACKEND != 0 and ks & BACKENDS != 0)


def _full_after(key: DispatchKey) -> int:
    functionality = key.bits & ~BACKENDS
    lower = functionality - 1 if functionality else 0
    return lower | BACKENDS | _PYTHON_DISPATCHER


# --- keys by name, device and kind ------------------------------------------------------------


def as_key(key: KeyLike) -> DispatchKey:
    """The key itself, or the one of this name (RuntimeError for another name, else TypeError)."""
    if isinstance(key, DispatchKey):
        return key
    if isinstance(key, str):
        return key_parse(key)
    raise TypeError(f"expected a DispatchKey or its name, got {type(key).__name__}: {key!r}")


def key_parse(name: str) -> DispatchKey:
    """The key of this name; RuntimeError where there is none."""
    key = _MEMBERS.get(name)
    if key is None:
        raise RuntimeError(
            f"could not parse dispatch key: {name}. Expected a name such as CPU, AutogradCUDA or "
            f"CompositeImplicitAutograd; list(DispatchKey) has them all"
        )
    return key


def parse_dispatch_key(name: str) -> DispatchKey | None:
    """The key of this name, or None."""
    return _MEMBERS.get(name)


def key_name(key: KeyLike) -> str:
    """The name of a key: "CPU"."""
    return as_key(key).name


def is_alias_key(key: KeyLike) -> bool:
    """Whether this is one of the six alias keys of D10."""
    return as_key(key).is_alias


def is_included_in_alias(key: KeyLike, alias: KeyLike) -> bool:
    """Whether ``alias`` stands for ``key``; a key that is no alias stands for itself only."""
    key, alias = as_key(key), as_key(alias)
    if not alias.is_alias:
        return key is alias
    return key.bits != 0 and key.bits & alias.members == key.bits


def get_runtime_keyset(key: KeyLike) -> DispatchKeySet:
    """All runtime keys that a key stands for: an alias's members, otherwise the key alone."""
    return DispatchKeySet.from_raw_repr(as_key(key).members)


def keyset_full() -> DispatchKeySet:
    """The set of all runtime keys."""
    return DispatchKeySet.from_raw_repr(VISIBLE)


def keyset_full_after(key: KeyLike) -> DispatchKeySet:
    """Everything strictly below the key's functionality, all backends, and PythonDispatcher (D11).

    Nothing lies below Undefined or an alias key, which have no functionality.
    """
    return DispatchKeySet.from_raw_repr(_full_after(as_key(key)))


def get_backend_keyset_from_autograd(key: KeyLike) -> DispatchKeySet:
    """The keys whose kernels an Autograd key differentiates (D12); for any other key, none."""
    key = as_key(key)
    if key is DispatchKey.AutogradOther:
        return autogradother_backends
    if key is DispatchKey.AutogradNestedTensor:
        return DispatchKeySet.from_raw_repr(_NESTED | BACKENDS)
    if is_autograd_key(key) and key.bits & BACKENDS:
        return DispatchKeySet.from_raw_repr(_DENSE | key.bits & BACKENDS)
    return DispatchKeySet()


def to_functionality_key(key: KeyLike) -> DispatchKey:
    """AutogradFunctionality for AutogradMeta, and so on; Undefined for an alias key."""
    position = (as_key(key).bits >> _WIDTH).bit_length()
    return _MEMBERS[_FUNCTIONALITIES[position - 1]] if position else _UNDEFINED


def functionality_to_backend_keys(key: KeyLike) -> list[DispatchKey]:
    """The runtime keys of a per-backend functionality, lowest first; otherwise the key alone."""
    key = as_key(key)
    if key.bits & PER_BACKEND and not key.bits & BACKENDS:
        return runtime_keys(key.bits | BACKENDS)
    return [key]


def key_for_device(device_type: str) -> str:
    """The name of the dense key of a device type: "CUDA" for "cuda"."""
    name = _DEVICE_KEYS.get(device_type)
    if name is None:
        known = ", ".join(_DEVICE_KEYS)
        raise RuntimeError(
            f"Expected one of {known}, a device type without an index; got {device_type!r}"
        )
    return name


BACKEND_OF_DEVICE = {name.lower(): name for name in _BACKENDS} | {"privateuseone": "PrivateUse1"}
"""The device types that are backends, each with a bit and an Autograd key of its own."""
_DEVICE_KEYS = BACKEND_OF_DEVICE | {"fpga": "FPGA", "vulkan": "Vulkan"}

autogradother_backends = DispatchKeySet.from_raw_repr(_OTHER_BACKENDS | BACKENDS)
"""The keys that share AutogradOther: FPGA, Vulkan, Metal, CustomRNGKeyId, MkldnnCPU, and the
Quantized, Sparse and SparseCsr families."""
after_autograd_keyset = keyset_full_after("AutogradOther")
"""Everything below every Autograd key."""
after_ADInplaceOrView_keyset = keyset_full_after("ADInplaceOrView")
"""Everything below ADInplaceOrView."""
