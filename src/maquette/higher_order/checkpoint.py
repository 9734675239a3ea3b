"""`checkpoint`: what a block saves for backward is computed again instead of kept.

Without reentrance a block is a call of the operator ``higher_order.checkpoint``. It runs under
hooks on what autograd saves (`autograd/graph.py`), which keep a number for each tensor. The first
number that backward asks for runs the block again, under hooks that keep the tensors; each is
dropped when it is fetched. The block's own inputs are saved under the hooks that were there before
it, so that a block in a block holds nothing of the outer one. With reentrance, the older way, a
block is one `Function`, whose backward runs it again and calls backward inside. What to save
nevertheless is said by `selective.py`; what ran, for an error, is told by `debugging`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from maquette.autograd import Function, backward, enable_grad, is_grad_enabled
from maquette.autograd.engine import current_run
from maquette.autograd.saved.hooks import saved_tensors_hooks
from maquette.core.device import cpu, device
from maquette.core.dtype import float32
from maquette.core.meta import TensorMeta
from maquette.dispatch.modes import TorchDispatchMode
from maquette.higher_order.common import FunctionalHop
from maquette.tensor.copying import rebuild_tensor
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.streams.generator import fork_rng, generator_of
from maquette.tensor.tensor import Tensor
from maquette.transforms import autocast as regions

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
_GeneratorStates = dict[device, Tensor]


class CheckpointError(RuntimeError):
    """The block did something else when it ran again."""


class _EnoughError(Exception):
    """Everything that backward wants is there: the rest of the block need not run again."""

    def __init__(self, block: object) -> None:
        super().__init__()
        self.block = block


class _Settings:
    """What blocks of this program say for every call; None: as each call says."""

    early_stop: bool | None = None
    debug: bool | None = None


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """In the block, whether blocks run again only until all that was saved is there."""
    before, _Settings.early_stop = _Settings.early_stop, enable
    try:
        yield
    finally:
        _Settings.early_stop = before


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """In the block, whether checkpoints note what they run; None: as each call says."""
    before, _Settings.debug = _Settings.debug, enabled
    try:
        yield
    finally:
        _Settings.debug = before


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, computed again in backward.

    use_reentrant: whether backward runs inside backward; say False, PyTorch's advice (the default
    is its present one, True, with a warning). preserve_rng_state (a keyword, True): draw the same
    random numbers again. context_fn: gives the contexts that the block runs in the first time and
    again. determinism_check: "default" compares shapes, dtypes and devices, "none" nothing. debug:
    an error lists what ran both times. early_stop: the block runs again only until all that it
    saved is there. Raises CheckpointError in backward if the block saves other tensors than before.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended; the default is True.",
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        if determinism_check not in ("default", "none"):
            raise ValueError(
                f"determinism_check should be one of ['default', 'none'], got {determinism_check}"
            )
        settings = _Settings
        how = Blocks(
            context_fn,
            preserve,
            determinism_check != "none",
            debug if settings.debug is None else settings.debug,
            early_stop if settings.early_stop is None else settings.early_stop,
        )
        return checkpoint_op.call_unasked(function, how, args, kwargs)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    if context_fn is not noop_context_fn or debug:
        raise ValueError(
            "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
        )
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Run modules one after another in `segments` blocks, all but the last checkpointed."""
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be "
            "passed explicitly.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    stages = list(functions)
    size = len(stages) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            _chained(stages[start : start + size]),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )
    return _chained(stages[size * (segments - 1) :])(input)


def _chained(stages: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(input: Any) -> Any:
        for stage in stages:
            input = stage(input)
        return input

    return run


# --- random numbers ------------------------------------------------------------------


def _generator_states(args: Sequence[object]) -> _GeneratorStates:
    """Where the generators are that a block of these arguments may draw from."""
    places = {device("cpu"), *(arg.device for arg in args if isinstance(arg, Tensor))}
    return {place: generator_of(place).get_state() for place in places if place.type != "meta"}


@contextmanager
def _drawing_from(states: _GeneratorStates | None) -> Iterator[None]:
    """Draw what was drawn then, and leave the generators where they are."""
    with fork_rng([*(states or ())], enabled=states is not None):
        for place, state in (states or {}).items():
            generator_of(place).set_state(state)
        yield


@contextmanager
def _regions_of(then: dict[str, tuple[bool, Any]]) -> Iterator[None]:
    """The autocast regions of another time."""
    now = _autocast_regions()
    _enter_regions(then)
    regions.state.depth += 1
    try:
        yield
    finally:
        regions.state.depth -= 1
        _enter_regions(now)


def _autocast_regions() -> dict[str, tuple[bool, Any]]:
    return {d: (regions.is_enabled(d), regions.state.dtypes[d]) for d in regions.DEVICES}


def _enter_regions(wanted: dict[str, tuple[bool, Any]]) -> None:
    for name, (enabled, kind) in wanted.items():
        regions.set_enabled(name, enabled)
        regions.state.dtypes[name] = kind


# --- without reentrance --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a checkpointed function is run, the first time and again."""

    context_fn: Callable[[], Contexts] = noop_context_fn
    preserve_rng_state: bool = True
    compares: bool = True
    debug: bool = False
    early_stop: bool = True


class CheckpointOp(FunctionalHop):
    """``higher_order.checkpoint(function, how, args, kwargs)``: `checkpoint` without reentrance."""

    def __init__(self) -> None:
        super().__init__("checkpoint", cacheable=True)

    def eager(
        self,
        function: Callable[..., Any],
        how: Blocks,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        return _Block(function, how, args, kwargs).run()

    def under_transform(self, level: Any, *args: Any, **kwargs: Any) -> Any:
        function, _, given, named = args  # a transform's levels take no hooks: nothing runs again
        return function(*given, **named)

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:  # recorded as what it computes, and computes again
            return self.eager(*args, **kwargs)


checkpoint_op = CheckpointOp()


def _nothing(requires_grad: bool) -> Tensor:
    """A tensor without elements, made by no operator: modes count those of the block alone."""
    return rebuild_tensor(Tensor, UntypedStorage.from_buffer(b""), _NOTHING, requires_grad)


_NOTHING = TensorMeta.of(float32, (0,), (1,), 0, cpu)


class _Inputs(Function):
    """Saves the inputs of a block, under the hooks that are there before the block's own."""

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, block: _Block, start: Tensor, *tensors: Tensor
    ) -> Any:
        ctx.save_for_backward(*tensors)
        block.inputs = ctx
        return _nothing(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise AssertionError("nothing is computed from what keeps a block's inputs")


class _Block:
    """One call of a function: what it saved, by number, and how to run it again."""

    def __init__(
        self,
        function: Callable[..., Any],
        how: Blocks,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.function = function
        self.how = how
        self.args = args
        self.kwargs = kwargs
        self.states = (
            _generator_states([*args, *kwargs.values()]) if how.preserve_rng_state else None
        )
        self.regions = _autocast_regions()
        self.saved: list[TensorMeta] = []
        self.again: dict[int, Tensor] = {}
        self.fetched: dict[int, int | None] = {}  # by which of the engine's runs last
        self.contexts = how.context_fn()
        self.inputs: Any = None
        self.holder: Any = None
        self._more = False  # whether the run again went beyond what the first has saved
        self.places: list[int] = []
        self.needs: list[bool] = []
        self.log: _Log | None = None
        self.log_again: _Log | None = None
        self.completed = False  # whether the first run has come to its end

    def run(self) -> Any:
        if not is_grad_enabled():
            return self.function(*self.args, **self.kwargs)
        args, kwargs, function = self.args, self.kwargs, self.function
        self._keep_inputs()
        with ExitStack() as stack:
            stack.enter_context(saved_tensors_hooks(self._number, self._fetch))
            stack.enter_context(self.contexts[0])
            if self.how.debug:
                self.log = stack.enter_context(_Log())
            try:
                return function(*args, **kwargs)
            finally:
                self.completed = True

    def _keep_inputs(self) -> None:
        """Hand the tensors among the arguments to autograd, which keeps them as it is told to."""
        self.places = [i for i, a in enumerate(self.args) if isinstance(a, Tensor)]
        if not self.places:
            return
        kept = [self.args[i] for i in self.places]
        self.needs = [t.requires_grad for t in kept]
        self.args = tuple([None if isinstance(a, Tensor) else a for a in self.args])
        self.holder = _Inputs.apply(self, _nothing(True), *kept)

    def _arguments(self) -> list[Any]:
        args = list(self.args)
        if self.places:
            for place, needs, value in zip(self.places, self.needs, self.inputs.saved_tensors):
                args[place] = value
                if needs and not value.requires_grad:
                    args[place] = value.detach().requires_grad_()
        return args

    def _number(self, t: Tensor) -> int:
        self.saved.append(t.meta)
        return len(self.saved) - 1

    def _fetch(self, number: Any) -> Tensor:
        run = current_run()
        now = None if run is None else run.number
        if number not in self.again:
            if now is not None and self.fetched.get(number) == now:
                raise CheckpointError(
                    f"torch.utils.checkpoint: Unpack is being triggered for a tensor that was "
                    f"already unpacked once ({self.saved[number]}). If you are calling "
                    f"ctx.saved_tensors in backward, make sure to do so only once"
                )
            self._run_again()
        # Fetched once in a backward; another backward runs the block once more.
        self.fetched[number] = now
        return self.again.pop(number)

    def _run_again(self) -> None:
        self.again = {}
        self._more = False
        unfinished = not self.completed
        args = self._arguments()
        hooks = saved_tensors_hooks(self._keep, lambda kept: kept)  # type: ignore[arg-type, return-value]  # what _keep gave
        with ExitStack() as stack:
            stack.enter_context(enable_grad())
            stack.enter_context(_drawing_from(self.states))
            stack.enter_context(_regions_of(self.regions))
            stack.enter_context(hooks)
            stack.enter_context(self.contexts[1])
            if self.how.debug:
                self.log_again = stack.enter_context(_Log())
            try:
                self.function(*args, **self.kwargs)
            except _EnoughError as error:
                if error.block is not self:
                    raise
        if len(self.again) != len(self.saved) and not (unfinished and self._more):
            raise self._mismatch(
                "A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.saved)}\n"
                f"Number of tensors saved during recomputation: {len(self.again)}."
            )

    def _keep(self, t: Tensor) -> Tensor:
        number = len(self.again)
        if number >= len(self.saved) and not self.completed:
            # Backward inside of the block's first run: what comes after it is not saved yet.
            self._more = True
            return t.detach()
        if number >= len(self.saved):
            raise self._mismatch(
                "trying to save more tensors during recomputation than the "
                f"{len(self.saved)} of the original forward pass."
            )
        before = self.saved[number]
        if self.how.compares and (before.shape, before.dtype, before.device) != (
            t.meta.shape,
            t.meta.dtype,
            t.meta.device,
        ):
            raise self._mismatch(
                "Recomputed values for the following tensors have different metadata than during "
                f"the forward pass.\ntensor at position {number}: {before} then, {t.meta} now."
            )
        # Without its history: what is kept here must not hold the block that is run again.
        self.again[number] = t.detach() if t.requires_grad and not t.is_leaf else t
        if self.how.early_stop and len(self.again) == len(self.saved):
            raise _EnoughError(self)
        return t

    def _mismatch(self, what: str) -> CheckpointError:
        if self.log is None or self.log_again is None:
            return CheckpointError(
                f"torch.utils.checkpoint: {what}\n\nTip: To see a more detailed error message, "
                f"either pass `debug=True` to `torch.utils.checkpoint.checkpoint(...)` or wrap "
                f"the code block with `with torch.utils.checkpoint.set_checkpoint_debug_enabled("
                f"True):`."
            )
        return CheckpointError(
            f"torch.utils.checkpoint: {what}\n\nOperators of the original forward:\n"
            f"{self.log}\n\nOperators of the recomputation:\n{self.log_again}"
        )


class _Log(TorchDispatchMode):
    """The operators that ran, a line each."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = [a.meta if isinstance(a, Tensor) else a for a in args]
        self.lines.append(f"  {func}({', '.join(map(str, given))})")
        return func(*args, **(kwargs or {}))

    def __str__(self) -> str:
        return "\n".join(self.lines)


# --- with reentrance -----------------------------------------------------------------


class CheckpointFunction(Function):
    """A block as one node: backward runs it again, recorded, and calls backward on that."""

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any
    ) -> Any:
        """The function of the arguments, unrecorded."""
        ctx.run_function = run_function
        ctx.states = _generator_states(args) if preserve_rng_state else None
        ctx.regions = _autocast_regions()
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        """Gradients of the tensor arguments, by a backward of their own."""
        run = current_run()
        if run is not None and run.needed is not None:
            raise RuntimeError(
                "torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward() when use_reentrant=True is passed: pass "
                "use_reentrant=False"
            )
        inputs = list(ctx.others)
        for place, saved in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = saved.detach().requires_grad_(saved.requires_grad)
        with enable_grad(), _drawing_from(ctx.states), _regions_of(ctx.regions):
            outputs = ctx.run_function(*inputs)
        pairs = [
            (output, grad)
            for output, grad in zip(
                (outputs,) if isinstance(outputs, Tensor) else tuple(outputs), args
            )
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([output for output, _ in pairs], [grad for _, grad in pairs])
        return None, None, *(i.grad if isinstance(i, Tensor) else None for i in inputs)


__all__ = [
    "Blocks",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointOp",
    "checkpoint",
    "checkpoint_op",
    "checkpoint_sequential",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]
