"""Grad mode and inference mode."""

import threading

import pytest

import maquette as mq
from maquette import Tensor


@pytest.fixture
def inference_tensor() -> Tensor:
    """A tensor made in inference mode."""
    with mq.inference_mode():
        return mq.ones(2)


def test_T63_nothing_is_recorded_under_no_grad() -> None:
    a = mq.ones(1, requires_grad=True)
    with mq.no_grad():
        assert not (a * 2).requires_grad
        with mq.enable_grad():
            assert (a * 2).requires_grad
        assert not mq.is_grad_enabled()
    assert mq.is_grad_enabled()


def test_T63_modes_decorate() -> None:
    @mq.no_grad()
    def double(a: Tensor) -> Tensor:
        return a * 2

    assert not double(mq.ones(1, requires_grad=True)).requires_grad
    assert mq.is_grad_enabled()


def test_T63_set_grad_enabled_acts_at_once() -> None:
    with mq.set_grad_enabled(False):
        assert not mq.is_grad_enabled()
    mq.set_grad_enabled(False)
    assert not mq.is_grad_enabled()
    mq.set_grad_enabled(True)
    assert mq.is_grad_enabled()


def test_T63_modes_are_the_thread_s_own() -> None:
    seen: list[bool] = []
    with mq.no_grad():
        thread = threading.Thread(target=lambda: seen.append(mq.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_T63_factories_make_leaves_under_no_grad() -> None:
    with mq.no_grad():
        a = mq.ones(1, requires_grad=True)
    assert a.requires_grad
    assert a.is_leaf


def test_T63_new_tensors_in_inference_mode_are_inference_tensors() -> None:
    a = mq.ones(2, requires_grad=True)
    with mq.inference_mode():
        made, view = a * 2, a[:1]
    assert made.is_inference()
    assert not view.is_inference()
    assert view._is_view()


def test_T63_nothing_is_recorded_in_inference_mode() -> None:
    a = mq.ones(2, requires_grad=True)
    with mq.inference_mode(), mq.enable_grad():
        assert not (a * 2).requires_grad


def test_T63_inference_mode_false_undoes() -> None:
    a = mq.ones(2, requires_grad=True)
    with mq.inference_mode(), mq.inference_mode(False):
        assert not mq.is_inference_mode_enabled()
        made = a * 2
    assert made.requires_grad
    assert not made.is_inference()


def test_T64_inference_tensors_are_not_written_outside(inference_tensor: Tensor) -> None:
    with pytest.raises(RuntimeError, match="InferenceMode"):
        inference_tensor.add_(1)
    with mq.inference_mode():
        inference_tensor.add_(1)
    assert inference_tensor.tolist() == [2.0, 2.0]


def test_T64_inference_tensors_do_not_start_to_require_grad(inference_tensor: Tensor) -> None:
    with pytest.raises(RuntimeError, match="InferenceMode"):
        inference_tensor.requires_grad_()


def test_T64_inference_tensors_are_not_saved_for_backward(inference_tensor: Tensor) -> None:
    a = mq.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="clone"):
        inference_tensor * a
    assert (inference_tensor + a).requires_grad


def test_T64_views_stay_inference_tensors_and_clones_do_not(inference_tensor: Tensor) -> None:
    assert inference_tensor[:1].is_inference()
    assert not inference_tensor.clone().is_inference()


def test_a_product_with_a_factor_made_in_inference_mode_is_refused_at_the_first_call() -> None:
    """Also where both factors require grad, so that both are to be saved."""
    with mq.inference_mode():
        c = mq.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        c * mq.ones(2, requires_grad=True)
