"""`DistributedDataParallel` and `SyncBatchNorm` with a group of one process."""

import copy
import pickle

import pytest

import maquette as mq
from maquette import nn
from maquette.nn.parallel import DistributedDataParallel
from maquette.torch import distributed as dist


@pytest.fixture
def world():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def x():
    return mq.ones(3, 2)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Linear(2, 2)

    def forward(self, x, which="a"):
        return getattr(self, which)(x)


def test_it_gives_what_the_module_gives_and_its_gradients(world, x):
    module = nn.Linear(2, 2)
    wrapped = DistributedDataParallel(module)
    assert (wrapped(x) == module(x)).all()
    wrapped(x).sum().backward()
    assert (module.weight.grad == 3).all()
    assert wrapped.module is module


def test_names_of_states_begin_with_module(world):
    wrapped = DistributedDataParallel(nn.Linear(2, 2))
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]


def test_gradients_add_up_in_no_sync(world, x):
    wrapped = DistributedDataParallel(nn.Linear(2, 2))
    with wrapped.no_sync():
        assert not wrapped.require_backward_grad_sync
        wrapped(x).sum().backward()
    wrapped(x).sum().backward()
    assert wrapped.require_backward_grad_sync
    assert (wrapped.module.weight.grad == 6).all()


def test_parameters_that_a_backward_pass_has_not_reached_are_told_at_the_next_call(world, x):
    wrapped = DistributedDataParallel(Two())
    wrapped(x).sum().backward()
    with pytest.raises(RuntimeError, match=r"(?s)Expected to have finished .*b\.bias, b\.weight"):
        wrapped(x)


def test_parameters_not_reached_may_be_looked_for(world, x):
    wrapped = DistributedDataParallel(Two(), find_unused_parameters=True)
    wrapped(x).sum().backward()
    assert wrapped(x).shape == (3, 2)
    assert wrapped.module.b.weight.grad is None


def test_several_calls_before_a_backward_pass_count_together(world, x):
    wrapped = DistributedDataParallel(Two())
    (wrapped(x) + wrapped(x, "b")).sum().backward()
    assert wrapped(x).shape == (3, 2)


def test_copies_and_pickles_go_on(world, x):
    wrapped = DistributedDataParallel(nn.Linear(2, 2))
    for made in (copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        made(x).sum().backward()
        assert (made.module.weight.grad == 3).all()
        assert made.process_group is dist.group.WORLD


def test_without_a_group_it_is_refused():
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedDataParallel(nn.Linear(2, 2))


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: DistributedDataParallel(nn.ReLU()), RuntimeError, "requires a gradient"),
        (lambda: DistributedDataParallel(nn.LazyLinear(2)), RuntimeError, "uninitialized"),
        (lambda: DistributedDataParallel(nn.Linear(1, 1), [0]), ValueError, r"device_ids \[0\]"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(make, error, words, world):
    with pytest.raises(error, match=words):
        make()


def test_hooks_of_what_is_sent_are_refused(world):
    with pytest.raises(NotImplementedError, match="no gradients are sent"):
        DistributedDataParallel(nn.Linear(1, 1)).register_comm_hook(None, print)


def test_batches_of_all_processes_are_for_gpus_in_training(world, x):
    norm = nn.SyncBatchNorm(2)
    with pytest.raises(ValueError, match="expected input tensor to be on GPU"):
        norm(x)
    assert norm.eval()(x).shape == (3, 2)
