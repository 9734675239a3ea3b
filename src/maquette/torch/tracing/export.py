"""`torch.export`: names for sizes, `Dim` and `dims`. Exporting itself is not here, and says so."""

from __future__ import annotations

from maquette.torch.face.absences import Absent, advice_for
from maquette.torch.tracing import dims as dynamic_shapes
from maquette.torch.tracing.dims import Dim, dims

ABSENT = frozenset((
    "AdditionalInputs", "Constraint", "CustomDecompTable", "ExportBackwardSignature",
    "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter", "ModuleCallEntry",
    "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions",
    "draft_export", "export", "export_for_inference", "export_for_training", "exported_program",
    "graph_signature", "load", "passes", "register_dataclass", "save", "unflatten",
))  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in ABSENT:
        raise AttributeError(f"module 'torch.export' has no attribute '{name}'")
    found = Absent.named("torch.export", name, str(advice_for("export")))
    globals()[name] = found
    return found


__all__ = ["Dim", "dims", "dynamic_shapes"]
