"""`Forker` and `Demultiplexer`: one pipe becomes several, its children.

The children read one source together. What one child has read and another has not waits in a
buffer. A child's second iteration begins a new round of all: the source is read again, and older
iterations of the other children end with an error. What belongs to a round is one object, so that
an iteration of an older round can do no harm to the next one.
"""

from __future__ import annotations

import copy as copying
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from maquette.torch.utils.data.datapipes._decorator import functional_datapipe
from maquette.torch.utils.data.datapipes._hook_iterator import _SnapshotState
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.datapipes.utils.common import StreamWrapper, _check_unpickable_fn

T = TypeVar("T")

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


# --- the children of one pipe ---------------------------------------------------------


class _Round:
    """One reading of the source by all children.

    buffer_size: how many samples may wait; any number if it is negative.
    """

    def __init__(self, samples: Iterator[Any], children: int, buffer_size: int) -> None:
        self.samples = samples
        self.reading = set(range(children))
        self.buffer_size = buffer_size
        self.exhausted = False

    def read(self, child: int) -> Iterator[Any]:
        """The samples of one child, which reads no more when this ends, however it does."""
        try:
            while child in self.reading:
                try:
                    sample = self.take(child)
                except StopIteration:
                    return
                yield sample
        finally:
            self.reading.discard(child)
            self.let_go(child)

    def following(self) -> Any:
        """The next sample of the source; StopIteration, now and later, after its last."""
        if self.exhausted:
            raise StopIteration
        try:
            return next(self.samples)
        except StopIteration:
            self.exhausted = True
            raise

    def take(self, child: int) -> Any:
        """The next sample of a child; StopIteration after its last."""
        raise NotImplementedError

    def let_go(self, child: int) -> None:
        """Close the streams that wait for nobody any more."""

    def is_over(self) -> bool:
        """Whether all children have read all they have."""
        return self.exhausted and not self.reading


class _SplitIterDataPipe(IterDataPipe[Any]):
    """What the children have in common: the source, and the round they are in."""

    def __init__(
        self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, name: str
    ) -> None:
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random "
                f"places",
                UserWarning,
                stacklevel=5,
            )
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        self._round: _Round | None = None

    def _new_round(self) -> _Round:
        raise NotImplementedError

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        """The samples of one child in this round."""
        if self._round is None:
            self._snapshot_state = _SnapshotState.Iterating
            self._round = self._new_round()
        yield from self._round.read(instance_id)

    def is_every_instance_exhausted(self) -> bool:
        """Whether there was a round, and it is over."""
        return self._round is not None and self._round.is_over()

    def get_length_by_instance(self, instance_id: int) -> int:
        """How many samples a child has; TypeError if that is not known."""
        raise TypeError(f"{type(self).__name__}: how many samples a child has is not known")

    def reset(self) -> None:
        """Leave the round: the next child begins another."""
        self._round = None

    def _lasting_state(self) -> dict[str, Any]:
        return {**self.__dict__, "_round": None}


class _ChildDataPipe(IterDataPipe[Any]):
    """One child: its samples, and the number of its iteration, which is that of the round."""

    def __init__(self, main_datapipe: _SplitIterDataPipe, instance_id: int) -> None:
        self.main_datapipe = main_datapipe
        self.instance_id = instance_id

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)

    def _begin_iteration(self) -> int:
        """Join the round; a child that is in it already begins another one, for all."""
        main = self.main_datapipe
        if main._valid_iterator_id is None:
            main._valid_iterator_id = 0
        elif main._valid_iterator_id == self._valid_iterator_id:
            main._valid_iterator_id += 1
            if not main.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are "
                    "resetting the buffer and each child DataPipe will read from the start again.",
                    UserWarning,
                    stacklevel=3,
                )
            main.reset()
        self._valid_iterator_id = main._valid_iterator_id
        return self._valid_iterator_id

    def _is_valid_iteration(self, number: int) -> bool:
        return number == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


# --- fork -----------------------------------------------------------------------------


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """A list of ``num_instances`` pipes, each with all samples of ``datapipe``; itself if it is 1.

    buffer_size: how many samples one may be ahead of another, -1 for any number; BufferError
    beyond. copy: None gives all the same objects, "shallow" or "deep" a copy to each.
    """

    def __new__(  # type: ignore[misc]  # PyTorch's call gives a list
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> IterDataPipe[Any] | list[_ChildDataPipe]:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        if num_instances == 1:
            return datapipe
        main = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(main, i) for i in range(num_instances)]


def _itself(sample: T) -> T:
    return sample


_COPIES: dict[str | None, Callable[[Any], Any]] = {
    None: _itself,
    "shallow": copying.copy,
    "deep": copying.deepcopy,
}


class _ForkRound(_Round):
    """The samples from the slowest child's next to the fastest child's last wait in one buffer."""

    def __init__(
        self, samples: Iterator[Any], children: int, buffer_size: int, copy: Callable[[Any], Any]
    ) -> None:
        super().__init__(samples, children, buffer_size)
        self.copy = copy
        self.taken = [0] * children
        self.buffer: deque[Any] = deque()
        self.dropped = 0  # samples that all children have taken

    def take(self, child: int) -> Any:
        place = self.taken[child] - self.dropped
        if place == len(self.buffer):
            self.buffer.append(self.following())
        sample = self.buffer[place]
        self.taken[child] += 1
        if min(self.taken) > self.dropped:
            self.buffer.popleft()
            self.dropped += 1
        if 0 <= self.buffer_size < len(self.buffer):
            raise BufferError(
                f"ForkerIterDataPipe buffer overflow, buffer size {self.buffer_size} is "
                f"insufficient."
            )
        return self.copy(sample)

    def let_go(self, child: int) -> None:
        if not self.reading:
            StreamWrapper.close_streams(list(self.buffer))
            self.buffer.clear()


class _ForkerIterDataPipe(_SplitIterDataPipe):
    """What the pipes of one fork have in common."""

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "fork")
        if copy not in _COPIES:
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        self.copy_fn = _COPIES[copy]

    def _new_round(self) -> _Round:
        samples = iter(self.main_datapipe)
        return _ForkRound(samples, self.num_instances, self.buffer_size, self.copy_fn)

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self)

    def __len__(self) -> int:
        return len(self.main_datapipe)


# --- demux ----------------------------------------------------------------------------


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """A list of ``num_instances`` pipes; ``classifier_fn`` gives the number of a sample's pipe.

    drop_none: leave out samples of which it says None, and close their streams. buffer_size: how
    many samples may wait to be read, -1 for any number; BufferError beyond. ValueError for numbers
    of no pipe.
    """

    def __new__(  # type: ignore[misc]  # PyTorch's call gives a list
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> list[_ChildDataPipe]:
        if num_instances < 1:
            raise ValueError(
                f"Expected `num_instances` larger than 0, but {num_instances} is found"
            )
        _check_unpickable_fn(classifier_fn)
        main = _DemultiplexerIterDataPipe(
            datapipe, num_instances, classifier_fn, drop_none, buffer_size
        )
        return [_ChildDataPipe(main, i) for i in range(num_instances)]


class _DemuxRound(_Round):
    """The samples that one child met and others have to read wait in a buffer for each."""

    def __init__(
        self,
        samples: Iterator[Any],
        children: int,
        buffer_size: int,
        classify: Callable[[Any], int | None],
        drop_none: bool,
    ) -> None:
        super().__init__(samples, children, buffer_size)
        self.classify = classify
        self.drop_none = drop_none
        self.buffers: list[deque[Any]] = [deque() for _ in range(children)]

    def take(self, child: int) -> Any:
        while not self.buffers[child]:
            sample = self.following()
            owner = self.classify(sample)
            if owner is None and self.drop_none:
                StreamWrapper.close_streams(sample)
                continue
            if owner is None or not 0 <= owner < len(self.buffers):
                raise ValueError(
                    f"Output of the classification fn should be between 0 and "
                    f"{len(self.buffers) - 1}. {owner} is returned."
                )
            if owner == child:
                return sample
            self.buffers[owner].append(sample)
            if 0 <= self.buffer_size < sum(map(len, self.buffers)):
                raise BufferError(
                    f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} "
                    f"is insufficient."
                )
        return self.buffers[child].popleft()

    def let_go(self, child: int) -> None:
        StreamWrapper.close_streams(list(self.buffers[child]))
        self.buffers[child].clear()


class _DemultiplexerIterDataPipe(_SplitIterDataPipe):
    """What the pipes of one demultiplexer have in common.

    (functional name: ``fork``)
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size, "demux")
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none

    def _new_round(self) -> _Round:
        return _DemuxRound(
            iter(self.main_datapipe),
            self.num_instances,
            self.buffer_size,
            self.classifier_fn,
            self.drop_none,
        )
