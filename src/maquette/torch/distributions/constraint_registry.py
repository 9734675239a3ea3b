"""`biject_to` and `transform_to`: transforms from all real numbers onto what a constraint allows.

`biject_to` gives one to one transforms; `transform_to` may give others that optimize better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.torch.distributions import constraints, transforms

Factory = Callable[[Any], Any]


class ConstraintRegistry:
    """Transforms by class of constraint; calling it gives the transform for a constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Let ``factory(constraint)`` make the transform for constraints of a class.

        constraint: a class, or an object of it. Without a factory, a decorator.
        """
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform onto what the constraint allows; NotImplementedError if none is known."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Factory], Factory]:
    def register(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _onto_real(constraint: Any) -> Any:
    return transforms.identity_transform


@_both(constraints.greater_than, constraints.greater_than_eq)
def _onto_greater(constraint: Any) -> Any:
    above = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), above])


@_both(constraints.less_than)
def _onto_less(constraint: Any) -> Any:
    below = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), below])


@_both(constraints.interval, constraints.half_open_interval)
def _onto_interval(constraint: Any) -> Any:
    lower, upper = constraint.lower_bound, constraint.upper_bound
    numbers = not hasattr(lower, "shape") and not hasattr(upper, "shape")
    if numbers and lower == 0 and upper == 1:
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(lower, upper - lower)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


@biject_to.register(constraints.independent)
def _bijection_of_several(constraint: Any) -> Any:
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _transform_of_several(constraint: Any) -> Any:
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@biject_to.register(constraints.simplex)
def _bijection_onto_shares(constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_onto_shares(constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _onto_cholesky(constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_semidefinite)
@transform_to.register(constraints.positive_definite)
def _onto_definite(constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _onto_correlations(constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


def _joined(registry: ConstraintRegistry) -> None:
    registry.register(
        constraints.cat,
        lambda c: transforms.CatTransform([registry(each) for each in c.cseq], c.dim, c.lengths),
    )
    registry.register(
        constraints.stack,
        lambda c: transforms.StackTransform([registry(each) for each in c.cseq], c.dim),
    )


_joined(biject_to)
_joined(transform_to)
