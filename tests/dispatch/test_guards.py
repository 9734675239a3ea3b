"""Thread-local include and exclude sets and the guards over them (D15-D19)."""

import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.dispatch import keysets as ints
from maquette.dispatch.guards import (
    AutoDispatchBelowADInplaceOrView,
    AutoDispatchBelowAutograd,
    ExcludeDispatchKeyGuard,
    ForceDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    PreserveDispatchKeyGuard,
    tls_is_dispatch_key_excluded,
    tls_is_dispatch_key_included,
    tls_local_exclude_set,
    tls_local_include_set,
    tls_set_dispatch_key_excluded,
    tls_set_dispatch_key_included,
)
from maquette.dispatch.keysets import DispatchKey, DispatchKeySet, keyset_full
from maquette.dispatch.tls import DispatchState, tls

K = DispatchKey
KS = DispatchKeySet
FIRST_INCLUDE = KS(K.BackendSelect, K.ADInplaceOrView)
FIRST_EXCLUDE = KS(*(k for k in keyset_full() if k.name.startswith("Autocast")))

few_keys = st.lists(st.sampled_from(list(keyset_full())), max_size=4).map(lambda ks: KS(*ks))


def both() -> tuple[DispatchKeySet, DispatchKeySet]:
    return tls_local_include_set(), tls_local_exclude_set()


def called_with(*keys: DispatchKey) -> DispatchKey:
    """The key that a call on arguments of these keys runs, in the words of the hot path."""
    st_ = tls.st
    return ints.highest((KS(*keys).raw_repr() | st_.include) & st_.keep)


@pytest.fixture(autouse=True)
def _unchanged_state() -> Iterator[None]:
    before = both()
    yield
    assert both() == before == (FIRST_INCLUDE, FIRST_EXCLUDE)


def in_new_thread(function: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_D15_a_thread_starts_with_its_own_first_state() -> None:
    with ForceDispatchKeyGuard(KS(K.Python), KS(K.CPU)):
        assert in_new_thread(both) == (FIRST_INCLUDE, FIRST_EXCLUDE)


def test_D15_excluding_in_one_thread_is_not_seen_in_another() -> None:
    with ExcludeDispatchKeyGuard(KS(K.Python)):
        assert in_new_thread(lambda: tls_is_dispatch_key_excluded(K.Python)) is False
        assert tls_is_dispatch_key_excluded(K.Python)


def test_D15_threads_have_states_of_their_own() -> None:
    assert in_new_thread(lambda: tls.st) is not tls.st


def test_D16_include_adds_to_the_arguments_keys() -> None:
    with IncludeDispatchKeyGuard(K.TESTING_ONLY_GenericMode):
        assert called_with(K.CPU) is K.TESTING_ONLY_GenericMode
    assert called_with(K.CPU) is K.ADInplaceOrView


def test_D16_exclude_beats_include() -> None:
    mode = KS(K.TESTING_ONLY_GenericMode)
    with IncludeDispatchKeyGuard(mode), ExcludeDispatchKeyGuard(mode):
        assert called_with(K.CPU, K.AutogradCPU) is K.AutogradCPU


def test_D16_excluding_a_key_never_removes_its_backend() -> None:
    with ExcludeDispatchKeyGuard(K.SparseCUDA):
        assert called_with(K.SparseCUDA, K.AutogradCUDA) is K.AutogradCUDA


@given(few_keys, few_keys, few_keys)
def test_D16_effective_set_is_arguments_or_include_minus_exclude(
    arguments: DispatchKeySet, include: DispatchKeySet, exclude: DispatchKeySet
) -> None:
    state = DispatchState()
    state.set_include(include.raw_repr())
    state.set_exclude(exclude.raw_repr())
    effective = (arguments.raw_repr() | state.include) & state.keep
    assert KS.from_raw_repr(effective) == (arguments | include) - exclude


@given(few_keys, st.booleans())
def test_D16_keep_is_a_mask_of_known_bits(exclude: DispatchKeySet, grad: bool) -> None:
    state = DispatchState()
    state.set_exclude(exclude.raw_repr())
    state.set_grad_enabled(grad)
    assert 0 < state.keep <= ints.ALL_BITS
    assert state.keep & ints.BACKENDS == ints.BACKENDS
    assert state.keep & ints.CONSTANT
    assert state.keep & ints.TORCH_FUNCTION


@pytest.mark.parametrize("keys", [K.Python, "Python", KS(K.Python)], ids=["key", "name", "set"])
def test_D17_guards_take_keys_names_and_sets(keys: DispatchKey | str | DispatchKeySet) -> None:
    with IncludeDispatchKeyGuard(keys), ExcludeDispatchKeyGuard(keys):
        assert both() == (FIRST_INCLUDE | KS(K.Python), FIRST_EXCLUDE | KS(K.Python))


def test_D17_guards_nest() -> None:
    with ExcludeDispatchKeyGuard(KS(K.Python)):
        with ExcludeDispatchKeyGuard(KS(K.Python, K.Fake)):
            assert tls_is_dispatch_key_excluded(K.Fake)
        assert tls_is_dispatch_key_excluded(K.Python)
        assert not tls_is_dispatch_key_excluded(K.Fake)


def test_D17_one_guard_object_may_be_entered_twice() -> None:
    guard = IncludeDispatchKeyGuard(K.Python)
    with guard:
        with guard:
            pass
        assert tls_is_dispatch_key_included(K.Python)
    assert not tls_is_dispatch_key_included(K.Python)


@pytest.mark.parametrize(
    "guard",
    [
        IncludeDispatchKeyGuard(K.Python),
        ExcludeDispatchKeyGuard(KS(K.Python)),
        ForceDispatchKeyGuard(KS(K.Python), KS(K.CPU)),
        PreserveDispatchKeyGuard(),
        AutoDispatchBelowADInplaceOrView(),
    ],
    ids=lambda guard: type(guard).__name__,
)
def test_D17_guards_are_undone_after_an_exception(guard: PreserveDispatchKeyGuard) -> None:
    with pytest.raises(KeyError, match="inside"), guard:
        raise KeyError("inside")
    assert both() == (FIRST_INCLUDE, FIRST_EXCLUDE)


def test_D17_force_replaces_both_sets() -> None:
    with ForceDispatchKeyGuard(KS(K.Python), KS(K.CPU)):
        assert both() == (KS(K.Python), KS(K.CPU))
    assert both() == (FIRST_INCLUDE, FIRST_EXCLUDE)


def test_D17_preserve_restores_what_the_block_changed() -> None:
    with PreserveDispatchKeyGuard():
        tls_set_dispatch_key_included(K.Python, True)
        tls_set_dispatch_key_excluded(K.AutocastCPU, False)
        assert both() != (FIRST_INCLUDE, FIRST_EXCLUDE)
    assert both() == (FIRST_INCLUDE, FIRST_EXCLUDE)


def test_D17_additive_guards_undo_only_what_they_added() -> None:
    with PreserveDispatchKeyGuard():
        with IncludeDispatchKeyGuard(K.Python), ExcludeDispatchKeyGuard(KS(K.Fake)):
            tls_set_dispatch_key_included(K.Negative, True)
            tls_set_dispatch_key_excluded(K.Conjugate, True)
        assert both() == (FIRST_INCLUDE | KS(K.Negative), FIRST_EXCLUDE | KS(K.Conjugate))


def test_D17_force_leaves_hidden_bits_to_their_owner() -> None:
    tls.st.add_include(ints.TORCH_FUNCTION)
    try:
        with ForceDispatchKeyGuard(KS(), KS()):
            assert tls.st.include == ints.TORCH_FUNCTION
            assert tls_local_include_set() == KS()
    finally:
        tls.st.drop_include(ints.TORCH_FUNCTION)


def test_D18_below_autograd_excludes_the_autograd_keys() -> None:
    with AutoDispatchBelowAutograd():
        added = tls_local_exclude_set() - FIRST_EXCLUDE
        assert added == KS(K.AutogradFunctionality, K.AutogradOther, K.AutogradNestedTensor)
        assert called_with(K.CPU, K.AutogradCPU) is K.ADInplaceOrView


def test_D18_below_adinplace_or_view_excludes_that_too() -> None:
    with AutoDispatchBelowADInplaceOrView():
        assert tls_is_dispatch_key_excluded(K.Autograd)
        assert called_with(K.CPU, K.AutogradCPU) is K.BackendSelect


def test_D18_grad_mode_changes_only_a_hidden_bit() -> None:
    state = DispatchState()
    on = state.keep
    state.set_grad_enabled(False)
    assert on ^ state.keep == ints.REQUIRES_GRAD
    assert (state.include, state.exclude) == (DispatchState().include, DispatchState().exclude)
    state.set_grad_enabled(True)
    assert state.keep == on


def test_D18_keep_remembers_grad_mode_when_keys_are_excluded() -> None:
    state = DispatchState()
    state.set_grad_enabled(False)
    state.add_exclude(K.Python.bits)
    state.drop_exclude(K.Python.bits)
    assert not state.keep & ints.REQUIRES_GRAD
    assert state.keep & K.Python.bits


def test_D19_setters_act_on_the_functionality() -> None:
    with PreserveDispatchKeyGuard():
        tls_set_dispatch_key_excluded(K.AutogradCUDA, True)
        assert tls_local_exclude_set() == FIRST_EXCLUDE | KS(K.AutogradFunctionality)
        tls_set_dispatch_key_excluded(K.AutogradCPU, False)
        assert tls_local_exclude_set() == FIRST_EXCLUDE


def test_D19_included_setter_and_query() -> None:
    with PreserveDispatchKeyGuard():
        tls_set_dispatch_key_included(K.Functionalize, True)
        assert tls_is_dispatch_key_included("Functionalize")
        tls_set_dispatch_key_included(K.Functionalize, False)
        assert not tls_is_dispatch_key_included("Functionalize")


def test_D19_query_ignores_backend_bits() -> None:
    with AutoDispatchBelowAutograd():
        assert tls_is_dispatch_key_excluded(K.AutogradCPU)
    assert not tls_is_dispatch_key_excluded(K.AutogradCPU)


def test_D19_an_alias_stands_for_its_members() -> None:
    with PreserveDispatchKeyGuard():
        tls_set_dispatch_key_excluded(K.Autograd, True)
        assert all(map(tls_is_dispatch_key_excluded, [K.AutogradOther, K.AutogradMeta]))


def test_D20_autocast_is_switched_on_per_device() -> None:
    with PreserveDispatchKeyGuard():
        tls_set_dispatch_key_excluded(K.AutocastCUDA, False)
        assert called_with(K.CUDA, K.AutocastCUDA) is K.AutocastCUDA
        assert called_with(K.CPU, K.AutocastCPU) is not K.AutocastCPU
