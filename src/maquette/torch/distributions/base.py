"""`Distribution`: batches of distributions over events; and the exponential families among them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from maquette.api import functions as mq
from maquette.autograd import enable_grad, grad, no_grad
from maquette.core.size import Size
from maquette.tensor.tensor import Tensor
from maquette.torch.distributions import constraints
from maquette.torch.distributions.constraints import Constraint
from maquette.torch.distributions.utils import has_data, lazy_property

Shape = Sequence[int]
NO_SHAPE = Size()
"""What shapes are by default: one draw of one distribution."""


class Distribution:
    """batch_shape: of independent distributions; event_shape: of one draw of one of them.

    A subclass names its parameters in `arg_constraints`, broadcasts them together, and says in
    `own_dims` how many of the last dimensions of each belong to one distribution.

    validate_args: whether parameters, and values given to `log_prob`, are checked; they are by
    default, where they have data. Raises ValueError for those that are not allowed.
    """

    has_rsample: ClassVar[bool] = False
    has_enumerate_support: ClassVar[bool] = False
    own_dims: ClassVar[Mapping[str, int]] = {}
    _validate_args: bool = __debug__
    _batch_shape: Size
    _event_shape: Size

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions are checked unless they are told."""
        if value not in (True, False):
            raise ValueError(f"validate_args is True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Shape = NO_SHAPE,
        event_shape: Shape = NO_SHAPE,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()  # a distribution may have another base beside this one

    def _check_parameters(self) -> None:
        try:
            allowed = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                f"{{}}` or initialize the distribution with `validate_args=False` to turn off "
                f"validation.",
                stacklevel=4,
            )
            return
        for name, constraint in allowed.items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (name not in self.__dict__ and lazy):
                continue
            value = getattr(self, name)
            if has_data(value) and not bool(mq._is_all_true(constraint.check(value))):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    # --- shapes ------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """Of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Of one draw."""
        return self._event_shape

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The distribution with its parameters expanded to a larger batch, without copying."""
        made = self._get_checked_instance(Distribution, _instance)
        shape = Size(batch_shape)
        made.__dict__.update(self.__dict__ | self._expanded_parameters(shape))
        made._batch_shape, made._event_shape = shape, self._event_shape
        return made

    def _expanded_parameters(self, batch_shape: Shape) -> dict[str, Tensor]:
        """The parameters that `own_dims` names, those that are there."""
        found = {}
        for name, dims in self.own_dims.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                found[name] = value.expand((*batch_shape, *value.shape[value.dim() - dims :]))
        return found

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        own = "__init__" in vars(type(self)) and type(self) is not cls
        if _instance is None and cls is not Distribution and own:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                f"method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Shape = NO_SHAPE) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    # --- what a distribution says ------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """What each parameter may be."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """What a draw can be."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean (*batch, *event)."""
        raise self._missing("mean")

    @property
    def mode(self) -> Tensor:
        """The likeliest value (*batch, *event)."""
        raise self._missing("mode")

    @property
    def variance(self) -> Tensor:
        """The variance (*batch, *event)."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws (*sample, *batch, *event), not followed by autograd."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = NO_SHAPE) -> Tensor:
        """Draws as functions of the parameters, which gradients reach."""
        raise self._missing("rsample")

    def sample_n(self, n: int) -> Tensor:
        """``sample((n,))``; deprecated."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of values, (*sample, *batch)."""
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most each value."""
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value that at most has this probability."""
        raise self._missing("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All that a draw can be, along a new first dimension."""
        raise self._missing("enumerate_support")

    def entropy(self) -> Tensor:
        """The entropy (*batch), in nats."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return mq.exp(self.entropy())

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {name}")

    # --- checks ------------------------------------------------------------------------------

    def _validate_sample(self, value: Tensor) -> None:
        """ValueError for a value that does not fit the shapes or is no possible draw."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = len(self._event_shape)
        if value.shape[value.dim() - event :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.size()} vs {self._event_shape}."
            )
        expected = (*self._batch_shape, *self._event_shape)
        for given, own in zip(reversed(value.shape), reversed(expected), strict=False):
            if 1 not in (given, own) and given != own:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.size()} vs {expected}."
                )
        self._check_support(value)

    def _check_support(self, value: Tensor) -> None:
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=5,
            )
            return
        if has_data(value) and not bool(mq._is_all_true(support.check(value))):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        parts = []
        for name in names:
            value = self.__dict__[name]
            shown = value if value.numel() == 1 and has_data(value) else value.size()
            parts.append(f"{name}: {shown}")
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Densities ``exp(<t(x), eta> - F(eta) + k(x))``: their entropy follows from F's gradient."""

    @property
    def _mean_carrier_measure(self) -> Any:
        """The mean of k."""
        raise NotImplementedError

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(eta) less eta times its gradient, less the mean of k."""
        result: Tensor = -mq.as_tensor(self._mean_carrier_measure)
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*natural)
            slopes = grad(normalizer.sum(), natural, create_graph=True)
        result = result + normalizer
        for parameter, slope in zip(natural, slopes, strict=True):
            assert slope is not None
            result = result - (parameter * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
