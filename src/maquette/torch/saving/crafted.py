"""What a small crafted pickle may ask for without end: hashes, elements and text of little space.

A pair of a pair of a pair, each twice the one before, is a few bytes in a file; its hash and its
text take as long as 2 to the number of pairs, in C code that nothing interrupts. An expanded tensor
is one element with any number of them to go through; a list that is copied by each of many calls,
a few bytes a copy. So what a file makes its reader go through counts, and the sum is bounded by the
file's own size (`Allowance`).
"""

from __future__ import annotations

import math
import pickle
import reprlib
import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from typing import IO, Any, NoReturn

from maquette.core.size import Size
from maquette.tensor.tensor import Tensor
from maquette.torch.saving import layouts
from maquette.torch.saving._utils import _rebuild_from_type_v2, _rebuild_parameter_with_state

# A text of all that a small file nests would have no end.
short_text = reprlib.Repr().repr

# Parts of a key, counted as often as they are met: more than any checkpoint's key has.
_MOST_PARTS = 1000
_CONTAINERS = (set, frozenset, list, dict, OrderedDict, Counter, defaultdict, Size)
_PLAIN = (list, tuple, dict, set, frozenset)


# Functions that go through the elements of the tensors that they are given.
_OF_ELEMENTS = (
    layouts._rebuild_sparse_tensor,
    layouts._rebuild_nested_tensor,
    layouts._rebuild_njt,
)
# Functions whose fourth argument is attributes, which are handed on as they are.
_WITH_STATE = (_rebuild_from_type_v2, _rebuild_parameter_with_state)

_FREE = 1 << 26  # bytes that any file may have its reader go through
_TIMES = 32  # and for each byte of its own
_PART = 64  # what a part of an argument or a key counts, in bytes
_NESTING = (list, tuple, set, frozenset)
_LONG = (str, bytes, bytearray, int)
_SAME_HASH = 32  # keys that may have one hash: by chance no two have
_PLAIN_INT = 63  # bits of an integer of which few share a hash


class Allowance:
    """The bytes that reading a file may still go through; never more than its size accounts for."""

    def __init__(self, nbytes: int) -> None:
        self.left = _FREE + _TIMES * nbytes

    def spend(self, amount: int) -> None:
        """Take from it; UnpicklingError where too little is left."""
        self.left -= amount
        if self.left < 0:
            raise pickle.UnpicklingError(
                "this file, small as it is, asks for more memory or time than any saved object of "
                "its size needs"
            )


class Keys:
    """Looks at keys before they are hashed: at how many parts they have, and at equal hashes."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self._seen: dict[object, None] = {}
        self._hashes: Counter[int] = Counter()

    def check(self, keys: Iterable[object]) -> None:
        """UnpicklingError for keys whose hashes or comparisons would have no end."""
        for key in keys:
            kind = type(key)
            if kind is str or kind is bytes:
                self.allowance.spend(len(key) >> 6)  # type: ignore[arg-type]  # one of the two
            elif isinstance(key, tuple | frozenset | complex | int):
                self._check_one(key)

    def _check_one(self, key: tuple[object, ...] | frozenset[object] | complex | int) -> None:
        if isinstance(key, int):
            if key.bit_length() <= _PLAIN_INT:
                return
            self.allowance.spend(key.bit_length() >> 3)
        elif isinstance(key, tuple | frozenset):
            self.allowance.spend(_PART * _parts_of_key(key))
        known = len(self._seen)
        self._seen.setdefault(key)
        if len(self._seen) > known:
            code = hash(key)
            self._hashes[code] += 1
            if self._hashes[code] > _SAME_HASH:
                raise pickle.UnpicklingError(
                    f"this file has more than {_SAME_HASH} keys of one hash, {short_text(key)}"
                )


def _parts_of_key(key: tuple[object, ...] | frozenset[object]) -> int:
    """How many parts a key has, each as often as it is met; long texts and numbers are several."""
    count, waiting = 0, [key]
    while waiting:
        parts = waiting.pop()
        count += len(parts)
        if count > _MOST_PARTS:
            raise pickle.UnpicklingError(
                f"this file has a key of more than {_MOST_PARTS} parts, {short_text(key)}"
            )
        for part in parts:
            if isinstance(part, tuple | frozenset):
                waiting.append(part)
            else:
                count += _length(part) >> 10
    return count


def _length(part: object) -> int:
    """The bytes of a text or a number."""
    if isinstance(part, str | bytes | bytearray):
        return len(part)
    return part.bit_length() >> 3 if isinstance(part, int) else 0


def charge(allowance: Allowance, function: object, args: object) -> None:
    """Take from an allowance what a call goes through: its arguments, each as often as it is met.

    UnpicklingError where it has no end, or more than the allowance.
    """
    elements = function in _OF_ELEMENTS
    if function in _WITH_STATE and isinstance(args, tuple):
        allowance.spend(_PART * _attributes(args[3:]))
        args = args[:3]
    spent, waiting = 0, [args]
    while waiting and spent <= allowance.left:
        part: Any = waiting.pop()
        spent += _PART
        if isinstance(part, dict):
            waiting.extend(part)
            waiting.extend(part.values())
        elif isinstance(part, _NESTING):
            waiting.extend(part)
        elif isinstance(part, _LONG):
            spent += _length(part)
        elif elements and isinstance(part, Tensor):
            spent += 8 * math.prod(max(n, 1) for n in part.shape)
    allowance.spend(spent)


def _attributes(states: tuple[object, ...]) -> int:
    found = 0
    for state in states:
        for values in state if isinstance(state, tuple) else (state,):
            found += len(values) if isinstance(values, Mapping) else 1
    return found


def check_container(keys: Keys, function: object, args: object) -> None:
    """UnpicklingError for a container made of a tensor, or with keys that are refused."""
    if function not in _CONTAINERS or not isinstance(args, tuple):
        return
    for arg in args:
        if arg is None or isinstance(arg, type):  # what a defaultdict makes
            continue
        if type(arg) not in (*_PLAIN, *_CONTAINERS):
            raise pickle.UnpicklingError(
                f"this file makes a {_name(function)} of a {type(arg).__name__}; expected plain "
                f"containers"
            )
        keys.check(_keys_of(function, arg))


def _keys_of(function: object, arg: Any) -> Iterable[object]:
    if function in (list, Size) or isinstance(arg, dict):
        return ()
    if function in (dict, OrderedDict, defaultdict):
        if any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in arg):
            raise pickle.UnpicklingError(f"this file makes a {_name(function)} of no pairs")
        return [pair[0] for pair in arg]
    return list(arg)


def _name(function: object) -> str:
    return str(getattr(function, "__name__", function))


def inner_call(function: object, args: object) -> tuple[object, object] | None:
    """The call that a call makes in its turn; None for one that makes none."""
    if function is not _rebuild_from_type_v2:
        return None
    match args:
        case (inner, _, tuple(given), _) if inner is not _rebuild_from_type_v2:
            return inner, given
    raise pickle.UnpicklingError(f"this file rebuilds a tensor of {short_text(args)}")


class BoundedUnpickler(pickle._Unpickler):
    """Looks at keys before they are hashed, and at calls before they are made.

    Base of those who read what anyone may have written. ``nbytes``: how long the file is.
    """

    def __init__(self, file: IO[bytes], nbytes: int, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self._nbytes = nbytes
        self.allowance = Allowance(nbytes)
        self.keys = Keys(self.allowance)

    def check_call(self, function: object, args: object) -> None:
        """An error for a call that is not to be made."""
        charge(self.allowance, function, args)

    def load_reduce(self) -> None:
        """REDUCE: call what stands below the arguments."""
        self.check_call(*self.stack[-2:])  # type: ignore[attr-defined]  # typeshed lacks it
        super().load_reduce()  # type: ignore[misc]  # the pure Python class has it

    def load_newobj(self) -> None:
        """NEWOBJ: make an instance of the class below the arguments."""
        self.check_call(*self.stack[-2:])  # type: ignore[attr-defined]  # as above
        super().load_newobj()  # type: ignore[misc]  # as above

    def load_newobj_ex(self) -> None:
        """NEWOBJ_EX: NEWOBJ with arguments by name."""
        function, args, by_name = self.stack[-3:]  # type: ignore[attr-defined]  # as above
        self.check_names(function, by_name)
        self.check_call(function, args)
        super().load_newobj_ex()  # type: ignore[misc]  # as above

    def check_names(self, function: object, by_name: object) -> None:
        """An error for arguments by name, which are refused."""
        if by_name:
            raise pickle.UnpicklingError(f"this file makes a {short_text(function)} by names")

    def _instantiate(self, klass: object, args: list[object]) -> None:
        """INST and OBJ: call a class with what stands above the mark."""
        self.check_call(klass, tuple(args))
        super()._instantiate(klass, args)  # type: ignore[misc]  # as above

    def get_extension(self, code: int) -> NoReturn:
        """EXT1 and its like: a class by a number that only a process knows, found unseen."""
        raise pickle.UnpicklingError(f"this file names a class by the number {code}")

    def load_long_binput(self) -> None:
        """LONG_BINPUT: remember what is on top of the stack by a number.

        The standard library's own reader, which may come after this one, takes memory for as many
        things as the number says.
        """
        (number,) = struct.unpack("<I", self.read(4))  # type: ignore[attr-defined]  # as above
        self._remember(number)

    def load_put(self) -> None:
        """PUT: LONG_BINPUT with its number as text."""
        self._remember(int(self.readline()[:-1]))  # type: ignore[attr-defined]  # as above

    def _remember(self, number: int) -> None:
        if not 0 <= number <= self._nbytes:
            raise pickle.UnpicklingError(
                f"this file numbers an object {number}; expected fewer objects than its bytes, "
                f"{self._nbytes}"
            )
        self.memo[number] = self.stack[-1]  # type: ignore[attr-defined]  # as above

    def load_bytearray8(self) -> None:
        """BYTEARRAY8: as many bytes as the file has, not memory for as many as it says."""
        (length,) = struct.unpack("<Q", self.read(8))  # type: ignore[attr-defined]  # as above
        self.append(bytearray(self.read(length)))  # type: ignore[attr-defined]  # as above

    def load_setitem(self) -> None:
        """SETITEM: a key and a value."""
        self.keys.check(self.stack[-2:-1])  # type: ignore[attr-defined]  # as above
        super().load_setitem()  # type: ignore[misc]  # as above

    def load_setitems(self) -> None:
        """SETITEMS: keys and values, to the mark."""
        self.keys.check(self.stack[::2])  # type: ignore[attr-defined]  # as above
        super().load_setitems()  # type: ignore[misc]  # as above

    def load_dict(self) -> None:
        """DICT: a dict of the keys and values, to the mark."""
        self.keys.check(self.stack[::2])  # type: ignore[attr-defined]  # as above
        super().load_dict()  # type: ignore[misc]  # as above

    def load_additems(self) -> None:
        """ADDITEMS: elements of a set, to the mark."""
        self.keys.check(self.stack)  # type: ignore[attr-defined]  # as above
        super().load_additems()  # type: ignore[misc]  # as above

    def load_frozenset(self) -> None:
        """FROZENSET: one of the elements, to the mark."""
        self.keys.check(self.stack)  # type: ignore[attr-defined]  # as above
        super().load_frozenset()  # type: ignore[misc]  # as above

    dispatch = dict(pickle._Unpickler.dispatch)


_LOOKED_AT = (
    "REDUCE", "NEWOBJ", "NEWOBJ_EX", "PUT", "LONG_BINPUT", "BYTEARRAY8", "SETITEM", "SETITEMS",
    "DICT", "ADDITEMS", "FROZENSET",
)  # fmt: skip
for _opcode in _LOOKED_AT:
    _method = getattr(BoundedUnpickler, f"load_{_opcode.lower()}")
    BoundedUnpickler.dispatch[getattr(pickle, _opcode)[0]] = _method
