"""Snapshots: a pipe is brought back to where it was by reading as many samples again."""

from __future__ import annotations

from itertools import islice
from typing import Any

from maquette.tensor.streams.generator import Generator
from maquette.torch.utils.data.datapipes._hook_iterator import _SnapshotState
from maquette.torch.utils.data.datapipes.datapipe import IterDataPipe
from maquette.torch.utils.data.graph_settings import apply_random_seed


def _simple_graph_snapshot_restoration(
    datapipe: IterDataPipe[Any], n_iterations: int, rng: Generator | None = None
) -> None:
    """Bring a pipe to where it has given ``n_iterations`` samples; the next iteration goes on.

    rng: for the seeds of the pipes that shuffle, as it was when the samples were read first. A
    pipe says how many samples it gave: ``_number_of_samples_yielded``. Raises RuntimeError if the
    pipe was brought back already and not read since, or has fewer samples.
    """
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot to the "
            "graph if your graph has not been restored."
        )
    datapipe.reset()
    apply_random_seed(datapipe, rng)
    samples = iter(datapipe)
    if sum(1 for _ in islice(samples, n_iterations)) < n_iterations:
        raise RuntimeError(
            f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number of samples "
            f"available."
        )
    datapipe._fast_forward_iterator = samples
    datapipe._snapshot_state = _SnapshotState.Restored
