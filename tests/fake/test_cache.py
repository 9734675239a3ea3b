"""What may be asked of the dispatch cache: counts, crosschecks, no cache at all (F83-F89, FX11)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import maquette as mq
from maquette.core import remembered
from maquette.library import infer


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


@pytest.fixture(autouse=True)
def counted() -> None:
    mq.FakeTensorMode.cache_clear()


def counts() -> tuple[int, int]:
    info = mq.FakeTensorMode.cache_info()
    return info.hits, info.misses


def test_F88_nothing_is_counted_after_clearing() -> None:
    mq.FakeTensorMode.cache_clear()
    info = mq.FakeTensorMode.cache_info()
    assert (info.hits, info.misses, info.bypasses, info.size) == (0, 0, {}, 0)


def test_F88_hits_misses_and_size(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2, 3))
    before = mq.FakeTensorMode.cache_info().size
    x + x
    x + x
    info = mq.FakeTensorMode.cache_info()
    assert (info.hits, info.misses, info.size - before) == (1, 1, 1)


def test_F88_another_mode_hits_what_one_has_asked(m: mq.FakeTensorMode) -> None:
    for mode in (m, mq.FakeTensorMode()):
        x = mode.from_tensor(mq.ones(2, 3))
        x + x
    assert counts() == (1, 1)


def test_F88_plain_arguments_count_with_their_type(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2, 3))
    for other in (2, 2.0, True):
        x + other
    assert counts() == (0, 3)


def test_F88_a_mode_without_cache_asks_the_rule_each_time(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2, 3))
    with mq.fake.disable_fake_tensor_cache(m):
        assert (x + x).shape == (2, 3)
        assert counts() == (0, 0)
    x + x
    assert counts() == (0, 1)


def test_F88_the_cache_may_be_off_from_the_start() -> None:
    x = mq.FakeTensorMode(cache_enabled=False).from_tensor(mq.ones(2, 3))
    size = mq.FakeTensorMode.cache_info().size
    x + x
    assert mq.FakeTensorMode.cache_info().size == size


def test_F83_a_real_tensor_passes_the_cache_by() -> None:
    mode = mq.FakeTensorMode(allow_non_fake_inputs=True)
    mode.from_tensor(mq.ones(2)) + mq.ones(2)
    assert mq.FakeTensorMode.cache_info().bypasses == {"non-fake tensor": 1}


def test_F83_what_makes_a_sparse_tensor_passes_the_cache_by(m: mq.FakeTensorMode) -> None:
    mq.zeros_like(m.from_tensor(mq.ones(2)), layout=mq.sparse_coo)
    assert mq.FakeTensorMode.cache_info().bypasses == {"torch.sparse_coo tensor": 1}


def test_F83_a_fake_of_another_mode_passes_the_cache_by(m: mq.FakeTensorMode) -> None:
    mode = mq.FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        mode.from_tensor(mq.ones(2)) + m.from_tensor(mq.ones(2))
    assert mq.FakeTensorMode.cache_info().bypasses == {"not our fake": 1}


def test_F83_a_constant_passes_the_cache_by(m: mq.FakeTensorMode) -> None:
    with m:
        known = mq.tensor(1.0)
        known + 1
    assert mq.FakeTensorMode.cache_info().bypasses["constant attribute"] == 1


def test_F83_a_sparse_tensor_passes_the_cache_by(m: mq.FakeTensorMode) -> None:
    m.from_tensor(mq.eye(3).to_sparse()) * 2
    assert mq.FakeTensorMode.cache_info().bypasses["torch.sparse_coo tensor"] == 1


def test_F83_a_symbolic_float_passes_the_cache_by(symbolic: mq.FakeTensorMode) -> None:
    x = symbolic.from_tensor(mq.ones(3, 4))
    x * (x.shape[0] / 2)
    assert mq.FakeTensorMode.cache_info().bypasses["symbolic shape"] == 1


@pytest.fixture
def symbolic() -> mq.FakeTensorMode:
    return mq.FakeTensorMode(shape_env=mq.symbolic.ShapeEnv())


Program = Callable[[mq.Tensor], object]


@pytest.mark.parametrize(
    ("reason", "program"),
    [
        ("data dependent output", lambda x: x.sum().item()),
        ("dynamic output shape", lambda x: x.nonzero()),
        ("dynamic output shape", lambda x: x[x > 0]),
        ("inplace view", lambda x: x.t_().t_()),
        ("unsafe view", lambda x: mq.ops.aten._unsafe_view(x, [12])),
        ("sparse output", lambda x: x.to_sparse()),
        ("sparse compressed output", lambda x: x.to_sparse_csr()),
        ("kwarg aliases output", lambda x: mq.add(x, x, out=mq.empty_like(x))),
    ],
)
def test_F84_F85_such_calls_are_refused_and_known_the_second_time(
    symbolic: mq.FakeTensorMode, reason: str, program: Program
) -> None:
    x = symbolic.from_tensor(mq.ones(3, 4), static_shapes=True)
    program(x)
    once = mq.FakeTensorMode.cache_info()
    program(x)
    twice = mq.FakeTensorMode.cache_info()
    assert once.bypasses[reason] >= 1
    assert twice.bypasses[reason] == 2 * once.bypasses[reason]
    assert twice.size == once.size


def test_F84_an_index_of_numbers_is_cached(m: mq.FakeTensorMode) -> None:
    x, i = m.from_tensor(mq.ones(3, 4)), m.from_tensor(mq.tensor([0, 1]))
    x[i]
    x[i]
    assert counts() == (1, 1)


def test_F84_literals_are_lifted(m: mq.FakeTensorMode) -> None:
    with m:
        mq.tensor([1.0, 2.0])
    assert mq.FakeTensorMode.cache_info().bypasses == {"lift": 1}


def test_F84_a_registered_fake_is_not_cached_a_shape_rule_is(m: mq.FakeTensorMode) -> None:
    lib = mq.library.Library("cached", "DEF")
    lib.define("op(Tensor x) -> Tensor")
    mq.library.register_fake("cached::op", lambda x: x.new_empty(2), lib=lib)
    mq.ops.cached.op(m.from_tensor(mq.ones(3)))
    lib._destroy()
    assert mq.FakeTensorMode.cache_info().bypasses == {"non-builtin": 1}


def test_F85_lists_of_tensors_are_cached(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(3, 4))
    x.split(1)
    x.split(1)
    assert counts() == (1, 1)


def test_F85_a_result_with_a_fresh_symbol_is_not_cached(symbolic: mq.FakeTensorMode) -> None:
    x = symbolic.from_tensor(mq.ones(9), static_shapes=True)
    x[symbolic.shape_env.create_unbacked_symint() :]  # type: ignore[union-attr]  # it has one
    assert mq.FakeTensorMode.cache_info().bypasses == {"unrepresented symbol in output": 1}


def test_F87_a_call_that_fails_is_neither_counted_nor_cached(m: mq.FakeTensorMode) -> None:
    x = m.from_tensor(mq.ones(2, 3))
    before = mq.FakeTensorMode.cache_info()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="multiplied"):
            x @ x
    assert mq.FakeTensorMode.cache_info() == before


def wrong_entry(x: mq.Tensor) -> None:
    """Let the cache say that ``x + x`` has one dimension more."""
    x + x
    add = mq.ops.aten.add.Tensor
    (key,) = add.infer_cache
    add.infer_cache[key] = infer.Outcome(x.meta.fresh((1, *x.shape)))


def test_F89_a_wrong_entry_is_found_by_the_crosscheck() -> None:
    mode = mq.FakeTensorMode(cache_crosscheck_enabled=True)
    x = mode.from_tensor(mq.ones(2, 3))
    wrong_entry(x)
    with pytest.raises(RuntimeError, match=r"aten\.add\.Tensor\(float32\[2, 3\].*alpha=1"):
        x + x


def test_F89_an_entry_whose_rule_now_refuses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = mq.FakeTensorMode(cache_crosscheck_enabled=True)
    x = mode.from_tensor(mq.ones(2, 3))
    x + x

    def refuse(*args: object) -> object:
        raise ValueError("no more")

    monkeypatch.setattr(mq.ops.aten.add.Tensor.facts, "shape", refuse)
    with pytest.raises(RuntimeError, match=r"aten\.add\.Tensor.*ValueError: no more"):
        x + x


def test_F89_a_right_entry_passes() -> None:
    mode = mq.FakeTensorMode(cache_crosscheck_enabled=True)
    x = mode.from_tensor(mq.ones(4))
    assert (x + x).shape == (x + x).shape == (4,)


def test_F89_other_modes_are_not_checked(m: mq.FakeTensorMode) -> None:
    checked = mq.FakeTensorMode(cache_crosscheck_enabled=True)
    x = m.from_tensor(mq.ones(2, 3))
    wrong_entry(x)
    assert (x + x).shape == (1, 2, 3)
    mq.FakeTensorMode.cache_clear()
    assert checked.cache_crosscheck_enabled


def test_FX11_a_cache_is_bounded_and_counts_what_it_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "LIMIT", 8)
    mq.FakeTensorMode.cache_clear()
    with mq.FakeTensorMode():
        for n in range(1, 20):
            mq.neg(mq.empty(n))
    info = mq.FakeTensorMode.cache_info()
    assert len(mq.ops.aten.neg.default.infer_cache) <= 8
    assert info.evictions >= info.misses - info.size > 0


def test_FX11_no_fake_outlives_its_last_reference(m: mq.FakeTensorMode) -> None:
    with mq.fake.track_fakes() as made, m:
        x = mq.empty(2, 3)
        for _ in range(100):
            x = (x + 1).view(2, 3).t().t()
        del x
    assert len(made) == 0


def test_F88_info_is_a_value() -> None:
    info = mq.FakeTensorMode.cache_info()
    with pytest.raises(AttributeError):
        info.hits = 3
