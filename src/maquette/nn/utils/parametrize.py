"""Parametrizations: a parameter that is computed, at each access, from others that are trained.

A module with one gets a class of its own, a subclass with a property in the parameter's place; what
it computes from is in ``module.parametrizations.<name>``, a `ParametrizationList` with the trained
``original`` (or ``original0``, ``original1``, ... where the first of the chain takes several).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

from maquette.autograd import no_grad
from maquette.nn.base import Module
from maquette.nn.modules.container import ModuleDict, ModuleList
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

_Key = tuple[int, str]


class _Cache:
    """Computed values by module and name, while a `cached` block is open."""

    depth = 0
    values: dict[_Key, Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """In the block, each parametrized tensor is computed once, at its first access."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


class ParametrizationList(ModuleList):
    """A chain of parametrizations of one tensor, and the trained tensor or tensors under it.

    modules: the first takes the originals, each other what the one before gives. original: the
    tensor as it was. unsafe: results need not have its shape and dtype.

    Raises ValueError or TypeError for a chain that does not fit the tensor.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new = self._inverse(original)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._register_one(original, new)
        else:
            self._register_several(original, new)
        if not unsafe:
            with no_grad():
                _check_kept("Registering a parametrization", original, self())

    def _register_one(self, original: Tensor, new: Tensor) -> None:
        _check_same("When `right_inverse` outputs one tensor", original, new)
        with no_grad():
            if new is not original:
                original.data = new
        _register(self, "original", original)

    def _register_several(self, original: Tensor, new: Sequence[Tensor]) -> None:
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)"
                    f". Got element {i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            _register(self, f"original{i}", part)

    def _inverse(self, value: Tensor) -> Tensor | Sequence[Tensor]:
        """What the chain computes `value` from; the value itself where nothing inverts."""
        new: Any = value
        for module in reversed(list(self)):
            inverse = getattr(module, "right_inverse", None)
            if inverse is not None:
                # It may find that it has none for its options, and says so then.
                with suppress(NotImplementedError):
                    new = inverse(new)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        return new

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the chain gives `value`; RuntimeError if it cannot."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse"
                    )
                new = inverse(new)
            for name, own, part in zip(self._names(), self._originals(), self._parts(new)):
                if part.dtype != own.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {part.dtype} while "
                        f"`{name}` has dtype {own.dtype}"
                    )
                own.data = part.detach()

    def _parts(self, new: Any) -> Sequence[Tensor]:
        """The tensors of an inverse, as many as there are originals; ValueError otherwise."""
        if self.is_tensor:
            if not isinstance(new, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {_kind(new)}")
            return [new]
        if not isinstance(new, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {_kind(new)}")
        if len(new) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                f"Got a sequence of length {len(new)}."
            )
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "`right_inverse` must return a sequence of tensors. "
                    f"Got element {i} of type {_kind(part)}"
                )
        return new

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _originals(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._names()]

    def forward(self) -> Tensor:
        """The value that the chain gives now."""
        first, *rest = self
        value: Tensor = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _kind(value: object) -> str:
    return type(value).__name__


def _changed(old: Tensor, new: Tensor, *aspects: str) -> Iterator[tuple[str, object, object]]:
    """Those of some attributes that two tensors differ in, with both values."""
    for aspect in aspects:
        before, after = getattr(old, aspect), getattr(new, aspect)
        if before != after:
            yield aspect, before, after


def _check_same(when: str, old: Tensor, new: Tensor) -> None:
    for aspect, before, after in _changed(old, new, "dtype", "device"):
        raise ValueError(f"{when}, it may not change the {aspect}: {before} became {after}")


def _check_kept(doing: str, old: Tensor, new: object) -> None:
    if not isinstance(new, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {_kind(new)}.")
    for aspect, before, after in _changed(old, new, "dtype", "shape"):
        raise ValueError(
            f"{doing} may not change the {aspect} of the tensor, unless the `unsafe` flag is "
            f"enabled: {before} became {after}"
        )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Have ``module.<tensor_name>`` be computed by `parametrization`; returns the module.

    A second one is put after the first. ``right_inverse``, where it has one, gives the value to
    train from the present one. unsafe: it may change shape and dtype. Raises ValueError for a name
    that is no parameter or buffer, or a parametrization that does not keep shape and dtype.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    original = getattr(module, tensor_name)
    chain = ParametrizationList([parametrization], original, unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _give_own_class(module)
        module.add_module("parametrizations", ModuleDict())
    _add_property(module, tensor_name)
    _chains(module)[tensor_name] = chain
    return module


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    chain: Any = _chains(module)[name]
    if not unsafe:
        with no_grad():
            _check_link(name, getattr(module, name), parametrization)
    # The originals stay: the new link acts on the value that they give now.
    chain.append(parametrization)
    chain.unsafe = chain.unsafe or unsafe


def _check_link(name: str, value: Tensor, parametrization: Module) -> None:
    """Refuse a link that changes shape or dtype, forwards or back."""
    result = parametrization(value)
    _check_kept("Registering a parametrization", value, result)
    if not hasattr(parametrization, "right_inverse"):
        return
    back: Any = parametrization.right_inverse(result)
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {_kind(back)}")
    for aspect, wanted, found in _changed(value, back, "dtype", "shape"):
        raise ValueError(
            f"The tensor returned by parametrization.right_inverse must have the same {aspect} "
            f"as module.{name}, unless the `unsafe` flag is enabled: {found}, not {wanted}"
        )


def _chains(module: Module) -> ModuleDict:
    chains = module._mq_attributes["parametrizations"]
    if not isinstance(chains, ModuleDict):
        raise RuntimeError(f"{type(module).__name__}.parametrizations was replaced")
    return chains


def _give_own_class(module: Module) -> None:
    cls = type(module)

    def getstate(self: Module) -> object:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(): save "
            "that, build the module and its parametrizations anew, and load it"
        )

    def copied(self: Module, memo: dict[int, object]) -> Module:
        replica = cls.__new__(type(self))
        memo[id(self)] = replica
        replica.__setstate__(deepcopy(vars(self), memo))
        return replica

    members: dict[str, object] = {"__getstate__": getstate}
    if "__deepcopy__" not in vars(cls):
        members["__deepcopy__"] = copied
    own: Any = type(f"Parametrized{cls.__name__}", (cls,), members)
    own.__module__ = cls.__module__
    object.__setattr__(module, "__class__", own)


def _add_property(module: Module, name: str) -> None:
    def read(self: Module) -> Tensor:
        if not _Cache.depth:
            value: Tensor = _chains(self)[name]()
            return value
        key = (id(self), name)
        if key not in _Cache.values:
            _Cache.values[key] = _chains(self)[name]()
        return _Cache.values[key]

    def write(self: Module, value: Tensor) -> None:
        chain: Any = _chains(self)[name]
        chain.right_inverse(value)

    setattr(type(module), name, property(read, write))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has parametrizations; of `tensor_name`, if one is given."""
    chains = getattr(module, "parametrizations", None)
    if not isinstance(chains, ModuleDict):
        return False
    return len(chains) > 0 if tensor_name is None else tensor_name in chains


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make ``module.<tensor_name>`` a plain parameter or buffer again; returns the module.

    leave_parametrized: with the value computed now; else with the original, where there is one.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain: Any = _chains(module)[tensor_name]
    trained = chain._originals()
    if not leave_parametrized and not chain.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    original = trained[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
        if chain.is_tensor:
            original.data = value.detach()
        elif any(isinstance(part, Parameter) for part in trained):
            original = Parameter(value.detach(), any(part.requires_grad for part in trained))
        else:
            original = value.detach()
    delattr(type(module), tensor_name)
    del _chains(module)[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        object.__setattr__(module, "__class__", type(module).__bases__[0])
    _register(module, tensor_name, original)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class, or the one it had before it got parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give `to_module` the parametrizations of another, of all tensors or one, and their values."""
    if not is_parametrized(from_module):
        return to_module
    names = list(_chains(from_module)) if tensor_name is None else [tensor_name]
    for name in names:
        source: Any = _chains(from_module)[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target: Any = _chains(to_module)[name]
        for own, value in zip(target._originals(), source._originals()):
            own.data = value.detach().clone()
    return to_module
