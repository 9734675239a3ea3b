"""Programs on Dask's arrays in chunks."""

import importlib.util
import sys

import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("dask") is None, reason="Dask is not installed; pip install dask"
)


def test_without_dask_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(NotImplementedError, match=r"pip install 'maquette\[dask\]'"):
        mq.compile(lambda x: x, backend="dask")


@needs_dask
def test_an_array_of_many_chunks():
    def f(x, w):
        return (x @ w).tanh().mean(0), x.softmax(1).sum(), torch.special.erf(x).amax(1)

    x, w = mq.randn(100, 8), mq.randn(8, 3)
    for a, b in zip(mq.compile(f, backend="dask", chunks=10)(x, w), f(x, w)):
        assert torch.allclose(a, b, atol=1e-5)


@needs_dask
def test_memory_is_bounded_by_chunks():
    import tracemalloc

    big = mq.from_numpy(np.zeros((400, 5_000)))  # 16 MB, in chunks of 1.6 MB
    f = mq.compile(lambda x: ((x + 1) * (x - 1)).exp().sum(), backend="dask", chunks=(40, 5_000))
    f(big)  # traced
    tracemalloc.start()
    with importlib.import_module("dask").config.set(scheduler="synchronous"):
        found = f(big)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.item() == pytest.approx(2e6 * np.exp(-1))
    assert peak < 8e6  # eager holds two arrays of 16 MB


@needs_dask
def test_what_chunks_cannot_do_is_named():
    with pytest.raises(mq.compile.CompileError, match=r"dask engine.*\n.*aten.sort"):
        mq.compile(lambda x: x.sort()[0], backend="dask")(mq.randn(5))


@needs_dask
def test_a_training_step_in_chunks():
    from maquette import nn
    from maquette.optim import SGD

    models = []
    for engine in (None, "dask"):
        mq.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = SGD(model.parameters(), lr=0.1)
        models.append(model)

        def step(x, y, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = step if engine is None else mq.compile(step, backend=engine, chunks=16)
        for _ in range(2):
            run(mq.linspace(-1, 1, 256).reshape(64, 4), mq.ones(64, 1))
    for a, b in zip(*[m.parameters() for m in models]):
        assert torch.allclose(a, b, atol=1e-5)
