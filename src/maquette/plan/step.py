"""One step of a program under a recorder: forward, backward, optimizer step.

The same function runs in fake mode and for real, which is how a plan can be checked against the
bytes of a real run. Models and inputs become fakes here, on the device that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias, cast

from maquette.autograd.grad_mode import no_grad
from maquette.core.device import canonical, device
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor, make_fake
from maquette.nn import Module
from maquette.optim import Optimizer
from maquette.plan.recorder import Recorder
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor, fake_keys_for

OptimizerFactory = Callable[[Iterable[Tensor]], Optimizer]
Loss = Callable[[object], Tensor]
Table: TypeAlias = MutableMapping[str, Tensor | None]


def run_step(
    recorder: Recorder,
    model: Module,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    *,
    train: bool,
    optimizer: OptimizerFactory | None = None,
    loss: Loss | None = None,
) -> Optimizer | None:
    """Run the step under ``recorder``; the optimizer, with the state it made, if there is one."""
    adopt_state(recorder, model, args, kwargs)
    stepper = optimizer(model.parameters()) if optimizer is not None and train else None
    with recorder, module_paths(recorder, model):
        if not train:
            with no_grad():
                output = model(*args, **kwargs)
            del output
            return None
        output = model(*args, **kwargs)
        value = scalar_loss(output, loss)
        with recorder.during("backward"):
            value.backward()
        if stepper is not None:
            with recorder.during("step"):
                stepper.step()
        del output, value
    return stepper


def adopt_state(
    recorder: Recorder, model: Module, args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Count what is there before the step: parameters, buffers, inputs."""
    for _, p in model.named_parameters():
        recorder.adopt(p._storage, "parameters")
    for _, b in model.named_buffers():
        recorder.adopt(b._storage, "parameters")
    for t in tensors_in([*args, *kwargs.values()]):
        recorder.adopt(t._storage, "inputs")


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from tensors_in(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)


def scalar_loss(output: object, loss: Loss | None) -> Tensor:
    """The scalar to differentiate: ``loss(output)``, the output itself, or its ``.loss``."""
    value = loss(output) if loss is not None else output
    if not isinstance(value, Tensor):
        value = getattr(value, "loss", None)
    if not isinstance(value, Tensor) or value.numel() != 1:
        what = value.meta if isinstance(value, Tensor) else type(output).__name__
        raise TypeError(
            f"training needs a scalar: the model's output, its .loss, or loss=... of it; got "
            f"{what}. Pass loss=lambda output: ... or let the model return one"
        )
    return value


@contextmanager
def module_paths(recorder: Recorder, model: Module) -> Iterator[None]:
    """Tell ``recorder`` which module is running, by hooks on every module of ``model``."""
    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(_entering(recorder, path)))
        handles.append(module.register_forward_hook(_leaving(recorder)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _entering(recorder: Recorder, path: str) -> Callable[..., None]:
    def enter(module: Module, args: object) -> None:
        recorder.enter_module(path)

    return enter


def _leaving(recorder: Recorder) -> Callable[..., None]:
    def leave(module: Module, args: object, output: object) -> None:
        recorder.leave_module()

    return leave


class FakeInputs:
    """Makes fakes of one mode on one device, storage by storage, tensor by tensor."""

    def __init__(self, mode: FakeTensorMode, on: device | None) -> None:
        self.mode = mode
        self.on = None if on is None else canonical(on)
        self._tensors: dict[int, tuple[Tensor, FakeTensor]] = {}
        self._storages: dict[UntypedStorage, UntypedStorage] = {}

    def tensor(self, t: Tensor) -> Tensor:
        """The fake of ``t``; ``t`` itself if it is one of the mode on the right device."""
        where = self.on or canonical(t.meta.device)
        if t.fake_mode is self.mode and t.meta.device is where:
            return t
        known = self._tensors.get(id(t))
        if known is not None:
            return known[1]
        storage = self._storages.get(t._storage)
        if storage is None:
            storage = UntypedStorage(t._storage.nbytes(), where)
            self._storages[t._storage] = storage
        meta = t.meta.with_device(where)
        fake = make_fake(self.mode, meta, storage, fake_keys_for(meta))
        if t._is_param:
            fake._is_param = True
        if t.requires_grad and t.is_leaf:
            fake.requires_grad_()
        self._tensors[id(t)] = (t, fake)
        return fake

    def value(self, value: object) -> object:
        """``value`` with fakes for the tensors in it."""
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, Mapping):
            return {k: self.value(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self.value(v) for v in value]
            make: Callable[..., object] = type(value)
            return make(*items) if hasattr(value, "_fields") else make(items)
        return value

    @contextmanager
    def model(self, model: Module) -> Iterator[None]:
        """``model`` with fake parameters and buffers for the block; its own afterwards."""
        kept = [dict(table) for _, table in _tables(model)]
        try:
            for module, table in _tables(model):
                for name, t in list(table.items()):
                    if t is not None:
                        replace(module, table, name, self.tensor(t))
            yield
        finally:
            _restore(model, kept)


def _tables(model: Module) -> Iterator[tuple[Module, Table]]:
    """Each module of a model with its parameters, then with its buffers."""
    for module in model.modules():
        yield module, cast(Table, module._parameters)  # a fake is a parameter by its mark
        yield module, module._buffers


def _restore(model: Module, kept: Sequence[Mapping[str, Tensor | None]]) -> None:
    for (module, table), originals in zip(_tables(model), kept, strict=True):
        for name, t in originals.items():
            if table[name] is not t and t is not None:
                replace(module, table, name, t)


def replace(module: Module, table: Table, name: str, t: Tensor) -> None:
    """Put ``t`` in the place of a parameter or buffer, in the table and wherever it is mirrored."""
    table[name] = t
    if name in module.__dict__:
        module.__dict__[name] = t
