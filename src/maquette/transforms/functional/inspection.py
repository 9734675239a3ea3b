"""What may be asked of a wrapper, and done to it by hand: values exchanged, mutations counted."""

from __future__ import annotations

from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.wrapper import FunctionalWrapper


def _wrapper(t: Tensor, what: str) -> FunctionalWrapper:
    if not isinstance(t, FunctionalWrapper):
        raise RuntimeError(f"{what}: expected a functional tensor, got {type(t).__name__} {t.meta}")
    return t


def replace(t: Tensor, new: Tensor) -> None:
    """Exchange a wrapper's value; `commit_update` tells its memory."""
    _wrapper(t, "replace").replace(new)


def commit_update(t: Tensor) -> None:
    """Tell a wrapper's memory of its value: other views of it have it when they are next used."""
    _wrapper(t, "commit_update").commit()


def has_data_mutation(t: Tensor) -> bool:
    """Whether the memory of a wrapper has been mutated."""
    return _wrapper(t, "has_data_mutation")._storage.mutations > 0


def has_metadata_mutation(t: Tensor) -> bool:
    """Whether sizes or strides of a wrapper have been changed in place."""
    return _wrapper(t, "has_metadata_mutation")._metadata_changed


def was_storage_changed(t: Tensor) -> bool:
    """Whether `set_` gave a wrapper another memory."""
    return _wrapper(t, "was_storage_changed")._storage_changed


def set_storage_changed(t: Tensor) -> None:
    """Note on a wrapper that it has another memory."""
    _wrapper(t, "set_storage_changed")._storage_changed = True


def mark_mutation_hidden_from_autograd(t: Tensor) -> None:
    """Note that autograd need not know of the last write to a wrapper's memory."""
    _wrapper(t, "mark_mutation_hidden_from_autograd")._storage.hidden_mutations += 1


def are_all_mutations_hidden_from_autograd(t: Tensor) -> bool:
    """Whether every write to a wrapper's memory was marked as hidden from autograd."""
    storage = _wrapper(t, "are_all_mutations_hidden_from_autograd")._storage
    return storage.hidden_mutations >= storage.mutations


def is_multi_output_view(t: Tensor) -> bool:
    """Whether a wrapper is one of several views that one operator gave."""
    return any(step.part >= 0 for step in _wrapper(t, "is_multi_output_view")._steps)


def get_storage_size(t: Tensor, before: bool) -> int:
    """The size of a wrapper's memory in bytes; it is the same before and after."""
    return _wrapper(t, "get_storage_size")._storage.nbytes()
