"""One step of a program under a recorder: forward, backward, optimizer step.

The same function runs in fake mode and for real, which is how a plan can be checked against the
bytes of a real run. Models and inputs become fakes here, on the device that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeAlias, cast

from maquette.amp import autocast
from maquette.autograd.grad_mode import no_grad
from maquette.core.device import canonical, device
from maquette.fake.mode import FakeTensorMode
from maquette.fake.tensor import FakeTensor, make_fake
from maquette.higher_order.checkpoint import checkpoint
from maquette.nn import Module
from maquette.nn.attention import sdpa_kernel
from maquette.optim import Optimizer
from maquette.plan.chunked_loss import Chunked, look
from maquette.plan.generation import generate
from maquette.plan.recipe import BACKENDS, Loss, Recipe
from maquette.plan.recorder import Recorder, module_paths
from maquette.tensor.keys import fake_keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import Tensor

Table: TypeAlias = MutableMapping[str, Tensor | None]


def run_step(
    recorder: Recorder,
    model: Module,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    recipe: Recipe,
    mode: FakeTensorMode | None = None,
) -> Optimizer | None:
    """Run what the recipe says under ``recorder``; the optimizer with its state, if any.

    mode: of fakes, where equal blocks are to be run once.
    """
    adopt_state(recorder, model, args, kwargs)
    stepper = recipe.optimizer(model.parameters()) if recipe.optimizer and recipe.train else None
    replaying = nullcontext() if mode is None else mode.replaying()
    paths = module_paths(recorder, model)
    kernel = sdpa_kernel(BACKENDS[recipe.attention]) if recipe.attention else nullcontext()
    head = _head(model, args, kwargs, recipe)
    with replaying, recorder, paths, checkpointed(model, recipe.checkpoint), kernel:
        if recipe.train:
            _train(recorder, model, args, kwargs, recipe, stepper, head)
        else:
            _infer(recorder, model, args, kwargs, recipe)
    return stepper


def _infer(
    recorder: Recorder,
    model: Module,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    recipe: Recipe,
) -> None:
    if recipe.generate:
        with no_grad(), _autocast(recipe, model):
            generate(recorder, model, kwargs, recipe.generate)
        return
    for _ in range(recipe.steps):
        recorder.begin_step()
        with no_grad(), _autocast(recipe, model):
            output = model(*args, **kwargs)
    del output


def _train(
    recorder: Recorder,
    model: Module,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    recipe: Recipe,
    optimizer: Optimizer | None,
    head: Tensor | None,
) -> None:
    """The loop as a user writes it: ``output`` and ``value`` live until they are made anew."""
    for step in range(recipe.steps):
        recorder.begin_step()
        if step:
            for p in model.parameters():
                p.grad = None
        for _ in range(recipe.accumulate):
            with _autocast(recipe, model), _cut(head, recipe):
                output = model(*args, **kwargs)
                value, recorder.stand_in = scalar_loss(output, recipe.loss)
            if recipe.accumulate > 1:
                value = value / recipe.accumulate
            with recorder.during("backward"):
                value.backward()
            label_gradients(recorder, model)
        if optimizer is not None:
            with recorder.during("step"):
                optimizer.step()
            label_state(recorder, parameter_names(model), optimizer)


def _head(
    model: Module, args: Sequence[object], kwargs: Mapping[str, object], recipe: Recipe
) -> Tensor | None:
    """The weight of the linear whose loss is cut into chunks, if any is to be.

    Raises ValueError where no ``cross_entropy`` reads the rows of a linear.
    """
    if recipe.chunk_loss == 1 or not recipe.train:
        return None
    head = look(
        model, lambda: scalar_loss(model(*args, **kwargs), recipe.loss, grad=False), train=True
    ).head
    if head is None:
        raise ValueError("there is no loss to cut: no cross_entropy reads the rows of a linear")
    return head


def _cut(head: Tensor | None, recipe: Recipe) -> AbstractContextManager[object]:
    return nullcontext() if head is None else Chunked(head, recipe.chunk_loss)


@contextmanager
def checkpointed(model: Module, pattern: str) -> Iterator[None]:
    """Modules of matching paths are run again in backward, the outermost of nested ones.

    Raises ValueError for a pattern that no module matches.
    """
    chosen: list[tuple[str, Module]] = []
    for path, module in model.named_modules():
        inside = any(path.startswith(f"{outer}.") for outer, _ in chosen)
        if path and not inside and pattern and fnmatchcase(path, pattern):
            chosen.append((path, module))
    if pattern and not chosen:
        some = ", ".join([path for path, _ in model.named_modules()][1:4])
        raise ValueError(f"no module's path matches {pattern!r}: there are {some} ...")
    for _, module in chosen:
        module.forward = partial(checkpoint, module.forward, use_reentrant=False)
    try:
        yield
    finally:
        for _, module in chosen:
            del module.forward


def _autocast(recipe: Recipe, model: Module) -> AbstractContextManager[object]:
    if recipe.autocast is None:
        return nullcontext()
    first = next(iter(model.parameters()), None)
    return autocast("cpu" if first is None else first.device.type, recipe.autocast)


# --- what storages are ----------------------------------------------------------------


def adopt_state(
    recorder: Recorder, model: Module, args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Count what is there before the step: parameters, buffers, inputs."""
    adopt_parameters(recorder, model)
    named = [(f"args[{i}]", v) for i, v in enumerate(args)] + list(kwargs.items())
    for name, value in named:
        for t in tensors_in(value):
            recorder.adopt(t._storage, "inputs", name)


def adopt_parameters(recorder: Recorder, model: Module, path: str = "") -> None:
    """Count a model's parameters and buffers; ``path`` is the model's own."""
    for name, p in [*model.named_parameters(path), *model.named_buffers(path)]:
        recorder.adopt(p._storage, "parameters", name)


def label_gradients(recorder: Recorder, model: Module, path: str = "") -> None:
    """Say which storages turned out to be gradients; ``path`` is the model's own."""
    for name, p in model.named_parameters(path):
        if p.grad is not None:
            recorder.label(p.grad._storage, "gradients", f"gradient of {name}")


def label_state(recorder: Recorder, names: Mapping[int, str], optimizer: Optimizer) -> None:
    """Say which storages turned out to be the optimizer's state; names: of parameters, by id."""
    for param, state in optimizer.state.items():
        for key, value in dict(state).items():
            for t in tensors_in(value):
                owner = names.get(id(param), "all")
                recorder.label(t._storage, "optimizer state", f"{key} of {owner}")


def parameter_names(model: Module, path: str = "") -> dict[int, str]:
    """The name of each parameter, by its id; ``path`` is the model's own."""
    return {id(p): name for name, p in model.named_parameters(path)}


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples, dicts and the attributes of model outputs."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from tensors_in(v)
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from tensors_in(v)


def scalar_loss(output: object, loss: Loss | None, *, grad: bool = True) -> tuple[Tensor, bool]:
    """The scalar to differentiate, and whether it is a stand-in.

    It is ``loss(output)``, the output's ``.loss``, or the output itself; of an output that is none
    of those, the mean of its first floating tensor stands in. TypeError where there is no such.
    grad: whether the tensor must be one to differentiate.
    """
    value = output if loss is None else loss(output)
    if not isinstance(value, Tensor) and isinstance(getattr(value, "loss", None), Tensor):
        value = cast(Tensor, getattr(value, "loss"))  # noqa: B009  # what a model's output may have
    if isinstance(value, Tensor) and value.numel() == 1:
        return value, False
    floating = (
        t for t in tensors_in(value) if t.is_floating_point() and (t.requires_grad or not grad)
    )
    first = next(floating, None)
    if loss is not None or first is None:
        what = value.meta if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(
            f"training needs a scalar: the model's output, its .loss, or loss=... of it; got "
            f"{what}. Pass loss=lambda output: ... or let the model return one"
        )
    return first.float().mean(), True


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
        kept = [(module, table, dict(table)) for module, table in _tables(model)]
        try:
            for _module, table in _tables(model):
                for name, t in list(table.items()):
                    if t is not None:
                        table[name] = self.tensor(t)
            yield
        finally:
            _restore(kept)


def _tables(model: Module) -> Iterator[tuple[Module, Table]]:
    """Each module of a model with its parameters, then with its buffers."""
    for module in model.modules():
        yield module, cast(Table, module._parameters)  # a fake is a parameter by its mark
        yield module, module._buffers


def _restore(kept: Sequence[tuple[Module, Table, Mapping[str, Tensor | None]]]) -> None:
    for _module, table, originals in kept:
        for name, t in originals.items():
            if table.get(name) is not t and t is not None:
                table[name] = t
