"""The same seed gives PyTorch's own numbers, and leaves the generator in PyTorch's own state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import maquette.torch as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

SIZES = (1, 15, 16, 17, 33, 100)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("uint8", "int8", "int16", "int32", "int64", "bool")


def _numbers(t):
    if t.dtype in (torch.bfloat16, mt.bfloat16):
        t = t.float()
    return t.detach().numpy()


CACHED_NORMAL = slice(5024, 5032)  # of a state: the second of a pair of normals, a float64


def _agree(theirs, ours, bits):
    """Equal, but for what the logarithm or cosine of a C library and NumPy's differ by: 2 ulps.

    Which bits those are depends on the processor that both were built for.
    """
    if not np.array_equal(theirs, ours, equal_nan=True):
        assert theirs.dtype.kind == "f"
        np.testing.assert_allclose(ours, theirs, rtol=2.0 ** (1 - bits), atol=2.0 ** (1 - bits))


def _same_state(theirs, ours):
    rest = slice(CACHED_NORMAL.stop, None)
    assert theirs[: CACHED_NORMAL.start] == ours[: CACHED_NORMAL.start]
    assert theirs[rest] == ours[rest]
    _agree(*(np.frombuffer(state[CACHED_NORMAL], np.float64) for state in (theirs, ours)), 52)


def _bits(t):
    return {2: 7 if "bfloat16" in str(t.dtype) else 10, 4: 23}.get(t.element_size(), 52)


def _same(program, seed=3):
    """Run a program of one module on both; numbers and states must be equal, see `_agree`."""
    found = []
    for T in (torch, mt):
        T.manual_seed(seed)
        result = program(T)
        results = result if isinstance(result, (tuple, list)) else [result]
        state = bytes(T.get_rng_state().numpy())
        found.append(([(_numbers(r), _bits(r)) for r in results], state))
    (theirs, their_state), (ours, our_state) = found
    for (a, bits), (b, _) in zip(theirs, ours, strict=True):
        _agree(a, b, bits)
    _same_state(their_state, our_state)


def _kind(T, name):
    return getattr(T, name)


FILLS = {
    "uniform": lambda t: t.uniform_(),
    "uniform_range": lambda t: t.uniform_(-3.3, 5.1),
    "normal": lambda t: t.normal_(),
    "normal_range": lambda t: t.normal_(2.5, 0.3),
    "exponential": lambda t: t.exponential_(),
    "exponential_rate": lambda t: t.exponential_(2.5),
    "cauchy": lambda t: t.cauchy_(1.0, 2.0),
    "log_normal": lambda t: t.log_normal_(1.0, 0.5),
    "geometric": lambda t: t.geometric_(0.3),
    "bernoulli": lambda t: t.bernoulli_(0.3),
    "random": lambda t: t.random_(),
    "random_to": lambda t: t.random_(100),
    "random_from": lambda t: t.random_(3, 100),
}
INT_FILLS = ("random", "random_to", "random_from", "bernoulli", "geometric")


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("fill", FILLS)
def test_T53_fills_are_pytorchs(fill, kind):
    for size in SIZES:
        _same(lambda T, n=size: FILLS[fill](T.empty(n, dtype=_kind(T, kind))))


@pytest.mark.parametrize("kind", INTS)
@pytest.mark.parametrize("fill", INT_FILLS)
def test_T53_integer_fills_are_pytorchs(fill, kind):
    if kind == "bool" and fill not in ("random", "bernoulli"):
        pytest.skip("bool holds none of these numbers")
    for size in SIZES:
        _same(lambda T, n=size: FILLS[fill](T.empty(n, dtype=_kind(T, kind))))


LAYOUTS = {
    "transposed": lambda T, k: T.empty(7, 5, dtype=k).t(),
    "sliced": lambda T, k: T.zeros(6, 10, dtype=k)[:, ::2],
    "permuted": lambda T, k: T.empty(3, 4, 5, dtype=k).permute(2, 0, 1),
    "channels_last": lambda T, k: T.empty(2, 3, 4, 5, dtype=k, memory_format=T.channels_last),
    "scalar": lambda T, k: T.empty((), dtype=k),
    "empty": lambda T, k: T.empty(0, 3, dtype=k),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fill", FILLS)
def test_T53_fills_follow_memory_as_pytorchs(fill, layout):
    for kind in ("float32", "float64"):
        _same(lambda T, k=kind: FILLS[fill](LAYOUTS[layout](T, _kind(T, k))))


OUTPUTS = {
    "normal_tensors": lambda T, out: T.normal(T.ones(out.shape), T.ones(out.shape[-1]), out=out),
    "normal_std": lambda T, out: T.normal(1.5, T.ones(out.shape), out=out),
    "bernoulli": lambda T, out: T.bernoulli(T.full(out.shape, 0.4), out=out),
}


@pytest.mark.parametrize("layout", ["transposed", "sliced", "permuted"])
@pytest.mark.parametrize("name", OUTPUTS)
def test_T53_outputs_are_drawn_in_their_own_memory_as_pytorchs(name, layout):
    for kind in ("float32", "float64"):
        _same(lambda T, k=kind: OUTPUTS[name](T, LAYOUTS[layout](T, _kind(T, k))))


FACTORIES = {
    "rand": lambda T, n, k: T.rand(n, 2, dtype=k),
    "randn": lambda T, n, k: T.randn(n, dtype=k),
    "randn_odd": lambda T, n, k: [T.randn(3, dtype=k), T.randn(n, dtype=k), T.rand(2, dtype=k)],
    "rand_like": lambda T, n, k: T.rand_like(T.empty(n, 3, dtype=k).t()),
    "randn_like": lambda T, n, k: T.randn_like(T.empty(n, 3, dtype=k).t()),
    "normal_tensors": lambda T, n, k: T.normal(T.arange(n).to(k), T.ones(n, dtype=k)),
    "normal_mean": lambda T, n, k: T.normal(T.arange(n).to(k), 0.3),
    "normal_std": lambda T, n, k: T.normal(1.5, T.ones(n, dtype=k) * 0.7),
    "bernoulli": lambda T, n, k: T.bernoulli(T.full((n, 3), 0.4, dtype=k)),
    "bernoulli_p": lambda T, n, k: T.bernoulli(T.empty(n, 3, dtype=k).t(), 0.4),
    "bernoulli_tensor": lambda T, n, k: T.empty(n, 3, dtype=k).bernoulli_(T.full((3,), 0.4)),
    "dropout": lambda T, n, k: T.nn.functional.dropout(T.ones(n, 3, dtype=k), 0.4),
    "dropout1d": lambda T, n, k: T.nn.functional.dropout1d(T.ones(2, n, 3, dtype=k), 0.4),
    "alpha_dropout": lambda T, n, k: T.nn.functional.alpha_dropout(T.ones(n, dtype=k), 0.4, True),
    "native_dropout": lambda T, n, k: T.native_dropout(T.ones(n, dtype=k), 0.4, True),
    "rrelu": lambda T, n, k: T.nn.functional.rrelu(T.arange(n).to(k) - n // 2, training=True),
    "multinomial": lambda T, n, k: T.multinomial(T.arange(1, n + 1).to(k), 1),
    "multinomial_all": lambda T, n, k: T.multinomial(T.arange(1, n + 1).to(k), n),
    "multinomial_replaced": lambda T, n, k: T.multinomial(T.arange(1, n + 1).to(k), 9, True),
    "multinomial_rows": lambda T, n, k: T.multinomial(T.ones(3, n, dtype=k), 5, True),
    "poisson_few": lambda T, n, k: T.poisson(T.full((n,), 3.0, dtype=k)),
    "poisson_many": lambda T, n, k: T.poisson(T.full((n,), 40.0, dtype=k)),
}


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("factory", FACTORIES)
def test_T53_factories_and_samples_are_pytorchs(factory, kind):
    for size in SIZES:
        _same(lambda T, n=size: FACTORIES[factory](T, n, _kind(T, kind)))


BOUNDS = (2, 10, 2**20, 2**28 - 1, 2**28, 2**31, 2**32, 2**40, 2**62)


def test_T53_integers_of_any_range_are_pytorchs():
    for bound, size in itertools.product(BOUNDS, SIZES):
        _same(lambda T, b=bound, n=size: T.randint(b, (n,)))
        _same(lambda T, b=bound, n=size: T.randint(-5, b, (n,)))
        _same(lambda T, b=bound, n=size: T.randint_like(T.empty(n, 2, dtype=T.int64).t(), b))


def test_T53_permutations_are_pytorchs():
    for n in (0, 1, 2, 3, 100, 5000):
        _same(lambda T, n=n: T.randperm(n))
    _same(lambda T: T.randperm(20, dtype=T.float32))


def test_T53_binomial_counts_are_pytorchs():
    for count, p in itertools.product((1.0, 5.0, 50.0, 1000.0), (0.0, 0.05, 0.4, 0.7, 1.0)):
        _same(lambda T, c=count, p=p: T.binomial(T.full((50,), c), T.full((50,), p)))


def test_T53_complex_numbers_are_pytorchs():
    for n in (1, 7, 8, 20):
        _same(lambda T, n=n: T.view_as_real(T.randn(n, dtype=T.complex64)))
        _same(lambda T, n=n: T.view_as_real(T.rand(n, dtype=T.complex128)))


def test_T53_a_million_normals_are_pytorchs():
    _same(lambda T: T.randn(1_000_000))
    _same(lambda T: T.randn(1_000_003, dtype=T.float64))


def test_T53_initialized_layers_are_pytorchs():
    def layers(T):
        nn = T.nn
        made = nn.Sequential(
            nn.Linear(20, 30), nn.Conv2d(3, 8, 3), nn.Embedding(10, 4), nn.LSTM(4, 6),
            nn.TransformerEncoderLayer(8, 2, 16),
        )  # fmt: skip
        return list(made.parameters())

    _same(layers)


def test_T53_states_are_exchanged_both_ways():
    torch.manual_seed(11)
    torch.randn(3)
    mt.set_rng_state(mt.from_numpy(torch.get_rng_state().numpy()))
    np.testing.assert_array_equal(torch.randn(40).numpy(), mt.randn(40).numpy())
    mt.randn(5)
    torch.set_rng_state(torch.from_numpy(mt.get_rng_state().numpy()))
    np.testing.assert_array_equal(torch.rand(700).numpy(), mt.rand(700).numpy())


def test_T53_a_generator_of_ones_own_is_pytorchs():
    a = torch.Generator().manual_seed(2**40 + 3)
    b = mt.Generator().manual_seed(2**40 + 3)
    np.testing.assert_array_equal(
        torch.randn(9, generator=a).numpy(), mt.randn(9, generator=b).numpy()
    )
    assert bytes(a.get_state().numpy()) == bytes(b.get_state().numpy())


@pytest.mark.filterwarnings("ignore:.*out of bounds")
def test_T53_floats_of_any_range_are_pytorchs():
    kinds = ("float32", "float64", "bfloat16")
    for bound, kind in itertools.product((*BOUNDS, 2**24, 2**27, 2**33 + 1, 2**63 - 1), kinds):
        for low in (0, -(2**40)):
            _same(lambda T, b=bound, k=kind, n=low: T.randint(n, b, (40,), dtype=_kind(T, k)))


MEMORY_ORDER = {
    "native_dropout": lambda T, x: T.native_dropout(x, 0.4, True),
    "multinomial": lambda T, x: T.multinomial(x[0] if x.ndim > 2 else x, 1),
    "multinomial_some": lambda T, x: T.multinomial(x[0] if x.ndim > 2 else x, 2),
}


@pytest.mark.parametrize("draw", MEMORY_ORDER)
def test_T53_samples_follow_memory_as_pytorchs(draw):
    for layout in ("transposed", "sliced", "permuted"):
        _same(lambda T, n=layout: MEMORY_ORDER[draw](T, LAYOUTS[n](T, T.float32).fill_(0.5)))


def test_T53_one_probability_in_a_tensor_is_a_tensor():
    for shape in ((), (1,)):
        _same(lambda T, s=shape: T.zeros(5).bernoulli_(T.full(s, 0.3)))


def test_T53_passes_with_a_generator_of_ones_own_are_pytorchs():
    def passes(T):
        data, generator = T.utils.data, T.Generator().manual_seed(3)
        loader = data.DataLoader(
            data.TensorDataset(T.arange(7)), batch_size=3, shuffle=True, generator=generator
        )
        return [T.cat([batch for (batch,) in loader]) for _ in range(3)]

    _same(passes)


def test_T53_angles_are_pytorchs():
    _same(lambda T: T.distributions.VonMises(T.tensor([5.0, 0.2]), 2.0).sample((50,)))
