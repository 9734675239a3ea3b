"""The stream of a generator: MT19937 and how PyTorch makes numbers of its words.

NumPy has the engine (Matsumoto and Nishimura, 1998); what is PyTorch's is which words make a
uniform number, that normals come in pairs of which one is kept, and the layout of a saved state.
What distributions make of the uniforms is in `aten/random/`.
"""

from __future__ import annotations

import math
import struct
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maquette.tensor.backend import backend_for

if TYPE_CHECKING:
    from numpy.random import MT19937

Words = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
EngineWords = npt.NDArray[np.uint32]  # the engine's, and after them the place of the next one

N_WORDS = 624
# Seed, words left, whether seeded, place; the words; the spare normals of both precisions.
_HEAD, _TAIL = struct.Struct("<QiiQ"), struct.Struct("<3di4xf?3x")
_WORDS = np.dtype("<u8")
STATE_BYTES = _HEAD.size + N_WORDS * _WORDS.itemsize + _TAIL.size
_MANY = 1 << 14  # numbers from which a compiled loop makes them, fewer where it is at hand
_FEW_NORMALS = 64  # fewer are made one by one
_SHORT_DRAW = 1 << 13
_AHEAD = 256  # words that a serial sampler takes from the engine at a time


class MersenneStream:
    """Random words in PyTorch's order, and uniform and normal numbers of them."""

    __slots__ = ("_engine", "_fresh", "_memory", "seed", "spare_double", "spare_float")

    def __init__(self, seed: int) -> None:
        from numpy.random import MT19937  # noqa: PLC0415  # a tenth of the time of `import maquette`

        self._engine: MT19937 = MT19937(0)
        self._memory: EngineWords | None = None
        self.seed = seed
        self.spare_double: float | None = None
        self.spare_float: float | None = None
        self._fresh = True
        self._place(_seeded(seed & 0xFFFFFFFF), N_WORDS)

    def _place(self, key: npt.NDArray[np.uint32], pos: int) -> None:
        self._engine.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": pos}}

    # --- draws -----------------------------------------------------------------------

    def words(self, count: int) -> Words:
        """The next ``count`` words of 32 bits."""
        if count:
            self._fresh = False
        drawn: Words = self._engine.random_raw(count)
        return drawn

    def single_words(self, count: int) -> npt.NDArray[np.uint32]:
        """The next words in an array of 32 bits each."""
        self._fresh = self._fresh and not count
        if count < _SHORT_DRAW:  # converting them takes less than a call (1,000: 7.1 to 3.6 us)
            return self._engine.random_raw(count).astype(np.uint32)
        from numpy.random import Generator  # noqa: PLC0415  # as MT19937

        # Of the whole range each number is one word, as it is drawn: no second array.
        return Generator(self._engine).integers(0, 1 << 32, count, np.uint32)

    def double_words(self, count: int) -> Words:
        """The next ``count`` words of 64 bits: two of the engine's each, the high one first."""
        pairs = self.single_words(2 * count).view(np.uint64)
        if sys.byteorder == "little":  # a pair lies with its high word in the low half
            joined: Words = pairs << np.uint64(32)
            pairs >>= np.uint64(32)
            joined |= pairs
            return joined
        return pairs

    def floats(self, count: int) -> Floats:
        """Uniform numbers in [0, 1) with 24 bits, one word each."""
        loops = self.loops(count, 4)
        if loops is not None:
            looped: Floats = loops.uniform_floats(self._memory, count)
            return looped
        bits = self.single_words(count).view(np.int32)  # NumPy converts int32 fastest
        bits &= (1 << 24) - 1
        low: Floats = bits.astype(np.float32)
        low *= np.float32(2.0**-24)
        return low

    def doubles(self, count: int) -> Doubles:
        """Uniform numbers in [0, 1) with 53 bits, two words each."""
        loops = self.loops(count, 5)
        if loops is not None:
            looped: Doubles = loops.uniform_doubles(self._memory, count)
            return looped
        low: Doubles = (self.double_words(count) & np.uint64((1 << 53) - 1)).astype(np.float64)
        low *= 2.0**-53
        return low

    def normals(self, count: int) -> Doubles:
        """Standard normal numbers one by one: pairs by Box and Muller, the spare one kept."""
        if count < _FEW_NORMALS:
            with self.serial() as draws:
                return np.array([draws.normal() for _ in range(count)], np.float64)
        out, start = np.empty(count), 0
        if self.spare_double is not None:
            out[0], self.spare_double, start = self.spare_double, None, 1
        missing = count - start
        u = self.doubles(missing + missing % 2).reshape(-1, 2)
        radius = np.sqrt(-2.0 * np.log1p(-u[:, 1]))
        theta = 2.0 * math.pi * u[:, 0]
        pairs = np.stack([radius * np.cos(theta), radius * np.sin(theta)], -1).reshape(-1)
        out[start:] = pairs[:missing]
        if missing % 2:
            self.spare_double = float(pairs[-1])
        return out

    def scaled_normals(self, count: int, mean: float, std: float) -> Doubles | None:
        """A few `normals`, times ``std`` and then ``mean`` added, rounded once; None: no loops."""
        if count >= _FEW_NORMALS or (loops := self.loops(count, 10)) is None:
            return None
        with self.lent() as (words, spare):
            looped: Doubles = loops.normals(words, spare, count, mean, std)
        return looped

    def serial(self) -> SerialDraws:
        """Numbers one at a time, for samplers that reject; use it as a context."""
        return SerialDraws(self)

    def loops(self, count: int, microseconds: float) -> ModuleType | None:
        """Compiled loops for `count` numbers, to be called with `engine_words`; else None.

        For few, which the plain path makes in so many microseconds, only where they are at hand.
        Who gets them draws, so the stream is fresh no more.
        """
        backend = backend_for(np)
        loops = backend.loops if count >= _MANY else backend.loops_if_worth(microseconds)
        if loops is None or not count or self.engine_words() is None:
            return None
        self._fresh = False
        return loops

    def lent(self) -> _Lent:
        """A context's engine words and spare normal number, for compiled samplers to change.

        Of the spare one in two doubles: the number, and whether there is one.
        """
        return _Lent(self)

    def engine_words(self) -> EngineWords | None:
        """The engine's words and the place of the next one where it keeps them; None if unknown.

        To read and set ``state`` goes over the words one by one: 60 us, of 70 for a few numbers.
        """
        if self._memory is None:
            import ctypes  # noqa: PLC0415  # which the engine's interface is made of

            where = self._engine.ctypes.state_address
            found = np.ctypeslib.as_array((ctypes.c_uint32 * (N_WORDS + 1)).from_address(where))
            known = self._engine.state["state"]
            as_known = bool((found[:-1] == known["key"]).all() and found[-1] == known["pos"])
            self._memory = found if as_known else found[:0]
        return self._memory if self._memory.size else None

    # --- state -----------------------------------------------------------------------

    def state(self) -> bytes:
        """The state in PyTorch's layout, 5,056 bytes."""
        engine = self._engine.state["state"]
        pos = 0 if self._fresh else int(engine["pos"])
        left = 1 if self._fresh else N_WORDS - pos + 1
        spare = self.spare_double
        single = self.spare_float
        tail = (0.0, spare or 0.0, 0.0, spare is not None, single or 0.0, single is not None)
        words: bytes = engine["key"].astype(_WORDS).tobytes()
        return _HEAD.pack(self.seed, left, 1, pos) + words + _TAIL.pack(*tail)

    @classmethod
    def from_state(cls, state: bytes) -> MersenneStream:
        """The stream at a saved state; ValueError for bytes that are not one."""
        if len(state) != STATE_BYTES:
            raise ValueError(f"a state has {STATE_BYTES} bytes, not {len(state)}")
        seed, left, seeded, pos = _HEAD.unpack_from(state)
        key = np.frombuffer(state, _WORDS, N_WORDS, _HEAD.size)
        _, spare, _, has_spare, single, has_single = _TAIL.unpack(state[-_TAIL.size :])
        fits = key.max() < 2**32 and seeded == 1
        if not fits or not 1 <= left <= N_WORDS or pos not in (N_WORDS + 1 - left, 0):
            raise ValueError("the words of the state, or its place among them, are out of range")
        stream = cls.__new__(cls)
        from numpy.random import MT19937  # noqa: PLC0415  # as above

        stream._engine, stream._memory = MT19937(0), None
        stream.seed = seed
        stream._fresh = left == 1 and pos == 0
        stream.spare_double = spare if has_spare else None
        stream.spare_float = single if has_single else None
        stream._place(key.astype(np.uint32), N_WORDS if left == 1 else pos)
        return stream


class _Lent:
    """What `MersenneStream.lent` gives."""

    __slots__ = ("_before", "_spare", "_stream", "_words")

    def __init__(self, stream: MersenneStream) -> None:
        self._stream = stream

    def __enter__(self) -> tuple[EngineWords, Doubles]:
        stream = self._stream
        words, spare = stream.engine_words(), stream.spare_double
        if words is None:
            engine = stream._engine.state["state"]
            words = np.append(engine["key"], np.uint32(engine["pos"]))
        self._words = words
        self._before = words.copy() if stream._fresh else None
        self._spare = np.array((spare or 0.0, spare is not None))
        return words, self._spare

    def __exit__(self, *error: object) -> None:
        stream, words = self._stream, self._words
        if self._before is not None:
            stream._fresh = bool((words == self._before).all())
        if stream.engine_words() is None:
            stream._place(words[:N_WORDS], int(words[N_WORDS]))
        number, kept = self._spare.tolist()
        stream.spare_double = number if kept else None


class SerialDraws:
    """Uniform and normal numbers one at a time; on exit the stream stands after the last one.

    Words are taken from the engine in blocks (10 ns a word, 900 ns one by one); those not used are
    given back by going to the start again.
    """

    __slots__ = ("_stream", "_taken", "_then", "_words")

    def __init__(self, stream: MersenneStream) -> None:
        self._stream = stream

    def __enter__(self) -> SerialDraws:
        words = self._stream.engine_words()
        self._then: Any = self._stream._engine.state if words is None else words.copy()
        self._words: list[int] = []
        self._taken = 0
        return self

    def __exit__(self, *error: object) -> None:
        words = self._stream.engine_words()
        if words is None:
            self._stream._engine.state = self._then
        else:
            words[:] = self._then
        if self._taken:
            self._stream.words(self._taken)

    def double(self) -> float:
        """A uniform number in [0, 1) with 53 bits."""
        at = self._taken
        if at + 2 > len(self._words):
            self._words += self._stream._engine.random_raw(_AHEAD).tolist()
        self._taken = at + 2
        return ((self._words[at] << 32 | self._words[at + 1]) & ((1 << 53) - 1)) * 2.0**-53

    def normal(self) -> float:
        """A standard normal number; the spare one of a pair is kept by the stream."""
        kept = self._stream.spare_double
        if kept is not None:
            self._stream.spare_double = None
            return kept
        u, v = self.double(), self.double()
        radius, theta = math.sqrt(-2.0 * math.log1p(-v)), 2.0 * math.pi * u
        self._stream.spare_double = radius * math.sin(theta)
        return radius * math.cos(theta)


def _seeded(seed: int) -> npt.NDArray[np.uint32]:
    """The first 624 words of a seed of 32 bits."""
    key = [seed]
    for i in range(1, N_WORDS):
        key.append((1812433253 * (key[-1] ^ key[-1] >> 30) + i) & 0xFFFFFFFF)
    return np.array(key, np.uint32)
