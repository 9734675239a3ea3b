"""Mutation, aliases, branches that disagree, carries that change: refused by name."""

import pytest

import maquette as mq
from maquette.higher_order import cond, map, scan, while_loop

X = mq.tensor([[0.5, 1.0], [2.0, -3.0]])
W = mq.ones(2)
YES = mq.tensor(True)


def mutating_operand(x):
    x.add_(1)
    return x.sin()


def mutating_captured(x):
    W.add_(1)
    return x.sin()


def count(i, x):
    return i < 3


ZERO = mq.tensor(0)
CALLS = {
    "cond: true_fn": lambda f: cond(YES, f, mq.cos, (X,)),
    "cond: false_fn": lambda f: cond(~YES, mq.cos, f, (X,)),
    "map: f": lambda f: map(f, X),
    "scan: combine_fn": lambda f: scan(lambda c, x: (c + 1, f(x)), W.clone(), X),
    "while_loop: body_fn": lambda f: while_loop(count, lambda i, x: (i + 1, f(x)), (ZERO, X)),
}


@pytest.mark.parametrize("where", CALLS)
def test_mutation_of_operands_is_refused(where):
    with pytest.raises(RuntimeError, match=f"input mutation.*{where} mutates operand"):
        CALLS[where](mutating_operand)


@pytest.mark.parametrize("where", CALLS)
def test_mutation_of_captured_tensors_is_refused(where):
    told = f"input mutation.*{where} mutates the captured tensor"
    with pytest.raises(RuntimeError, match=told):
        CALLS[where](mutating_captured)


@pytest.mark.parametrize("where", CALLS)
def test_a_result_may_not_be_an_operand(where):
    told = f"aliasing.*{where}: leaf .* shares memory with operand"
    with pytest.raises(RuntimeError, match=told):
        CALLS[where](lambda x: x[:])


def test_two_results_may_not_be_one():
    def step(c, x):
        new = c + x
        return new, new

    with pytest.raises(RuntimeError, match=r"leaf \[1\].*with leaf \[0\] of its result"):
        scan(step, mq.zeros(2), X)


@pytest.mark.parametrize("pred", [YES, ~YES])
@pytest.mark.parametrize(
    "other, told",
    [
        (lambda x: {"a": x[0].cos()}, r"leaf \['a'\] differs in shape"),
        (lambda x: {"a": x.cos().double()}, r"leaf \['a'\] differs in dtype"),
        (lambda x: {"b": x.cos()}, "Unmatched output spec"),
    ],
)
def test_branches_that_disagree_are_refused_whichever_runs(pred, other, told):
    with pytest.raises(RuntimeError, match=told):
        cond(pred, lambda x: {"a": x.sin()}, other, (X,))


def test_a_branch_that_needs_data_is_not_asked_ahead():
    def by_data(x):
        return x * x.sum().item()

    assert cond(YES, mq.sin, by_data, (X,)).equal(X.sin())


def test_the_branch_that_is_asked_leaves_no_trace():
    drawn = mq.get_rng_state()
    w = mq.ones(2, requires_grad=True)
    cond(YES, lambda x: x * w, lambda x: mq.rand(2, 2) * w, (X,)).sum().backward()
    assert mq.get_rng_state().equal(drawn)
    assert w.grad.equal(X.sum(0))
