"""Distributions: densities against integrals and sums, divergences against their definition."""

import math

import pytest

import maquette as mq
import maquette.torch.distributions as d
from maquette.torch.autograd.functional import jacobian


def t(*values):
    return mq.tensor(values, dtype=mq.float64)


CONTINUOUS = [
    d.Normal(t(0.5), t(0.7)),
    d.Laplace(t(0.5), t(0.3)),
    d.Uniform(t(-1.0), t(2.0)),
    d.Exponential(t(2.5)),
    d.Gamma(t(2.5), t(2.0)),
    d.Beta(t(2.0), t(3.0)),
    d.StudentT(t(30.0), t(0.5), t(0.6)),
    d.Gumbel(t(-1.0), t(0.6)),
    d.LogNormal(t(-0.5), t(0.4)),
    d.Weibull(t(1.5), t(2.0)),
    d.Kumaraswamy(t(1.5), t(3.0)),
    d.HalfNormal(t(1.2)),
    d.ContinuousBernoulli(t(0.2)),
    d.GeneralizedPareto(t(0.0), t(0.3), t(-0.2)),
]
DISCRETE = [d.Bernoulli(t(0.3)), d.Categorical(t(1.0, 2.0, 5.0))]


@pytest.mark.parametrize("p", CONTINUOUS)
def test_densities_integrate_to_one_mean_variance_and_entropy(p):
    x = mq.linspace(-9.99995, 9.99995, 200_000, dtype=mq.float64)
    x = x[p.support.check(x)]
    log_density = p.log_prob(x)
    density = log_density.exp()
    mean = mq.trapezoid(density * x, x)
    assert mq.trapezoid(density, x).item() == pytest.approx(1, abs=1e-3)
    assert mean.item() == pytest.approx(p.mean.item(), abs=1e-3)
    variance = mq.trapezoid(density * (x - mean) ** 2, x)
    assert variance.item() == pytest.approx(p.variance.item(), abs=1e-3)
    entropy = -mq.trapezoid(mq.where(density > 0, density * log_density, 0.0), x)
    assert entropy.item() == pytest.approx(p.entropy().item(), abs=1e-3)


@pytest.mark.parametrize("p", [*CONTINUOUS, DISCRETE[0]])
def test_draws_have_the_mean_and_spread(p):
    mq.manual_seed(0)
    draws = p.sample((20_000,))
    assert draws.shape == (20_000, *p.batch_shape)
    assert draws.mean().item() == pytest.approx(p.mean.item(), abs=0.03)
    assert draws.std().item() == pytest.approx(p.stddev.item(), abs=0.03)
    assert not draws.requires_grad


def test_gradients_reach_the_parameters_through_rsample():
    loc, scale = t(0.0).requires_grad_(), t(1.0).requires_grad_()
    p = d.Normal(loc, scale)
    p.rsample((3,)).sum().backward()
    assert loc.grad.item() == 3.0
    assert not p.sample().requires_grad


def test_probabilities_of_events_sum_to_one():
    bernoulli, categorical = DISCRETE
    assert bernoulli.log_prob(t(0.0, 1.0)).exp().sum().item() == pytest.approx(1)
    log_probabilities = categorical.log_prob(mq.arange(3))
    assert mq.allclose(log_probabilities.exp(), t(1 / 8, 2 / 8, 5 / 8))
    entropy = -(log_probabilities.exp() * log_probabilities).sum()
    assert mq.allclose(categorical.entropy(), entropy)


@pytest.mark.parametrize("make", [d.Bernoulli, d.Categorical])
def test_probabilities_and_logits_are_two_names_of_one_thing(make):
    p = make(logits=mq.randn(4, 3))
    q = make(probs=p.probs)
    assert mq.allclose(p.logits, q.logits, atol=1e-5)
    assert mq.allclose(p.entropy(), q.entropy(), atol=1e-5)
    with pytest.raises(ValueError, match="not both"):
        make(probs=p.probs, logits=p.logits)


def test_events_are_drawn_as_often_as_they_are_probable():
    mq.manual_seed(0)
    draws = d.Categorical(t(1.0, 2.0, 5.0)).sample((10_000,))
    share = mq.bincount(draws.flatten()) / 10_000
    assert mq.allclose(share.double(), t(1 / 8, 2 / 8, 5 / 8), atol=0.02)
    assert d.Categorical(logits=mq.zeros(4, 5, 3)).sample((2,)).shape == (2, 4, 5)


@pytest.mark.parametrize(
    "p, q",
    [
        (d.Categorical(t(1.0, 2.0, 5.0)), d.Categorical(t(1.0, 1.0, 1.0))),
        (d.Bernoulli(t(0.3)), d.Bernoulli(t(0.6))),
    ],
)
def test_divergences_of_events_are_their_definition(p, q):
    events = mq.arange(3) if isinstance(p, d.Categorical) else t(0.0, 1.0)
    expected = (p.log_prob(events).exp() * (p.log_prob(events) - q.log_prob(events))).sum()
    assert mq.allclose(d.kl_divergence(p, q), expected)


@pytest.mark.parametrize(
    "p, q",
    [
        (d.Normal(t(0.5), t(0.7)), d.Normal(t(-1.0), t(2.0))),
        (d.Uniform(t(0.0), t(1.0)), d.Uniform(t(-1.0), t(2.0))),
        (d.Uniform(t(0.1), t(0.9)), d.Beta(t(2.0), t(3.0))),
        (d.Uniform(t(0.0), t(1.0)), d.Gumbel(t(-1.0), t(0.6))),
        (d.Gamma(t(2.5), t(2.0)), d.Gumbel(t(0.5), t(0.7))),
        (d.Gamma(t(2.5), t(2.0)), d.Normal(t(1.0), t(2.0))),
        (d.Exponential(t(2.5)), d.Gamma(t(1.5), t(2.0))),
        (d.Beta(t(2.0), t(3.0)), d.ContinuousBernoulli(t(0.3))),
        (d.Normal(t(0.5), t(0.7)), d.Laplace(t(0.1), t(0.5))),
        (d.Laplace(t(0.1), t(0.3)), d.Laplace(t(0.4), t(0.5))),
        (d.Gumbel(t(-1.0), t(0.4)), d.Gumbel(t(-0.5), t(0.5))),
    ],
)
def test_divergences_of_densities_are_their_definition(p, q):
    x = mq.linspace(-9.99995, 9.99995, 200_000, dtype=mq.float64)
    x = x[p.support.check(x)]
    density = p.log_prob(x).exp()
    ratio = mq.where(density > 0, p.log_prob(x) - q.log_prob(x), 0.0)
    expected = mq.trapezoid(density * ratio, x)
    assert d.kl_divergence(p, q).item() == pytest.approx(expected.item(), abs=1e-3)


def test_independent_dimensions_are_summed():
    base = d.Normal(mq.zeros(4, 3), mq.ones(4, 3))
    p = d.Independent(base, 1)
    x = mq.randn(4, 3)
    assert (p.batch_shape, p.event_shape) == ((4,), (3,))
    assert mq.allclose(p.log_prob(x), base.log_prob(x).sum(-1))
    assert mq.allclose(d.kl_divergence(p, p), mq.zeros(4))
    assert p.rsample((2,)).shape == (2, 4, 3)
    with pytest.raises(ValueError, match="3 vs 2"):
        d.Independent(base, 3)


def test_quantiles_are_undone_by_probabilities():
    p = d.Normal(t(0.5), t(0.7))
    assert mq.allclose(p.cdf(p.icdf(t(0.1, 0.5, 0.9))), t(0.1, 0.5, 0.9))
    assert p.perplexity().item() == pytest.approx(math.exp(p.entropy().item()))


def test_pairs_without_a_rule_say_how_to_add_one():
    with pytest.raises(NotImplementedError, match="register_kl"):
        d.kl_divergence(d.Cauchy(0.0, 1.0), d.Laplace(0.0, 1.0))


def test_distributions_work_in_fake_mode():
    with mq.FakeTensorMode():
        p = d.Categorical(logits=mq.empty(4, 3))
        assert p.log_prob(p.sample()).shape == (4,)
        assert d.Normal(mq.empty(3), 1.0).rsample((2,)).shape == (2, 3)
        assert "Categorical" in repr(p)


VECTORS = [
    d.MultivariateNormal(t(0.0, 1.0), covariance_matrix=mq.tensor([[2.0, 0.5], [0.5, 1]]).double()),
    d.LowRankMultivariateNormal(t(0.0, 1.0), t(0.5, -0.3)[:, None], t(1.0, 0.7)),
]


@pytest.mark.parametrize("p", VECTORS)
def test_normal_vectors_have_the_density_of_their_covariance(p):
    x = t(0.3, -0.8)
    off = x - p.mean
    inverse = mq.linalg_inv(p.covariance_matrix)
    log_det = mq.linalg_slogdet(2 * math.pi * p.covariance_matrix)[1]
    assert mq.allclose(p.log_prob(x), -0.5 * (off @ inverse @ off + log_det))
    assert mq.allclose(p.precision_matrix, inverse)
    assert mq.allclose(d.kl_divergence(p, VECTORS[0]), d.kl_divergence(VECTORS[0], p)) == (
        p is VECTORS[0]
    )


def test_counts_have_the_probabilities_of_their_trials():
    binomial, multinomial = d.Binomial(4, t(0.3)), d.Multinomial(3, t(0.2, 0.8))
    counts = binomial.enumerate_support()
    assert binomial.log_prob(counts).exp().sum().item() == pytest.approx(1)
    assert (binomial.log_prob(counts).exp() * counts).sum().item() == pytest.approx(1.2)
    pairs = mq.stack([mq.arange(4.0), 3 - mq.arange(4.0)], -1).double()
    assert multinomial.log_prob(pairs).exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize(
    "constraint",
    [
        d.constraints.positive,
        d.constraints.unit_interval,
        d.constraints.less_than(2.0),
        d.constraints.simplex,
        d.constraints.corr_cholesky,
    ],
)
def test_a_bijection_onto_a_constraint_is_undone_and_measures_its_stretch(constraint):
    transform = d.biject_to(constraint)
    x = t(0.3, -0.6, 1.1)
    y = transform(x)
    assert constraint.check(y).all()
    assert mq.allclose(transform.inv(y), x)
    slope = jacobian(lambda v: _free(transform(v), constraint), x)
    stretch = mq.linalg_slogdet(slope)[1]
    assert mq.allclose(transform.log_abs_det_jacobian(x, y).sum(), stretch)


def _free(y, constraint):
    """The elements of a value that determine the others."""
    if constraint is d.constraints.simplex:
        return y[:-1]
    if constraint is d.constraints.corr_cholesky:
        return mq.stack([y[1, 0], y[2, 0], y[2, 1]])
    return y


def test_gradients_reach_the_shapes_of_gamma_and_dirichlet_draws():
    mq.manual_seed(0)
    shape = t(0.7, 2.0, 9.0).requires_grad_()
    drawn = d.Gamma(shape, t(1.0)).rsample((20_000,))
    slope = mq.autograd.grad(drawn.mean(0).sum(), shape)[0]
    assert mq.allclose(slope, mq.ones(3).double(), atol=0.05)
    shares = d.Dirichlet(shape).rsample((20_000,))
    slope = mq.autograd.grad(shares[:, 0].mean(), shape)[0]
    expected = mq.autograd.grad((shape / shape.sum())[0], shape)[0]
    assert mq.allclose(slope, expected, atol=0.02)


def test_a_mixture_weighs_its_components():
    weights, parts = d.Categorical(t(0.25, 0.75)), d.Normal(t(0.0, 2.0), t(1.0, 0.5))
    p = d.MixtureSameFamily(weights, parts)
    x = t(0.3)
    density = (parts.log_prob(x).exp() * t(0.25, 0.75)).sum()
    assert mq.allclose(p.log_prob(x).exp(), density)
    assert p.mean.item() == pytest.approx(1.5)


def test_parameters_and_values_that_are_not_allowed_are_refused():
    with pytest.raises(ValueError, match=r"parameter scale .* GreaterThan"):
        d.Normal(0.0, t(-1.0))
    with pytest.raises(ValueError, match="within the support"):
        d.Exponential(t(1.0)).log_prob(t(-1.0))
    assert d.Normal(0.0, t(-1.0), validate_args=False).scale.item() == -1


def test_an_expanded_distribution_is_the_same_for_each_of_its_batch():
    for p in (*CONTINUOUS, *DISCRETE, *VECTORS):
        x = p.sample()
        wide = p.expand((3, *p.batch_shape))
        assert wide.batch_shape == (3, *p.batch_shape)
        assert mq.allclose(wide.log_prob(x), p.log_prob(x).expand(wide.batch_shape))


def test_a_base_of_the_right_shape_is_the_one_that_was_given():
    base = d.Normal(mq.zeros(3), mq.ones(3))
    assert d.TransformedDistribution(base, d.AffineTransform(1.0, 2.0)).base_dist is base
    wider = d.TransformedDistribution(base, d.AffineTransform(mq.zeros(2, 3), 2.0)).base_dist
    assert wider.batch_shape == (2, 3)


@pytest.mark.parametrize("kind", [mq.float32, mq.float64])
def test_shares_of_the_least_concentrations_are_numbers(kind: mq.dtype) -> None:
    mq.manual_seed(0)
    small = mq.full((200, 2), 1e-6, dtype=kind)
    shares = d.Dirichlet(small).sample()
    assert bool(((shares > 0) & (shares < 1)).all())
    assert d.Beta(small[0, 0], small[0, 0]).sample().item() == 0.5


def test_a_binomial_of_no_logit_has_the_slope_between_both_sides() -> None:
    logit = mq.zeros((), requires_grad=True)
    d.Binomial(1.0, logits=logit).log_prob(mq.zeros(())).backward()
    assert logit.grad.item() == -0.5


def test_what_depends_on_parameters_is_not_told_of_a_class() -> None:
    with pytest.raises(NotImplementedError, match="event_dim"):
        _ = d.Independent.support.event_dim
    assert d.Uniform.support.event_dim == 0


def test_wishart_draws_are_pytorchs() -> None:
    mq.manual_seed(0)
    with pytest.warns(UserWarning, match="Singular sample"):
        drawn = d.Wishart(mq.tensor(9.0), scale_tril=mq.eye(3)).sample()
    expected = [[7.3114, -2.1495, -1.5313], [-2.1495, 12.8559, 1.7547], [-1.5313, 1.7547, 4.2837]]
    assert mq.allclose(drawn, mq.tensor(expected), atol=1e-4)


def test_bartletts_sampling_is_asked_for_alone() -> None:
    drawn = d.Wishart(mq.tensor(9.0), scale_tril=mq.eye(3))._bartlett_sampling(mq.Size([2]))
    assert drawn.shape == (2, 3, 3)
    assert mq.equal(drawn, drawn.mT)


def test_a_wishart_of_few_degrees_of_freedom_warns() -> None:
    with pytest.warns(UserWarning, match="Low df values"):
        d.Wishart(mq.tensor(2.5), scale_tril=mq.eye(3))


@pytest.mark.parametrize("base", [d.Distribution, d.transforms.Transform])
def test_a_distribution_or_transform_may_be_a_module_too(base: type) -> None:
    own = {"arg_constraints": {}, "__hash__": mq.nn.Module.__hash__}
    both = type("Both", (base, mq.nn.Module), own)()
    both.layer = mq.nn.Linear(1, 1)
    assert [name for name, _ in both.named_modules()] == ["", "layer"]
