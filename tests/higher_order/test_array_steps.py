"""Long scans that record nothing run as one program of arrays: the same results, with two calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import maquette as mq
from maquette import nn
from maquette.higher_order import scan
from maquette.higher_order.array_steps import LONG
from maquette.library import Library
from maquette.tensor.storage import observe_allocations

STEPS = LONG + 6


def one_by_one(f: Callable[..., Any], init: Any, rows: mq.Tensor) -> tuple[Any, Any]:
    """The oracle: the function called in a Python loop."""
    carry, outs = init, []
    for row in rows.unbind(0):
        carry, out = f(carry, row)
        outs.append(out)
    return carry, mq.stack(outs)


def counted(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[None]]:
    calls: list[None] = []

    def run(*args: Any) -> Any:
        calls.append(None)
        return f(*args)

    return run, calls


cell = nn.GRUCell(3, 3)
weight = mq.arange(9.0).reshape(3, 3) / 20


BODIES = {
    "pointwise": lambda c, x: ((c + x).sin(), c * 2),
    "a product with a captured matrix": lambda c, x: ((x + c) @ weight, c.sum()),
    "a module": lambda c, x: ((new := cell(x, c)), new.relu()),
    "views": lambda c, x: ((c.t() @ x).t().contiguous(), x.reshape(-1)[:4] * 1),
    "a list of operands": lambda c, x: (mq.cat([c[1:], x[:1]]), mq.stack([c, x, c]).amax(0)),
    "mutation of what it made": lambda c, x: ((c.clone().add_(x)), mq.zeros_like(x).copy_(c)),
    "integers": lambda c, x: (c + 1, (c > x).long().argmax(0)),
    "several results of one operator": lambda c, x: ((c + x).tanh(), x.sort(0)[1]),
    "its own row": lambda c, x: (c + x.mean(), x.clone()),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_long_scan_equals_its_loop_and_calls_twice(name: str) -> None:
    body = BODIES[name]
    f, calls = counted(body)
    init, rows = mq.ones(3, 3) / 3, mq.linspace(-1, 1, STEPS * 9).reshape(STEPS, 3, 3)
    with mq.no_grad():
        last, outs = scan(f, init, rows)
        expected_last, expected = one_by_one(body, init, rows)
    assert len(calls) == 2  # the first step, and the trace
    for found, wanted in ((last, expected_last), (outs, expected)):
        assert found.meta == wanted.meta
        assert mq.equal(found, wanted)


def test_trees_and_reverse() -> None:
    def body(carry: dict[str, mq.Tensor], row: tuple[mq.Tensor, mq.Tensor]) -> Any:
        new = {"a": carry["a"] + row[0], "b": carry["b"] * 0.9 + row[1]}
        return new, [new["a"] - new["b"]]

    xs = (mq.arange(float(STEPS)), mq.arange(STEPS * 2.0).reshape(STEPS, 2))
    init = {"a": mq.tensor(0.0), "b": mq.zeros(2)}
    f, calls = counted(body)
    last, (outs,) = scan(f, init, xs, reverse=True)
    carry, wanted = init, []
    for i in reversed(range(STEPS)):
        carry, (out,) = body(carry, (xs[0][i], xs[1][i]))
        wanted.append(out)
    assert len(calls) == 2
    assert mq.equal(last["a"], carry["a"])
    assert mq.equal(last["b"], carry["b"])
    assert mq.equal(outs, mq.stack(wanted[::-1]))


def test_bfloat16_and_rows_along_another_dimension() -> None:
    rows = mq.linspace(-1, 1, STEPS * 4).reshape(4, STEPS).to(mq.bfloat16)
    last, outs = scan(lambda c, x: (c + x, c * x), mq.zeros(4, dtype=mq.bfloat16), rows, dim=1)
    expected_last, expected = one_by_one(
        lambda c, x: (c + x, c * x), mq.zeros(4, dtype=mq.bfloat16), rows.t()
    )
    assert mq.equal(last, expected_last)
    assert mq.equal(outs, expected)


@pytest.mark.parametrize(
    "body",
    [
        lambda c, x: (c + mq.rand(3), c * 1),
        lambda c, x: (c + x if float(x.sum()) > 0 else c - x, c * 1),
        lambda c, x: (c + mq.view_as_complex(mq.stack([x, x], -1)).real, c * 1),
    ],
    ids=["random numbers", "data steers", "complex numbers"],
)
def test_what_no_program_can_say_is_called_step_by_step(body: Callable[..., Any]) -> None:
    rows = mq.linspace(-1, 2, STEPS * 3).reshape(STEPS, 3)
    mq.manual_seed(0)
    last, outs = scan(body, mq.ones(3), rows)
    mq.manual_seed(0)
    expected_last, expected = one_by_one(body, mq.ones(3), rows)
    assert mq.equal(last, expected_last)
    assert mq.equal(outs, expected)


def test_a_scan_that_records_calls_each_step_and_has_its_gradients() -> None:
    wanted = mq.ones(3, requires_grad=True)
    rows = mq.linspace(-1, 1, STEPS * 3).reshape(STEPS, 3)
    f, calls = counted(lambda c, x: (c * 0.5 + x * wanted, c.sum()))
    last, outs = scan(f, mq.zeros(3), rows)
    (last.sum() + outs.sum()).backward()
    assert len(calls) >= STEPS
    found = wanted.grad
    wanted.grad = None
    last, outs = one_by_one(lambda c, x: (c * 0.5 + x * wanted, c.sum()), mq.zeros(3), rows)
    (last.sum() + outs.sum()).backward()
    assert found is not None
    assert wanted.grad is not None
    assert mq.allclose(found, wanted.grad)


def test_who_observes_memory_sees_every_step() -> None:
    class Observer:
        made = 0

        def allocated(self, *told: object) -> None:
            self.made += 1

        def released(self, *told: object) -> None:
            pass

        resized = released

    f, calls = counted(lambda c, x: (c + x, c.sin()))
    with observe_allocations(Observer()) as observer:
        scan(f, mq.zeros(2), mq.ones(STEPS, 2))
    assert len(calls) == STEPS
    assert observer.made >= 2 * STEPS


def test_an_error_of_a_later_step_is_the_operators_own() -> None:
    table, rows = mq.arange(5.0), mq.arange(STEPS)
    with pytest.raises(IndexError) as expected:
        one_by_one(lambda c, i: (c + table.index_select(0, i.view(1)), c * 1), mq.zeros(1), rows)
    with pytest.raises(IndexError) as found:
        scan(lambda c, i: (c + table.index_select(0, i.view(1)), c * 1), mq.zeros(1), rows)
    assert str(found.value) == str(expected.value)


def test_a_carry_that_changes_is_refused_as_in_a_short_loop() -> None:
    with pytest.raises(RuntimeError, match="same metadata"):
        scan(lambda c, x: (c.double(), x * 1), mq.zeros(2), mq.ones(STEPS, 2))


def test_several_outputs_of_what_is_carried() -> None:
    def body(c: mq.Tensor, x: mq.Tensor) -> Any:
        new = c * 0.5 + x
        return new, (new.clone(), new * 1, c.clone(), x.sum(), new * 2)

    rows = mq.linspace(-1, 1, STEPS * 3).reshape(STEPS, 3)
    last, outs = scan(body, mq.ones(3), rows)
    carry, wanted = mq.ones(3), []
    for row in rows.unbind(0):
        carry, out = body(carry, row)
        wanted.append(out)
    assert mq.equal(last, carry)
    for found, each in zip(outs, zip(*wanted)):
        assert mq.equal(found, mq.stack(each))


@pytest.mark.parametrize(
    "body",
    [
        lambda c, x: (mq.add(c, x, alpha=2), c * 3),
        lambda c, x: (c + x.double().float(), c.double() / 3),
        lambda c, x: ((c * 2 - x).maximum(c.neg()), (c.long() + 1).float().sqrt()),
        lambda c, x: (c - x, mq.tanh(c) / 2 + x.half()),
    ],
    ids=["alpha", "doubles", "integers", "halves"],
)
def test_types_that_are_promoted_equal_the_loop(body: Callable[..., Any]) -> None:
    rows = mq.linspace(-1, 1, STEPS * 3).reshape(STEPS, 3)
    last, outs = scan(body, mq.ones(3), rows)
    expected_last, expected = one_by_one(body, mq.ones(3), rows)
    assert mq.equal(last, expected_last)
    assert outs.meta == expected.meta
    assert mq.equal(outs.nan_to_num(), expected.nan_to_num())


def test_a_kernel_that_takes_the_place_of_another_is_the_one_that_runs() -> None:
    from maquette.library import Library, register_kernel

    lib = Library("aten", "IMPL")
    register_kernel("aten::sin", None, lambda xp, x: x + 1, arrays=True, lib=lib)
    try:
        last, _ = scan(lambda c, x: (c.sin(), x * 1), mq.zeros(2), mq.ones(STEPS, 2))
    finally:
        lib._destroy()
    assert last.tolist() == [STEPS] * 2


@pytest.mark.parametrize("key", ["CPU", "AutogradCPU"])
@pytest.mark.filterwarnings("ignore:aten..sin. the kernel at CPU:UserWarning")
def test_a_long_scan_runs_the_kernel_that_a_library_registers(key):
    xs = mq.ones(100, 3)

    def total():
        return scan(lambda carry, x: (carry + x, x.sin() + 1), mq.zeros(3), xs)[1].sum().item()

    plain = total()
    library = Library("aten", "IMPL")
    try:
        library.impl("sin", lambda x: mq.full_like(x, 9.0), key)
        assert total() == 3000
    finally:
        library._destroy()
    assert total() == plain
