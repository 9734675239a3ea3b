"""`backward` and `grad`: the checks at the door of the engine, and tensor hooks."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from maquette.autograd.engine import check_layout, run_backward
from maquette.autograd.grad_mode import set_grad_enabled
from maquette.autograd.gradient_edges import EdgeToken, GradientEdge
from maquette.autograd.hooks import NodeHooks, RemovableHandle, TensorHook
from maquette.autograd.node import AccumulateGrad, Edge, Grad, Nowhere, grad_edge, hooks_of
from maquette.core.layout import preserve_format
from maquette.core.warned import warn_once
from maquette.dispatch import keysets as K
from maquette.dispatch.registry import ops
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import overridable
from maquette.tensor.tensor import Tensor

Place = Tensor | GradientEdge
Tensors = Place | Sequence[Place]


def _listed(value: Tensors | None) -> list[Place]:
    if value is None:
        return []
    return [value] if isinstance(value, (Tensor, GradientEdge)) else list(value)


def _start(
    outputs: list[Place], grads: Sequence[Grad] | Tensor | None, create_graph: bool
) -> tuple[list[Edge], list[Grad]]:
    """Edges and gradients to start from, each checked against its output."""
    given: list[Grad]
    if grads is None:
        given = [None] * len(outputs)
    else:
        given = [grads] if isinstance(grads, Tensor) else list(grads)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    edges: list[Edge] = []
    starts: list[Grad] = []
    for i, (out, grad) in enumerate(zip(outputs, given, strict=True)):
        if isinstance(out, GradientEdge):
            edges.append((out.node, out.output_nr))
            starts.append(_start_of_edge(out, grad, i, create_graph))
            continue
        edge = grad_edge(out)
        if edge is None:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        edges.append(edge)
        starts.append(_start_gradient(out, grad, i, create_graph))
    return edges, starts


def _start_of_edge(edge: GradientEdge, grad: Grad, i: int, create_graph: bool) -> Tensor:
    token = edge.ownership_token
    if isinstance(token, EdgeToken):
        return _start_gradient(token, grad, i, create_graph)
    if grad is None:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs; of an edge that get_gradient_"
            "edge did not give the shape is not known: pass its gradient"
        )
    return grad


def _start_gradient(out: Tensor | EdgeToken, grad: Grad, i: int, create_graph: bool) -> Tensor:
    if grad is not None:
        if grad.meta.shape != out.meta.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {grad.shape} and output[{i}] "
                f"has a shape of {out.shape}."
            )
        if grad.meta.layout is not out.meta.layout:
            check_layout(grad, out.meta, "The backward was given an", i)
        if out.meta.dtype.is_complex is not grad.meta.dtype.is_complex:
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same "
                f"dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {grad.dtype} and "
                f"output[{i}] has a dtype of {out.dtype}."
            )
        if grad.meta.dtype is not out.meta.dtype:
            with set_grad_enabled(create_graph):
                grad = grad.to(out.meta.dtype)
        return grad
    if out.meta.numel != 1:
        raise RuntimeError(
            f"grad can be implicitly created only for scalar outputs; output {i} has shape "
            f"{list(out.meta.shape)}"
        )
    if not out.meta.dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
        )
    if isinstance(out, EdgeToken):
        return ops.aten.ones.default(out.meta.shape, dtype=out.meta.dtype, device=out.meta.device)
    ones: Tensor = ops.aten.ones_like.default(out, pin_memory=False, memory_format=preserve_format)
    return ones


@overridable
def backward(
    tensors: Tensors,
    grad_tensors: Sequence[Grad] | Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Sequence[Grad] | Tensor | None = None,
    inputs: Tensors | None = None,
) -> None:
    """Add to the ``.grad`` of all leaves (or of ``inputs``) the gradients of ``tensors``.

    grad_variables: ``grad_tensors`` by its former name.
    """
    if grad_variables is not None:
        warnings.warn("`grad_variables` is now grad_tensors", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("backward() takes grad_tensors or grad_variables, not both")
        grad_tensors = grad_variables
    if tls.st.transforms and tls.st.transforms[-1].explicit:  # type: ignore[attr-defined]  # an interpreter
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    if tls.st.transforms:  # forward mode by hand: reverse mode is that of the primals
        with PRIMALS[0](tensors, grad_tensors, inputs) as (tensors, grad_tensors, inputs):
            return backward(tensors, grad_tensors, retain_graph, create_graph, inputs=inputs)
    edges, grads = _start(_listed(tensors), grad_tensors, create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        warn_once(_CYCLE)
    if inputs is None:
        run_backward(edges, grads, retain_graph=keep, create_graph=create_graph)
        return
    targets = _listed(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `backward` cannot be empty.")
    wanted = [_edge_of_input(t, i) for i, t in enumerate(targets)]
    found = run_backward(edges, grads, retain_graph=keep, create_graph=create_graph, wanted=wanted)
    for t, (node, _), g in zip(targets, wanted, found, strict=True):
        # Leaves have got theirs from the engine.
        if g is not None and isinstance(t, Tensor) and node.__class__ is not AccumulateGrad:
            ag = t._autograd()
            ag.grad = g if ag.grad is None else ag.grad + g


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can cause a memory leak. We recommend using autograd.grad when "
    "creating the graph to avoid this. If you have to use this function, make sure to reset the "
    ".grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def _edge_of_input(t: Place, i: int) -> Edge:
    if isinstance(t, GradientEdge):
        return t.node, t.output_nr
    edge = grad_edge(t)
    if edge is None and t.requires_grad:
        return Nowhere(), 0  # only its base, a leaf, requires grad: no gradient comes
    if edge is None:
        raise RuntimeError(
            f"One of the differentiated Tensors does not require grad (input {i}, {t.meta})"
        )
    return edge


PRIMALS: list[Callable[..., AbstractContextManager[tuple[Any, ...]]]] = []
DUAL_GRAD: list[Callable[..., tuple[Grad, ...]]] = []
"""`backward` and `grad` inside of a dual level, which is a layer above: `transforms.forward_ad`."""


def _as_tuples(*given: object) -> list[object]:
    """Outputs and inputs as handlers of ``__torch_function__`` get them: tuples, also of one."""
    alone = (Tensor, GradientEdge)
    return [
        tuple(g) if isinstance(g, Sequence) and not isinstance(g, alone) else (g,) for g in given
    ]


@partial(overridable, arranged=_as_tuples)
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Sequence[Grad] | Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Grad, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``; no ``.grad`` changes.

    only_inputs: True, as it always is by now; False warns. Raises RuntimeError for an input that
    the outputs do not depend on, unless ``allow_unused`` (then None) or ``materialize_grads`` (then
    zeros). is_grads_batched: each of ``grad_outputs`` has one more dimension, the first, and so
    have the gradients; all rows are computed at once, under `vmap`.
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs=False does nothing: grad() never adds to .grad of other leaves; use "
            "backward() for that",
            FutureWarning,
            stacklevel=2,
        )
    if tls.st.transforms and not tls.st.transforms[-1].explicit:  # type: ignore[attr-defined]  # an interpreter
        return DUAL_GRAD[0](
            outputs,
            inputs,
            grad_outputs,
            retain_graph,
            create_graph,
            allow_unused,
            is_grads_batched,
            materialize_grads,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    targets = _listed(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        found = list(_by_rows(_listed(outputs), targets, grad_outputs, keep, create_graph))
    else:
        edges, grads = _start(_listed(outputs), grad_outputs, create_graph)
        wanted = [_edge_of_input(t, i) for i, t in enumerate(targets)]
        found = run_backward(
            edges,
            grads,
            retain_graph=keep,
            create_graph=create_graph,
            wanted=wanted,
            accumulate=False,
        )
    for i, (t, g) in enumerate(zip(targets, found, strict=True)):
        if g is not None:
            continue
        if materialize_grads and isinstance(t, GradientEdge):
            raise RuntimeError(
                "materialize_grads cannot be used when the given input is a GradientEdge, whose "
                "shape is not known, and no gradient comes there; pass the tensor itself"
            )
        if materialize_grads and isinstance(t, Tensor):
            zeros: Tensor = t.new_zeros(t.meta.shape)
            found[i] = zeros.requires_grad_() if create_graph else zeros
        elif not (allow_unused or materialize_grads):
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the "
                f"graph. Set allow_unused=True if this is the desired behavior."
            )
    return tuple(found)


VMAPPED: list[Callable[[Callable[..., object], Sequence[Tensor]], Sequence[Grad]]] = []
"""Runs a function of rows on all of them at once; what is above puts `vmap` here."""


def _by_rows(
    outputs: list[Place],
    inputs: list[Place],
    grad_outputs: Sequence[Grad] | Tensor | None,
    retain_graph: bool,
    create_graph: bool,
) -> Sequence[Grad]:
    """Gradients for all rows of ``grad_outputs`` at once, stacked."""
    given = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or ())
    starts = [g for g in given if g is not None]
    if len(starts) != len(outputs):
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    batch = {g.meta.shape[:1] for g in starts}
    if len(batch) != 1 or () in batch:
        raise RuntimeError(
            "is_grads_batched: each of grad_outputs needs a first dimension, of one size; got "
            f"{[list(g.shape) for g in starts]}"
        )
    for i, (g, out) in enumerate(zip(starts, outputs)):
        if isinstance(out, Tensor) and g.meta.shape[1:] != out.meta.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                f"match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of "
                f"{out.shape}."
            )

    def row(*start: Tensor) -> object:
        return grad(outputs, inputs, start, retain_graph, create_graph, allow_unused=True)

    return VMAPPED[0](row, starts)


@overridable
def register_hook(self: Tensor, hook: TensorHook) -> RemovableHandle:
    """Call ``hook`` with this tensor's gradient when it is known; it may return another.

    The hook belongs to the value that the tensor has now: a later write leaves it there.
    """
    edge = grad_edge(self)
    if edge is None:
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return RemovableHandle(NodeHooks())  # only its base requires grad: no gradient comes
    node, number = edge
    if node.__class__ is AccumulateGrad:  # which lives no longer than who refers to it
        self._autograd().hooked = node
    hooks = hooks_of(node)
    return hooks.add(hooks.tensor, (number, hook))


@overridable
def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call ``hook`` with this leaf after its ``.grad`` has been added to."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not self.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    ag = self._autograd()
    if ag.post_accumulate_hooks is None:
        ag.post_accumulate_hooks = OrderedDict()  # to which handles refer weakly
    handle = RemovableHandle(ag.post_accumulate_hooks)
    ag.post_accumulate_hooks[handle.id] = hook
    return handle


@overridable
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf in ``.grad`` too."""
    if tls.st.transforms and tls.st.transforms[-1].explicit:  # type: ignore[attr-defined]  # an interpreter
        raise RuntimeError(
            "You are attempting to call Tensor.retain_grad() inside of a function being "
            "transformed by a functorch transform. This is unsupported, please attempt to use the "
            "functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call retain_grad() "
            "outside of a function being transformed instead."
        )
    if not self._keys & K.REQUIRES_GRAD:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    known = self._ag
    if known is None or known.grad_fn is None or known.retains:
        return
    tensor = weakref.ref(self)

    def keep(grad: Tensor) -> None:
        t = tensor()
        if t is not None:
            t._autograd().grad = grad.clone() if t.grad is None else t.grad + grad

    ag = self._autograd()
    assert ag.grad_fn is not None
    hooks_of(ag.grad_fn).retained[ag.output_nr] = keep
    ag.retains = True


@overridable
def _tensor_backward(
    self: Tensor,
    gradient: Grad = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Gradients of this tensor, added to the ``.grad`` of the leaves it came from."""
    given = None if gradient is None else [gradient]
    backward(self, given, retain_graph, create_graph, inputs=inputs)


for _name, _method in (
    ("backward", _tensor_backward),
    ("register_hook", register_hook),
    ("register_post_accumulate_grad_hook", register_post_accumulate_grad_hook),
    ("retain_grad", retain_grad),
):
    _method.__name__ = _name  # as handlers of __torch_function__ see it
    setattr(Tensor, _name, _method)
