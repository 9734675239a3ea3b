"""What is not there yet says so when it is called, and what to do; switched off, it is harmless."""

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn, optim


@pytest.mark.parametrize(
    "call, advice",
    [
        (lambda: torch.compile(lambda x: x, backend=lambda graph, inputs: graph), "backend"),
        (lambda: torch.autocast("cpu", dtype=mq.bfloat16), r"\.to\(torch\.bfloat16\)"),
        (lambda: torch.cuda.amp.autocast(), "enabled=False"),
        (lambda: torch.amp.GradScaler("cpu"), "enabled=False"),
        (lambda: torch.jit.trace(nn.Linear(1, 1), mq.ones(1)), "call the module"),
        (lambda: torch.jit.save(nn.Linear(1, 1), "file"), "state_dict"),
        (lambda: torch.jit.ScriptModule(), r"torch\.nn\.Module"),
        (lambda: torch.distributed.init_process_group("gloo"), "one process"),
        (lambda: torch.distributed.all_reduce(mq.ones(1)), "is_initialized"),
        (lambda: torch.func.grad(mq.sin)(mq.ones(1)), "create_graph=True"),
        (lambda: torch.profiler.profile(), "maquette plan"),
    ],
)
def test_missing_features_say_what_to_do(call, advice):
    with pytest.raises(NotImplementedError, match=f"(?s)not supported by maquette.*{advice}"):
        call()


def test_autocast_that_is_off_does_nothing():
    x = mq.ones(2)
    with torch.autocast("cpu", enabled=False), torch.amp.autocast("cuda", enabled=False):
        assert (x @ x).dtype == mq.float32
    assert not torch.is_autocast_enabled()

    @torch.cuda.amp.autocast(enabled=False)
    def double(t):
        return 2 * t

    assert double(x).tolist() == [2.0, 2.0]
    assert torch.amp.custom_fwd(double, device_type="cuda") is double


def test_a_scaler_for_an_absent_device_switches_itself_off():
    p = nn.Parameter(mq.ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = torch.cuda.amp.GradScaler()
    loss = (2 * p).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.item() == 0.0
    assert scaler.get_scale() == 1.0
    assert not scaler.is_enabled()


def test_one_process_is_not_distributed():
    assert not torch.distributed.is_available()
    assert not torch.distributed.is_initialized()
    assert not torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() is None


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
    with pytest.raises(RuntimeError, match="num_replicas and rank"):
        torch.utils.data.DistributedSampler(data)
