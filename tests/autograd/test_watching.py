"""Hooks on saved tensors, and the search for NaN."""

import pytest

import maquette as mq
from maquette import Tensor
from maquette.autograd.anomaly import is_anomaly_enabled
from maquette.autograd.saved.hooks import saved_tensors_hooks


def leaf(*values: float) -> Tensor:
    return mq.tensor(values, requires_grad=True)


class Log:
    """A pair of hooks that change nothing and count."""

    def __init__(self) -> None:
        self.packs = self.unpacks = 0

    def pack(self, t: Tensor) -> object:
        self.packs += 1
        return (t,)

    def unpack(self, packed: object) -> Tensor:
        self.unpacks += 1
        return packed[0]  # type: ignore[index]  # what pack made


def test_T66_two_operands_are_packed_and_unpacked() -> None:
    log, a = Log(), leaf(3.0)
    with saved_tensors_hooks(log.pack, log.unpack):
        out = a * a
    assert (log.packs, log.unpacks) == (2, 0)
    out.sum().backward()
    assert (log.packs, log.unpacks) == (2, 2)
    assert a.grad.tolist() == [6.0]


def test_T66_hooks_see_saved_results() -> None:
    a = leaf(0.0)
    with saved_tensors_hooks(lambda t: t.tolist(), lambda values: mq.tensor(values) * 5):
        out = a.exp()
    out.sum().backward()
    assert a.grad.tolist() == [5.0]


def test_T66_hooks_end_with_their_block() -> None:
    log, a = Log(), leaf(3.0)
    with saved_tensors_hooks(log.pack, log.unpack):
        pass
    (a * a).sum().backward()
    assert log.packs == 0


def test_T66_the_innermost_hooks_count() -> None:
    outer, inner, a = Log(), Log(), leaf(3.0)
    with saved_tensors_hooks(outer.pack, outer.unpack):
        with saved_tensors_hooks(inner.pack, inner.unpack):
            a * a
        a.exp()
    assert (outer.packs, inner.packs) == (1, 2)


def test_T66_hooked_graphs_are_differentiated_twice() -> None:
    log, x = Log(), leaf(2.0)
    with saved_tensors_hooks(log.pack, log.unpack):
        out = (x.exp() * x * x).sum()
    (first,) = mq.autograd.grad(out, x, create_graph=True)
    (second,) = mq.autograd.grad(first.sum(), x)
    assert second.item() == pytest.approx(14 * float(mq.tensor(2.0).exp()), rel=1e-5)


def test_T66_functions_save_through_hooks() -> None:
    class Square(mq.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:  # type: ignore[no-untyped-def]  # a context
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad: Tensor) -> Tensor:  # type: ignore[no-untyped-def]  # a context
            return 2 * ctx.saved_tensors[0] * grad

    log, a = Log(), leaf(3.0)
    with saved_tensors_hooks(log.pack, log.unpack):
        out = Square.apply(a)
    out.sum().backward()
    assert (log.packs, log.unpacks) == (1, 1)
    assert a.grad.tolist() == [6.0]


def test_T66_pack_does_not_write() -> None:
    b = leaf(3.0) * 1
    with saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t):
        with pytest.raises(RuntimeError, match="pack hook is modifying its input"):
            b * b


def test_T66_unpack_gives_a_tensor() -> None:
    a = leaf(3.0)
    with saved_tensors_hooks(lambda t: 1, lambda packed: packed):
        out = a * a
    with pytest.raises(TypeError, match="Tensor"):
        out.sum().backward()


def test_T66_fakes_are_hooked_too() -> None:
    log = Log()
    with mq.FakeTensorMode(), saved_tensors_hooks(log.pack, log.unpack):
        a = mq.ones(2, requires_grad=True)
        (a * a).sum().backward()
    assert (log.packs, log.unpacks) == (2, 2)


def test_T66_nan_is_refused_with_the_call_it_came_from() -> None:
    with mq.autograd.set_detect_anomaly(True):
        out = (leaf(0.0).sqrt() * 0).sum()
        with pytest.warns(UserWarning, match=r"(?s)SqrtBackward0.*leaf\(0.0\).sqrt\(\)"):
            with pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan .* 0th output"):
                out.backward()


def test_T66_the_stack_of_an_anomaly_ends_in_the_program() -> None:
    with mq.autograd.set_detect_anomaly(True):
        out = mq.nn.functional.softplus(leaf(0.0).sqrt() * 0)
    assert "test_watching" in out.grad_fn._trace[-1].splitlines()[0]


def test_T66_detect_anomaly_warns_that_it_is_slow() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        mode = mq.autograd.detect_anomaly()
    with mode:
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled()


def test_T66_outside_of_the_block_nan_passes() -> None:
    a = leaf(0.0)
    with mq.autograd.set_detect_anomaly(False):
        (a.sqrt() * 0).sum().backward()
    assert a.grad.isnan().all()


def test_T66_errors_of_backward_tell_the_call_too() -> None:
    with mq.autograd.set_detect_anomaly(True):
        e = leaf(1.0).exp()
        e.add_(1)
        with pytest.warns(UserWarning, match=r"(?s)ExpBackward0.*leaf\(1.0\).exp\(\)"):
            with pytest.raises(RuntimeError, match="modified by an inplace"):
                e.sum().backward()
