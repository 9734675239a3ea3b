"""Walking a tree of modules: submodules, parameters and buffers, with their dotted names.

A module or tensor that occurs in several places is met once, at its first place, unless
`remove_duplicate=False`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from maquette.nn.base.members import BUFFERS, MODULES, PARAMETERS, Members
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

if TYPE_CHECKING:
    from maquette.nn.base.module import Module

T = TypeVar("T", bound="Traversal")


class Traversal(Members):
    """The part of `Module` that lists what is in it."""

    def children(self) -> Iterator[Module]:
        """The direct submodules."""
        for _, child in self.named_children():
            yield child

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names."""
        seen: set[int] = set()
        for name, child in self._mq_own(MODULES):
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, parents first."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self,
        memo: set[Module] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """This module, named `prefix`, and all below it with dotted names."""
        memo = set() if memo is None else memo
        this: Module = self  # type: ignore[assignment]  # every instance is one; a cast costs
        if this in memo:
            return
        if remove_duplicate:
            memo.add(this)
        yield prefix, this
        attributes = self._mq_attributes  # `_own`, written out: a training step walks the tree
        for name in attributes[MODULES]:
            child = attributes[name]
            if child is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, path, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, unless `recurse=False`, of those below."""
        if recurse and not (
            _replaces(self, "named_parameters") or _replaces(self, "named_modules")
        ):
            return self._mq_tensors_below(PARAMETERS)
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """`parameters` with their dotted names."""
        own = operator.methodcaller("_mq_own", PARAMETERS)
        return self._named_members(own, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, unless `recurse=False`, of those below."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """`buffers` with their dotted names."""
        own = operator.methodcaller("_mq_own", BUFFERS)
        return self._named_members(own, prefix, recurse, remove_duplicate)

    def _mq_own(self, kind: str) -> Iterator[tuple[str, Any]]:
        """The members of one kind, None included: Any, for the kind decides the type."""
        attributes = self._mq_attributes
        for name in attributes[kind]:
            yield name, attributes[name]

    def _mq_tensors_below(self, kind: str) -> Iterator[Any]:
        """The tensors without names, in half the time: a training step walks the tree."""
        seen: set[int] = set()
        memo: set[Module] = set()
        own = Traversal.named_modules
        stack: list[Any] = [self]
        while stack:
            module = stack.pop()
            if module in memo:
                continue
            attributes = module._mq_attributes
            if module.__class__.named_modules is not own or "named_modules" in attributes:
                # What is below is what it says; it takes a memo, as in `named_modules`.
                for _, owner in module.named_modules(memo, "", True):
                    yield from _unseen(owner._mq_attributes, kind, seen)
                continue
            memo.add(module)
            for name in attributes[kind]:  # `_unseen`, written out
                tensor = attributes[name]
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield tensor
            for name in reversed(attributes[MODULES]):
                child = attributes[name]
                if child is not None:
                    stack.append(child)

    def _named_members(  # PyTorch's name: modules with members of other kinds call it
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What a function says of this module and of those below, with dotted names."""
        seen: set[int] = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else iter([(prefix, cast("Module", self))])
        )
        for path, owner in owners:
            for name, member in get_members_fn(owner):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def apply(self: T, fn: Callable[[Module], object]) -> T:
        """Call `fn` on every module below, then on this one; returns this one."""
        for child in self.children():
            child.apply(fn)
        fn(cast("Module", self))
        return self

    # --- By path ---------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path; AttributeError if there is none. "" is this one."""
        module: object = self
        for atom in target.split(".") if target else ():
            if not hasattr(module, atom):
                raise AttributeError(f"{type(module).__name__} has no attribute `{atom}`")
            module = getattr(module, atom)
            if not isinstance(module, Traversal):
                raise AttributeError(f"`{atom}` is not an nn.Module")
        return cast("Module", module)

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at a dotted path, whose parent must exist.

        strict: the place must hold a module already. Raises ValueError for an empty path or
        something that is no module, AttributeError for a place that does not exist.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Traversal):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Traversal):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path; AttributeError if there is none."""
        found = self._mq_tensor_at(target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{target.rpartition('.')[2]}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path; AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        found = self._mq_tensor_at(target)
        if not isinstance(found, Tensor) or name not in self.get_submodule(path)._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def _mq_tensor_at(self, target: str) -> object:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        return getattr(owner, name)


def _replaces(module: Traversal, name: str) -> bool:
    """Whether a module, or its class, has a method of its own in the place of `Traversal`'s."""
    return name in module._mq_attributes or getattr(type(module), name) is not getattr(
        Traversal, name
    )


def _unseen(attributes: dict[str, Any], kind: str, seen: set[int]) -> Iterator[Any]:
    for name in attributes[kind]:
        tensor = attributes[name]
        if tensor is not None and id(tensor) not in seen:
            seen.add(id(tensor))
            yield tensor
