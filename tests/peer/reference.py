"""PyTorch's answers for `test_examples.py`: run by a Python that has torch, never by pytest.

    python tests/peer/reference.py FOLDER

For each case it writes `<name>.npz` (weights, outputs, loss, gradients, parameters after three
steps) and `<name>.json` (parameter count, FLOPs by phase and group, peak bytes). FLOPs come from
PyTorch's own counter; storages are counted by the tracker here, once each, however many tensors
look at them.
"""

from __future__ import annotations

import argparse
import json
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import traced_programs
from models import (
    CASES,
    FLOP_GROUPS,
    Arrays,
    Case,
    build_model,
    load_arrays,
    make_inputs,
    state_arrays,
    traced_operators,
    train,
)
from torch import Tensor, nn
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    FlopCounterMode,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

aten = torch.ops.aten
PROGRAMS = traced_programs.programs()


class StorageTracker(TorchDispatchMode):
    """The bytes of all live storages that any operator made, and their peak, by phase.

    A storage enters when an operator first returns a tensor on it (or `watch` shows it), and
    leaves when PyTorch frees it: a weak reference on the storage object tells.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[int, tuple[weakref.ref[torch.UntypedStorage], int]] = {}
        self.live_bytes = 0
        self.phase = "before"
        self.peaks: Counter[str] = Counter()

    def watch(self, tensors: Sequence[Tensor]) -> None:
        """Count these tensors' storages too, which were there before."""
        for tensor in tensors:
            self._enter(tensor.untyped_storage())
        self._note()

    def enter_phase(self, name: str) -> None:
        """What follows belongs to the phase of this name."""
        self.phase = name
        self._note()

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> object:
        """Run the operator, then count what it returned."""
        result = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._enter(leaf.untyped_storage())
        self._note()
        return result

    def _enter(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self.live:
            return
        size = storage.nbytes()
        self.live[key] = (weakref.ref(storage, lambda _: self._leave(key)), size)
        self.live_bytes += size

    def _leave(self, key: int) -> None:
        self.live_bytes -= self.live.pop(key)[1]

    def _note(self) -> None:
        self.peaks[self.phase] = max(self.peaks[self.phase], self.live_bytes)


def flash_flops(
    q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: object, **__: object
) -> int:
    """FLOPs of the CPU's flash attention: PyTorch's formula, which it registers for cuda only."""
    return sdpa_flop_count(q, k, v)


def flash_backward_flops(
    grad: Sequence[int],
    q: Sequence[int],
    k: Sequence[int],
    v: Sequence[int],
    *_: object,
    **__: object,
) -> int:
    """FLOPs of its backward: five products, the scores being computed again."""
    return sdpa_backward_flop_count(grad, q, k, v)


FLASH_FLOPS = {
    aten._scaled_dot_product_flash_attention_for_cpu: flash_flops,
    aten._scaled_dot_product_flash_attention_for_cpu_backward: flash_backward_flops,
}


def perturb(model: nn.Module) -> None:
    """Move every weight a little, so that no bias is zero and no norm is the identity."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)


def flops_by_group(counter: FlopCounterMode) -> Counter[str]:
    """What the counter has seen so far, by the groups that both sides compare."""
    counts: Counter[str] = Counter(dict.fromkeys(FLOP_GROUPS, 0))
    for op, flops in counter.get_flop_counts()["Global"].items():
        name = str(op).rpartition(".")[2]
        counts[next(group for group, names in FLOP_GROUPS.items() if name in names)] += flops
    return counts


def count_flops(case: Case, model: nn.Module) -> dict[str, dict[str, int]]:
    """FLOPs of one forward and one backward pass, by group."""
    inputs, targets = (torch.from_numpy(a) for a in make_inputs(case))
    with FlopCounterMode(display=False, custom_mapping=FLASH_FLOPS) as counter:
        loss = model(inputs, targets).loss
        forward = flops_by_group(counter)
        loss.backward()
        total = flops_by_group(counter)
    backward = {group: total[group] - forward[group] for group in FLOP_GROUPS}
    return {"forward": dict(forward), "backward": backward}


def track_bytes(case: Case, model: nn.Module) -> dict[str, int]:
    """Peak live bytes of a first training step with AdamW, by phase, and of the whole step.

    Parameters, buffers, inputs and targets are there from the start; the output lives until the
    step is done, as it does in the usual loop. The optimizer is AdamW for every case, because the
    plan that is compared is.
    """
    args = [torch.from_numpy(a) for a in make_inputs(case)]
    optimizer = torch.optim.AdamW(model.parameters())
    tracker = StorageTracker()
    tracker.watch([*model.parameters(), *model.buffers(), *args])
    with tracker:
        tracker.enter_phase("forward")
        output = model(*args)
        tracker.enter_phase("backward")
        output.loss.backward()
        tracker.enter_phase("step")
        optimizer.step()
    return {**tracker.peaks, "peak": max(tracker.peaks.values())}


def answers(case: Case) -> tuple[Arrays, dict[str, object]]:
    """All that PyTorch says of one case: arrays, and numbers about it."""
    torch.manual_seed(0)
    model = build_model(case)
    perturb(model)
    weights = state_arrays(model)
    arrays = {f"weight/{name}": a for name, a in weights.items()} | train(torch, case, model)
    if case.optimizer != "AdamW":
        other = build_model(case)
        load_arrays(torch, other, weights)
        seen = train(torch, replace(case, optimizer="AdamW"), other)
        arrays |= {f"AdamW/{name}": a for name, a in seen.items()}
    facts: dict[str, object] = {
        "torch": torch.__version__,
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    for key, measure in (("flops", count_flops), ("bytes", track_bytes)):
        fresh = build_model(case)
        load_arrays(torch, fresh, weights)
        facts[key] = measure(case, fresh)
    facts["operators"] = traced_operators(torch, case, build_model(case))
    return arrays, facts


def main() -> None:
    """Write the answers of every case into the folder given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        arrays, facts = answers(case)
        np.savez(folder / f"{case.name}.npz", **arrays)
        (folder / f"{case.name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    graphs = {name: traced_programs.operators(torch, make_fx, name) for name in PROGRAMS}
    (folder / "graphs.json").write_text(json.dumps(graphs, indent=1) + "\n")
    table = sorted(map(str, core_aten_decompositions()))
    (folder / "core_table.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
