"""PyTorch's private helpers for sizes, which model files import by these names."""

from collections.abc import Callable, Iterable, MutableMapping
from itertools import repeat
from typing import Any


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """Paddings as `pad` takes them: the last dimension first, each ``n`` times."""
    return tuple(x for x in reversed([*t]) for _ in range(n))


def _list_with_default(out_size: int | list[int | None], defaults: list[int]) -> int | list[int]:
    """Sizes with the last of ``defaults`` in the places of None; one size as it is."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [d if size is None else size for size, d in zip(out_size, last)]


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, Any], prefix: str
) -> None:
    """Take a prefix, such as ``module.``, from all names of a state dict that have it, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata: dict[str, Any] = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key == prefix.removesuffix("."):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key.removeprefix(prefix)] = metadata.pop(key)
