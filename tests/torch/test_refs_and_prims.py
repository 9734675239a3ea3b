"""Names of torch._refs, torch._prims and torch._decomp.decompositions, and their decorators."""

import pytest

import maquette as mq
import maquette.torch as torch
import maquette.torch._decomp.decompositions as rules
import maquette.torch._prims as prims
import maquette.torch._refs as refs
import maquette.torch.cuda.memory
from maquette.torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from maquette.torch._prims_common.wrappers import elementwise_type_promotion_wrapper, out_wrapper


@out_wrapper()
@elementwise_type_promotion_wrapper(
    type_promoting_args=("a", "b"), type_promotion_kind=KIND.INT_TO_FLOAT
)
def _quotient(a: mq.Tensor, b: object, *, scale: float = 1) -> mq.Tensor:
    return a / b * scale


def test_references_are_the_operators() -> None:
    assert refs.abs(mq.tensor(-1.0)).item() == 1
    assert refs.add_(mq.ones(1), 1).item() == 2
    assert refs.nn.functional.relu(mq.tensor(-1.0)).item() == 0
    assert refs.broadcast_shapes((2, 1), (1, 3)) == (2, 3)
    with pytest.raises(AttributeError, match="no such operator"):
        _ = refs.frobnicate


def test_rules_are_found_by_their_operators_names() -> None:
    assert rules.gelu_backward(mq.ones(1), mq.zeros(1)).item() == 0.5
    with pytest.raises(AttributeError, match="aten::frobnicate"):
        _ = rules.frobnicate


def test_elementwise_primitives_are_operators() -> None:
    assert prims.cos(mq.zeros(1)).item() == 1


def test_arguments_are_promoted_and_results_converted() -> None:
    found = _quotient(mq.tensor([1, 2]), 2, scale=3)
    assert found.dtype is mq.float32
    assert found.tolist() == [1.5, 3.0]


def test_out_is_resized_and_must_hold_the_results_type() -> None:
    out = mq.empty(0)
    assert _quotient(mq.tensor([1, 2]), 2, out=out) is out
    assert out.tolist() == [0.5, 1.0]
    with pytest.raises(RuntimeError, match="can't be cast because it is not safe"):
        _quotient(mq.tensor([1]), 2, out=mq.empty(1, dtype=mq.int64))


def test_memory_and_graphs_of_cuda_are_names_of_cuda() -> None:
    assert torch.cuda.memory.memory_allocated is torch.cuda.memory_allocated


def test_the_cpu_has_one_stream() -> None:
    with torch.cpu.stream(torch.cpu.current_stream()):
        assert torch.cpu.is_initialized()
    assert torch.cpu.Event().query()


def test_a_helper_of_refs_is_the_public_function():
    assert refs._broadcast_shapes((2, 1), (3,)) == (2, 3)
