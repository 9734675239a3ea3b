"""What the dispatcher's tests share: a small tensor, a namespace and operators of their own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

import maquette as mq
from maquette.dispatch import OpOverload, tls_local_exclude_set, tls_local_include_set
from maquette.dispatch.registry import find_packet
from maquette.library import Library

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _unchanged_state() -> Iterator[None]:
    before = tls_local_include_set(), tls_local_exclude_set()
    yield
    assert (tls_local_include_set(), tls_local_exclude_set()) == before


@pytest.fixture
def x() -> mq.Tensor:
    return mq.ones(2, 3)


@pytest.fixture
def ns() -> str:
    """A namespace that no other test uses."""
    return f"dispatch_test_{next(_numbers)}"


@pytest.fixture
def lib(ns: str) -> Iterator[Library]:
    """A library of `ns`, destroyed after the test."""
    made = Library(ns, "FRAGMENT")
    yield made
    made._destroy()


@pytest.fixture
def define(lib: Library, ns: str) -> Callable[..., OpOverload]:
    """``define("f(Tensor x) -> Tensor", CPU=kernel)``: an operator of `ns` with Python kernels."""

    def make(schema: str, tags: object = (), **kernels: Callable[..., object]) -> OpOverload:
        lib.define(schema, tags=tags)
        name, _, overload = schema.partition("(")[0].strip().partition(".")
        packet = find_packet(f"{ns}::{name}")
        op = packet._overloads[overload or "default"]  # without binding it
        for key, kernel in kernels.items():
            lib.impl(op, kernel, key)
        return op

    return make
