"""Names of torch that compute little: storages' types, symbolic numbers, what is not there."""

from __future__ import annotations

import pytest

import maquette as mq
import maquette.torch as torch


def test_storage_types_make_storages_and_know_them():
    held = torch.FloatStorage([1, 2])
    assert isinstance(held, torch.FloatStorage)
    assert not isinstance(held, torch.LongStorage)
    assert torch.is_storage(held)
    assert torch.FloatTensor(held).tolist() == torch.tensor(held).tolist() == [1.0, 2.0]


def test_symbolic_functions_of_plain_numbers():
    assert (torch.sym_max(3, 2.5), torch.sym_min(1, 2)) == (3.0, 1)
    assert isinstance(torch.sym_max(3, 2.5), float)
    assert (torch.sym_int(-2.7), torch.sym_float(2), torch.sym_not(True)) == (-2, 2.0, False)
    assert (torch.sym_ite(False, 1, 2), torch.sym_sum([1, 2]), torch.sym_sqrt(4)) == (2, 3, 2.0)
    torch.sym_constrain_range(3, min=1, max=3)
    with pytest.raises(RuntimeError, match="range"):
        torch.sym_constrain_range(4, max=3)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (2, 6, 5)])
def test_low_rank_factors_give_the_matrix_back(shape):
    torch.manual_seed(0)
    low = torch.randn(*shape[:-1], 2) @ torch.randn(*shape[:-2], 2, shape[-1])
    for factors, matrix in (
        (torch.svd_lowrank(low, q=3), low),
        (torch.pca_lowrank(low, q=3), low - low.mean(-2, keepdim=True)),
    ):
        u, s, v = factors
        assert (u.shape[-1], s.shape[-1], v.shape[-2:]) == (3, 3, (shape[-1], 3))
        assert torch.allclose(u @ torch.diag_embed(s) @ v.mH, matrix, atol=1e-4)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, None), "no quantized tensors"),
    ],
)
def test_what_is_not_there_says_what_to_do(call, words):
    with pytest.raises(NotImplementedError, match=f"not supported by maquette yet.*{words}"):
        call()


def test_functions_that_pytorch_removed_name_their_successors():
    with pytest.raises(RuntimeError, match=r"torch\.linalg\.matrix_rank"):
        torch.matrix_rank(torch.eye(2))


def test_func_has_functional_call():
    layer = mq.nn.Linear(2, 1)
    zeros = {name: mq.zeros_like(p) for name, p in layer.named_parameters()}
    assert mq.func.functional_call(layer, zeros, (mq.ones(2),)).item() == 0.0


def test_anomaly_switches_are_those_of_autograd():
    torch.set_anomaly_enabled(True, False)
    try:
        assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    finally:
        torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()


def test_poolings_named_for_their_indices_return_them():
    x = torch.randn(1, 1, 4, 4)
    functional = torch.nn.functional
    for named, plain, size in (
        (functional.max_pool2d_with_indices, functional.max_pool2d, 2),
        (functional.adaptive_max_pool2d_with_indices, functional.adaptive_max_pool2d, 2),
    ):
        values, indices = named(x, size)
        assert torch.equal(values, plain(x, size))
        assert torch.equal(x.flatten()[indices.flatten()], values.flatten())


def test_device_modules_are_found_by_device():
    assert torch.get_device_module("cpu") is torch.cpu
    assert issubclass(torch.OutOfMemoryError, RuntimeError)


def test_tensors_become_one_vector_and_back() -> None:
    tensors = [torch.randn(2, 3), torch.empty(0), torch.randn(4)]
    flat = torch._utils._flatten_dense_tensors(tensors)
    assert flat.shape == (10,)
    again = torch._utils._unflatten_dense_tensors(flat, tensors)
    assert [t.shape for t in again] == [t.shape for t in tensors]
    assert all(torch.equal(a, t) for a, t in zip(again, tensors))


def test_tensors_are_taken_by_type_up_to_a_size() -> None:
    tensors = [torch.ones(4), torch.ones(2, dtype=torch.int64), torch.ones(2), torch.ones(3)]
    taken = [[t.numel() for t in part] for part in torch._utils._take_tensors(tensors, 24)]
    assert taken == [[4, 2], [3], [2]]


def test_the_engine_runs_backward_by_hand() -> None:
    x = torch.tensor([2.0], requires_grad=True)
    engine = torch.autograd.Variable._execution_engine
    ones = torch.ones(1)
    (grad,) = engine.run_backward((x * x,), (ones,), False, False, (x,), True, False)
    assert grad.tolist() == [4.0]
    assert x.grad is None
    engine.run_backward((x * x,), (ones,), False, False, (), True, accumulate_grad=True)
    assert x.grad.tolist() == [4.0]


def test_a_variable_is_made_of_a_tensor() -> None:
    with pytest.raises(TypeError, match="got list"):
        torch.autograd.Variable([1.0, 2.0])


def test_variables_are_detached_as_leaves() -> None:
    detach_variable = torch.utils.checkpoint.detach_variable

    x = torch.ones(2, requires_grad=True)
    y, other = detach_variable((x * 2, "other"))
    assert y.is_leaf
    assert y.requires_grad
    assert other == "other"
    with pytest.raises(RuntimeError, match="Only tuple"):
        detach_variable([x])


def test_a_context_of_tracing_is_known_in_its_block() -> None:
    TracingContext, tracing = torch._guards.TracingContext, torch._guards.tracing

    context = TracingContext(None)
    with tracing(context):
        assert TracingContext.get() is context
    assert TracingContext.try_get() is None
    with pytest.raises(RuntimeError, match="tracing"):
        TracingContext.get()


def test_volatile_variables_are_warned_of_and_made() -> None:
    with pytest.warns(UserWarning, match="volatile"):
        made = torch.autograd.Variable(torch.ones(2), volatile=True)
    assert not made.requires_grad


def test_a_variable_is_not_volatile_and_differentiated() -> None:
    with pytest.raises(ValueError, match="volatile"):
        torch.autograd.Variable(torch.ones(2), requires_grad=True, volatile=True)
