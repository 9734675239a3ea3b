"""The conformance data replayed on another device than the cpu: for `tools/conformance.py`.

The recordings are PyTorch's on cpu. Here every tensor is made on another device, whose backend
holds its data; devices in records and results are renamed, and all else must be as recorded.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


def on_device(checker: ModuleType, device_type: str) -> Any:
    """A `Backend` of the checker whose tensors are on ``device_type``."""

    class OnDevice(checker.Backend):  # type: ignore[name-defined]  # a module read from a file
        """Tensors there, numbers read here."""

        def tensor_from(self, flat: Any) -> Any:
            return super().tensor_from(flat).to(device_type)

        def device(self, name: str) -> Any:
            return super().device(device_type if name == "cpu" else name)

        def array(self, tensor: Any) -> Any:
            return super().array(tensor.detach().cpu())

    return OnDevice()


def rename_devices(checker: ModuleType, device_type: str) -> None:
    """Have the checker read results on ``device_type`` as on cpu, and skip what it cannot see.

    It compares the bytes of arguments through memory that it shares; there is none with a device,
    so it compares them after a copy to the host.
    """
    plain = checker.metadata

    def metadata(backend: Any, tensor: Any) -> dict[str, Any]:
        found: dict[str, Any] = plain(backend, tensor)
        if found["device"] == device_type:
            found["device"] = "cpu"
        return found

    def untouched(self: Any) -> None:
        written = {r["storage"] for r in self.case.get("after", {}).get("tensors", ())}
        for (index, name), tensor in self.bases.items():
            if index in written or index not in self.buffers:
                continue
            raw = checker.storage_bytes(self.case, index, after=False)
            now = self.backend.array(tensor).tobytes()
            if now != raw[: len(now)]:
                raise checker.Mismatch(f"input storage {index} was modified (as {name})")

    checker.__dict__["metadata"] = metadata
    checker.Arguments.untouched = untouched
