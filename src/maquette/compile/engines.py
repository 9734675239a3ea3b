"""The engines that run array programs: NumPy as the reference, XLA by JAX, Dask in chunks.

An engine turns a program into a callable on its arrays, says beforehand what it cannot run, and
brings tensors to its arrays and back. What is an engine's own is here; nothing of it is elsewhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maquette.backends.jax import JaxBackend
from maquette.compile.errors import CompileError
from maquette.compile.program import ArrayProgram, metas_of
from maquette.core.meta import TensorMeta
from maquette.fx.node import Node
from maquette.tensor.backend import Backend, backend_of, introduce, run_kernel
from maquette.tensor.tensor import Tensor
from maquette.tensor.up_to_date import up_to_date

Runnable = Callable[[Sequence[Any]], list[Any]]


class Engine:
    """How programs are run. This one runs them on NumPy, operator by operator."""

    name = "numpy"
    lender: object = "numpy"
    """Equal for engines that may have each other's arrays; None where arrays are no memory."""

    def __init__(self) -> None:
        self.backend: Backend = backend_of("cpu")

    def runnable(
        self, program: ArrayProgram, donated: Sequence[int], names: Sequence[str]
    ) -> Runnable:
        """The program as a function of arrays. donated: inputs whose memory it may reuse."""
        return lambda arrays: run_kernel(self.backend.runner, program, self.backend, arrays)  # type: ignore[return-value]

    def put(self, t: Tensor, name: str) -> Any:
        """A copy of a tensor's values as an array of the engine."""
        return np.array(values_of(t))

    def given(self, t: Tensor, name: str) -> Any:
        """A copy of a tensor's values for one call."""
        return self.put(t, name)

    def taken(self, array: Any) -> Any:
        """An array of the engine as one of NumPy, over the same memory where there is one."""
        return np.asarray(array)

    def forget(self) -> None:
        """Give back what the engine keeps of programs that nobody calls any more."""

    def check(self, program: ArrayProgram) -> None:
        """CompileError that names every operator that the engine cannot run."""
        refusals = program.refusals(self.backend, self._probe)
        if refusals:
            raise CompileError(
                f"the {self.name} engine cannot run these operators of the program:\n  "
                + "\n  ".join(refusals)
                + "\nThe program itself runs as it stands; leave them outside of what is compiled."
            )

    def _probe(self, backend: Backend, node: Node, step: Any) -> str | None:
        return None


class JaxEngine(Engine):
    """XLA, by `jax.jit`.

    mesh: a `jax.sharding.Mesh`. shardings: by the name of an input ("[0]" for the first argument, a
    parameter's dotted name) its `PartitionSpec`; what is not named is replicated.
    """

    name = "jax"

    def __init__(self, mesh: Any = None, shardings: Mapping[str, Any] | None = None) -> None:
        self.backend: JaxBackend = JaxBackend()
        introduce(self.backend)
        self.jax = self.backend.jax
        self.mesh = mesh
        self.lender = "jax" if mesh is None else self
        self.shardings = dict(shardings or {})
        if self.shardings and mesh is None:
            raise ValueError("shardings need a mesh: compile(..., mesh=jax.sharding.Mesh(...))")

    def runnable(
        self, program: ArrayProgram, donated: Sequence[int], names: Sequence[str]
    ) -> Runnable:
        given = set(donated)

        def run(overwritten: list[Any], kept: list[Any]) -> list[Any]:
            left, right = iter(overwritten), iter(kept)
            count = len(overwritten) + len(kept)
            arrays = [next(left) if i in given else next(right) for i in range(count)]
            return program(self.backend, arrays)

        options = self.backend.compiler_options or None
        compiled = self.jax.jit(run, donate_argnums=(0,), compiler_options=options)

        def call(arrays: Sequence[Any]) -> list[Any]:
            overwritten = [a for i, a in enumerate(arrays) if i in given]
            kept = [a for i, a in enumerate(arrays) if i not in given]
            found: list[Any] = compiled(overwritten, kept)
            return found

        call.lowered = lambda arrays: compiled.lower(  # type: ignore[attr-defined]
            [a for i, a in enumerate(arrays) if i in given],
            [a for i, a in enumerate(arrays) if i not in given],
        )
        return call

    def put(self, t: Tensor, name: str) -> Any:
        copied = self.jax.numpy.array(values_of(t), copy=True)
        if self.mesh is None:
            return copied
        return self.jax.device_put(copied, self._sharding(name))

    def given(self, t: Tensor, name: str) -> Any:
        # The call takes NumPy's arrays: 5 us in place of 50 to make one of JAX (timeit).
        return np.array(values_of(t)) if self.mesh is None else self.put(t, name)

    def forget(self) -> None:
        """Drop all that JAX keeps of compiled programs."""
        self.jax.clear_caches()

    def _sharding(self, name: str) -> Any:
        sharding = self.jax.sharding
        spec = self.shardings.get(name, sharding.PartitionSpec())
        return sharding.NamedSharding(self.mesh, spec)

    def _probe(self, backend: Backend, node: Node, step: Any) -> str | None:
        if getattr(getattr(step, "kernel", None), "computes_on_host", False):
            return "it computes on the host, with NumPy and SciPy"
        inputs = node.all_input_nodes

        def run(*arrays: Any) -> Any:
            return step(backend, dict(zip(inputs, arrays)))

        try:
            self.jax.eval_shape(run, *[self._stand_in(n) for n in inputs])
        except CompileError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  # whatever JAX raises is the reason
            return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
        return None

    def _stand_in(self, node: Node) -> Any:
        return _structs(self.jax, metas_of(node.meta["val"]))


def _structs(jax: Any, metas: Any) -> Any:
    if isinstance(metas, TensorMeta):
        return jax.ShapeDtypeStruct(tuple(metas.shape), metas.dtype.numpy)
    if isinstance(metas, list):
        return [_structs(jax, m) for m in metas]
    return None


def values_of(t: Tensor) -> np.ndarray[Any, Any]:
    """The values that a tensor shows: what waits to be conjugated or negated is computed."""
    up_to_date(t)
    if t.is_conj() or t.is_neg():
        t = t.detach().resolve_conj().resolve_neg()
    values: np.ndarray[Any, Any] = t._mq_data  # type: ignore[assignment]  # on the cpu, with data
    return values


ENGINES: dict[str, Callable[..., Engine]] = {"numpy": Engine, "jax": JaxEngine}


def engine_of(name: str, options: Mapping[str, Any]) -> Engine:
    """An engine by its name; ValueError for an unknown one, NotImplementedError without it."""
    if name == "dask":
        return importlib.import_module("maquette.compile.chunked").DaskEngine(**options)
    if name not in ENGINES:
        raise ValueError(
            f"compile: unknown backend {name!r}; there are {', '.join([*ENGINES, 'dask'])}"
        )
    return ENGINES[name](**options)


__all__ = ["Engine", "JaxEngine", "engine_of", "values_of"]
