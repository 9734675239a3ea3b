"""Derivatives that users write: the context of a call, its node, and the kernel for operators.

A user's backward is a function of a context and gradients. `FunctionCtx` is that context, shared by
`autograd.Function` (in `function.py`) and by operators with a registered formula (in
`registered.py`). The one idea: both give their call to a `CustomNode`, which knows how arguments
and results are grouped (a tensor, a list of tensors, no tensor) and turns groups into edges and
back.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn, cast

from maquette.autograd.anomaly import remember_call
from maquette.autograd.inplace import check_inplace, rebase_history
from maquette.autograd.node import (
    Grad,
    Node,
    SavedOutput,
    SavedTensor,
    grad_edge,
    set_history,
)
from maquette.autograd.saved.hooks import PackedTensor, watch
from maquette.autograd.saved.values import RawSaved, raw_saved
from maquette.core.meta import TensorMeta
from maquette.dispatch.registry import find_packet
from maquette.dispatch.tls import tls
from maquette.tensor.keys import ADINPLACE
from maquette.tensor.tensor import Tensor, alias, of_class
from maquette.tensor.up_to_date import make_view

Backward = Callable[..., object]
Saved = SavedTensor | SavedOutput | PackedTensor
# How one argument or result is grouped: a tensor, no tensor, or (from 0 up) a list of so many.
TENSOR, OTHER = -1, -2


class FunctionCtx:
    """What a forward leaves for its backward: saved tensors, and any attribute a user sets.

    ``needs_input_grad`` says for each argument whether its gradient is wanted (for a list argument,
    a list). It is known before the forward runs: PyTorch 2.13 tells `setup_context` of operators
    later.
    """

    needs_input_grad: tuple[object, ...] = ()
    _to_save: tuple[Grad, ...] = ()
    _for_forward: tuple[Grad, ...] = ()
    _saved: tuple[Saved | None, ...] | None = ()
    _dirty: tuple[Tensor, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()
    _given: tuple[Grad, ...] | None = None
    _materialize = True
    _materialize_non_diff_grads = True
    _fixed: frozenset[int] = frozenset()  # the outputs, by number, that never require grad
    _node: weakref.ref[CustomNode] | None = None

    def save_for_backward(self, *tensors: Grad) -> None:
        """Keep tensors (or None) for backward, which finds them in ``saved_tensors``.

        Raises TypeError for anything else. Writing to one before backward is an error there.
        """
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(t).__name__}; keep other values as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Grad) -> None:
        """Keep tensors (or None) for jvp, which finds them in ``saved_tensors``."""
        self._for_forward = tensors

    def _give_forward(self) -> None:
        """From now on ``saved_tensors`` are those for forward mode."""
        self._given = self._for_forward

    @property
    def saved_tensors(self) -> tuple[Grad, ...]:
        """The tensors that `save_for_backward` kept, checked to be as they were."""
        if self._given is not None:
            return self._given
        if self._saved is None:
            name = "this function" if self._node is None else _name(self._node())
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Specify retain_graph=True if you "
                f"need to backward through the graph a second time. It failed in {name}."
            )
        # A context may outlive its node: what was saved is then outside of every graph.
        node = None if self._node is None else self._node()
        return tuple([None if s is None else s.unpack(node) for s in self._saved])

    @property
    def _raw_saved_tensors(self) -> tuple[RawSaved, ...]:
        """The saved tensors themselves, for hooks of their own."""
        count = len(self.saved_tensors) if self._saved is None else len(self._saved)
        name = _name(None if self._node is None else self._node())

        def put(kept: tuple[object, ...]) -> None:
            self._saved = cast("tuple[Saved | None, ...]", kept)

        return tuple([raw_saved(i, name, lambda: self._saved, put) for i in range(count)])

    @property
    def saved_variables(self) -> tuple[Grad, ...]:
        """`saved_tensors`, by their old name."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say that forward wrote to these inputs, and returns them."""
        self._dirty = args

    def mark_shared_storage(self, *pairs: tuple[Tensor, Tensor]) -> None:
        """Nothing, which a FutureWarning says: shared memory is found without it."""
        warnings.warn(
            "mark_shared_storage is deprecated: tensors that share memory are found without it, "
            "and it is no longer needed in a forward",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say that these outputs never require grad."""
        self._non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs without gradient."""
        self._materialize = value

    def _keep(self, node: CustomNode, outputs: Sequence[object]) -> None:
        """Turn what was saved into what backward may have, now that outputs have their history."""
        numbers = {id(o): n for n, o in enumerate(outputs)}
        self._saved = tuple([_kept(t, numbers) for t in self._to_save])
        self._to_save = ()
        self._dirty = self._non_differentiable = ()


def _kept(t: Grad, numbers: dict[int, int]) -> Saved | None:
    if t is None:
        return None
    number = numbers.get(id(t))
    if watch.hooks:
        return PackedTensor(t, watch.hooks[-1], number)
    return SavedTensor(t) if number is None else SavedOutput(t, number)


def _name(node: Node | None) -> str:
    return "a function that is gone" if node is None else node.name()


class CustomNode(Node):
    """The backward of one call by a user's function; its attributes are those of the context."""

    __slots__ = ("__dict__", "_function", "_inputs", "_mode", "_outputs", "_results", "ctx")

    label = ""
    by_user = True

    def __init__(
        self, ctx: FunctionCtx, backward: Backward, args: Sequence[object], lists: Sequence[bool]
    ) -> None:
        flat: list[object] = []
        self._inputs = group(args, lists, flat)
        edges = [grad_edge(t) if isinstance(t, Tensor) else None for t in flat]
        super().__init__(edges, [t.meta if isinstance(t, Tensor) else None for t in flat])
        self.ctx = ctx
        self._function = backward
        self._outputs: list[int] = []
        self._results: list[TensorMeta | None] = []
        self._mode: object | None = None
        ctx._node = weakref.ref(self)
        remember_call(self)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name == "ctx":
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        return getattr(self.ctx, name)

    @property
    def _raw_saved_tensors(self) -> tuple[RawSaved, ...]:
        return self.ctx._raw_saved_tensors

    def describe(self, results: Sequence[object], sizes: list[int]) -> None:
        """Remember what `apply` must know of the results: their metas, grouping and fake mode."""
        tensors = [r if isinstance(r, Tensor) else None for r in results]
        self._outputs = sizes
        self._results = [None if t is None else t.meta for t in tensors]
        self._mode = next((t.fake_mode for t in tensors if t is not None), None)

    def name(self) -> str:
        return self.label or type(self).__name__

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{self.name()} object at {hex(id(self))}>"

    def output_count(self) -> int:
        return len(self._results)

    def release(self) -> None:
        self.ctx._saved = None

    def apply(self, grads: list[Grad]) -> Sequence[Grad]:
        if self.ctx._materialize:
            left = () if self.ctx._materialize_non_diff_grads else self.ctx._fixed
            grads = [
                zeros(m, self._mode) if g is None and m is not None and i not in left else g
                for i, (g, m) in enumerate(zip(grads, self._results, strict=True))
            ]
        answer = self._function(self.ctx, *_regroup(grads, self._outputs, others=True))
        flat = self._flatten(answer if isinstance(answer, tuple) else (answer,))
        for i, grad in enumerate(flat):
            if grad is not None:
                self._check(i, grad)
        return flat

    def _flatten(self, answer: tuple[object, ...]) -> list[Grad]:
        """One gradient an edge; errors name the argument by its position."""
        count = len(self._inputs)
        if all(a is None for a in answer[count:]) and all(s < 0 for s in self._inputs):
            answer = answer[:count]
        if len(answer) != count:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{count}, got {len(answer)})"
            )
        flat: list[Grad] = []
        for i, (size, grad) in enumerate(zip(self._inputs, answer, strict=True)):
            if size >= 0:
                flat += self._members(i, size, grad)
            elif size == TENSOR:
                flat.append(self._tensor_or_none(grad, f"argument {i}"))
            elif grad is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position "
                    f"{i}, but the corresponding argument is not a tensor; return None there"
                )
        return flat

    def _members(self, i: int, size: int, grad: object) -> list[Grad]:
        if not isinstance(grad, list) or len(grad) != size:
            raise RuntimeError(
                f"function {self.name()}: argument {i} is a list of {size} tensors, so its "
                f"gradient must be a list of {size} tensors or Nones, but it is {_structure(grad)}"
            )
        return [self._tensor_or_none(g, f"member {n} of argument {i}") for n, g in enumerate(grad)]

    def _tensor_or_none(self, grad: object, where: str) -> Grad:
        if grad is None or isinstance(grad, Tensor):
            return grad
        raise RuntimeError(
            f"expected Variable or None (got {_structure(grad)}) as the gradient of {where} of "
            f"{self.name()}"
        )

    def _check(self, i: int, grad: Tensor) -> None:
        """Refuse what the engine would have to guess about; it sums and casts the rest."""
        meta = self.metas[i]
        if meta is None or self.edges[i] is None:
            return
        given = grad.meta
        if given.device is not meta.device and given.ndim:
            self._invalid(i, f"expected device {meta.device} but got {given.device}")
        if given.dtype.is_complex and not meta.dtype.is_complex:
            self._invalid(i, f"got the complex {given.dtype} but expected the real {meta.dtype}")

    def _invalid(self, i: int, why: str) -> NoReturn:
        raise RuntimeError(
            f"Function {self.name()} returned an invalid gradient at index {i} - {why}"
        )


def _structure(value: object) -> str:
    if isinstance(value, (tuple, list)):
        kinds = ", ".join(_structure(v) for v in value)
        return f"({kinds})" if isinstance(value, tuple) else f"[{kinds}]"
    return "None" if value is None else type(value).__name__


def node_class(label: str) -> type[CustomNode]:
    """A class of nodes of its own, so that a node's type says whose backward it is."""
    # Where `FunctionCtx` says that it is: under `install`, in PyTorch's file.
    place = {"__module__": FunctionCtx.__module__}
    return type(label, (CustomNode,), {"__slots__": (), "label": label, **place})


def group(
    values: Sequence[object], lists: Sequence[bool], flat: list[object], *, others: bool = False
) -> list[int]:
    """How each value is grouped; the members of groups are put into ``flat``, in order.

    lists: for each value, whether a list there is a group (of tensors and Nones). others: whether
    what is no tensor takes a place in ``flat`` too, which is then None.
    """
    sizes: list[int] = []
    for v, is_list in zip(values, lists, strict=True):
        if isinstance(v, Tensor):
            sizes.append(TENSOR)
            flat.append(v)
        elif is_list and isinstance(v, (tuple, list)):
            sizes.append(len(v))
            flat += v
        else:
            sizes.append(OTHER)
            if others:
                flat.append(None)
    return sizes


def _regroup(flat: Sequence[object], sizes: Sequence[int], *, others: bool = False) -> list[object]:
    """What `group` made flat in its groups again, with None for what is no tensor."""
    grouped: list[object] = []
    position = 0
    for size in sizes:
        if size == TENSOR:
            grouped.append(flat[position])
        elif size >= 0:
            grouped.append(list(flat[position : position + size]))
        else:
            grouped.append(None)
        position += 1 if size == TENSOR or (others and size == OTHER) else max(size, 0)
    return grouped


def zeros(meta: TensorMeta, mode: object | None) -> Tensor:
    """Zeros like a result without gradient; ``mode`` is the fake mode of the result."""
    inside = nullcontext() if mode is None else cast(AbstractContextManager[object], mode)
    packet = find_packet("aten::zeros")
    assert packet is not None
    with inside:
        made = packet(tuple(meta.shape), dtype=meta.dtype, device=meta.device)
    assert isinstance(made, Tensor)
    return made


class recording_off:  # named as the function it stands for
    """Grad mode and forward mode off for a block: what a user's forward does leaves no graph."""

    # A class: entering and leaving a generator's context costs 0.9 us more (timeit, CPython 3.11).
    __slots__ = ("_before", "_forward")

    def __enter__(self) -> None:
        st = tls.st
        self._before, self._forward = st.grad_enabled, st.forward_enabled
        st.forward_enabled = False
        if self._before:
            st.set_grad_enabled(False)

    def __exit__(self, *exc: object) -> None:
        st = tls.st
        st.forward_enabled = self._forward
        if self._before:
            st.set_grad_enabled(True)


# --- outputs ---------------------------------------------------------------------------------


def connect(
    node: CustomNode | None,
    ctx: FunctionCtx,
    inputs: Sequence[object],
    values: Sequence[object],
    lists: Sequence[bool],
) -> list[object]:
    """Make the tensors of ``values`` results of ``node``, and keep what was saved; the new values.

    An input that is returned as it is becomes a view of itself; one marked as dirty stays itself
    and its history moves behind the node. Without a node only the former happens.
    lists: for each value, whether a list there is a list of tensors.
    """
    if len(values) == 1 and isinstance(values[0], Tensor):
        outputs, sizes = list(values), [TENSOR]  # the common case: 1.3 us less
    else:
        outputs = []
        # Each result has a number, as PyTorch counts: what is no tensor too.
        sizes = group(values, lists, outputs, others=True)
    if ctx._dirty:
        _check_dirty(ctx, outputs)
    if ctx._non_differentiable:
        fixed = [i for i, o in enumerate(outputs) if _among(o, ctx._non_differentiable)]
        ctx._fixed = frozenset(fixed)
    results = [
        _connected(node, ctx, number, out, inputs, len(outputs) > 1)
        if isinstance(out, Tensor)
        else out
        for number, out in enumerate(outputs)
    ]
    if node is not None:
        node.describe(results, sizes)
        ctx._keep(node, results)
    if sizes.count(TENSOR) == len(values):
        return results
    whole = _regroup(results, sizes, others=True)
    return [v if size == OTHER else w for v, w, size in zip(values, whole, sizes, strict=True)]


def _check_dirty(ctx: FunctionCtx, outputs: Sequence[object]) -> None:
    """Count the writes to what is marked as dirty, which no operator need have done."""
    for t in ctx._dirty:
        if not _among(t, outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
        if t._keys & ADINPLACE:
            t._version_counter().value += 1


def _connected(
    node: CustomNode | None,
    ctx: FunctionCtx,
    number: int,
    out: Tensor,
    inputs: Sequence[object],
    one_of_several: bool,
) -> Tensor:
    """One output with its history."""
    written = _among(out, ctx._dirty)
    fixed = _among(out, ctx._non_differentiable)
    if node is None or fixed or not is_floating(out):
        if not written and _among(out, inputs):
            return _as_view(out) if tls.st.grad_enabled else _as_alias(out)
        if out._base is not None and tls.st.grad_enabled and not _among(out, inputs):
            out._autograd().creation_meta = "CUSTOM_FUNCTION"
        # What a caller gave keeps its place in the graph; the result is outside of it.
        apart = out._records() and (fixed or (written and is_floating(out)))
        return alias(out) if apart else out
    if written:
        check_inplace(node.name(), out)
        if out._records() and out.is_leaf:
            raise RuntimeError(
                f"{node.name()}: a leaf Variable that requires grad has been used in an in-place "
                f"operation. ({out.meta}; write under no_grad, or to a clone().)"
            )
        rebase_history(out, node, number)
        return out
    if _among(out, inputs):
        out = _as_view(out)
    set_history(out, node, number)
    if out._base is not None:
        made_by = "MULTI_OUTPUT_NODE" if one_of_several else "CUSTOM_FUNCTION"
        out._autograd().creation_meta = made_by
    return out


def _among(out: object, tensors: Sequence[object]) -> bool:
    for t in tensors:
        if t is out:
            return True
    return False


def _as_view(t: Tensor) -> Tensor:
    """A view of all of a tensor, of its class."""
    view = _as_alias(t)
    make_view(view, t)
    return view


def _as_alias(t: Tensor) -> Tensor:
    """The same memory outside autograd, as a tensor of the same class."""
    made = alias(t)
    if made.__class__ is Tensor and t.__class__ is not Tensor and not t._is_param:
        return cast(Tensor, of_class(made, t.__class__))
    return made


def is_floating(t: Tensor) -> bool:
    return t.meta.dtype.is_floating_point or t.meta.dtype.is_complex
