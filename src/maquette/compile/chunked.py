"""The Dask engine: programs on arrays in chunks, so that no whole array need be in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maquette.backends.dask import DaskBackend
from maquette.compile.engines import Engine, Runnable, values_of
from maquette.compile.errors import CompileError
from maquette.compile.program import ArrayProgram, metas_of
from maquette.core.meta import TensorMeta
from maquette.fx.node import Node
from maquette.tensor.backend import Backend, introduce
from maquette.tensor.tensor import Tensor


class DaskEngine(Engine):
    """`dask.array`: inputs are cut into chunks, and all results are computed together.

    chunks: the elements of a chunk along each dimension, as Dask takes it ("auto" by default).
    """

    name = "dask"
    lender = None

    def __init__(self, chunks: Any = "auto") -> None:
        self.backend = DaskBackend()
        introduce(self.backend)
        self.dask = self.backend.dask
        self.chunks = chunks

    def runnable(
        self, program: ArrayProgram, donated: Sequence[int], names: Sequence[str]
    ) -> Runnable:
        def call(arrays: Sequence[Any]) -> list[Any]:
            given = [self.cut(a) if isinstance(a, np.ndarray) else a for a in arrays]
            return list(self.dask.compute(*program(self.backend, given)))

        return call

    def put(self, t: Tensor, name: str) -> Any:
        return self.cut(values_of(t))

    def cut(self, array: Any) -> Any:
        """An array in chunks."""
        if not hasattr(array, "ndim") or array.ndim == 0:
            return self.backend.namespace.from_array(array)
        chunks = self.chunks if isinstance(self.chunks, str) else self._fitting(array.shape)
        # As a source of another class, and without a hash of it, Dask copies chunks alone.
        return self.backend.namespace.from_array(_Source(array), chunks=chunks, name=False)

    def _fitting(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The chunk of an array: as long as is said along each dimension, or as the dimension."""
        if isinstance(self.chunks, int):
            return tuple([min(self.chunks, n) if n else n for n in shape])
        wanted = (*self.chunks, *shape[len(self.chunks) :])
        return tuple([min(c, n) if n else n for c, n in zip(wanted, shape)])

    def _probe(self, backend: Backend, node: Node, step: Any) -> str | None:
        given = {n: self._stand_in(n) for n in node.all_input_nodes}
        try:
            step(backend, given)
        except CompileError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  # whatever Dask raises is the reason
            return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        return None

    def _stand_in(self, node: Node) -> Any:
        return self._zeros(metas_of(node.meta["val"]))

    def _zeros(self, metas: Any) -> Any:
        if isinstance(metas, TensorMeta):
            return self.backend.namespace.zeros(tuple(metas.shape), dtype=metas.dtype.numpy)
        return [self._zeros(m) for m in metas] if isinstance(metas, list) else None


class _Source:
    """An array that is read chunk by chunk."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.ndim = array.ndim

    def __getitem__(self, index: Any) -> Any:
        return self._array[index]


__all__ = ["DaskEngine"]
