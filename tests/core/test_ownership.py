"""Who holds an object (`maquette.core.ownership`), and what autograd makes of the answer."""

import sys

import pytest

import maquette as mq
from maquette.core import ownership
from maquette.core.ownership import counts_tell, held_only

COUNTED = sys.implementation.name == "cpython" and sys.version_info < (3, 14)


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that lends references: no count shows who holds an object."""
    monkeypatch.setattr(ownership, "getrefcount", lambda obj: 1)
    monkeypatch.setattr(ownership, "_tells", [])


@pytest.mark.skipif(not COUNTED, reason="counts tell nothing here")
def test_the_holders_of_an_object_are_counted() -> None:
    alone = object()
    answers = [counts_tell(), held_only(alone, 1)]
    kept = [alone]
    answers += [held_only(alone, 1), held_only(alone, 2), len(kept) == 1]
    assert answers == [True, True, False, True, True]


def test_what_cannot_be_known_is_shared(unknown: None) -> None:
    alone = object()
    assert not counts_tell()
    assert not held_only(alone, 1)


@pytest.mark.parametrize("version", [(3, 14), (3, 15)])
def test_newer_pythons_are_not_asked(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert not counts_tell()


def test_a_python_without_the_global_lock_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert not counts_tell()


def test_T59_a_gradient_that_the_user_may_hold_is_never_written_to(unknown: None) -> None:
    x = mq.ones(3, requires_grad=True)
    y = x.clone()
    grad = mq.ones(3)
    y.backward(grad)
    x.sum().backward()
    assert grad.tolist() == [1, 1, 1]
    assert x.grad.tolist() == [2, 2, 2]


def test_gradients_that_meet_are_added_anew_where_they_may_be_shared(unknown: None) -> None:
    x = mq.ones(3, requires_grad=True)
    seen = []
    y = x * 1
    y.register_hook(seen.append)
    (y * 2 + y * 3).sum().backward()
    assert x.grad.tolist() == seen[0].tolist() == [5, 5, 5]


def test_T26_older_views_follow_a_base_that_begins_to_require_grad(unknown: None) -> None:
    base, w = mq.zeros(4), mq.ones(4, requires_grad=True)
    view = base[:2]
    base.mul_(w)
    assert view.requires_grad
    assert view.grad_fn.name() == "AsStridedBackward0"


def test_T3_views_follow_bytes_that_move_where_nothing_is_known(unknown: None) -> None:
    x = mq.zeros(4)
    view = x[:2]
    x.resize_(100).fill_(1)
    assert view.tolist() == [1, 1]
