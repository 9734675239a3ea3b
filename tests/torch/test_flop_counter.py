"""`FlopCounterMode`: what is counted, and to which module it goes (finding 19)."""

from __future__ import annotations

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn
from maquette.symbolic import ShapeEnv
from maquette.torch.utils.flop_counter import FlopCounterMode


@pytest.fixture
def counted() -> FlopCounterMode:
    conv = nn.Conv2d(3, 8, 3, padding=1)
    net = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 10))
    with FlopCounterMode(display=False) as counter:
        net(mq.ones(2, 3, 4, 4)).sum().backward()
    return counter


def test_products_and_convolutions_are_counted_and_nothing_else(counted: FlopCounterMode) -> None:
    """Finding 19. PyTorch's own figures."""
    names = {str(p): n for p, n in counted.get_flop_counts()["Global"].items()}
    forward, backward = {"aten.convolution": 13824, "aten.addmm": 5120}, 13824
    assert names == {**forward, "aten.mm": 10240, "aten.convolution_backward": backward}
    assert counted.get_total_flops() == 43008


def test_backward_counts_for_the_module_of_its_forward(counted: FlopCounterMode) -> None:
    sums = {name: sum(c.values()) for name, c in counted.get_flop_counts().items()}
    assert sums == {
        "Global": 43008,
        "Sequential": 43008,
        "Sequential.0": 27648,
        "Sequential.3": 15360,
    }


def test_fakes_and_inference_are_counted_alike() -> None:
    """Finding 19."""
    with mq.FakeTensorMode(), torch.inference_mode(), FlopCounterMode(display=False) as counter:
        mq.empty(4, 8) @ mq.empty(8, 16)
    assert counter.get_total_flops() == 2 * 4 * 8 * 16


def test_an_operator_can_be_counted_by_a_function_of_ones_own() -> None:
    mapping = {mq.ops.aten.add: lambda a, b, out_shape: 7 * out_shape.numel()}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        mq.ones(3) + mq.ones(3)
    assert counter.get_total_flops() == 21


def test_the_table_is_printed_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with FlopCounterMode():
        nn.Linear(2, 2)(mq.ones(1, 2))
    assert "Linear" in capsys.readouterr().out


def test_checks_with_an_error_of_ones_own() -> None:
    with pytest.raises(KeyError, match="no"):
        torch._check_with(KeyError, False, lambda: "no")
    with pytest.raises(LookupError):
        torch._check_tensor_all_with(LookupError, mq.tensor([True, False]))


def test_flops_of_sizes_that_only_data_tells_stay_an_expression() -> None:
    with mq.FakeTensorMode(shape_env=ShapeEnv()), FlopCounterMode(display=False) as counter:
        x = mq.empty(6).nonzero().to(mq.float32)
        x @ mq.empty(1, 5)
    assert str(counter.get_total_flops()) == "10*u0"


def test_a_function_of_values_counts_by_the_result() -> None:
    def count(*args: object, out_val: mq.Tensor) -> int:
        return out_val.numel()

    count._get_raw = True  # type: ignore[attr-defined]  # PyTorch's mark
    with FlopCounterMode(display=False, custom_mapping={mq.ops.aten.add: count}) as mode:
        mq.ones(4, 5) + mq.ones(4, 5)
    assert mode.get_total_flops() == 20


def test_modules_need_not_be_given() -> None:
    with pytest.warns(UserWarning, match="not needed"):
        FlopCounterMode(mq.nn.Linear(1, 1))


def test_packed_sequences_are_counted_one_by_one() -> None:
    from maquette.torch.utils.flop_counter import (  # as xformers imports it
        _unpack_flash_attention_nested_shapes as shapes,
    )

    t, offsets = torch.ones(5, 2, 4), torch.tensor([0, 3, 5])
    packed = {"cum_seq_q": offsets, "cum_seq_k": offsets, "max_q": 3, "max_k": 3}
    found = list(shapes(query=t, key=t, value=t[..., :1], grad_out=t, **packed))
    assert found == [((1, 2, n, 4), (1, 2, n, 4), (1, 2, n, 1), (1, 2, n, 4)) for n in (3, 2)]
    meta = {**packed, "cum_seq_q": offsets.to("meta"), "cum_seq_k": offsets.to("meta")}
    assert [q[2] for q, *_ in shapes(query=t, key=t, value=t, **meta)] == [3, 3]
    whole = {"cum_seq_q": None, "cum_seq_k": None, "max_q": 0, "max_k": 0}
    assert list(shapes(query=t, key=t, value=t, **whole)) == [((5, 2, 4),) * 3 + (None,)]
    with pytest.raises(AssertionError, match="as many offsets"):
        list(shapes(query=t, key=t, value=t, **{**packed, "cum_seq_k": None}))
