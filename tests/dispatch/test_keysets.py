"""Dispatch keys and key sets (D1-D13): names, order, set algebra, aliases."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maquette.dispatch import keysets as ints
from maquette.dispatch.keysets import (
    DispatchKey,
    DispatchKeySet,
    after_ADInplaceOrView_keyset,
    after_autograd_keyset,
    autogradother_backends,
    functionality_to_backend_keys,
    get_backend_keyset_from_autograd,
    get_runtime_keyset,
    is_alias_key,
    is_included_in_alias,
    key_for_device,
    key_name,
    key_parse,
    keyset_full,
    keyset_full_after,
    parse_dispatch_key,
    to_functionality_key,
)

K = DispatchKey
KS = DispatchKeySet
BACKENDS = (
    "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta"
)
FULL = """
    {b} FPGA Vulkan Metal Quantized{b} CustomRNGKeyId MkldnnCPU Sparse{b} SparseCsr{b}
    NestedTensor{b} BackendSelect Fake Python FuncTorchDynamicLayerBackMode Functionalize Conjugate
    Negative ZeroTensor ADInplaceOrView AutogradOther Autograd{b} AutogradNestedTensor Tracer
    AutocastCPU AutocastMTIA AutocastMAIA AutocastXPU AutocastIPU AutocastHPU AutocastXLA
    AutocastMPS AutocastCUDA AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor
    FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper DeferredInit PythonTLSSnapshot
    FuncTorchDynamicLayerFrontMode TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode PreDispatch
    PythonDispatcher
"""
ALIASES = {
    "Autograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
    "CompositeImplicitAutograd",
    "CompositeImplicitAutogradNestedTensor",
    "FuncTorchBatchedDecomposition",
}
HIDDEN = ints.CONSTANT | ints.REQUIRES_GRAD | ints.TORCH_FUNCTION | ints.INFERENCE

keys = st.sampled_from(list(K))
runtime = st.sampled_from(list(keyset_full()))
# A random int has half of all keys; a few keys make the sets in which single bits matter.
sets = st.one_of(
    st.integers(0, ints.VISIBLE).map(KS.from_raw_repr),
    st.lists(runtime, max_size=4).map(lambda chosen: KS(*chosen)),
)


def names(*families: str) -> set[str]:
    """The runtime names of these families and single keys; a family is written ``Sparse*``."""
    expanded: set[str] = set()
    for name in families:
        one = [name[:-1] + b for b in BACKENDS.split()] if name.endswith("*") else [name]
        expanded.update(one)
    return expanded


def test_D1_members_have_names_and_torch_like_text() -> None:
    assert str(K.CPU) == "DispatchKey.CPU"
    assert K.CPU.name == key_name("CPU") == "CPU"
    assert K.__members__["AutogradCUDA"] is K.AutogradCUDA
    assert repr(K.CPU) == "<DispatchKey.CPU: 49>"


def test_D1_members_are_unique() -> None:
    members = list(K)
    assert len(set(members)) == len({k.name for k in members}) == len({int(k) for k in members})
    assert len(K) == len(K.__members__) == len(members)


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))]
)
def test_D1_a_copied_member_is_the_member(clone: object) -> None:
    assert callable(clone)
    assert clone(K.SparseMeta) is K.SparseMeta


def test_D1_calling_the_class_finds_a_member() -> None:
    assert K("CPU") is K(49) is K(K.CPU) is K.CPU
    with pytest.raises(ValueError, match="1000"):
        K(1000)


def test_D1_an_unknown_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match="Foo"):
        K.Foo  # noqa: B018


def test_D1_key_parse_and_parse_dispatch_key() -> None:
    assert key_parse("CPU") is parse_dispatch_key("CPU") is K.CPU
    with pytest.raises(RuntimeError, match="Foo"):
        key_parse("Foo")
    assert parse_dispatch_key("Foo") is None


def test_D1_a_name_serves_for_a_key() -> None:
    assert KS("CPU").add("Python") == KS(K.CPU, K.Python)
    assert is_included_in_alias("CPU", "CompositeExplicitAutograd")
    assert KS("CPU").has("CPU")
    assert keyset_full_after("Python") == keyset_full_after(K.Python)


def test_D1_what_is_no_key_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a DispatchKey or its name, got int"):
        KS(3)  # type: ignore[arg-type]  # the point


@given(keys, keys)
def test_D1_order_is_total(a: DispatchKey, b: DispatchKey) -> None:
    assert (a < b) + (a > b) + (a is b) == 1
    assert (a <= b) == (a < b or a is b) == (b >= a)


def test_D1_order_is_dispatch_priority() -> None:
    assert K.Undefined < K.CPU < K.CUDA < K.Meta < K.Python < K.AutogradCPU < K.PythonDispatcher
    assert sorted(keyset_full()) == list(keyset_full())


def test_D2_backends_low_to_high() -> None:
    assert [k.name for k in K if k.bits & ints.BACKENDS and k.bits & K.Dense.bits] == (
        BACKENDS.split()
    )
    assert (KS(K.CPU) | KS(K.CUDA)).highestPriorityTypeId() is K.CUDA
    assert (KS(K.CPU) | KS(K.Meta)).highestPriorityTypeId() is K.Meta


def test_D3_full_set_lists_every_runtime_key_in_order() -> None:
    expected: list[str] = []
    for name in FULL.split():
        expected += [name.replace("{b}", b) for b in BACKENDS.split()] if "{b}" in name else [name]
    assert str(keyset_full()) == f"DispatchKeySet({', '.join(expected)})"


def test_D4_fake_is_just_above_backend_select() -> None:
    assert list(KS(K.Python, K.Fake, K.BackendSelect)) == [K.BackendSelect, K.Fake, K.Python]
    assert K.Fake.bits == K.BackendSelect.bits << 1 == K.Python.bits >> 1


def test_D5_a_set_is_backends_times_functionalities() -> None:
    both = KS(K.CPU) | KS(K.AutogradCUDA)
    assert set(both) == {K.CPU, K.CUDA, K.AutogradCPU, K.AutogradCUDA}
    assert (KS(K.SparseCPU) | KS(K.CUDA)).highestPriorityTypeId() is K.SparseCUDA


def test_D5_other_functionalities_ignore_backends() -> None:
    assert KS(K.Python).has(K.Python)
    assert list(KS(K.Python) | KS(K.CPU)) == [K.CPU, K.Python]


@given(sets, runtime)
def test_D5_a_key_is_present_iff_its_bits_are(ks: DispatchKeySet, key: DispatchKey) -> None:
    present = ks.raw_repr() & ints.key_bits(key) == ints.key_bits(key)
    assert ks.has(key) == (key in ks) == (key in list(ks)) == present


@given(sets)
def test_D6_highest_is_the_last_of_the_list(ks: DispatchKeySet) -> None:
    listed = list(ks)
    assert ks.highestPriorityTypeId() is (listed[-1] if listed else K.Undefined)
    assert len(ks) == len(listed)


def test_D6_the_empty_set_gives_undefined() -> None:
    assert KS(K.Undefined).highestPriorityTypeId() is K.Undefined
    assert KS() == KS(K.Undefined)
    assert not KS().has(K.Undefined)


def test_D6_a_family_without_backend_is_passed_over() -> None:
    assert KS(K.AutogradFunctionality, K.Python).highestPriorityTypeId() is K.Python


def test_D6_hidden_bits_are_not_keys() -> None:
    assert ints.highest(HIDDEN | K.CPU.bits) is K.CPU
    assert ints.runtime_keys(HIDDEN | K.CPU.bits) == [K.CPU]


def test_D7_remove_keeps_backends() -> None:
    assert list((KS(K.CPU) | KS(K.CUDA)).remove(K.CUDA)) == []
    full = keyset_full().remove(K.AutogradCPU)
    assert not full.has(K.AutogradCUDA)
    assert full.has(K.CPU)


@given(sets, sets)
def test_D7_or_and_are_bit_operations(a: DispatchKeySet, b: DispatchKeySet) -> None:
    assert (a | b).raw_repr() == a.raw_repr() | b.raw_repr()
    assert (a & b).raw_repr() == a.raw_repr() & b.raw_repr()
    assert set(a & b) == set(a) & set(b)
    assert set(a | b) >= set(a) | set(b)


@given(sets, sets)
def test_D7_minus_clears_functionalities_only(a: DispatchKeySet, b: DispatchKeySet) -> None:
    difference = a - b
    assert difference.raw_repr() & ints.BACKENDS == a.raw_repr() & ints.BACKENDS
    gone = b.raw_repr() & ~ints.BACKENDS
    assert set(difference) == {k for k in a if not ints.functionality_bits(k) & gone}


@given(sets, runtime)
def test_D7_add_and_remove_agree_with_or_and_minus(ks: DispatchKeySet, key: DispatchKey) -> None:
    assert ks.add(key) == ks | KS(key)
    assert ks.remove(key) == ks - KS(key)
    assert not ks.remove(key).has(key)


@given(sets, sets, sets)
def test_D7_algebra_laws(a: DispatchKeySet, b: DispatchKeySet, c: DispatchKeySet) -> None:
    assert a | b == b | a
    assert a & (b | c) == (a & b) | (a & c)
    assert (a | b) - c == (a - c) | (b - c)
    assert a - b - c == a - (b | c)


@given(runtime)
def test_D8_operations_leave_the_set_unchanged(key: DispatchKey) -> None:
    ks = KS(K.CPU)
    before = ks.raw_repr()
    _ = ks.add(key), ks.remove(key), ks | KS(key), ks - KS(key)
    assert ks.raw_repr() == before


@given(sets)
def test_D8_round_trips(ks: DispatchKeySet) -> None:
    assert KS.from_raw_repr(ks.raw_repr()) == ks
    assert pickle.loads(pickle.dumps(ks)) == copy.deepcopy(ks) == ks
    assert len({ks, KS.from_raw_repr(ks.raw_repr())}) == 1


def test_D8_hidden_bits_never_enter_a_public_set() -> None:
    assert KS.from_raw_repr(HIDDEN | K.CPU.bits) == KS(K.CPU)


def test_D8_repr_is_ascending() -> None:
    assert repr(KS(K.ADInplaceOrView, K.CPU)) == "DispatchKeySet(CPU, ADInplaceOrView)"
    assert KS(K.CPU) != KS(K.CUDA)
    assert (KS(K.CPU) == "CPU") is False


def test_D8_only_sets_combine() -> None:
    with pytest.raises(TypeError):
        KS(K.CPU) | 1  # type: ignore[operator]  # the point


def test_D9_alias_keys_have_no_bits() -> None:
    assert KS(K.Autograd) == KS(K.Undefined)
    assert KS(K.CPU).add(K.CompositeImplicitAutograd) == KS(K.CPU)


def test_D9_has_alias_means_any_member() -> None:
    assert KS(K.AutogradCPU).has(K.Autograd)
    assert not KS(K.CPU).has(K.Autograd)
    assert not KS(K.XLA).has(K.CompositeExplicitAutogradNonFunctional)


@given(sets, st.sampled_from(sorted(ALIASES)))
def test_D9_alias_membership_agrees_with_the_members(ks: DispatchKeySet, alias: str) -> None:
    assert ks.has(alias) == any(is_included_in_alias(k, alias) for k in ks)


def test_D9_remove_alias_removes_every_member_functionality() -> None:
    left = keyset_full().remove(K.Autograd)
    assert not any(ints.is_autograd_key(k) for k in left)
    assert left.has(K.ADInplaceOrView)
    assert left.has(K.CUDA)


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_D10_runtime_keyset_is_the_alias(alias: str) -> None:
    assert set(get_runtime_keyset(alias)) == {
        k for k in keyset_full() if is_included_in_alias(k, alias)
    }


def test_D10_autograd() -> None:
    members = names("AutogradOther", "Autograd*", "AutogradNestedTensor")
    assert {k.name for k in get_runtime_keyset(K.Autograd)} == members


def test_D10_explicit_implicit_and_nested() -> None:
    explicit = names("*", "Quantized*", "Sparse*", "SparseCsr*", "FPGA", "Vulkan", "Metal")
    explicit |= {"CustomRNGKeyId", "MkldnnCPU"}
    autograd = names("AutogradOther", "Autograd*", "AutogradNestedTensor")
    implicit = explicit | names("NestedTensor*") | autograd
    nested = names("NestedTensor*", "AutogradNestedTensor")
    assert {k.name for k in get_runtime_keyset(K.CompositeExplicitAutograd)} == explicit
    assert {k.name for k in get_runtime_keyset(K.CompositeImplicitAutograd)} == implicit
    assert {k.name for k in get_runtime_keyset(K.CompositeImplicitAutogradNestedTensor)} == nested


def test_D10_non_functional_leaves_out_sparse_xla_and_lazy() -> None:
    expected = names("*", "Quantized*", "SparseCsr*", "FPGA", "Vulkan", "Metal")
    expected |= {"CustomRNGKeyId", "MkldnnCPU"}
    expected -= {f + b for f in ("", "Quantized", "SparseCsr") for b in ("XLA", "Lazy")}
    found = get_runtime_keyset(K.CompositeExplicitAutogradNonFunctional)
    assert {k.name for k in found} == expected


def test_D10_checks() -> None:
    assert not is_included_in_alias(K.SparseCPU, K.CompositeExplicitAutogradNonFunctional)
    assert is_included_in_alias(K.SparseCsrCPU, K.CompositeExplicitAutogradNonFunctional)
    assert not is_included_in_alias(K.NestedTensorCPU, K.CompositeExplicitAutograd)
    assert is_included_in_alias(K.FuncTorchBatched, K.FuncTorchBatchedDecomposition)


def test_D10_undefined_is_in_no_alias() -> None:
    assert not any(is_included_in_alias(K.Undefined, alias) for alias in ALIASES)


def test_D10_a_key_that_is_no_alias_stands_for_itself() -> None:
    assert is_included_in_alias(K.CPU, K.CPU)
    assert not is_included_in_alias(K.CPU, K.CUDA)


def test_D10_the_six_alias_keys() -> None:
    assert {k.name for k in K if is_alias_key(k)} == ALIASES


def test_D11_full_after_python() -> None:
    after = keyset_full_after(K.Python)
    assert all(after.has(k) for k in (K.Fake, K.BackendSelect, K.CPU, K.PythonDispatcher))
    assert not after.has(K.Python)
    assert not after.has(K.ADInplaceOrView)


@given(runtime)
def test_D11_full_after_is_everything_strictly_below(key: DispatchKey) -> None:
    functionality = to_functionality_key(key)
    below = {k for k in keyset_full() if to_functionality_key(k) < functionality}
    assert set(keyset_full_after(key)) == below | {K.PythonDispatcher}
    assert keyset_full_after(key).raw_repr() & ints.BACKENDS == ints.BACKENDS


@given(runtime)
def test_D11_bits_above_are_the_rest(key: DispatchKey) -> None:
    after = keyset_full_after(key).raw_repr()
    above = ints.bits_above(key)
    assert above & (after | key.bits) == 0
    assert above | after | key.bits == ints.VISIBLE


def test_D11_named_sets() -> None:
    assert after_autograd_keyset == keyset_full_after(K.AutogradOther)
    assert after_ADInplaceOrView_keyset == keyset_full_after(K.ADInplaceOrView)
    assert not after_autograd_keyset.has(K.Autograd)
    assert after_autograd_keyset.has(K.ADInplaceOrView)


def test_D12_autograd_key_maps_to_its_backend() -> None:
    assert list(get_backend_keyset_from_autograd(K.AutogradCPU)) == [K.CPU]
    assert list(get_backend_keyset_from_autograd(K.AutogradMeta)) == [K.Meta]


def test_D12_nested_and_other() -> None:
    nested = get_backend_keyset_from_autograd(K.AutogradNestedTensor)
    other = names("FPGA", "Vulkan", "Metal", "CustomRNGKeyId", "MkldnnCPU")
    other |= names("Quantized*", "Sparse*", "SparseCsr*")
    assert {k.name for k in nested} == names("NestedTensor*")
    assert {k.name for k in get_backend_keyset_from_autograd(K.AutogradOther)} == other
    assert get_backend_keyset_from_autograd(K.AutogradOther) == autogradother_backends


@pytest.mark.parametrize("key", ["Functionalize", "CPU", "Autograd", "Undefined"])
def test_D12_any_other_key_maps_to_nothing(key: str) -> None:
    assert get_backend_keyset_from_autograd(key) == KS()


def test_D13_functionality_and_back() -> None:
    family = to_functionality_key(K.AutogradMeta)
    assert family is K.AutogradFunctionality
    assert {k.name for k in functionality_to_backend_keys(family)} == names("Autograd*")
    assert functionality_to_backend_keys(K.PreDispatch) == [K.PreDispatch]
    assert to_functionality_key(K.Autograd) is K.Undefined


@given(runtime)
def test_D13_a_runtime_key_is_among_its_functionalitys(key: DispatchKey) -> None:
    assert key in functionality_to_backend_keys(to_functionality_key(key))


@pytest.mark.parametrize(
    "device, key",
    [("cpu", "CPU"), ("cuda", "CUDA"), ("meta", "Meta"), ("privateuseone", "PrivateUse1")],
)
def test_D13_key_for_device(device: str, key: str) -> None:
    assert key_for_device(device) == key


@pytest.mark.parametrize("device", ["foo", "cuda:0"])
def test_D13_key_for_an_unknown_device(device: str) -> None:
    with pytest.raises(RuntimeError, match=device):
        key_for_device(device)
