"""`torch.utils.checkpoint`: what a block saves for backward is computed again instead of kept.

Without reentrance a block runs under hooks on what autograd saves (`autograd/graph.py`): they keep
a number for each tensor. The first number that backward asks for runs the block again, under hooks
that keep the tensors; each is dropped when it is fetched. With reentrance, the older way, a block
is one `Function`, whose backward runs it again and calls backward inside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NoReturn

from maquette.autograd import Function, backward, enable_grad, is_grad_enabled
from maquette.autograd.saved_hooks import saved_tensors_hooks
from maquette.core.device import device
from maquette.core.meta import TensorMeta
from maquette.tensor.generator import fork_rng, generator_of
from maquette.tensor.tensor import Tensor

Contexts = tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
_GeneratorStates = dict[device, Tensor]


class CheckpointError(RuntimeError):
    """The block did something else when it ran again."""


class _EnoughError(Exception):
    """Everything that backward wants is there: the rest of the block need not run again."""


class _EarlyStop:
    wanted: bool | None = None  # None: as each call says


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """In the block, whether blocks run again only until all that was saved is there."""
    before, _EarlyStop.wanted = _EarlyStop.wanted, enable
    try:
        yield
    finally:
        _EarlyStop.wanted = before


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing."""
    return nullcontext(), nullcontext()


def create_selective_checkpoint_contexts(*args: object, **options: object) -> NoReturn:
    """Not there yet: NotImplementedError."""
    raise NotImplementedError(
        "selective checkpointing is not supported yet: checkpoint smaller blocks instead, those "
        "whose results may be computed again"
    )


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
    random numbers again. determinism_check: "default" compares shapes, dtypes and devices, "none"
    nothing. Raises CheckpointError in backward if the block saves other tensors than before.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: pass use_reentrant explicitly. use_reentrant=False is "
            "recommended; the default is True.",
            stacklevel=2,
        )
        use_reentrant = True
    if not use_reentrant:
        if determinism_check not in ("default", "none"):
            raise ValueError(
                f"determinism_check should be one of ['default', 'none'], got {determinism_check}"
            )
        block = _Block(function, args, kwargs, preserve, determinism_check, early_stop)
        return block.run(*context_fn())
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
        warnings.warn("checkpoint_sequential: pass use_reentrant explicitly", stacklevel=2)
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
    with fork_rng(enabled=states is not None):
        for place, state in (states or {}).items():
            generator_of(place).set_state(state)
        yield


# --- without reentrance --------------------------------------------------------------


class _Block:
    """One call of a function: what it saved, by number, and how to run it again."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        preserve_rng_state: bool,
        determinism_check: str,
        early_stop: bool,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.compares = determinism_check != "none"
        wanted = _EarlyStop.wanted
        self.early_stop = early_stop if wanted is None else wanted
        self.states = _generator_states([*args, *kwargs.values()]) if preserve_rng_state else None
        self.saved: list[TensorMeta] = []
        self.again: dict[int, Tensor] = {}
        self.context: AbstractContextManager[Any] = nullcontext()

    def run(
        self, forward_context: AbstractContextManager[Any], again: AbstractContextManager[Any]
    ) -> Any:
        self.context = again
        if not is_grad_enabled():
            return self.function(*self.args, **self.kwargs)
        with saved_tensors_hooks(self._number, self._fetch), forward_context:
            return self.function(*self.args, **self.kwargs)

    def _number(self, t: Tensor) -> int:
        self.saved.append(t.meta)
        return len(self.saved) - 1

    def _fetch(self, number: Any) -> Tensor:
        if number not in self.again:
            self._run_again()
        # Fetched once, as a rule: if it is wanted once more, the block runs once more.
        return self.again.pop(number)

    def _run_again(self) -> None:
        self.again = {}
        hooks = saved_tensors_hooks(self._keep, lambda kept: kept)  # type: ignore[arg-type, return-value]  # what _keep gave
        try:
            with enable_grad(), _drawing_from(self.states), hooks, self.context:
                self.function(*self.args, **self.kwargs)
        except _EnoughError:
            pass
        if len(self.again) != len(self.saved):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the "
                f"original forward ({len(self.saved)}) and recomputation ({len(self.again)})."
            )

    def _keep(self, t: Tensor) -> Tensor:
        number = len(self.again)
        if number >= len(self.saved):
            raise CheckpointError(
                "torch.utils.checkpoint: more tensors were saved during recomputation than the "
                f"{len(self.saved)} of the original forward."
            )
        before = self.saved[number]
        if self.compares and (before.shape, before.dtype, before.device) != (
            t.meta.shape,
            t.meta.dtype,
            t.meta.device,
        ):
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                f"different metadata than during the forward pass: tensor at position {number}: "
                f"{before} then, {t.meta} now."
            )
        self.again[number] = t
        if self.early_stop and len(self.again) == len(self.saved):
            raise _EnoughError
        return t


# --- with reentrance -----------------------------------------------------------------


class CheckpointFunction(Function):
    """A block as one node: backward runs it again, recorded, and calls backward on that."""

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, run_function: Callable[..., Any], preserve: bool, *args: Any
    ) -> Any:
        """The function of the arguments, unrecorded."""
        ctx.run_function = run_function
        ctx.states = _generator_states(args) if preserve else None
        ctx.others = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Gradients of the tensor arguments, by a backward of their own."""
        inputs = list(ctx.others)
        for place, saved in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = saved.detach().requires_grad_(saved.requires_grad)
        with enable_grad(), _drawing_from(ctx.states):
            outputs = ctx.run_function(*inputs)
        pairs = [
            (output, grad)
            for output, grad in zip(
                (outputs,) if isinstance(outputs, Tensor) else tuple(outputs), grads
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
    "CheckpointError",
    "CheckpointFunction",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_early_stop",
]
