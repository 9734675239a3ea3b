"""States as entries of a checkpoint: taken apart by name, and put back in place."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.tensor.tensor import Tensor
from maquette.torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
)
from maquette.torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from maquette.torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from maquette.torch.distributed.checkpoint.stateful import Stateful

State = dict[str, Any]
Place = tuple[Any, ...]
Folder = str | os.PathLike[str]


class CheckpointException(BaseException):
    """What failed in several processes, by their numbers."""

    def __init__(self, msg: str, failures: dict[int, BaseException]) -> None:
        BaseException.__init__(self, msg, failures)  # not that of what failed, which may want more
        self._msg = msg
        self.failures = failures

    def __str__(self) -> str:
        return self._msg


@contextmanager
def _failures_told() -> Iterator[None]:
    """Let what fails in the block be a CheckpointException, and of the class that it was."""
    try:
        yield
    except NotImplementedError:  # a gap of maquette's
        raise
    except Exception as error:
        kind = type("CheckpointException", (CheckpointException, type(error)), {})
        text = "".join(traceback.format_exception(error))
        raise kind(f"CheckpointException: process 0 failed.\n{text}", {0: error}) from error


# --- taking apart ----------------------------------------------------------------------------


def _is_leaf(value: object) -> bool:
    """Whether a value is one entry: mappings are not, nor lists that hold tensors or mappings."""
    if isinstance(value, Mapping):
        return False
    if not isinstance(value, list):
        return True
    parts = (v for v in value if isinstance(v, Mapping | list | Tensor))
    return all(isinstance(part, list) and _is_leaf(part) for part in parts)


def _leaves(value: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, (*place, str(key)))
    elif _is_leaf(value):
        yield place, value
    else:
        for number, part in enumerate(value):
            yield from _leaves(part, (*place, number))


def _taken_apart(state: State) -> tuple[dict[str, Any], dict[str, Place]]:
    """Entries by name, ``model.weight``, and the place of each in the state."""
    entries: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for place, value in _leaves(state, ()):
        name = ".".join(map(str, place))
        if name in entries:
            raise ValueError(f"duplicated flatten key {name}")
        entries[name], places[name] = value, place
    return entries, places


def _put(state: Any, place: Place, value: object) -> None:
    for part in place[:-1]:
        state = state[_key(state, part)]
    state[_key(state, place[-1])] = value


def _key(container: Any, part: Any) -> Any:
    """The key that a mapping has for a part of a place, which is text in files."""
    if not isinstance(container, Mapping) or part in container:
        return part
    return next((key for key in container if str(key) == part), part)


def _given_states(state_dict: State) -> State:
    return {
        key: value.state_dict() if isinstance(value, Stateful) else value
        for key, value in state_dict.items()
    }


# --- saving and loading ----------------------------------------------------------------------


def save(
    state_dict: State,
    *,
    checkpoint_id: Folder | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: object = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a state to a folder, objects with a ``state_dict()`` by their states; the index.

    The folder is ``checkpoint_id``, or the writer's. Planners of a program's own, which are for
    several processes, are refused with NotImplementedError.
    """
    _refuse_planner(planner, DefaultSavePlanner)
    if storage_writer is None:
        storage_writer = FileSystemWriter(_folder(checkpoint_id, "save"))
    storage_writer.reset(checkpoint_id)
    with _failures_told():
        entries, places = _taken_apart(_given_states(state_dict))
        return storage_writer.write(entries, places)


def async_save(
    state_dict: State,
    *,
    checkpoint_id: Folder | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: object = None,
    process_group: object = None,
    async_checkpointer_type: object = None,
    async_stager: object = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """`save`, done when this returns; the future holds the index."""
    done: Future[Metadata] = Future()
    made = save(
        state_dict, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner,
        process_group=process_group, no_dist=no_dist, use_collectives=use_collectives,
    )  # fmt: skip
    done.set_result(made)
    return done


def load(
    state_dict: State,
    *,
    checkpoint_id: Folder | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: object = None,
    process_group: object = None,
    no_dist: bool = False,
) -> None:
    """Fill a state from a folder: tensors in place, what else there is by what was saved.

    Objects with a ``load_state_dict()`` are handed theirs. CheckpointException for what fails: a
    RuntimeError too for an entry that the checkpoint lacks, a ValueError for a tensor of another
    size, a FileError for a damaged file. The folder is ``checkpoint_id``, or the reader's.
    planner: a `DefaultLoadPlanner` says whether what the checkpoint lacks may stay as it is.
    """
    _refuse_planner(planner, DefaultLoadPlanner)
    if storage_reader is None:
        storage_reader = FileSystemReader(_folder(checkpoint_id, "load"))
    storage_reader.reset(checkpoint_id)
    states = _given_states(state_dict)
    partial = isinstance(planner, DefaultLoadPlanner) and planner.allow_partial_load
    with _failures_told():
        _load(states, storage_reader, partial=partial)
    for key, state in states.items():
        held = state_dict[key]
        if isinstance(held, Stateful):
            held.load_state_dict(state)
        else:
            state_dict[key] = state


def _load(states: State, reader: FileSystemReader, *, partial: bool = False) -> None:
    metadata = reader.read_metadata()
    entries, places = _taken_apart(states)
    if partial:
        entries = {k: v for k, v in entries.items() if k in metadata.state_dict_metadata}
    for name, value in entries.items():
        _check(metadata, name, value)
    for name, value in entries.items():
        _fill(reader, metadata, states, (name, places[name], value))


def load_whole(folder: Folder) -> State:
    """All that a checkpoint holds, in new tensors and containers; CheckpointException as `load`."""
    reader = FileSystemReader(folder)
    with _failures_told():
        metadata = reader.read_metadata()
        entries = {name: _new(metadata, name) for name in metadata.state_dict_metadata}
        _load(entries, reader)
        places: Mapping[str, Place] = metadata.planner_data or {name: (name,) for name in entries}
        return _put_together({places[name]: value for name, value in entries.items()})


def _new(metadata: Metadata, name: str) -> Tensor | None:
    saved = metadata.state_dict_metadata[name]
    if isinstance(saved, BytesStorageMetadata):
        return None
    return mq.empty(tuple(saved.size), dtype=saved.properties.dtype)


def _put_together(values: Mapping[Place, Any]) -> Any:
    """The mappings and lists of which these are the parts, by their places."""
    parts: dict[Any, dict[Place, Any]] = {}
    for (first, *rest), value in values.items():
        parts.setdefault(first, {})[tuple(rest)] = value
    made = {
        first: inner[()] if () in inner else _put_together(inner) for first, inner in parts.items()
    }
    if made and all(isinstance(first, int) for first in made):
        return [made[number] for number in sorted(made)]
    return made


def _check(metadata: Metadata, name: str, value: object) -> None:
    saved = metadata.state_dict_metadata.get(name)
    if saved is None:
        raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
    if isinstance(saved, TensorStorageMetadata) and isinstance(value, Tensor):
        if tuple(saved.size) != tuple(value.shape):
            raise ValueError(
                f"Size mismatch between saved {saved.size} and current: {value.shape} for {name}"
            )


def _fill(
    reader: FileSystemReader, metadata: Metadata, states: State, entry: tuple[str, Place, Any]
) -> None:
    name, place, value = entry
    saved = metadata.state_dict_metadata[name]
    pieces = reader.read(metadata, name)
    if isinstance(saved, BytesStorageMetadata):
        _put(states, place, next(pieces)[1])
        return
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} is a tensor in the checkpoint, and a {type(value).__name__} here")
    with no_grad():
        for index, piece in pieces:
            target = value.detach()
            for dim, (begin, size) in enumerate(zip(index.offset or (), piece.shape)):
                target = target.narrow(dim, begin, size)
            target.copy_(piece)


def _folder(checkpoint_id: Folder | None, verb: str) -> Folder:
    if checkpoint_id is None:
        raise RuntimeError(
            f"`checkpoint_id` must be specified to {verb} without a storage of its own"
        )
    return checkpoint_id


def _refuse_planner(planner: object, known: type) -> None:
    if planner is not None and type(planner) is not known:  # a subclass plans by itself
        raise NotImplementedError(
            "planners of checkpoints, but for the default ones, are not supported by maquette: "
            "there is one process, which saves and loads all of the state"
        )


def save_state_dict(
    state_dict: State,
    storage_writer: FileSystemWriter,
    process_group: object = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: object = None,
) -> Metadata:
    """`save` by its former name; coordinator_rank: of the one process that there is."""
    return save(
        state_dict, storage_writer=storage_writer, planner=planner,
        process_group=process_group, no_dist=no_dist,
    )  # fmt: skip


def load_state_dict(
    state_dict: State,
    storage_reader: FileSystemReader,
    process_group: object = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: object = None,
) -> None:
    """`load` by its former name."""
    load(
        state_dict, storage_reader=storage_reader, planner=planner,
        process_group=process_group, no_dist=no_dist,
    )  # fmt: skip
