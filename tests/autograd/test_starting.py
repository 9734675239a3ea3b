"""What backward may start from, and gradients under other names (findings 5, 7, 10, 23)."""

import pytest

import maquette as mq
import maquette.torch as torch


def test_T57_a_complex_scalar_needs_a_gradient_to_start_from() -> None:
    c = mq.tensor(1 + 2j, requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"only for real scalar outputs but got torch\.complex64"
    ):
        (c * 2).backward()
    assert mq.autograd.grad(c * 2, c, mq.tensor(1 + 0j))[0].item() == 2


def test_T57_gradients_of_another_kind_of_number_are_refused() -> None:
    x = mq.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match="required to have the same dtype"):
        (x * 2).backward(mq.tensor(1 + 0j))


def test_T57_no_inputs_are_refused() -> None:
    x = mq.ones((), requires_grad=True)
    with pytest.raises(RuntimeError, match="cannot be empty"):
        mq.autograd.grad(x * 2, [])


def test_T57_grad_has_another_name_and_may_be_deleted() -> None:
    p = torch.nn.Parameter(mq.ones(2))
    p._grad = mq.ones(2)
    assert p.grad.tolist() == [1.0, 1.0]
    del p.grad
    assert p.grad is None


@pytest.mark.parametrize("dim", [None, 0])
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_T56_unique_values_require_grad_and_refuse_backward(name: str, dim: int | None) -> None:
    x = mq.tensor([1.0, 1.0, 2.0], requires_grad=True)
    values = getattr(torch, name)(x, dim=dim)
    assert values.requires_grad
    with pytest.raises(NotImplementedError, match=r"derivative for .*unique.* is not implemented"):
        values.sum().backward()


@pytest.mark.parametrize("given", [mq.float64, mq.int64, mq.bfloat16])
def test_what_backward_starts_from_is_cast_to_its_tensor(given):
    x, seen = mq.ones(2, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.dtype))
    y.backward(mq.ones(2, dtype=given))
    assert seen == [mq.float32]
    assert x.grad.tolist() == [2, 2]


def test_the_cast_of_a_start_is_differentiated():
    x, start = mq.ones(2, requires_grad=True), mq.ones(2, dtype=mq.float64, requires_grad=True)
    (found,) = mq.autograd.grad(x * 3, x, start, create_graph=True)
    assert mq.autograd.grad(found.sum(), start)[0].tolist() == [3, 3]


def test_negative_numbers_to_complex_powers_differentiate_by_the_power():
    power = mq.tensor([1 + 1j, 2 - 0.5j], dtype=mq.complex128, requires_grad=True)
    base = mq.tensor([-2.0, -1.5], dtype=mq.float64)
    assert torch.autograd.gradcheck(lambda p: mq.pow(base, p), power)


def test_hooks_after_accumulation_return_nothing():
    x = mq.ones(1, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda t: t.grad)
    with pytest.raises(RuntimeError, match="should return None"):
        x.sum().backward()


def test_blocks_that_keep_what_is_saved_are_not_nested():
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        with pytest.raises(RuntimeError, match="cannot be nested"):
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                pass


def test_a_vector_is_gathered_at_one_place_with_a_sparse_gradient():
    x = mq.ones(3, requires_grad=True)
    mq.gather(x, 0, mq.tensor(1), sparse_grad=True).backward()
    assert x.grad.to_dense().tolist() == [0, 1, 0]
