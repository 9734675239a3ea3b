"""Block replay (FX4, FX5): equal modules on equal metas are run once, and nobody can tell."""

import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest

import maquette as mq
from maquette import Tensor, nn
from maquette.amp import autocast
from maquette.dispatch.modes import TorchDispatchMode
from maquette.nn import functional as F
from maquette.tensor.storage import UntypedStorage, observe_allocations

WIDTH = 8


class Layer(nn.Module):
    """A feed-forward layer with a residual; ``extra`` runs in its forward."""

    def __init__(self, width: int = WIDTH, extra: Callable[..., object] | None = None) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)
        self.extra = extra

    def forward(self, x: Tensor) -> Tensor:
        if self.extra is not None:
            self.extra(self, x)
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Events:
    """An observer of allocations: what happened, storages numbered as they come."""

    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []
        self._numbers: dict[int, int] = {}

    def allocated(self, storage: UntypedStorage, nbytes: int) -> None:
        number = self._numbers[storage.id] = len(self._numbers)
        self.all.append(("made", number, nbytes, storage.device))

    def resized(self, storage_id: int, old_nbytes: int, new_nbytes: int) -> None:
        self.all.append(("resized", self._numbers[storage_id], new_nbytes))

    def released(self, storage_id: int) -> None:
        self.all.append(("released", self._numbers[storage_id]))


Program = Callable[[nn.Module, Tensor], object]


class Ran(NamedTuple):
    """What a program gave: its result, the gradients, the events of memory, the counts."""

    result: object
    grads: list[object]
    events: list[tuple[object, ...]]
    info: Any


def seen(value: object) -> object:
    """What can be seen of a result."""
    if isinstance(value, Tensor):
        node = None if value.grad_fn is None else value.grad_fn.name()
        return value.meta, value.requires_grad, value.is_leaf, value._version, node
    return [seen(v) for v in value] if isinstance(value, (list, tuple)) else value


def ran(program: Program, layers: int = 5, *, replay: bool, watched: bool = False) -> Ran:
    mode, events = mq.FakeTensorMode(), Events()
    with mode:
        model = nn.Sequential(*[Layer() for _ in range(layers)])
        x = mq.ones(3, WIDTH, requires_grad=True)
        watching = observe_allocations(events) if watched else nullcontext()
        with mode.replaying() if replay else nullcontext(), watching:
            result = seen(program(model, x))
        grads = [None if t.grad is None else seen(t.grad) for t in (x, *model.parameters())]
        return Ran(result, grads, list(events.all), mode.replay_info())


def forward(model: nn.Module, x: Tensor) -> object:
    return model(x).sum().backward(retain_graph=True)


def without_grad(model: nn.Module, x: Tensor) -> object:
    with mq.no_grad():
        return model(x)


def backward(model: nn.Module, x: Tensor) -> object:
    return model(x).sum().backward()


def backward_twice(model: nn.Module, x: Tensor) -> object:
    backward(model, x)
    return backward(model, x)


def retained(model: nn.Module, x: Tensor) -> object:
    loss = model(x).sum()
    loss.backward(retain_graph=True)
    return loss.backward()


def gradients(model: nn.Module, x: Tensor) -> object:
    return mq.autograd.grad(model(x).sum(), [x, *model.parameters()])


def double(model: nn.Module, x: Tensor) -> object:
    (grad,) = mq.autograd.grad(model(x).sum(), [x], create_graph=True)
    return grad.sum().backward()


def layer_by_layer(model: nn.Module, x: Tensor) -> object:
    kept = [x]
    for layer in model.children():
        kept.append(layer(kept[-1]))
    (kept[-1].sum() + kept[2].mean()).backward()
    return kept


def hooked_output(model: nn.Module, x: Tensor) -> object:
    found: list[object] = []
    *layers, _ = model.children()
    h = nn.Sequential(*layers)(x)
    h.register_hook(lambda grad: found.append(grad.meta))
    h.retain_grad()
    h.sum().backward()
    return found, h.grad


def hooked_leaves(model: nn.Module, x: Tensor) -> object:
    found: list[object] = []
    params = list(model.parameters())
    params[8].register_hook(lambda grad: found.append(grad.meta))
    params[14].register_post_accumulate_grad_hook(lambda p: found.append(p.grad.meta))
    backward(model, x)
    return found


def frozen(model: nn.Module, x: Tensor) -> object:
    next(model.children()).requires_grad_(False)
    return backward(model, x)


def written_in_between(model: nn.Module, x: Tensor) -> object:
    first, second, third, *_ = model.children()
    h = second(first(x))
    h += 1
    return third(h).sum().backward()


def one_layer_again_and_again(model: nn.Module, x: Tensor) -> object:
    first, *_ = model.children()
    for _ in range(4):
        x = first(x)
    return x.sum().backward()


def several_steps(model: nn.Module, x: Tensor) -> object:
    for _ in range(3):
        model.zero_grad()
        one_layer_again_and_again(model, x)
        backward(model, x)


def expanded_gradient(model: nn.Module, x: Tensor) -> object:
    return model(x).backward(mq.ones(1, WIDTH).expand(3, WIDTH))


def other_parameters(model: nn.Module, x: Tensor) -> object:
    twice = {name: p * 2 for name, p in model.named_parameters()}
    return mq.func.functional_call(model, twice, (x,)).sum().backward()


def evaluated_in_between(model: nn.Module, x: Tensor) -> object:
    loss = model(x).sum()
    model.eval()
    return loss.backward()


PROGRAMS = [
    forward, without_grad, backward, backward_twice, retained, gradients, double, layer_by_layer,
    hooked_output, hooked_leaves, frozen, written_in_between, expanded_gradient, other_parameters,
    evaluated_in_between, one_layer_again_and_again, several_steps,
]  # fmt: skip


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_FX4_FX7_nobody_can_tell_a_replay(program: Program, watched: bool) -> None:
    plain = ran(program, replay=False, watched=watched)
    replayed = ran(program, replay=True, watched=watched)
    assert replayed.info.replayed > 0
    assert replayed[:3] == plain[:3]


@pytest.mark.parametrize("layers", [8, 80, 800])
def test_FX4_equal_layers_run_once(layers: int) -> None:
    model, x, mode = stack(lambda: [Layer() for _ in range(layers)], requires_grad=False)
    with mode, mode.replaying(), mq.no_grad():
        model(x)
    info = mode.replay_info()
    assert (info.recorded, info.replayed, info.stopped) == (1, layers - 1, {})


def test_FX4_backward_of_equal_layers_runs_once() -> None:
    model, x, mode = stack(lambda: [Layer() for _ in range(80)])
    with mode, mode.replaying():
        model(x).sum().backward()
    info = mode.replay_info()
    # The last layer's gradient is an expanded number, the others' are laid out in full.
    assert (info.replayed, info.backward_recorded, info.backward_replayed) == (79, 2, 77)


Make = Callable[[], list[Any]]


def three() -> list[Any]:
    return [Layer() for _ in range(3)]


def stack(make: Make, requires_grad: bool = True) -> tuple[nn.Module, Tensor, mq.FakeTensorMode]:
    """Layers as one fake model, an input, and the mode of both."""
    mode = mq.FakeTensorMode()
    with mode:
        return nn.Sequential(*make()), mq.ones(3, WIDTH, requires_grad=requires_grad) * 1, mode


def counts(make: Make) -> tuple[int, int]:
    """How many of the layers ran, and how many were replayed."""
    model, x, mode = stack(make)
    with mode, mode.replaying():
        model(x)
    return mode.replay_info().recorded, mode.replay_info().replayed


def test_FX4_different_hyper_parameters_are_different_blocks() -> None:
    def make() -> list[Any]:
        layers = [Layer() for _ in range(4)]
        layers[1].drop.p = layers[2].drop.p = 0.2
        return layers

    assert counts(make) == (2, 2)


def test_FX4_training_and_evaluation_are_different_blocks() -> None:
    def make() -> list[Any]:
        layers = [Layer() for _ in range(4)]
        layers[1].eval(), layers[2].eval()
        return layers

    assert counts(make) == (2, 2)


def test_FX4_parameters_that_are_tied_make_a_different_block() -> None:
    def make() -> list[Any]:
        layers = [Layer() for _ in range(4)]
        layers[2].norm.bias = layers[2].norm.weight
        layers[3].norm.bias = layers[3].norm.weight
        return layers

    assert counts(make) == (2, 2)


def test_FX4_surroundings_make_a_different_block() -> None:
    model, x, mode = stack(three)
    first, second, _ = model.children()
    with mode, mode.replaying():
        for layer in (first, second):
            layer(x)
            with mq.no_grad():
                layer(x)
            with mq.inference_mode():
                layer(x)
    assert (mode.replay_info().recorded, mode.replay_info().replayed) == (3, 3)


def test_FX4_arguments_that_are_one_tensor_make_a_different_block() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.linear(x) + y

    model, x, mode = stack(lambda: [Two(), Two()])
    first, second = model.children()
    with mode, mode.replaying():
        y = mq.ones(3, WIDTH)
        first(x, x), second(x, y), first(x, y)
    assert (mode.replay_info().recorded, mode.replay_info().replayed) == (2, 1)


def test_FX7_blocks_hold_no_tensors() -> None:
    model, x, mode = stack(lambda: [Layer() for _ in range(5)], requires_grad=False)
    with mode, mode.replaying(), mq.fake.track_fakes() as fakes:
        model(x).sum().backward()
        model.zero_grad()
    assert mode.replay_info().backward_replayed > 0
    assert len(fakes) == 0


# --- what stops it ----------------------------------------------------------------------


def stopped(make: Make, within: Any = None, requires_grad: bool = True) -> dict[str, int]:
    """Why calls of the layers were not replayed."""
    model, x, mode = stack(make, requires_grad)
    with mode, mode.replaying(), within or nullcontext():
        model(x)
    assert mode.replay_info().replayed == 0
    return dict(mode.replay_info().stopped)


def test_FX5_hooks_stop_it() -> None:
    def make() -> list[Any]:
        layers = three()
        for layer in layers:
            layer.up.register_forward_hook(lambda *args: None)
        return layers

    assert stopped(make) == {"hooks": 3}


def count_calls(layer: Any, x: Tensor) -> None:
    layer.calls = getattr(layer, "calls", 0) + 1


def keep_input(layer: Any, x: Tensor) -> None:
    layer.seen = x


def draw(layer: Any, x: Tensor) -> None:
    random.random()


KEPT: list[Tensor] = []
OUTSIDE: list[Tensor] = []


def keep_outside(layer: Any, x: Tensor) -> None:
    KEPT.append(x + 1)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        (count_calls, "Python state changed"),
        (keep_input, "Python state changed"),
        (draw, "random state"),
        (keep_outside, "a tensor was kept"),
        (lambda layer, x: x.add_(1), "a tensor of the call was written to"),
        (lambda layer, x: layer.up.weight.requires_grad_(False), "Python state changed"),
    ],
)
def test_FX5_what_changes_more_than_its_result_stops_it(
    extra: Callable[..., object], reason: str
) -> None:
    found = stopped(lambda: [Layer(extra=extra) for _ in range(3)])
    KEPT.clear()
    assert found == {reason: 3}


def test_FX5_known_values_stop_it() -> None:
    class Known(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            return self.linear(x) * float(scale)

    model, x, mode = stack(lambda: [Known(), Known()])
    with mode, mode.replaying():
        for layer in model.children():
            layer(x, mq.tensor(3.0))
    assert mode.replay_info().stopped == {"a known value": 2}


def test_FX5_parametrizations_stop_it() -> None:
    _, x, mode = stack(three)
    with mode, mode.replaying():
        layer = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))
        layer(x), layer(x)
    assert mode.replay_info().stopped == {"parametrizations": 2}


class Passing(TorchDispatchMode):
    """A mode that sees every operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_FX5_a_mode_that_must_see_operators_stops_it() -> None:
    assert stopped(three, Passing()) == {"a mode sees the operators": 3}


def test_FX5_hooks_on_saved_tensors_stop_it() -> None:
    hooks = mq.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    assert stopped(three, hooks) == {"autograd is watched": 3}


def test_FX5_remembered_casts_stop_it() -> None:
    region = autocast("cpu", mq.bfloat16)
    assert stopped(three, region) == {"autocast remembers casts": 3}


def test_FX5_a_gradient_that_leads_outside_stops_it() -> None:
    _, x, mode = stack(three)
    with mode, mode.replaying():
        OUTSIDE[:] = [mq.ones(WIDTH, requires_grad=True)]

        class Leaning(Layer):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) * OUTSIDE[0]

        nn.Sequential(Leaning(), Leaning())(x)
    OUTSIDE.clear()
    assert mode.replay_info().stopped == {"a tensor from outside the call": 2}


@pytest.fixture
def symbolic() -> Iterator[tuple[mq.FakeTensorMode, Tensor]]:
    mode = mq.FakeTensorMode(shape_env=mq.symbolic.ShapeEnv())
    x = mode.from_tensor(mq.ones(3, WIDTH))
    with mode:
        yield mode, x


def branch(layer: Any, x: Tensor) -> None:
    if x.shape[0] > 2:
        x = x + 1


def test_FX5_guards_stop_it(symbolic: tuple[mq.FakeTensorMode, Tensor]) -> None:
    mode, x = symbolic
    layers = nn.Sequential(Layer(extra=branch), Layer(extra=branch))
    with mode.replaying():
        layers(x)
    assert mode.replay_info().stopped.get("a guard") == 1


def find_positive(layer: Any, x: Tensor) -> None:
    (x > 0).nonzero()


def test_FX5_unbacked_symbols_stop_it() -> None:
    mode = mq.FakeTensorMode(shape_env=mq.symbolic.ShapeEnv())
    x = mode.from_tensor(mq.ones(3, WIDTH), static_shapes=True)
    with mode, mode.replaying():
        layers = nn.Sequential(*[Layer(extra=find_positive) for _ in range(3)])
        layers(x)
    assert mode.replay_info().stopped == {"an unbacked symbol": 3}


def test_FX5_a_registration_invalidates() -> None:
    model, x, mode = stack(three)
    with mode, mode.replaying():
        model(x)
        library = mq.library.Library("replay_test", "FRAGMENT")
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x, "CPU")
        model(x)
    assert mode.replay_info().recorded == 2


def test_FX5_a_swapped_parameter_invalidates() -> None:
    model, x, mode = stack(three)
    with mode, mode.replaying(), mq.no_grad():
        model(x)
        for layer in model.children():
            layer.norm.weight = nn.Parameter(layer.norm.weight.double())
        with pytest.raises(RuntimeError, match="dtype"):
            model(x)


def test_FX4_a_block_that_was_changed_before_its_backward_is_refused() -> None:
    model, x, mode = stack(three)
    with mode, mode.replaying():
        loss = model(x).sum()
        for layer in model.children():
            layer.drop = nn.Identity()
        with pytest.raises(RuntimeError, match="changed between"):
            loss.backward()


def test_FX4_a_backward_is_of_the_numbers_and_flags_that_the_forward_had() -> None:
    def backward_after(change: Callable[[Any], object]) -> list[object]:
        model, x, mode = stack(three)
        with mode, mode.replaying(), observe_allocations(Events()) as seen:
            loss = model(x).sum()
            for layer in model.children():
                change(layer)
            loss.backward()
        assert mode.replay_info().backward_recorded > 0
        return [seen.all, *(p.grad.meta for p in model.parameters())]

    def changed(layer: Any) -> None:
        layer.drop.p, layer.norm.eps, layer.up.out_features = 0.0, 1, 5
        layer.eval()

    assert backward_after(changed) == backward_after(lambda layer: None)


def test_FX4_a_backward_leaves_what_was_changed_before_it() -> None:
    model, x, mode = stack(three)
    with mode, mode.replaying():
        loss = model(x).sum()
        for layer in model.children():
            layer.drop.p = 0.5
        loss.backward()
    assert [layer.drop.p for layer in model.children()] == [0.5] * 3


def test_FX4_what_backward_needs_must_not_be_written_to() -> None:
    model, x, mode = stack(three)
    with mode, mode.replaying():
        loss = model(x).sum()
        with mq.no_grad():
            list(model.parameters())[-4].add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_FX4_a_graph_is_freed_after_its_backward() -> None:
    model, x, mode = stack(three)
    with mode, mode.replaying():
        loss = model(x).sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
