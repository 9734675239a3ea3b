"""`torch.nn.utils.prune`: parameters with some of their entries held at zero.

A pruned parameter ``weight`` becomes ``weight_orig``, which is trained, beside a buffer
``weight_mask`` of zeros and ones; before each forward the module's hook, the pruning method, makes
``weight`` their product. Methods on one parameter are gathered in a `PruningContainer`: each next
one chooses among what the former left.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from maquette.api import functions as mq
from maquette.core.layout import contiguous_format
from maquette.nn.base import Module
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

M = TypeVar("M", bound=Module)
Amount = int | float


class BasePruningMethod(ABC):
    """What to prune, and the hook that keeps it so.

    A subclass defines `compute_mask` and ``PRUNING_TYPE``: ``unstructured`` chooses among entries,
    ``structured`` among slices along ``dim``, ``global`` as unstructured over several parameters.
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for scores ``t``: ``default_mask`` with more zeros, of the same shape."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter with its mask applied; AssertionError before the method has a name."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
        pruned: Tensor = mask.to(dtype=original.dtype) * original
        return pruned

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune the parameter ``name`` of a module; returns the hook that does it.

        args, kwargs: for the method's ``__init__``. importance_scores: of the parameter's shape, in
        place of its values. Raises ValueError for scores of another shape; if the mask cannot be
        computed the module is left as it was.
        """
        former = _method_of(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        if former is not None:
            key, hook = former
            module._mq_hook_table().remove(key)
            container = hook if isinstance(hook, PruningContainer) else PruningContainer(hook)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise ValueError(
                f"importance_scores should have the same shape as parameter {name} of {module}: "
                f"{tuple(original.shape)}, got {tuple(scores.shape)}"
            )
        if former is None:
            _set_aside(module, name, original)
        try:
            default = getattr(module, f"{name}_mask", None)
            if default is None:
                default = mq.ones_like(original)
            mask = method.compute_mask(scores, default_mask=default)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if former is None:
                _put_back(module, name)
            raise
        return method

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """``t`` pruned; no module is involved. Scores and mask are of its shape."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise ValueError(
                f"importance_scores should have the same shape as tensor t: {tuple(t.shape)}, got "
                f"{tuple(scores.shape)}"
            )
        default = mq.ones_like(t) if default_mask is None else default_mask
        pruned: Tensor = t * self.compute_mask(scores, default_mask=default)
        return pruned

    def remove(self, module: Module) -> None:
        """Make the pruned values a parameter again, for good; the hook stays, for the caller."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        values = self.apply_mask(module)
        original = getattr(module, f"{name}_orig")
        original.data = values.data
        _put_back(module, name)
        del module._buffers[f"{name}_mask"]


def _set_aside(module: Module, name: str, original: Parameter) -> None:
    module.register_parameter(f"{name}_orig", original)
    del module._parameters[name]


def _put_back(module: Module, name: str) -> None:
    if name in module.__dict__:
        delattr(module, name)
    original = module._parameters[f"{name}_orig"]
    del module._parameters[f"{name}_orig"]
    setattr(module, name, original)


def _method_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    """The method that prunes a parameter, and the id of its hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


class PruningContainer(BasePruningMethod):
    """Several methods, one after another; each sees what the former ones left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        methods = tuple(args[0]) if len(args) == 1 and isinstance(args[0], Iterable) else args
        if methods and len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
            return
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method; TypeError for anything else, ValueError for one of another parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        own = getattr(self, "_tensor_name", None)
        other = getattr(method, "_tensor_name", None)
        if method is not None and own is not None and own != other:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{own}' to PruningContainer {self}. Found '{other}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: Any) -> Any:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's mask, among what ``default_mask`` leaves, combined with it."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            kept: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = getattr(method, "dim", None)
            if dim is None:
                raise AttributeError(
                    "Need the attribute dim of the structured pruning method: along which "
                    "dimension its slices lie"
                )
            dim = dim % t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            alive = mask.sum(dim=others) != 0
            kept = (slice(None),) * dim + (alive,)
        elif method.PRUNING_TYPE == "global":
            kept = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        combined = mask.clone()
        combined[kept] = method.compute_mask(t[kept], default_mask=mask[kept]).to(mask.dtype)
        return combined


# --- the methods ---------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing, but gives the parameter its mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask``."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        """Give the parameter ``name`` a mask of ones."""
        return super().apply(module, name)


class RandomUnstructured(BasePruningMethod):
    """Prunes entries at random: ``amount`` of them, or that part."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros at random places."""
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            chosen = mq.topk(mq.rand_like(t).view(-1), k=count).indices
            mask.view(-1)[chosen] = 0
        return mask

    @classmethod
    def apply(cls, module: Module, name: str, amount: Amount) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter ``name`` so."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the entries of least magnitude: ``amount`` of them, or that part."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros where the scores are least."""
        count = _count(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=contiguous_format)
        if count:
            chosen = mq.topk(mq.abs(t).view(-1), k=count, largest=False).indices
            mask.view(-1)[chosen] = 0
        return mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Amount, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        """Prune the parameter ``name`` so."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prunes whole slices along ``dim`` at random: ``amount`` of them, or that part."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in slices at random."""
        return _sliced_mask(self, t, default_mask, lambda: mq.rand(t.shape[self.dim]))

    @classmethod
    def apply(cls, module: Module, name: str, amount: Amount, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter ``name`` so."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the slices along ``dim`` whose n-norm is least: ``amount`` of them, or that part."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, n: float | str, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Zeros in the slices of least norm."""
        return _sliced_mask(self, t, default_mask, lambda: _compute_norm(t, self.n, self.dim))

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: Amount,
        n: float | str,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """Prune the parameter ``name`` so."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


def _sliced_mask(method: Any, t: Tensor, default_mask: Tensor, scores: Any) -> Tensor:
    _validate_structured_pruning(t)
    dim = method.dim
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")
    size = t.shape[dim]
    count = _count(method.amount, size)
    if count == 0:
        return default_mask
    kept = mq.topk(scores(), k=size - count, largest=True).indices
    mask = mq.zeros_like(t)
    places: list[Any] = [slice(None)] * t.dim()
    places[dim] = kept
    mask[tuple(places)] = 1
    return mask * default_mask.to(dtype=mask.dtype)


class CustomFromMask(BasePruningMethod):
    """Prunes what a mask of one's own says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"the mask is {tuple(self.mask.shape)}, the parameter {tuple(default_mask.shape)}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        """Prune the parameter ``name`` so."""
        return super().apply(module, name, mask=mask)


# --- functions -----------------------------------------------------------------------


def identity(module: M, name: str) -> M:
    """Give the parameter ``name`` a mask that prunes nothing; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: Amount) -> M:
    """Prune entries at random; amount: how many, or (a float of 0 to 1) which part."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> M:
    """Prune the entries of least magnitude, or of least score."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: Amount, dim: int) -> M:
    """Prune whole slices along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M,
    name: str,
    amount: Amount,
    n: float | str,
    dim: int,
    importance_scores: Tensor | None = None,
) -> M:
    """Prune the slices along ``dim`` whose n-norm is least."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune the entries where ``mask``, of the parameter's shape, is zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any,
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one, by an unstructured method.

    parameters: pairs of a module and a name. kwargs: for the method, ``amount`` of all of them.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores should be of type dict")
    pairs = list(parameters)
    scores = importance_scores or {}
    flat = [_flat(scores.get((m, n), getattr(m, n))) for m, n in pairs]
    masks = [_flat(getattr(m, f"{n}_mask", mq.ones_like(getattr(m, n)))) for m, n in pairs]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            "Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`. Found method "
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = container.compute_mask(mq.cat(flat), mq.cat(masks))
    at = 0
    for module, name in pairs:
        parameter = getattr(module, name)
        part = mask[at : at + parameter.numel()].view_as(parameter)
        custom_from_mask(module, name, mask=part)
        at += parameter.numel()


def _flat(t: Any) -> Tensor:
    flat: Tensor = t.detach().reshape(-1)
    return flat


def remove(module: M, name: str) -> M:
    """Make pruned values a parameter for good, without mask and hook; ValueError if not pruned."""
    found = _method_of(module, name)
    if found is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    key, method = found
    method.remove(module)
    module._mq_hook_table().remove(key)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or below it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )


# --- amounts and norms ---------------------------------------------------------------


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if amount < 0 or (not whole and float(amount) > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def _validate_pruning_amount(amount: Amount, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune="
            f"{tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {tuple(t.shape)} with {t.dim()} dims"
        )


def _compute_nparams_toprune(amount: Amount, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _count(amount: Amount, size: int) -> int:
    count = _compute_nparams_toprune(amount, size)
    _validate_pruning_amount(count, size)
    return count


def _compute_norm(t: Tensor, n: float | str, dim: int) -> Tensor:
    others = [d for d in range(t.dim()) if d != dim % t.dim()]
    found: Any = mq.norm(t, p=n, dim=others)
    return cast(Tensor, found)
