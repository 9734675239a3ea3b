"""Where fakes were made, which of them live, and where an error happened (F20, F21, FX13).

Of F37 all is here but that `FakeTensorProp` raises the epoch.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

import maquette as mq
from maquette.dispatch.operator import resolve_anew


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


@pytest.fixture
def debug() -> Iterator[None]:
    mq.fake.config.debug = True
    yield
    mq.fake.config.debug = False


MAKERS: list[Callable[[mq.FakeTensorMode], mq.Tensor]] = [
    lambda m: m.from_tensor(mq.ones(2)),
    lambda m: m.from_tensor(mq.ones(2)) + 1,
    lambda m: m.from_tensor(mq.ones(2)).view(1, 2),
    lambda m: m.from_tensor(mq.ones(2)).detach(),
    lambda m: m.from_tensor(mq.ones(4)).max(0).values,
]


@pytest.mark.parametrize("make", MAKERS)
def test_F20_a_fake_knows_where_it_was_made_while_debugging(
    m: mq.FakeTensorMode, debug: None, make: Callable[[mq.FakeTensorMode], mq.Tensor]
) -> None:
    t = make(m)
    assert __file__ in str(t._debug_trace)


@pytest.mark.parametrize("make", MAKERS)
def test_F20_and_keeps_nothing_otherwise(
    m: mq.FakeTensorMode, make: Callable[[mq.FakeTensorMode], mq.Tensor]
) -> None:
    assert not hasattr(make(m), "_debug_trace")


def test_F20_the_switch_acts_on_calls_that_were_made_before(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2))
    found = []
    for flag in (False, True, False):
        mq.fake.config.debug = flag
        found.append(hasattr(x + x, "_debug_trace"))
    assert found == [False, True, False]


@pytest.mark.parametrize(("value", "traced"), [("1", True), ("0", False)])
def test_F20_the_environment_sets_the_switch(value: str, traced: bool) -> None:
    program = (
        "import maquette as mq\n"
        "with mq.FakeTensorMode(): t = mq.empty(2)\n"
        "print(hasattr(t, '_debug_trace'))"
    )
    env = {**os.environ, "MAQUETTE_FAKE_DEBUG": value}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == str(traced), done.stderr


def test_F21_fakes_are_tracked_while_they_live(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2))
    with mq.fake.track_fakes() as made:
        kept, *_ = [x + 1, x.view(1, 2), m.from_tensor(mq.ones(3))]
        del _
    assert len(made) == 1
    assert kept in made


def test_F21_each_block_sees_its_own_fakes(m: mq.FakeTensorMode) -> None:
    with mq.fake.track_fakes() as outer:
        a = m.from_tensor(mq.ones(2))
        with mq.fake.track_fakes() as inner:
            b = a + a
        c = a + b
    d = a + c
    assert [t in outer for t in (a, b, c, d)] == [True, True, True, False]
    assert [t in inner for t in (a, b, c, d)] == [False, True, False, False]


def test_F21_other_threads_are_not_tracked(m: mq.FakeTensorMode) -> None:
    made_elsewhere: list[mq.Tensor] = []
    with mq.fake.track_fakes() as made:
        make = lambda: made_elsewhere.append(m.from_tensor(mq.ones(2)))  # noqa: E731
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
    assert len(made_elsewhere) == 1
    assert len(made) == 0


def test_a_mode_knows_where_it_was_made() -> None:
    mode = mq.FakeTensorMode()
    assert "mode = mq.FakeTensorMode()" in mode.stack
    assert __file__ in mode.stack


def test_a_mode_tells_its_fakes(m: mq.FakeTensorMode) -> None:
    other = mq.FakeTensorMode()
    mine = [t for t in (m, other) if m.is_our_fake(t.from_tensor(mq.ones(2)))]
    assert mine == [m]
    assert not m.is_our_fake(mq.ones(2))


def test_counters_of_a_mode(m: mq.FakeTensorMode) -> None:
    assert m.epoch == 0
    m.nt_tensor_id_counter = 3
    m.reset_nt_tensor_id_counter()
    assert m.nt_tensor_id_counter == 0
    m.allow_scalar_outputs = True
    assert m.allow_scalar_outputs


class Block(mq.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = mq.nn.ModuleList([mq.nn.Linear(3, 3), mq.nn.Linear(3, 3)])

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Net(mq.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        return self.block(x)


def test_FX13_an_error_deep_in_a_model_says_where(m: mq.FakeTensorMode) -> None:
    with m:
        net = Net()
        net.block.layers[1].cuda()
        with pytest.raises(mq.fake.FakeTensorDeviceMismatchError) as error:
            net(mq.ones(2, 3))
    (note,) = error.value.__notes__
    assert "aten.addmm.default(float32[3] on cuda:0, float32[2, 3]" in note
    assert f"{__file__}:" in note
    assert note.endswith("in module Net.block.layers.1")


@pytest.mark.parametrize(
    ("program", "call"),
    [
        (lambda x: x + x.new_empty(7), "aten.add.Tensor(float32[2, 3], float32[7], alpha=1)"),
        (lambda x: mq.cat([x, x[0]]), "aten.cat.default([float32[2, 3], float32[3]], 0)"),
        (lambda x: x.sum().item(), "aten._local_scalar_dense.default(float32[])"),
        (lambda x: x.nonzero(), "aten.nonzero.default(float32[2, 3])"),
        (lambda x: x + mq.ones(2, 3), "aten.add.Tensor(float32[2, 3], float32[2, 3], alpha=1)"),
    ],
)
def test_FX13_an_error_names_its_call(
    m: mq.FakeTensorMode, program: Callable[[mq.Tensor], object], call: str
) -> None:
    with pytest.raises((RuntimeError, AssertionError)) as error:
        program(m.from_tensor(mq.ones(2, 3)))
    (note,) = error.value.__notes__
    assert call in note
    assert "in module" not in note


def test_FX13_the_cache_is_not_in_the_traceback(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2, 3))
    with pytest.raises(RuntimeError) as error:
        x @ x
    assert error.value.__context__ is None


def test_kernels_that_are_found_anew_let_the_old_ones_go() -> None:
    multiply = mq.ops.aten.mul.Tensor
    with mq.FakeTensorMode():
        x = mq.ones(2)
        multiply(x, x)
    old = [weakref.ref(kernel) for kernel in multiply._table.values()]
    resolve_anew()
    gc.collect()
    assert old
    assert not any(kernel() for kernel in old)
