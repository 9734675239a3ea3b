"""Which values are fake, and which mode they belong to (F39, F40).

A tensor is fake if it is a `FakeTensor`, or wraps fakes: a wrapper subclass whose inner tensors
are, or a tensor of some level of a function transform whose value is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from maquette.core.pytree import tree_leaves
from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.dispatch.tls import tls
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor
from maquette.tensor.tensor import Tensor
from maquette.transforms.wrappers import Wrapper


class _Flattening(Protocol):
    def __tensor_flatten__(self) -> tuple[list[str], object]: ...


def _inner_tensors(t: object) -> Iterator[Tensor]:
    """The tensors that a wrapper subclass holds; what it holds besides is passed over."""
    for name in cast(_Flattening, t).__tensor_flatten__()[0]:
        inner = getattr(t, name)
        if isinstance(inner, Tensor):
            yield inner


def is_fake(value: object) -> bool:
    """Whether a value is a fake tensor or wraps some.

    Raises AssertionError for a wrapper of both fake and real tensors.
    """
    if isinstance(value, FakeTensor):
        return True
    if isinstance(value, Wrapper):
        return is_fake(value._value)
    if not is_traceable_wrapper_subclass(value):
        return False
    answers = [is_fake(inner) for inner in _inner_tensors(value)]
    if any(answers) and not all(answers):
        raise AssertionError(
            f"a {type(value).__name__} wraps both fake and real tensors: convert it whole, with "
            f"mode.from_tensor(t)"
        )
    return any(answers)


def maybe_get_fake_mode(value: object) -> FakeTensorMode | None:
    """The mode of a fake, or of the fakes that a wrapper holds; None for what is not fake.

    Raises AssertionError for a wrapper of fakes of several modes.
    """
    if isinstance(value, FakeTensor):
        return value.fake_mode
    if isinstance(value, Wrapper):
        return maybe_get_fake_mode(value._value)
    if not is_traceable_wrapper_subclass(value):
        return None
    modes = [maybe_get_fake_mode(inner) for inner in _inner_tensors(value)]
    found = next((mode for mode in modes if mode is not None), None)
    if any(mode is not None and mode is not found for mode in modes):
        raise AssertionError(f"a {type(value).__name__} wraps fakes of several modes: {modes}")
    return found


def detect_fake_mode(inputs: object = None) -> FakeTensorMode | None:
    """The mode that is active, or that of the fakes among the leaves of ``inputs``; else None.

    Raises AssertionError, with both modes and where they were made, when they are not the same.
    """
    found: list[tuple[FakeTensorMode, str]] = []
    active = tls.st.fake_mode
    if isinstance(active, FakeTensorMode):
        found.append((active, "which is active"))
    for n, leaf in enumerate(tree_leaves(inputs)):
        mode = maybe_get_fake_mode(leaf)
        if mode is not None:
            found.append((mode, f"of input {n}"))
    for mode, where in found[1:]:
        first, first_where = found[0]
        if mode is not first:
            raise AssertionError(
                f"fake modes differ: {first}, {first_where}, and {mode}, {where}\n\n"
                f"the mode {first_where} was made at:\n{first.stack}\n"
                f"the mode {where} was made at:\n{mode.stack}"
            )
    return found[0][0] if found else None
