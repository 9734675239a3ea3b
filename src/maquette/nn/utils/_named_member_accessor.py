"""Parameters, buffers and modules of a module by dotted names, to read, set, swap and delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maquette.nn.base import Module
from maquette.tensor import Tensor

_MISSING = object()


def _check_name(module: Module, name: str, kind: str) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain "."')
    if name == "":
        raise KeyError(f'{kind} name can\'t be empty string ""')


def set_tensor(module: Module, name: str, tensor: Tensor) -> None:
    """Put a tensor, of any kind, in the place of a parameter or buffer."""
    _check_name(module, name, "tensor")
    if name in module._parameters:
        module._parameters[name] = tensor  # type: ignore[assignment]  # any tensor may stand there
    elif name in module._buffers:
        module._buffers[name] = tensor
    else:
        setattr(module, name, tensor)


def swap_tensor(module: Module, name: str, tensor: Tensor, allow_missing: bool = False) -> Tensor:
    """Put a tensor in the place of another, which is returned.

    allow_missing: without another, what cannot be seen by any name is returned; and giving that
    back deletes. AttributeError or TypeError for what is no tensor.
    """
    _check_name(module, name, "tensor")
    if not isinstance(tensor, Tensor) and tensor is not None and tensor is not _MISSING:
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    table = next((t for t in (module._parameters, module._buffers) if name in t), None)
    found = getattr(module, name, _MISSING) if table is None else table[name]
    if found is _MISSING:
        if not allow_missing:
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    elif table is None and not isinstance(found, Tensor) and found is not None:
        raise TypeError(f"attribute `{name}`: {found} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        set_tensor(module, name, tensor)
    elif found is not _MISSING:
        delattr(module, name)
    return found  # type: ignore[return-value]  # a tensor, or the mark of none


def swap_submodule(module: Module, name: str, submodule: Module) -> Module:
    """Put a module in the place of another, which is returned."""
    _check_name(module, name, "submodule")
    if not isinstance(submodule, Module):
        raise TypeError(f"{submodule} is not an instance of torch.nn.Module")
    if name not in module._modules:
        raise KeyError(f"submodule {name} does not exist")
    found = module._modules[name]
    if not isinstance(found, Module):
        raise TypeError(f"{name} attribute is not an instance of torch.nn.Module")
    module._modules[name] = submodule
    return found


class NamedMemberAccessor:
    """The members of a module and of those below it; modules once found are remembered."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.memo: dict[str, Module] = {"": module}

    def get_submodule(self, name: str) -> Module:
        """The module at a path; AttributeError or TypeError if there is none."""
        if name not in self.memo:
            above, _, last = name.rpartition(".")
            found = getattr(self.get_submodule(above), last, None)
            if found is None:
                raise AttributeError(f"{self.module._get_name()} has no attribute `{name}`")
            if not isinstance(found, Module):
                raise TypeError(
                    f"submodule `{name}`: {found} is not an instance of torch.nn.Module"
                )
            self.memo[name] = found
        return self.memo[name]

    def swap_submodule(self, path: str, value: Module) -> Module:
        """Put a module at a path; the one that was there."""
        above, _, last = path.rpartition(".")
        self.memo = {"": self.module}  # what was found below the old one is gone
        return swap_submodule(self.get_submodule(above), last, value)

    def _place(self, name: str) -> tuple[Module, str]:
        above, _, last = name.rpartition(".")
        return self.get_submodule(above), last

    def get_tensor(self, name: str) -> Tensor:
        """The tensor at a path; AttributeError or TypeError if there is none."""
        module, last = self._place(name)
        found = getattr(module, last, _MISSING)
        if found is _MISSING:
            raise AttributeError(f"{module._get_name()} has no attribute `{last}`")
        if not isinstance(found, Tensor) and found is not None:
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found  # type: ignore[return-value]  # None stands for a parameter that is not there

    def set_tensor(self, name: str, value: Tensor) -> None:
        """Put a tensor at a path."""
        set_tensor(*self._place(name), value)

    def del_tensor(self, name: str) -> None:
        """Take away the tensor at a path."""
        module, last = self._place(name)
        if not isinstance(getattr(module, last, None), Tensor):
            raise AttributeError(f"{module._get_name()} has no attribute `{last}`")
        delattr(module, last)

    def swap_tensor(self, name: str, value: Tensor, allow_missing: bool = False) -> Tensor:
        """Put a tensor at a path; the one that was there."""
        return swap_tensor(*self._place(name), value, allow_missing=allow_missing)

    def get_tensors(self, names: Iterable[str]) -> list[Tensor]:
        """The tensors at paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names: Iterable[str], values: Iterable[Tensor]) -> None:
        """Put tensors at paths; ValueError unless they are as many."""
        for name, value in _paired(names, values):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors: Mapping[str, Tensor]) -> None:
        """Put tensors at the paths that name them."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names: Iterable[str]) -> None:
        """Take away the tensors at paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(
        self, names: Iterable[str], values: Iterable[Tensor], allow_missing: bool = False
    ) -> list[Tensor]:
        """Put tensors at paths; those that were there."""
        return [self.swap_tensor(n, v, allow_missing) for n, v in _paired(names, values)]

    def swap_tensors_dict(
        self, named_tensors: Mapping[str, Tensor], allow_missing: bool = False
    ) -> tuple[dict[str, Tensor], list[str]]:
        """Put tensors at the paths that name them; those that were there, and the names of none.

        If a name is missing and may not be (RuntimeError), or a value is no tensor (TypeError), all
        are put back.
        """
        before: dict[str, Tensor] = {}
        try:
            for name, value in named_tensors.items():
                before[name] = self.swap_tensor(name, value, allow_missing=True)
            missing = [name for name, found in before.items() if found is _MISSING]
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, sorted(missing)))}.")
        except Exception:
            for name, value in before.items():
                self.swap_tensor(name, value, allow_missing=True)
            raise
        return before, missing

    def check_keys(self, keys: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names of tensors that are not among the keys, and the keys that name none."""
        given, there = set(keys), {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(there - given), sorted(given - there)

    def named_parameters(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """The module's parameters by path."""
        yield from self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """The module's buffers by path."""
        yield from self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Tensor]]:
        """The module's parameters, then its buffers, by path."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate: bool = True) -> Iterable[tuple[str, Module]]:
        """The module and those below by path."""
        yield from self.module.named_modules(remove_duplicate=remove_duplicate)


def _paired(names: Iterable[str], values: Iterable[Tensor]) -> Iterable[tuple[str, Tensor]]:
    keys, tensors = list(names), list(values)
    if len(keys) != len(tensors):
        raise ValueError(f"got {len(keys)} names and {len(tensors)} tensors; give as many")
    return zip(keys, tensors, strict=True)
