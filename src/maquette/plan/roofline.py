"""How long a program takes at the least on a device, and what binds it: a roofline per operator.

An operator takes no less than its FLOPs at the device's peak, its bytes at the device's bandwidth,
or one launch. The sum over a plan is a lower bound, not a forecast: kernels reach a part of either.
Devices are rows of `devices.json`, each with its source; a file of the same form adds one's own.
"""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maquette.plan.allocator import MIB, DeviceMemory
from maquette.plan.recorder import Operation

TABLE = pathlib.Path(__file__).with_name("devices.json")
LAUNCH_SECONDS = 4e-6  # an eager program starts a kernel about so often from one thread
CONTEXT_BYTES = 500 * MIB  # of a CUDA context with its libraries; 300 to 700 MiB are seen
WORKSPACE_BYTES = 32 * MIB  # cuBLAS's on Hopper and later, a handle; 8.1 MiB before


@dataclass(frozen=True)
class Accelerator:
    """A device: name, bytes of memory, bytes/s of bandwidth, FLOP/s by the name of a dtype."""

    name: str
    memory: int
    bandwidth: float
    peaks: Mapping[str, float]
    source: str

    def peak(self, dtype: str) -> float:
        """FLOP/s of matrix products in a dtype; float32's for one that the table does not name."""
        plain = "float8" if dtype.startswith("float8") else dtype
        return self.peaks.get(plain) or self.peaks["float32"]


@dataclass(frozen=True)
class Bound:
    """The least time of a program: seconds, and of them what compute, memory and launches bind.

    utilisation: FLOPs over what the device could do in that time in the dtype of most of them.
    by_operator: (overload, seconds), most first. by_phase: seconds.
    """

    seconds: float
    binding: Mapping[str, float]
    utilisation: float
    by_operator: Sequence[tuple[str, float]]
    by_phase: Mapping[str, float]


def accelerators(path: str | pathlib.Path = TABLE) -> dict[str, Accelerator]:
    """The devices of a table, by the short names that ``--on`` takes.

    Raises OSError where there is no such file, ValueError naming the row and key that is wrong.
    """
    rows = json.loads(pathlib.Path(path).read_text("utf-8"))
    if not isinstance(rows, dict):
        raise ValueError(f"{path}: expected an object of devices")
    return {k: _accelerator(k, row) for k, row in rows.items() if k != "about"}


def _accelerator(key: str, row: Mapping[str, object]) -> Accelerator:
    plain = {"name", "memory_mib", "bandwidth", "source"}
    try:
        peaks = {k: float(str(v)) for k, v in row.items() if k not in plain}
        peaks["float32"]
        memory = int(float(str(row["memory_mib"])) * MIB)
        bandwidth = float(str(row["bandwidth"]))
    except (KeyError, ValueError, AttributeError) as error:
        raise ValueError(
            f"device {key!r}: expected the numbers memory_mib, bandwidth and float32: {error}"
        ) from None
    return Accelerator(
        str(row.get("name", key)), memory, bandwidth, peaks, str(row.get("source", ""))
    )


def bound(operations: Sequence[Operation], on: Accelerator) -> Bound:
    """The least time of a program's operators on a device, one after another."""
    binding: Counter[str] = Counter()
    names: Counter[str] = Counter()
    phases: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for operation in operations:
        seconds, by = least_seconds(operation, on)
        binding[by] += seconds  # type: ignore[assignment]  # a Counter sums floats as well
        names[operation.name] += seconds  # type: ignore[assignment]
        phases[operation.phase] += seconds  # type: ignore[assignment]
        kinds[operation.dtype] += operation.flops
    seconds = float(sum(binding.values()))
    most = kinds.most_common(1)
    peak = on.peak(most[0][0]) if most else on.peak("float32")
    used = sum(kinds.values()) / (seconds * peak) if seconds else 0.0
    return Bound(seconds, dict(binding), used, names.most_common(), dict(phases))


def least_seconds(operation: Operation, on: Accelerator) -> tuple[float, str]:
    """The least time of one operator, and what binds it: compute, memory or launch."""
    if not operation.bytes_moved and not operation.flops:
        return 0.0, "launch"  # a view, or nothing: no kernel
    times = {
        "compute": operation.flops / on.peak(operation.dtype),
        "memory": operation.bytes_moved / on.bandwidth,
        "launch": LAUNCH_SECONDS,
    }
    by = max(times, key=lambda name: times[name])
    return times[by], by


def shown_by_driver(memory: DeviceMemory) -> int:
    """What ``nvidia-smi`` would show for the process at its peak, in bytes: with its context."""
    return memory.reserved + CONTEXT_BYTES + WORKSPACE_BYTES
