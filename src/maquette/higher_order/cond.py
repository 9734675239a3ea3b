"""`cond`: one of two functions, as a tensor or a condition on sizes says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import maquette.symbolic as symbolic  # its modules are loaded when a name is asked for
from maquette.autograd import Function as AutogradFunction
from maquette.autograd import no_grad
from maquette.core.pytree import tree_map, tree_unflatten
from maquette.core.symbols import node_of
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.tls import tls
from maquette.fake.exceptions import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from maquette.fake.mode import FakeTensorMode
from maquette.higher_order.backward import Kept, captured_to_record, pulled, spread
from maquette.higher_order.captured import pure
from maquette.higher_order.common import (
    Function,
    FunctionalHop,
    _traced,
    check_same_metadata,
    environment_of,
    flattened,
    paths_of,
)
from maquette.higher_order.observed import observers
from maquette.tensor.tensor import Tensor
from maquette.transforms.batch import VmapInterpreter
from maquette.transforms.functional.wrapper import FunctionalWrapper
from maquette.transforms.rules import operators
from maquette.transforms.wrappers import BatchedTensor

if TYPE_CHECKING:
    from maquette.symbolic import ShapeEnv


def cond(
    pred: bool | int | float | Tensor, true_fn: Function, false_fn: Function, operands: Any = ()
) -> Any:
    """``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``.

    pred: a bool, a condition on sizes, or a tensor of one element; a trace follows a bool and keeps
    the others. operands: a tuple of trees of tensors. Both functions must give trees of one
    structure, whose tensors agree in shape and dtype, else RuntimeError.

    >>> import maquette as mq
    >>> cond(mq.tensor(True), lambda x: x + 1, lambda x: x - 1, (mq.zeros(2),))
    tensor([1., 1.])
    """
    if not isinstance(pred, (bool, int, float, Tensor)) and not hasattr(pred, "node"):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    leaves = flattened(operands)[0]
    if not isinstance(operands, (tuple, list)) or not all(_is_operand(t) for t in leaves):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists "
            f"of tensor leaves, but got {operands}."
        )
    branches = [pure("cond", "true_fn", true_fn), pure("cond", "false_fn", false_fn)]
    if isinstance(pred, (bool, int, float)) and _traced():
        return (branches[0] if pred else branches[1])(*operands)
    if isinstance(pred, Tensor) and not _watched():
        _check_once(true_fn, false_fn, tuple(operands), leaves)
    return cond_op(pred, *branches, tuple(operands))


_SEEN: dict[object, None] = {}
_REMEMBERED = 4096


def _watched() -> bool:
    """Whether both branches will run, or a transform or mode has to see the one that does."""
    st = tls.st
    return bool(st.dispatch_modes or st.transforms or st.fake_mode is not None)


def _check_once(
    true_fn: Function, false_fn: Function, operands: tuple[Any, ...], leaves: list[Any]
) -> None:
    """Check that two functions agree where they meet operands of these metas the first time."""
    key = (
        getattr(true_fn, "__code__", true_fn),
        getattr(false_fn, "__code__", false_fn),
        *[t.meta if isinstance(t, Tensor) else type(t) for t in leaves],
    )
    if key in _SEEN:
        return
    _check_on_fakes(true_fn, false_fn, operands)
    if len(_SEEN) >= _REMEMBERED:
        _SEEN.clear()
    _SEEN[key] = None


def _check_on_fakes(true_fn: Function, false_fn: Function, operands: tuple[Any, ...]) -> None:
    """RuntimeError where the branches disagree, whichever of them is to run."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    given = tree_map(
        lambda t: mode.from_tensor(_value(t)) if isinstance(t, Tensor) else t, operands
    )
    try:
        with mode, no_grad():
            results = [function(*_tuple(given)) for function in (true_fn, false_fn)]
    except (DataDependentOutputException, DynamicOutputShapeException):
        return  # what a branch makes of data is known when it runs
    cond_op.agreed(*results)


def _value(t: Tensor) -> Tensor:
    """What a functional tensor stands for: a view of one has no fake of its own."""
    return t.sync() if isinstance(t, FunctionalWrapper) else t


def _is_open(pred: Any) -> bool:
    """Whether a predicate is a tensor or a condition on sizes, which a run without data keeps."""
    return isinstance(pred, Tensor) or node_of(pred) is not None


def _same(a: Any, b: Any) -> bool:
    """Whether two leaves are known to be one number; of tensors `agreed` says it."""
    return isinstance(a, Tensor) or isinstance(b, Tensor) or symbolic.statically_known_true(a == b)


def _is_int(leaf: Any) -> bool:
    return not isinstance(leaf, bool) and isinstance(leaf, int | symbolic.SymInt)


def _either(a: Any, b: Any, environment: ShapeEnv) -> tuple[Any, Any]:
    """Two leaves with a new symbol, the same for both, in the place of what differs."""
    if _is_int(a) and _is_int(b) and not _same(a, b):
        number = environment.create_unbacked_symint()
        return number, number
    tensors = isinstance(a, Tensor) and isinstance(b, Tensor)
    if not tensors or a.ndim != b.ndim or a.dtype is not b.dtype:
        return a, b
    pairs = list(zip(a.shape, b.shape))
    if all(_same(m, n) for m, n in pairs):
        return a, b
    sizes = [m if _same(m, n) else _size_between(m, n, environment) for m, n in pairs]
    return a.new_empty(sizes), b.new_empty(sizes)


def _size_between(m: Any, n: Any, environment: ShapeEnv) -> Any:
    known = isinstance(m, int) and isinstance(n, int)
    return environment.new_size(min(m, n), max(m, n)) if known else environment.new_size()


def _tuple(value: Any) -> tuple[Any, ...]:
    assert isinstance(value, tuple)
    return value


def _is_operand(t: Any) -> bool:
    return isinstance(t, (Tensor, int)) or hasattr(t, "node")


class CondOp(FunctionalHop):
    """``torch.ops.higher_order.cond(pred, true_fn, false_fn, operands)``."""

    operands_at = 3

    def __init__(self) -> None:
        super().__init__("cond")

    def eager(self, pred: Any, true_fn: Function, false_fn: Function, operands: Any = ()) -> Any:
        return (true_fn if pred else false_fn)(*operands)

    def fake(self, pred: Any, true_fn: Function, false_fn: Function, operands: Any = ()) -> Any:
        if not _is_open(pred):
            return self.eager(pred, true_fn, false_fn, operands)
        branches = [lambda: true_fn(*operands), lambda: false_fn(*operands)]
        if not observers:
            result, other = branches[0](), branches[1]()
            return self.merged(result, other, environment_of(operands))
        counted = observers[-1].heavier("cond", ["true_fn", "false_fn"], branches)
        return branches[counted]()

    def agreed(self, result: Any, other: Any) -> Any:
        """The first result; RuntimeError unless the second has its structure and metadata."""
        (leaves, spec), (others, other_spec) = flattened(result), flattened(other)
        if spec != other_spec:
            raise RuntimeError(
                f"Unmatched output spec from torch.cond branches: true branch tree_spec {spec} vs "
                f"false branch tree_spec {other_spec}."
            )
        check_same_metadata(
            "the outputs of true_fn and false_fn", leaves, others, paths_of(result), "cond"
        )
        return result

    def merged(self, result: Any, other: Any, environment: ShapeEnv | None) -> Any:
        """What may come of either result: a symbol for an int or a size that differs.

        RuntimeError where they differ in anything else, or there is no environment for symbols.
        """
        (leaves, spec), (others, other_spec) = flattened(result), flattened(other)
        if environment is None or spec != other_spec:
            self.agreed(result, other)
            if environment is None and any(not _same(a, b) for a, b in zip(leaves, others)):
                raise RuntimeError(
                    f"cond: expected both branches to give the same numbers, or a fake mode with a "
                    f"ShapeEnv, got {leaves} and {others}"
                )
            return result
        both = [_either(a, b, environment) for a, b in zip(leaves, others)]
        return self.agreed(
            tree_unflatten([a for a, _ in both], spec), tree_unflatten([b for _, b in both], spec)
        )

    def operands_of(self, at: int, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(args[3]) if len(args) > 3 else ()

    def graph_name(self, at: int) -> str:
        return "true_graph" if at == 1 else "false_graph"

    def traced(self, mode: Any, *args: Any, **kwargs: Any) -> Any:
        pred, true_fn, false_fn, *rest = args
        return super().traced(mode, pred, true_fn, false_fn, *(rest or ((),)))

    def recorded(self, pred: Any, true_fn: Function, false_fn: Function, operands: Any = ()) -> Any:
        if tls.st.dispatch_modes and _is_open(pred):
            if self.records((true_fn, false_fn, operands), {}):
                return _recorded_whole(pred, true_fn, false_fn, operands)
        return super().recorded(pred, true_fn, false_fn, operands)

    def under_transform(self, level: Any, *args: Any, **kwargs: Any) -> Any:
        pred = args[0]
        if node_of(pred) is not None:
            return self.eager(*args, **kwargs)  # a transform follows what the sizes are now
        batched = isinstance(pred, BatchedTensor) and pred._interpreter is level
        if (batched and isinstance(level, VmapInterpreter)) or _traced():
            return self.straight(*args, **kwargs)  # a trace may not follow what the data is now
        return super().under_transform(level, *args, **kwargs)

    def straight(self, pred: Any, true_fn: Function, false_fn: Function, operands: Any = ()) -> Any:
        """Both branches, and what the predicate chooses."""
        if not isinstance(pred, Tensor):
            return self.eager(pred, true_fn, false_fn, operands)
        result, other = true_fn(*operands), false_fn(*operands)
        self.agreed(result, other)
        return tree_map(lambda a, b: operators.where(pred, a, b), result, other)


cond_op = CondOp()


class _CondAutograd(AutogradFunction):
    """The whole call as one node, for traces: backward is a `cond` of the branches' backwards."""

    @staticmethod
    def forward(  # type: ignore[override]  # as `apply` calls it
        ctx: Any, branches: Any, captured: Any, pred: Any, *operands_and_captured: Any
    ) -> Any:
        ctx.branches, ctx.spec = branches
        ctx.captured = captured
        leaves = operands_and_captured[: len(operands_and_captured) - len(captured)]
        ctx.kept = Kept(ctx, (pred, *leaves))
        true_fn, false_fn = ctx.branches
        operands: Any = tree_unflatten(leaves, ctx.spec)
        with AutoDispatchBelowAutograd():
            result = cond_op(pred, true_fn, false_fn, operands)
        return tuple(flattened(result)[0])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pred, *leaves = ctx.kept.values(ctx)
        count, spec, captured = len(leaves), ctx.spec, ctx.captured

        def backward_of(branch: Function) -> Function:
            def on_leaves(*flat: Any) -> Any:
                return branch(*_tuple(tree_unflatten(flat, spec)))

            def back(*given: Any) -> Any:
                return tuple(pulled(on_leaves, given[:count], given[count:], captured))

            return back

        true_fn, false_fn = ctx.branches
        found = cond_op(pred, backward_of(true_fn), backward_of(false_fn), (*leaves, *grads))
        return (None, None, None, *spread(found, (*leaves, *captured)))


def _recorded_whole(pred: Any, true_fn: Function, false_fn: Function, operands: Any) -> Any:
    leaves, spec = flattened(tuple(operands))
    seen: list[Any] = []

    def noting(function: Function) -> Function:
        def run(*args: Any) -> Any:
            flat, out_spec = flattened(function(*args))
            seen.append(out_spec)
            return tuple(flat)

        return run

    branches = [noting(true_fn), noting(false_fn)]
    captured = captured_to_record(branches)
    outs: Any = _CondAutograd.apply((branches, spec), captured, pred, *leaves, *captured)
    return tree_unflatten(outs, seen[0])


__all__ = ["CondOp", "cond", "cond_op"]
