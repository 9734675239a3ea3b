"""Random programs on tensors: what they are, and how one is run on PyTorch or on maquette.

A program is plain data (JSON): inputs, steps, an end. It is run with either torch passed in, so
nothing here imports one. A step that fails is noted and the program goes on; a step whose operands
are missing is left out. What was seen on the way (`Run.seen`) is plain data too, for comparing.
How programs are made, compared and made smaller is `tools/random_programs.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

Torch = Any  # the module: PyTorch's or maquette's
Tensor = Any
Program = dict[str, Any]
Parameters = list[int]


class LeftOut(Exception):
    """The step means nothing for its operand: an operand is missing or of the wrong kind."""


def need(condition: object) -> None:
    """Leave the step out unless the condition holds."""
    if not condition:
        raise LeftOut


def values(shape: list[int], seed: int, dtype: str) -> list[Any]:
    """Nested lists of small numbers, none of them 0."""
    state = seed * 7919 + 1

    def one() -> Any:
        nonlocal state
        state = (state * 1103515245 + 12345) % 2**31
        number = (state // 65536 % 15 - 7) / 4 or 0.5
        if dtype.startswith("int"):
            return int(number * 4)
        if dtype == "bool":
            return number > 0
        if dtype.startswith("complex"):
            state = (state * 1103515245 + 12345) % 2**31
            return complex(number, (state // 65536 % 13 - 6) / 4 or -0.75)
        return number

    def fill(sizes: list[int]) -> Any:
        return [fill(sizes[1:]) for _ in range(sizes[0])] if sizes else one()

    filled: list[Any] = fill(shape)
    return filled


# --- parameters ------------------------------------------------------------------------


def dim_of(x: Tensor, p: int) -> int:
    """A dimension of ``x``, as a parameter chooses it."""
    need(x.dim())
    return p % x.dim()


def index_of(x: Tensor, dim: int, p: int) -> int:
    """An index into a dimension."""
    need(x.shape[dim])
    return p % x.shape[dim]


def mask_of(torch: Torch, x: Tensor, p: int) -> Tensor:
    """A mask of the shape of ``x`` with about half of the elements."""
    return (torch.arange(x.numel()).reshape(x.shape) + p) % 3 != 0


def rows_of(torch: Torch, x: Tensor, p: int) -> Tensor:
    """Indices of some rows of ``x``, each once."""
    need(x.dim() and x.shape[0])
    return torch.arange(p % x.shape[0], x.shape[0])


def constant(x: Tensor, p: int) -> Any:
    """A number that fits the dtype of ``x``."""
    number = (p % 7 - 3) or 2
    return number if not (x.is_floating_point() or x.is_complex()) else number / 2


def is_real(x: Tensor) -> bool:
    """Whether ``x`` holds real floats."""
    return bool(x.is_floating_point())


# --- operations --------------------------------------------------------------------------
# Each is called with (torch, tensor, other tensor, parameters) and gives what the step makes.

Operation = Callable[[Torch, Tensor, Tensor, Parameters], Any]
OUT_OF_PLACE: dict[str, Operation] = {
    "mul_number": lambda T, x, y, p: x * constant(x, p[0]),
    "add_number": lambda T, x, y, p: x + constant(x, p[0]),
    "mul": lambda T, x, y, p: x * y,
    "add": lambda T, x, y, p: x + y,
    "sub": lambda T, x, y, p: x - y,
    "sin": lambda T, x, y, p: x.sin(),
    "tanh": lambda T, x, y, p: x.tanh(),
    "neg": lambda T, x, y, p: -x,
    "abs": lambda T, x, y, p: x.abs(),
    "angle": lambda T, x, y, p: x.angle(),
    "clone": lambda T, x, y, p: x.clone(),
    "detach": lambda T, x, y, p: x.detach(),
    "data": lambda T, x, y, p: (need(not x.is_inference()), x.data)[1],
    "sum": lambda T, x, y, p: x.sum(),
    "sum_dim": lambda T, x, y, p: x.sum(dim_of(x, p[0])),
    # PyTorch's gradients have the wrong dtype where the dtypes differ.
    "where": lambda T, x, y, p: (
        need(x.dtype == y.dtype),
        T.where(mask_of(T, x, p[0]), x, y),
    )[1],
    "masked_fill": lambda T, x, y, p: x.masked_fill(mask_of(T, x, p[0]), constant(x, p[1])),
    "take_mask": lambda T, x, y, p: x[mask_of(T, x, p[0])],
    "take_rows": lambda T, x, y, p: x[rows_of(T, x, p[0])],
    "cat": lambda T, x, y, p: T.cat([x, y], dim_of(x, p[0])),
    "stack": lambda T, x, y, p: T.stack([x, y]),
    "resolve_conj": lambda T, x, y, p: x.resolve_conj(),
    "resolve_neg": lambda T, x, y, p: x.resolve_neg(),
    "contiguous": lambda T, x, y, p: x.contiguous(),
    "to_same": lambda T, x, y, p: x.to(x.dtype),
    "to_float": lambda T, x, y, p: x.to(T.float32),
    "zeros_like": lambda T, x, y, p: T.zeros_like(x),
    "ones_grad": lambda T, x, y, p: T.ones_like(
        x,
        requires_grad=not (p[0] % 2 or T.is_inference_mode_enabled() or type(x) is not T.Tensor),
    ),
    "matmul": lambda T, x, y, p: x @ y,
    "pow": lambda T, x, y, p: x**2,
    # Of a copy, and copied: how `.data` that is mutated enters, is how the formula is written.
    "prod": lambda T, x, y, p: x.clone().prod() * 1,
    "relu": lambda T, x, y, p: (need(not x.is_complex()), x.relu())[1],
    "index_select": lambda T, x, y, p: x.index_select(0, rows_of(T, x, p[0])),
    "flip": lambda T, x, y, p: x.flip(0),
    "roll": lambda T, x, y, p: x.roll(1, 0),
    "addcmul": lambda T, x, y, p: T.addcmul(x, y, y),
    "mean": lambda T, x, y, p: x.mean(),
    "to_wide": lambda T, x, y, p: (need(not x.is_complex()), x.to(T.complex128))[1],
}
VIEWS: dict[str, Operation] = {
    "whole": lambda T, x, y, p: x[...],
    "colon": lambda T, x, y, p: x[:],
    "select": lambda T, x, y, p: x.select(dim_of(x, p[0]), index_of(x, dim_of(x, p[0]), p[1])),
    "item": lambda T, x, y, p: x[index_of(x, dim_of(x, 0), p[0])],
    "part": lambda T, x, y, p: x[p[0] % 2 : 2 + p[1] % 3],
    "every_other": lambda T, x, y, p: x[..., :: 1 + p[0] % 2],
    "narrow": lambda T, x, y, p: x.narrow(
        dim_of(x, p[0]), 0, 1 + index_of(x, dim_of(x, p[0]), p[1])
    ),
    "flat": lambda T, x, y, p: x.view(-1),
    "reshape": lambda T, x, y, p: x.reshape(-1),
    "flatten": lambda T, x, y, p: x.flatten(),
    "t": lambda T, x, y, p: x.t(),
    "transpose": lambda T, x, y, p: x.transpose(dim_of(x, p[0]), dim_of(x, p[1])),
    "reverse": lambda T, x, y, p: x.permute(*reversed(range(x.dim()))),
    "unsqueeze": lambda T, x, y, p: x.unsqueeze(p[0] % (x.dim() + 1)),
    "squeeze": lambda T, x, y, p: x.squeeze(),
    "squeeze_dim": lambda T, x, y, p: x.squeeze(dim_of(x, p[0])),
    "none": lambda T, x, y, p: x[None],
    "expand": lambda T, x, y, p: x.expand(2, *x.shape),
    "diagonal": lambda T, x, y, p: x.diagonal(),
    "unfold": lambda T, x, y, p: x.unfold(0, 2, 1),
    "as_strided": lambda T, x, y, p: x.as_strided((2, 2), (p[0] % 2 + 1, 1)),
    "as_strided_off": lambda T, x, y, p: x.as_strided((2,), (1,), p[0] % 3),
    "view_as": lambda T, x, y, p: x.view_as(x),
    "unbind": lambda T, x, y, p: x.unbind(dim_of(x, p[0])),
    "split": lambda T, x, y, p: x.split(1 + p[1] % 2, dim_of(x, p[0])),
    "chunk": lambda T, x, y, p: x.chunk(2, dim_of(x, p[0])),
    "iterate": lambda T, x, y, p: list(x) if x.dim() else need(None),
    "movedim": lambda T, x, y, p: x.movedim(dim_of(x, p[0]), dim_of(x, p[1])),
    "unflatten": lambda T, x, y, p: x.unflatten(dim_of(x, p[0]), (-1, 1)),
    "expand_as": lambda T, x, y, p: x.expand_as(y),
    "tensor_split": lambda T, x, y, p: x.tensor_split(2, dim_of(x, p[0])),
}
KINDS: dict[str, Operation] = {
    "view_as_real": lambda T, x, y, p: (need(x.is_complex()), T.view_as_real(x))[1],
    "view_as_complex": lambda T, x, y, p: (
        need(is_real(x) and x.dim() and x.shape[-1] == 2),
        T.view_as_complex(x),
    )[1],
    "real": lambda T, x, y, p: x.real,
    "imag": lambda T, x, y, p: (need(x.is_complex()), x.imag)[1],
    "conj": lambda T, x, y, p: x.conj(),
    "neg_view": lambda T, x, y, p: T._neg_view(x),
    # PyTorch gives inference tensors here, and views of what is none elsewhere.
    "view_dtype": lambda T, x, y, p: (
        need(x.is_floating_point() or x.is_complex()),
        need(not T.is_inference_mode_enabled() and not x.is_inference()),
        x.view(T.float64 if x.itemsize == 16 else T.complex128),
    )[1],
    "mH": lambda T, x, y, p: (need(x.dim() == 2), x.mH)[1],
}


def _set(x: Tensor, index: Any, value: Any) -> None:
    # PyTorch's gradient of a real value is complex, which it then refuses.
    need(not hasattr(value, "is_complex") or value.is_complex() == x.is_complex())
    x[index] = value


INPLACE: dict[str, Operation] = {
    "add_": lambda T, x, y, p: x.add_(y),
    "sub_": lambda T, x, y, p: x.sub_(y, alpha=2),
    "mul_": lambda T, x, y, p: x.mul_(y),
    "add_number_": lambda T, x, y, p: x.add_(constant(x, p[0])),
    "mul_number_": lambda T, x, y, p: x.mul_(constant(x, p[0])),
    "div_number_": lambda T, x, y, p: x.div_(2),
    "iadd": lambda T, x, y, p: x.__iadd__(y),
    "sin_": lambda T, x, y, p: x.sin_(),
    "tanh_": lambda T, x, y, p: x.tanh_(),
    "neg_": lambda T, x, y, p: x.neg_(),
    "square_": lambda T, x, y, p: x.square_(),
    "clamp_": lambda T, x, y, p: (need(not x.is_complex()), x.clamp_(-1, 1))[1],
    "conj_physical_": lambda T, x, y, p: x.conj_physical_(),
    "addcmul_": lambda T, x, y, p: x.addcmul_(y, y, value=2),
    "lerp_": lambda T, x, y, p: x.lerp_(y, 0.5),
    "zero_": lambda T, x, y, p: x.zero_(),
    "fill_": lambda T, x, y, p: x.fill_(constant(x, p[0])),
    # PyTorch has integers require grad here.
    "fill_tensor_": lambda T, x, y, p: (need(x.dtype == y.dtype), x.fill_(y.sum()))[1],
    "copy_": lambda T, x, y, p: x.copy_(y),
    "copy_constant_": lambda T, x, y, p: x.copy_(T.ones(1)),
    "random_": lambda T, x, y, p: (need(x.numel()), x.random_(3, 4))[1],
    "bernoulli_": lambda T, x, y, p: (need(x.numel()), x.bernoulli_(1.0))[1],
    "uniform_": lambda T, x, y, p: (need(x.numel()), x.uniform_(2, 2))[1],
    "normal_": lambda T, x, y, p: (need(x.numel()), x.normal_(1, 0))[1],
    "set_item": lambda T, x, y, p: _set(x, index_of(x, dim_of(x, 0), p[0]), constant(x, p[1])),
    "set_part": lambda T, x, y, p: _set(x, slice(p[0] % 2, 2), y),
    "set_whole": lambda T, x, y, p: _set(x, ..., y),
    "set_whole_number": lambda T, x, y, p: _set(x, ..., constant(x, p[0])),
    "set_colon_number": lambda T, x, y, p: _set(x, slice(None), constant(x, p[0])),
    "set_mask": lambda T, x, y, p: _set(x, mask_of(T, x, p[0]), constant(x, p[1])),
    "set_rows": lambda T, x, y, p: _set(x, rows_of(T, x, p[0]), y),
    "masked_fill_": lambda T, x, y, p: x.masked_fill_(mask_of(T, x, p[0]), constant(x, p[1])),
    "masked_fill_tensor_": lambda T, x, y, p: (
        need(x.dtype == y.dtype),
        x.masked_fill_(mask_of(T, x, p[0]), y.sum()),
    )[1],
    "masked_scatter_": lambda T, x, y, p: (
        need(x.numel() <= y.numel()),  # else PyTorch refuses when it has written
        x.masked_scatter_(mask_of(T, x, p[0]), y.clone()),
    )[1],
    "index_put_": lambda T, x, y, p: x.index_put_((rows_of(T, x, p[0]),), y),
    "index_put_add_": lambda T, x, y, p: x.index_put_(
        (rows_of(T, x, p[0]),), y.sum().to(x.dtype), accumulate=True
    ),
    "index_fill_": lambda T, x, y, p: x.index_fill_(0, rows_of(T, x, p[0]), constant(x, p[1])),
    # A copy, for PyTorch saves what it needs the sizes of only.
    "index_copy_": lambda T, x, y, p: x.index_copy_(0, rows_of(T, x, 0), y.clone()),
    "index_add_": lambda T, x, y, p: x.index_add_(0, rows_of(T, x, 0), y.clone()),
    "tril_": lambda T, x, y, p: x.tril_(),
    "cumsum_": lambda T, x, y, p: x.cumsum_(dim_of(x, p[0])),
    "relu_": lambda T, x, y, p: (need(not x.is_complex()), x.relu_())[1],
    "exp_": lambda T, x, y, p: x.mul_(0.25).exp_(),
    "pow_": lambda T, x, y, p: x.pow_(2),
    "swap_halves": lambda T, x, y, p: x.copy_(x.flip(0)),
    "copy_part": lambda T, x, y, p: x[: 1 + p[0] % 2].copy_(y),
    "add_part_of_part": lambda T, x, y, p: x[:2][..., :1].add_(y.sum().to(x.dtype)),
    "out_sum": lambda T, x, y, p: (
        need(y.dim() and x.shape == y.shape[1:] and x.dtype == y.dtype),
        T.sum(y, 0, out=x),
    )[1],
    "out_neg_part": lambda T, x, y, p: (
        need(x.dim() and x[0].shape == y.shape),
        T.neg(y, out=x[0]),
    )[1],
    "out_add": lambda T, x, y, p: (need(x.shape == y.shape), T.add(y, 1, out=x))[1],
    "out_sin": lambda T, x, y, p: (need(x.shape == y.shape), T.sin(y, out=x))[1],
    "out_mul": lambda T, x, y, p: (need(x.shape == y.shape), T.mul(y, y, out=x))[1],
}
METADATA: dict[str, Operation] = {
    "t_": lambda T, x, y, p: x.t_(),
    "transpose_": lambda T, x, y, p: x.transpose_(dim_of(x, p[0]), dim_of(x, p[1])),
    "unsqueeze_": lambda T, x, y, p: x.unsqueeze_(p[0] % (x.dim() + 1)),
    "squeeze_": lambda T, x, y, p: x.squeeze_(),
    "squeeze_dim_": lambda T, x, y, p: x.squeeze_(dim_of(x, p[0])),
    "as_strided_": lambda T, x, y, p: x.as_strided_((2,), (1,)),
    "detach_": lambda T, x, y, p: x.detach_(),
    "requires_grad_": lambda T, x, y, p: x.requires_grad_(),
    # Not of a view made in no_grad whose base is mutated later: it says that it does, then refuses.
    "requires_no_grad_": lambda T, x, y, p: (
        need(x._base is None or not x._base.requires_grad),
        x.requires_grad_(False),
    )[1],
    "set_data": lambda T, x, y, p: (
        need(x.shape == y.shape and x.dtype == y.dtype and not T.is_inference_mode_enabled()),
        setattr(x, "data", y.detach() * 1),
    )[1],
    "resize_same_": lambda T, x, y, p: x.resize_(x.shape),
    "set_grad_none": lambda T, x, y, p: setattr(x, "grad", None),
}
SHAPED_IN_PLACE = ("t_", "transpose_", "unsqueeze_", "squeeze_", "squeeze_dim_", "as_strided_")
OPERATIONS = OUT_OF_PLACE | VIEWS | KINDS | INPLACE | METADATA
# What is asked of a run, not of a tensor alone: `Run` has a method for each.
ACTIONS = (
    "hook",
    "hook_none",
    "unhook",
    "retain_grad",
    "post_hook",
    "grad",
    "subclass",
    "backward",
    "double",
    "prehook",
    "function",
    "function_dirty",
    "function_view",
    "function_two",
    "packed",
)
COMPUTING = ("function", "function_dirty", "function_two", "function_view", "packed")


def is_other_kind(view: Tensor) -> bool:
    """Whether a view is of another dtype than its base, or of another sign."""
    return view._base is not None and (
        view.dtype is not view._base.dtype or view.is_neg() or view.is_conj()
    )


def is_orphan(x: Tensor) -> bool:
    """Whether a view requires grad and its base, a leaf, does not any more."""
    return x._base is not None and x.requires_grad and not x._base.requires_grad


class Run:
    """One program's run: its tensors by name, and what was seen."""

    def __init__(self, torch: Torch, program: Program) -> None:
        self.torch = torch
        self.program = program
        self.tensors: dict[str, Tensor] = {}
        self.handles: list[Any] = []
        self.hooked: list[Any] = []
        self.seen: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        """Run the program; what was seen, by the name of the step."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number, given in enumerate(self.program["inputs"]):
                self.tensors[f"i{number}"] = self.input(number, given)
            for number, step in enumerate(self.program["steps"]):
                self.step(step.get("name", f"s{number}"), step)
            self.end()
        return self.seen

    def input(self, number: int, given: dict[str, Any]) -> Tensor:
        torch, kind = self.torch, given["dtype"]
        x = torch.tensor(values(given["shape"], number + 1, kind), dtype=getattr(torch, kind))
        if given.get("flip") and x.dim() == 2 and x.shape[0] > 1:
            x = x.t().contiguous().t()
        return x.requires_grad_() if given.get("requires_grad") else x

    def step(self, name: str, step: dict[str, Any]) -> None:
        """Do a step and note its outcome."""
        try:
            x = self.tensors.get(step["on"])
            y = self.tensors.get(step.get("with", step["on"]))
            need(x is not None and y is not None)
            with self.mode(step.get("mode", "")):
                if step["op"] in INPLACE or step["op"] in METADATA:
                    self.check_mutation(x, y)
                if step["op"] in KINDS:
                    # PyTorch refuses to ask for the node of these, once such a leaf is mutated.
                    need(not is_orphan(x))
                need(not any(is_orphan(t) and is_other_kind(t) for t in (x, y)))
                computes = step["op"] in OUT_OF_PLACE or step["op"] in COMPUTING
                if computes and (x.is_inference() or y.is_inference()):
                    need(
                        self.torch.is_inference_mode_enabled()
                    )  # else PyTorch counts its own writes
                # PyTorch's nodes know the old sizes of what changes without being recorded.
                need(step["op"] not in METADATA or self.torch.is_grad_enabled())
                need(step["op"] not in SHAPED_IN_PLACE or not self.has_other_views(x))
                if step["op"] in OPERATIONS:
                    made = OPERATIONS[step["op"]](self.torch, x, y, step["p"])
                else:
                    made = getattr(self, step["op"])(name, x, y, step["p"])
        except LeftOut:
            return
        except Exception as error:  # any refusal is an outcome
            self.seen[name] = {"refused": True, "words": f"{type(error).__name__}: {error}"[:200]}
            return
        self.keep(name, made)
        if self.program.get("watch"):
            self.seen[name] = self.look_at_all()

    def has_other_views(self, x: Tensor) -> bool:
        """Whether ``x`` has views of another dtype or sign.

        PyTorch gives them gradients of the shape that ``x`` has later: refused, or turned.
        """
        return any(t._base is x and is_other_kind(t) for t in self.tensors.values())

    def check_mutation(self, x: Tensor, y: Tensor) -> None:
        """Leave out mutations that are no reference, for PyTorch has no one rule for them."""
        # It mutates an inference tensor first, and refuses then.
        need(not x.is_inference() or self.torch.is_inference_mode_enabled())
        # Integers require gradients there, if some operators fill them with floats that do.
        need(x.is_floating_point() or x.is_complex() or not y.requires_grad)
        # It mutates elements that are one as they come, and refuses some.
        need(not may_overlap(x))
        # It copies what has a bit, so memory that is read and mutated is found for some only;
        # and the outcome depends on the order where the two do not lie alike.
        if x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr():
            need(not (x.is_conj() or x.is_neg() or y.is_conj() or y.is_neg()))
            need(x.shape == y.shape and x.stride() == y.stride())
            need(x.storage_offset() == y.storage_offset() and x.dtype == y.dtype)

    def keep(self, name: str, made: Any) -> None:
        if isinstance(made, self.torch.Tensor):
            self.tensors[name] = made
        elif isinstance(made, (tuple, list)):
            for k, each in enumerate(made):
                if isinstance(each, self.torch.Tensor):
                    self.tensors[f"{name}.{k}"] = each

    def mode(self, name: str) -> Any:
        torch = self.torch
        if name == "inference":
            return torch.inference_mode()
        return nullcontext() if not name else getattr(torch, name)()

    # --- actions -----------------------------------------------------------------------

    def hook(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        def double(grad: Tensor) -> Tensor:
            self.hooked.append([name, numbers(grad)])
            return grad * 2

        self.handles.append(x.register_hook(double))

    def hook_none(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        self.handles.append(x.register_hook(lambda g: self.hooked.append([name, numbers(g)])))

    def post_hook(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        x.register_post_accumulate_grad_hook(lambda t: self.hooked.append([name, numbers(t.grad)]))

    def unhook(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        need(self.handles)
        self.handles.pop(p[0] % len(self.handles)).remove()

    def retain_grad(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        x.retain_grad()

    def subclass(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Tensor:
        return x.as_subclass(subclass_of(self.torch))

    def grad(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Any:
        found = self.torch.autograd.grad(
            squares(x), y, create_graph=p[0] % 2 == 0, retain_graph=True, allow_unused=True
        )
        return list(found)

    def double(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Any:
        grad = self.torch.autograd.grad
        (first,) = grad(squares(x), y, create_graph=True)
        return list(grad(squares(first), y, retain_graph=True, allow_unused=True))

    def prehook(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        need(x.grad_fn is not None)

        def triple(grads: Any) -> Any:
            self.hooked.append([name, [numbers(g) for g in grads]])
            return tuple(None if g is None else g * 3 for g in grads)

        self.handles.append(x.grad_fn.register_prehook(triple))

    def function(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Tensor:
        return functions_of(self.torch)["Product"].apply(x, y)

    def function_dirty(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Tensor:
        self.check_mutation(x, x)
        return functions_of(self.torch)["Tripled"].apply(x)

    def function_view(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Tensor:
        return functions_of(self.torch)["View"].apply(x)

    def function_two(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Any:
        return functions_of(self.torch)["Two"].apply(x)

    def packed(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> Tensor:
        hooks = self.torch.autograd.graph.saved_tensors_hooks
        with hooks(lambda t: t.clone() * 2, lambda t: t / 2):
            return x * y + x.sin()

    def backward(self, name: str, x: Tensor, y: Tensor, p: Parameters) -> None:
        squares(x).backward(retain_graph=p[0] % 3 != 0)

    # --- the end -------------------------------------------------------------------------

    def end(self) -> None:
        """Look at every tensor, run backward through the squares of all, look at gradients."""
        self.seen["all"] = self.look_at_all()
        total: Any = None
        for name, t in self.tensors.items():
            try:
                if t.requires_grad and (t.is_floating_point() or t.is_complex()):
                    term = squares(t)
                    total = term if total is None else total + term
            except Exception:
                self.seen[f"square of {name}"] = {"refused": True}
        if total is not None:
            try:
                total.backward(create_graph=bool(self.program.get("create_graph")))
            except Exception as error:
                self.seen["backward"] = {"refused": True, "words": str(error)[:200]}
            self.seen["loss"] = numbers(total)
        self.seen["hooks"] = self.hooked
        self.seen["grads"] = {name: self.gradient(t) for name, t in self.tensors.items()}

    def gradient(self, t: Tensor) -> Any:
        try:
            return None if t.grad is None else [numbers(t.grad), t.grad.requires_grad]
        except Exception:
            return {"refused": True}

    def look_at_all(self) -> dict[str, Any]:
        """What may be asked of each tensor, aliasing included."""
        storages: dict[int, int] = {}
        names = {id(t): name for name, t in reversed(self.tensors.items())}
        return {name: self.look(t, names, storages) for name, t in self.tensors.items()}

    def look(self, t: Tensor, names: dict[int, str], storages: dict[int, int]) -> dict[str, Any]:
        pointer = t.untyped_storage().data_ptr()
        base = t._base
        found = {
            "dtype": str(t.dtype).rpartition(".")[2],
            "shape": list(t.shape),
            "strides": [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1],
            "offset": t.storage_offset(),
            "conj": [t.is_conj(), t.is_neg()],
            "requires_grad": t.requires_grad,
            "class": type(t).__name__,
            "is": names[id(t)],
            "storage": storages.setdefault(pointer, len(storages)),
            "base": None if base is None else names.get(id(base), "another"),
            "view": t._is_view(),
            "inference": t.is_inference(),
            "value": numbers(t),
        }
        for what, ask in ASKED.items():
            try:
                found[what] = ask(t)
            except Exception:
                found[what] = "refused"
        return found


ASKED: dict[str, Callable[[Tensor], Any]] = {
    "version": lambda t: t._version,
    "node": lambda t: None if t.grad_fn is None else t.grad_fn.name(),
    "leaf": lambda t: t.is_leaf,
    "output": lambda t: t.output_nr,
    "retains": lambda t: t.retains_grad,
}


def may_overlap(t: Tensor) -> bool:
    """Whether two elements may lie in one place."""
    reach = 0
    for step, n in sorted(zip(t.stride(), t.shape, strict=True)):
        if n != 1:
            if step <= reach:
                return True
            reach += step * (n - 1)
    return False


def squares(t: Tensor) -> Tensor:
    """The sum of the squared magnitudes."""
    return (t * t.conj()).real.sum() if t.is_complex() else (t * t).sum()


def numbers(t: Tensor) -> Any:
    """The elements as nested lists: complex numbers as pairs, no digits that rounding makes."""
    if t is None:
        return None
    return plain(t.detach().tolist())


def plain(value: Any) -> Any:
    """Numbers as JSON has them."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


_functions: dict[int, dict[str, Any]] = {}


def functions_of(torch: Torch) -> dict[str, Any]:
    """Functions with a derivative written by hand, by name."""
    known = _functions.get(id(torch))
    if known is not None:
        return known

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            a, b = ctx.saved_tensors
            wanted = ctx.needs_input_grad
            first = (grad * b.conj()).sum_to_size(a.shape) if wanted[0] else None
            return first, (grad * a.conj()).sum_to_size(b.shape) if wanted[1] else None

    class Tripled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor) -> Tensor:
            ctx.mark_dirty(a)
            return a.mul_(3)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 3

    class View(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor) -> Tensor:
            return a.view_as(a)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 1

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor) -> Any:
            fixed = a + 1
            ctx.mark_non_differentiable(fixed)
            ctx.set_materialize_grads(False)
            return a * 2, fixed, a.sum()

        @staticmethod
        def backward(ctx: Any, first: Tensor, _: Tensor, third: Tensor) -> Any:
            if first is None:
                return third
            return first * 2 if third is None else first * 2 + third

    known = {kind.__name__: kind for kind in (Product, Tripled, View, Two)}
    return _functions.setdefault(id(torch), known)


_subclasses: dict[int, type] = {}


def subclass_of(torch: Torch) -> type:
    """A subclass of the tensor class that adds nothing."""
    known = _subclasses.get(id(torch))
    if known is None:
        known = _subclasses[id(torch)] = type("Sub", (torch.Tensor,), {})
    return known
