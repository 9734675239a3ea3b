"""A namespace of its own for every test of the library."""

import itertools

import pytest

from maquette.library import Library

_numbers = itertools.count()


@pytest.fixture
def ns():
    """A namespace that no other test uses."""
    return f"library_test_{next(_numbers)}"


@pytest.fixture
def lib(ns):
    """A FRAGMENT library of `ns`, destroyed after the test."""
    made = Library(ns, "FRAGMENT")
    yield made
    made._destroy()
