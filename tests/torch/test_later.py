"""What is not there yet says so when it is called, and what to do; switched off, it is harmless."""

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn


@pytest.mark.parametrize(
    "call, advice",
    [
        (lambda: torch.compile(lambda x: x, backend=lambda graph, inputs: graph), "backend"),
        (lambda: torch.jit.trace(nn.Linear(1, 1), mq.ones(1)), "call the module"),
        (lambda: torch.jit.save(nn.Linear(1, 1), "file"), "state_dict"),
        (lambda: torch.distributed.init_device_mesh("cpu", (1,)), "one process"),
    ],
)
def test_missing_features_say_what_to_do(call, advice):
    with pytest.raises(NotImplementedError, match=f"(?s)not supported by maquette.*{advice}"):
        call()


def test_one_process_is_not_distributed():
    assert not torch.distributed.is_available()
    assert not torch.distributed.is_initialized()
    assert not torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() is None


@pytest.mark.parametrize(
    "call",
    [
        "accelerator.synchronize()", "accelerator.empty_cache()", "accelerator.memory_allocated()",
        "accelerator.max_memory_reserved(0)", "accelerator.reset_peak_memory_stats()",
        "accelerator.current_device_index()", "accelerator.set_device_index(0)",
        "accelerator.current_stream()", "accelerator.device_index(0).__enter__()",
        "mps.synchronize()", "mps.empty_cache()", "mps.current_allocated_memory()", "mps.Event()",
    ],
)  # fmt: skip
def test_no_device_is_told_when_one_is_to_act(call):
    with pytest.raises(RuntimeError, match="no such device"):
        eval(f"torch.{call}", {"torch": torch})
    with torch.accelerator.device_index(None):
        assert not torch.accelerator.is_available()


def test_seeds_are_whole_parts_as_of_times():
    with torch.random.fork_rng():
        assert torch.manual_seed(2.5).initial_seed() == 2
        assert torch.Generator(device=None).device.type == "cpu"


def test_labels_for_a_profiler_are_taken():
    with torch.profiler.record_function("forward"), torch.autograd.profiler.record_function("x"):
        assert mq.ones(1).item() == 1.0


def test_a_distributed_sampler_deals_out_all_places():
    data = list(range(10))
    for shuffle in (False, True):
        shares = [
            list(torch.utils.data.DistributedSampler(data, 3, rank, shuffle=shuffle))
            for rank in range(3)
        ]
        assert {len(share) for share in shares} == {4}
        assert set().union(*shares) == set(data)
    sampler = torch.utils.data.DistributedSampler(data, 3, 0, drop_last=True)
    assert len(sampler) == len(list(sampler)) == 3
    with pytest.raises(ValueError, match="init_process_group"):
        torch.utils.data.DistributedSampler(data)


def test_a_fork_out_of_a_script_is_a_call():
    future = torch.jit.fork(lambda a, b: a + b, 2, b=5)
    assert torch.jit.wait(future) == 7


def test_an_absent_module_is_not_available():
    assert torch.distributed.rpc.is_available() is False
