"""`Fuzzer`: tensors and numbers drawn at random, to time a statement over many shapes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from maquette.api import functions as mq
from maquette.core import dtype as dtypes
from maquette.tensor.tensor import Tensor

_TRIES = 1000
State = np.random.RandomState


class ParameterAlias:
    """A value that is another parameter's: ``{0.4: ParameterAlias("n"), 0.6: 1}``."""

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number drawn "uniform" or "loguniform" from a range, or from values with probabilities.

    strict: a value that breaks a constraint of the fuzzer is not drawn again. ValueError for
    another distribution, or probabilities that are not 1 together.
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name = name
        self._minval, self._maxval = minval, maxval
        self.strict = strict
        if isinstance(distribution, dict):
            if abs(sum(distribution.values()) - 1) > 1e-3:
                raise ValueError(
                    f"the probabilities of {name} add up to {sum(distribution.values())}"
                )
        elif distribution not in ("uniform", "loguniform"):
            raise ValueError(f"Unknown distribution: {distribution}")
        elif minval is None or maxval is None or minval > maxval:
            raise ValueError(f"`minval` {minval} must be at most `maxval` {maxval}")
        self._distribution = distribution

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self._name

    def sample(self, state: State) -> Any:
        """A value."""
        if isinstance(self._distribution, dict):
            values, odds = list(self._distribution), list(self._distribution.values())
            return values[state.choice(len(values), p=np.array(odds) / sum(odds))]
        assert self._minval is not None
        assert self._maxval is not None
        whole = isinstance(self._minval, int) and isinstance(self._maxval, int)
        if self._distribution == "uniform":
            if whole:
                return int(state.randint(int(self._minval), int(self._maxval) + 1))
            return state.uniform(self._minval, self._maxval)
        drawn = 2 ** state.uniform(math.log2(self._minval), math.log2(self._maxval))
        return int(drawn) if whole else drawn


class FuzzedTensor:
    """A tensor whose sizes, steps and order of memory are numbers or parameters' names."""

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: dtypes.dtype = dtypes.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ) -> None:
        self._name = name
        self._size, self._steps = size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter = dim_parameter
        self._dtype, self._cuda = dtype, cuda
        self._constructor = tensor_constructor

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self._name

    @staticmethod
    def default_tensor_constructor(
        size: tuple[int, ...], dtype: dtypes.dtype, **kwargs: Any
    ) -> Tensor:
        """Random numbers of a size and dtype: below 127, if they are integers."""
        made: Tensor = (
            mq.rand(size, dtype=dtype)
            if dtype.is_floating_point or dtype.is_complex
            else mq.randint(1, 127, size, dtype=dtype)
        )
        return made

    def _sizes(self, params: dict[str, Any]) -> tuple[list[int], list[int]]:
        dims = len(self._size) if self._dim_parameter is None else params[self._dim_parameter]

        def resolved(values: Sequence[str | int] | None) -> list[int]:
            given = (1,) * len(self._size) if values is None else values
            return [int(params.get(v, v)) if isinstance(v, str) else v for v in given][:dims]

        return resolved(self._size), resolved(self._steps)

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the numbers of elements and bytes are within bounds."""
        size, steps = self._sizes(params)
        count = math.prod(size)
        bytes_ = math.prod(s * t for s, t in zip(size, steps, strict=True)) * self._dtype.itemsize
        return (
            (self._min_elements is None or count >= self._min_elements)
            and (self._max_elements is None or count <= self._max_elements)
            and (self._max_allocation_bytes is None or bytes_ <= self._max_allocation_bytes)
        )

    def _make_tensor(self, params: dict[str, Any], state: State) -> tuple[Tensor, dict[str, Any]]:
        size, steps = self._sizes(params)
        order = np.arange(len(size))
        if state.rand() > self._probability_contiguous and len(size) > 1:
            order = state.permutation(len(size))
        whole = [size[d] * steps[d] for d in order]
        make = self._constructor or self.default_tensor_constructor
        raw = make(size=tuple(whole), dtype=self._dtype, **params)
        raw = raw.cuda() if self._cuda else raw
        back = raw.permute(tuple(int(d) for d in np.argsort(order)))
        tensor = back[tuple(slice(0, None, step) for step in steps)]
        properties = {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": tuple(steps),
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }
        return tensor, properties


class Fuzzer:
    """Draws parameters until all constraints hold, then makes tensors of them.

    seed: of the draws; from NumPy's generator if None.
    """

    def __init__(
        self,
        parameters: list[Any],
        tensors: list[Any],
        constraints: list[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        self._seed = np.random.RandomState().randint(0, 2**32 - 1) if seed is None else seed
        self._parameters: list[FuzzedParameter] = self._unpack(parameters, FuzzedParameter)
        self._tensors: list[FuzzedTensor] = self._unpack(tensors, FuzzedTensor)
        self._constraints = constraints or []
        names = [p.name for p in self._parameters] + [t.name for t in self._tensors]
        if len(names) != len(set(names)):
            raise ValueError(f"names of parameters and tensors are given twice: {sorted(names)}")
        self._rejections = self._total_generated = 0

    @staticmethod
    def _unpack(values: list[Any], cls: type) -> list[Any]:
        flat = [v if isinstance(v, list | tuple) else (v,) for v in values]
        return [item for group in flat for item in group if isinstance(item, cls)]

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]]:
        """``n`` draws: tensors by name, what is known of them, and the parameters."""
        state = np.random.RandomState(self._seed)
        for _ in range(n):
            params = self._generate(state)
            made = {t.name: t._make_tensor(params, state) for t in self._tensors}
            yield (
                {name: tensor for name, (tensor, _) in made.items()},
                {name: properties for name, (_, properties) in made.items()},
                params,
            )

    @property
    def rejection_rate(self) -> float:
        """The share of draws that broke a constraint."""
        return self._rejections / self._total_generated if self._total_generated else 0.0

    def _generate(self, state: State) -> dict[str, Any]:
        strict: dict[str, Any] = {}
        for _ in range(_TRIES):
            drawn = {p.name: p.sample(state) for p in self._parameters if p.name not in strict}
            strict.update(
                {p.name: drawn[p.name] for p in self._parameters if p.strict and p.name in drawn}
            )
            params = self._resolve_aliases({**strict, **drawn})
            self._total_generated += 1
            fits = all(f(params) for f in map(_by_keyword, self._constraints))
            if fits and all(t.satisfies_constraints(params) for t in self._tensors):
                return params
            self._rejections += 1
        raise ValueError(
            f"Failed to generate parameters that meet the constraints in {_TRIES} tries."
        )

    @staticmethod
    def _resolve_aliases(params: dict[str, Any]) -> dict[str, Any]:
        resolved = dict(params)
        for name in params:
            while isinstance(resolved[name], ParameterAlias):
                resolved[name] = resolved[resolved[name].alias_to]
        return resolved


def _by_keyword(constraint: Callable[..., bool]) -> Callable[[dict[str, Any]], bool]:
    @functools.wraps(constraint)
    def holds(params: dict[str, Any]) -> bool:
        return constraint(**params)

    return holds
