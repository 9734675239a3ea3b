"""What `inspect.signature` says of a function or class is what a call takes, as in PyTorch."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch import nn
from maquette.torch.distributions import constraints

X = torch.arange(12.0).reshape(4, 3)


def names(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", ["norm", "split", "stft", "unflatten", "unique"])
def test_methods_written_in_python_know_their_own_names_alone(name: str) -> None:
    told = names(getattr(torch.Tensor, name))
    assert told[0] == "self"
    assert not {"out", "axis", "input"} & {*told}


def test_the_fourth_of_norms_arguments_is_a_dtype() -> None:
    assert X.norm(2, 0, False, torch.float64).dtype is torch.float64
    with pytest.raises(TypeError, match="'out'"):
        X.norm(2, 0, out=torch.empty(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.split(2, axis=0),
        lambda: X.unflatten(axis=0, sizes=(2, 2)),
        lambda: X.nonzero(out=X),
        lambda: torch.meshgrid(X[0], X[0], out=X),
        lambda: torch.broadcast_tensors(X, X, like=1),
        lambda: torch.utils.data.Sampler([1]),
        lambda: torch.FloatStorage([1.0]).to("cpu"),
        lambda: nn.LazyLinear(3).initialize_parameters(X, 1),
        lambda: torch.is_tensor(obj=X),
    ],
)
def test_what_a_signature_does_not_say_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        call()


def test_the_eighth_argument_of_a_recurrent_layer_is_no_device() -> None:
    assert nn.GRU(2, 3, 1, True, False, 0.0, False, 0, "cpu").proj_size == 0
    with pytest.raises(ValueError, match="proj_size"):
        nn.RNN(2, 3, 1, "tanh", True, False, 0.0, False, 1)


def test_schedulers_of_schedulers_take_no_epoch() -> None:
    optimizer = torch.optim.SGD([X.clone().requires_grad_()], lr=1.0)
    parts = [torch.optim.lr_scheduler.StepLR(optimizer, 1) for _ in range(2)]
    for made in (
        torch.optim.lr_scheduler.ChainedScheduler(parts),
        torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [2]),
    ):
        with pytest.raises(TypeError):
            made.step(1)


def test_what_nobody_said_of_a_dependent_constraint_cannot_be_asked() -> None:
    dependent = constraints.dependent
    for made in (dependent, dependent(is_discrete=True), constraints.independent(dependent, 1)):
        with pytest.raises(NotImplementedError, match="event_dim"):
            _ = made.event_dim
    assert dependent(is_discrete=True).is_discrete
    assert dependent(event_dim=2)(is_discrete=False).event_dim == 2


def test_shapes_of_draws_are_sizes_by_default() -> None:
    told = inspect.signature(torch.distributions.Normal.sample).parameters["sample_shape"].default
    assert type(told) is torch.Size
    assert torch.distributions.Normal(X, 1.0).sample().shape == X.shape


def test_storages_of_a_dtype_are_typed_storages() -> None:
    assert issubclass(torch.FloatStorage, torch.TypedStorage)
    held = torch.TypedStorage(wrap_storage=X.untyped_storage(), dtype=X.dtype)
    assert isinstance(held, torch.FloatStorage)
    assert not isinstance(held, torch.IntStorage)
    assert torch.FloatStorage([1.0, 2.0]).to(device="cpu").dtype is torch.float32
    with pytest.raises(RuntimeError, match="child classes"):
        torch.storage._LegacyStorage()


def test_a_buffer_is_a_tensor_and_so_is_its_class() -> None:
    assert issubclass(nn.Buffer, torch.Tensor)
    assert not isinstance(X, nn.Buffer)
    assert isinstance(nn.Buffer(X), nn.Buffer)


def test_events_of_devices_are_asked_for_times_first() -> None:
    first, second = torch.cuda.Event(True), torch.cuda.Event(enable_timing=True)
    first.record()
    second.record()
    assert first.elapsed_time(second) >= 0
    assert isinstance(torch.cuda.current_stream().record_event(), torch.cuda.Event)
    assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
    assert issubclass(torch.cuda.Stream, torch.Stream)


def test_the_device_of_a_tensor_on_the_cpu_is_no_change() -> None:
    with torch.cuda.device_of(X):
        assert X.device.type == "cpu"
    assert issubclass(torch.cuda.device_of, torch.cuda.device)
    assert torch.cuda.memory_stats_as_nested_dict() == {}


def test_gradients_are_not_recorded_by_a_function_under_pytorchs_name() -> None:
    doubled = torch.no_grad(orig_func=lambda x: x * 2)
    assert not doubled(X.clone().requires_grad_()).requires_grad
