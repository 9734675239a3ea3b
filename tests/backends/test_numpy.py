"""Running kernels with NumPy: in silence, and while another kernel runs (`backends.numpy`)."""

import signal
import threading
from collections.abc import Callable

import numpy as np
import pytest

import maquette as mq
from maquette.core.meta import TensorMeta
from maquette.library import page


@pytest.fixture
def calling() -> Callable[[Callable[[], object]], mq.Tensor]:
    """An operator whose kernel calls a function of the test's, as a finalizer would be called."""
    found = getattr(mq.ops.interrupted, "copy", None)
    if found is None:
        op = page.define("interrupted::copy(Tensor x) -> Tensor")

        @op.shape
        def shape(x: TensorMeta) -> TensorMeta:
            return x.fresh(x.shape)

        @op.kernel
        def kernel(xp: object, x: np.ndarray) -> np.ndarray:
            CALLED[-1]()
            return x.copy()

    def call(function: Callable[[], object]) -> mq.Tensor:
        CALLED.append(function)
        try:
            return mq.ops.interrupted.copy(mq.ones(2))
        finally:
            CALLED.pop()

    return call


CALLED: list[Callable[[], object]] = []


def test_a_finalizer_uses_tensors_while_a_kernel_runs(calling) -> None:
    seen = []

    class Held:
        def __del__(self) -> None:
            seen.append((mq.ones(2) + 1).tolist())

    held = [Held()]
    assert calling(held.clear).tolist() == [1, 1]
    assert seen == [[2, 2]]


def test_kernels_run_within_kernels_to_any_depth(calling) -> None:
    def deeper(depth: int) -> float:
        if depth == 0:
            return (mq.ones(2) / 0).sum().item()  # no warning of NumPy's either
        results = []
        calling(lambda: results.append(deeper(depth - 1)))
        return results[0]

    assert deeper(20) == float("inf")


def test_writes_and_several_results_run_within_kernels(calling) -> None:
    x, seen = mq.zeros(3), []
    calling(lambda: seen.append(x.add_(1).max(0)))
    assert x.tolist() == [1, 1, 1]
    assert seen[0].values.item() == 1


def test_a_generator_goes_on_within_a_kernel_and_outside(calling) -> None:
    def doubled():
        x = mq.ones(2)
        while True:
            x = x * 2
            yield x.tolist()

    values, seen = doubled(), []
    seen.append(next(values))
    calling(lambda: seen.append(next(values)))
    seen.append(next(values))
    assert seen == [[2, 2], [4, 4], [8, 8]]


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals come to main"
)
def test_a_signal_handler_uses_tensors_while_a_kernel_runs(calling) -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append((mq.ones(2) * 3).tolist()))
    try:
        calling(lambda: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [[3, 3]]


def test_an_error_that_a_kernel_raises_is_its_own(calling) -> None:
    def refuse() -> None:
        raise RuntimeError("cannot enter context: so it says")

    with pytest.raises(RuntimeError, match="so it says"):
        calling(refuse)


def test_the_error_state_of_the_program_is_left_alone(calling) -> None:
    seen = []
    with np.errstate(divide="raise"):
        calling(lambda: seen.append(mq.ones(1) / 0))
        assert np.geterr()["divide"] == "raise"
    assert np.isinf(seen[0].item())
