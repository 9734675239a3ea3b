"""A model's modules as a plan tells of them: path, class, parameters. No tensor is kept."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.nn import Module


@dataclass(frozen=True)
class ModuleShape:
    """One module: its path, class, number of parameters and their bytes, children's included."""

    path: str
    kind: str
    parameters: int
    parameter_bytes: int


def module_shapes(model: Module) -> list[ModuleShape]:
    """The modules of a model, parents before children; the model itself comes first."""
    return [_shape(path, module) for path, module in model.named_modules()]


def _shape(path: str, module: Module) -> ModuleShape:
    distinct = {id(p): p for p in module.parameters()}.values()
    storages = {p._storage.id: p._storage.nbytes() for p in distinct}
    number = sum(p.numel() for p in distinct)
    return ModuleShape(path, type(module).__name__, number, sum(storages.values()))
