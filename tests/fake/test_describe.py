"""Descriptions of tensors, and tensors made from them (M1-M25).

Other kinds of tensors are in `test_meta_conversion.py`, symbolic sizes in `test_meta_symbols.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import logging
import warnings

import pytest

import maquette as mq
from maquette.fake.described.describe import (
    CreationMeta,
    MetaTensorDesc,
    MetaTensorDescriber,
    ViewFunc,
    safe_grad,
)
from maquette.fake.described.meta_converter import MetaConverter
from maquette.fake.kinds import safe_is_leaf
from maquette.tensor.keys import keys_for
from maquette.tensor.storage import UntypedStorage
from maquette.tensor.tensor import wrap


@pytest.fixture
def describer() -> MetaTensorDescriber:
    return MetaTensorDescriber()


@pytest.fixture
def conv() -> MetaConverter:
    return MetaConverter()


# --- describing ----------------------------------------------------------------------


def test_M1_describers_are_numbered() -> None:
    first, second = MetaTensorDescriber(), MetaTensorDescriber()
    assert second.id == first.id + 1
    with pytest.raises(TypeError):
        MetaTensorDescriber(True)


def test_M2_tensors_are_numbered_by_identity(describer: MetaTensorDescriber) -> None:
    a, b = mq.ones(2), mq.ones(2)
    assert [describer.get_tensor_id(t) for t in (a, b, a)] == [0, 1, 0]


def test_M2_numbers_die_with_their_tensors_and_are_not_given_again(
    describer: MetaTensorDescriber,
) -> None:
    a, b = mq.ones(2), mq.ones(2)
    numbers = [describer.get_tensor_id(t) for t in (a, b)]
    del b
    numbers.append(describer.get_tensor_id(mq.zeros(2)))
    c = mq.ones(2)
    numbers.append(describer.get_tensor_id(c))
    assert numbers == [0, 1, 2, 3]
    assert len(describer.lookup_tensor) == 2
    assert describer.get_tensor_id(a) == 0


def test_M3_storages_have_their_own_numbers(describer: MetaTensorDescriber) -> None:
    x = mq.ones(3, 4)
    aliases = (x, x[1:], x.detach())
    assert [describer.get_tensor_id(t) for t in aliases] == [0, 1, 2]
    assert [describer.get_storage_id(t.untyped_storage()) for t in aliases] == [0, 0, 0]


def test_M4_a_storage_is_described_by_its_size(describer: MetaTensorDescriber) -> None:
    described = describer.describe_storage(mq.ones(3, 4).untyped_storage())
    assert described.as_json(describer.id) == {"id": 0, "describer_id": describer.id, "size": 48}
    assert described.data is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        described.size = 3


def test_M4_data_is_kept_where_asked() -> None:
    keeping, storage = MetaTensorDescriber(copy_data=True), mq.ones(2).untyped_storage()
    described = keeping.describe_storage(storage)
    assert described.data is storage
    assert "data" not in described.as_json(keeping.id)


def test_M5_descriptions_are_compared_by_value(describer: MetaTensorDescriber) -> None:
    """Finding 31."""
    x = mq.ones(3, 4)
    first, second = describer.describe_tensor(x), describer.describe_tensor(x)
    assert first == second
    assert first.id == second.id
    assert first.shape == first.size == (3, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.id = 3


def test_M5_other_tensors_have_other_descriptions(describer: MetaTensorDescriber) -> None:
    x, y = mq.ones(3, 4), mq.ones(3, 4)
    assert describer.describe_tensor(x) != describer.describe_tensor(y)


def test_M5_defaults(describer: MetaTensorDescriber) -> None:
    fields = {f.name: f for f in dataclasses.fields(MetaTensorDesc)}
    missing = [n for n, f in fields.items() if f.default is dataclasses.MISSING]
    assert missing == [
        "id", "ndim", "dtype", "device", "size", "dynamo_dynamic_indices", "dynamo_hint_overrides",
    ]  # fmt: skip
    assert (fields["layout"].default, fields["storage_offset"].default) == (mq.strided, 0)


def compressed() -> mq.Tensor:
    """A tensor of layout CSR."""
    return mq.eye(2).to_sparse_csr()


def test_compressed_tensors_have_neither_storage_nor_strides(
    describer: MetaTensorDescriber,
) -> None:
    described = describer.describe_tensor(compressed())
    assert (described.storage, described.stride, described.storage_offset) == (None, None, 0)
    assert described.layout is mq.sparse_csr


def test_M8_only_coordinates_count_as_sparse(describer: MetaTensorDescriber) -> None:
    assert not describer.describe_tensor(compressed()).is_sparse


def test_dense_tensors_have_storage_and_strides(describer: MetaTensorDescriber) -> None:
    described = describer.describe_tensor(mq.ones(3, 4).t()[1:])
    assert (described.stride, described.storage_offset) == ((1, 4), 1)
    assert described.storage is not None
    assert described.storage.size == 48


def test_sizes_are_ints(describer: MetaTensorDescriber) -> None:
    described = describer.describe_tensor(mq.ones(5, 7))
    assert (described.size, described.stride) == ((5, 7), (7, 1))
    assert {type(n) for n in (*described.size, *described.stride)} == {int}


@pytest.mark.parametrize(
    ("make", "flags"),
    [
        (lambda: mq.ones(2), {"is_leaf"}),
        (lambda: mq.ones(2, requires_grad=True), {"is_leaf", "requires_grad"}),
        (lambda: mq.ones(2, requires_grad=True) * 2, {"requires_grad"}),
        (lambda: mq.ones(2)[1:], {"is_leaf", "is_view"}),
        (lambda: mq.ones(2, dtype=mq.complex64).conj(), {"is_leaf", "is_view", "is_conj"}),
        (lambda: mq.nn.Parameter(mq.ones(2)), {"is_leaf", "requires_grad", "is_parameter"}),
    ],
)
def test_M8_flags_are_the_tensors(describer: MetaTensorDescriber, make, flags: set[str]) -> None:
    described = describer.describe_tensor(make())
    assert {n for n, v in vars(described).items() if v is True} == flags


def test_M8_inference_is_a_flag(describer: MetaTensorDescriber) -> None:
    with mq.inference_mode():
        t = mq.ones(2)
    assert describer.describe_tensor(t).is_inference


def test_M9_what_cannot_tell_is_no_leaf(describer: MetaTensorDescriber) -> None:
    class Unsure(mq.Tensor):
        @property
        def is_leaf(self) -> bool:
            raise RuntimeError("unsure")

    assert not safe_is_leaf(mq.ones(2).as_subclass(Unsure))
    leaf = mq.ones(2)
    assert safe_is_leaf(leaf)
    assert safe_is_leaf(describer.describe_tensor(leaf))


def test_M9_the_gradient_of_a_result_is_none_in_silence(describer: MetaTensorDescriber) -> None:
    a = mq.ones(2, requires_grad=True)
    a.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert safe_grad(a * 2) is None
    assert safe_grad(a) is a.grad
    assert safe_grad(describer.describe_tensor(a)) == describer.describe_tensor(a.grad)


def test_M10_the_base_is_the_root(describer: MetaTensorDescriber) -> None:
    x = mq.ones(3, 4)
    described = describer.describe_tensor(x[1:].t())
    assert described.base.id == describer.get_tensor_id(x)
    assert described.base.base is None
    assert describer.describe_tensor(x[1:], recurse=False).base is None


def made_by_a_function() -> mq.Tensor:
    class View(mq.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, grad):
            return grad.view(2, 2)

    return View.apply(mq.ones(2, 2, requires_grad=True) * 1)


def made_without_grad() -> mq.Tensor:
    x = mq.ones(2, requires_grad=True)
    with mq.no_grad():
        return x[1:]


@pytest.mark.parametrize(
    ("make", "creation"),
    [
        (lambda: mq.ones(4), None),
        (lambda: mq.ones(4)[1:], CreationMeta.DEFAULT),
        (lambda: mq.ones(4).split(2)[0], CreationMeta.MULTI_OUTPUT_NODE),
        (made_without_grad, CreationMeta.NO_GRAD_MODE),
        (made_by_a_function, CreationMeta.IN_CUSTOM_FUNCTION),
    ],
)
def test_M10_how_a_view_came_about(describer: MetaTensorDescriber, make, creation) -> None:
    assert describer.describe_tensor(make()).creation_meta is creation


def test_M10_a_view_function_lays_the_view_over_another_root(
    describer: MetaTensorDescriber,
) -> None:
    x = mq.arange(20).view(4, 5)
    v = x.select(0, 2).unsqueeze(0)
    view_func = describer.describe_tensor(v).view_func
    assert mq.equal(view_func.apply(v, x + 100), v + 100)
    assert describer.describe_tensor(mq.ones(2)).view_func is not None


def test_M10_a_view_function_shows_its_numbers() -> None:
    x = mq.arange(20)
    seen: list[int] = []
    ViewFunc.from_tensor(x[3:9:2]).apply(x, x, lambda n: seen.append(n) or n)
    assert seen == [3, 2, 3]


def test_M15_a_description_as_json_has_what_is_no_default(describer: MetaTensorDescriber) -> None:
    described = describer.describe_tensor(mq.ones(3, 4)).as_json(describer.id)
    assert set(described) == {
        "id", "ndim", "dtype", "device", "size", "dynamo_hint_overrides", "is_leaf", "stride",
        "storage", "view_func", "describer_id",
    }  # fmt: skip
    assert (described["size"], described["storage"]) == ([3, 4], 0)
    assert json.loads(json.dumps(described)) == described


def test_M17_each_thing_is_logged_once_and_each_source_again(
    conv: MetaConverter, caplog: pytest.LogCaptureFixture
) -> None:
    x = mq.ones(3)
    with caplog.at_level(logging.DEBUG, "maquette.fake.described.describe"):
        for _ in range(2):
            conv(x, source="L['x']")
        conv(x)
    said = [record.getMessage().split(" ", 1) for record in caplog.records]
    assert [what for what, _ in said] == [
        "describe_storage", "describe_tensor", "describe_source", "describe_source",
    ]  # fmt: skip
    told = {"describer_id": conv.describer.id, "id": 0, "source": "L['x']"}
    assert json.loads(said[-1][1]) == told


# --- converting ----------------------------------------------------------------------


def test_M20_neither_inputs_nor_results_are_kept(conv: MetaConverter) -> None:
    x = mq.ones(3, 4)
    result = conv(x)
    assert (len(conv.tensor_memo), len(conv.storage_memo)) == (1, 1)
    del result
    gc.collect()
    assert (len(conv.tensor_memo), len(conv.storage_memo)) == (0, 0)
    kept = conv(x)
    del x
    assert len(conv.describer.lookup_tensor) == 0
    assert kept.shape == (3, 4)


def test_M21_what_is_no_tensor_comes_back(conv: MetaConverter) -> None:
    assert conv(3) == 3
    assert conv(None) is None
    assert (conv.hit, conv.miss) == (0, 0)


def test_M21_a_tensor_like_of_another_class_is_a_miss(conv: MetaConverter) -> None:
    class Like:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    assert conv(Like()) is NotImplemented
    assert (conv.hit, conv.miss, conv.successful()) == (0, 1, False)


def test_a_lazy_tensor_is_a_miss(conv: MetaConverter) -> None:
    meta = mq.TensorMeta.of(mq.float32, (2,), device=mq.device("lazy"))
    lazy = wrap(meta, UntypedStorage(8, meta.device), None, keys_for(meta))
    assert conv(lazy) is NotImplemented
    assert conv.miss == 1


def test_M23_every_supported_call_is_a_hit(conv: MetaConverter) -> None:
    x = mq.ones(3, 4)
    first = conv(x)
    assert conv(x) is first
    assert (conv.hit, conv.miss, conv.successful()) == (2, 0, True)


def test_M23_recursive_conversions_are_counted(conv: MetaConverter) -> None:
    x = mq.ones(3, 4)
    conv(x[1:])
    assert (conv.hit, conv.arg_cnt) == (1, 2)


def test_M24_a_result_is_given_again_as_gradient(conv: MetaConverter) -> None:
    p = mq.ones(4, requires_grad=True)
    p.sum().backward()
    r = conv(p)
    assert conv(p.grad) is r.grad


def test_M24_a_result_is_given_again_as_base(conv: MetaConverter) -> None:
    x = mq.ones(4)
    r = conv(x)
    assert conv(x[1:])._base is r


def test_M24_a_mode_gives_the_gradients_fake_again() -> None:
    mode = mq.FakeTensorMode()
    p = mq.ones(4, requires_grad=True)
    p.sum().backward()
    r = mode.from_tensor(p)
    assert mode.from_tensor(p.grad) is r.grad


def test_M24_a_new_result_joins_the_storage_of_a_living_alias(conv: MetaConverter) -> None:
    x = mq.ones(4)
    detached = x.detach()
    conv(x)  # dies at once
    alias = conv(detached)
    assert conv(x)._storage is alias._storage


def test_M20_results_are_like_their_inputs(conv: MetaConverter) -> None:
    x = mq.ones(6, 4).t()[1:]
    made = conv(x)
    assert (made.shape, made.stride(), made.storage_offset()) == ((3, 6), (1, 4), 1)
    assert made.is_meta
    assert made.untyped_storage().nbytes() == 96
    assert made._is_view()


def test_M20_leaves_and_results_stay_what_they_are(conv: MetaConverter) -> None:
    leaf = mq.nn.Parameter(mq.ones(3))
    made, result = conv(leaf), conv(leaf * 2)
    assert (made.is_leaf, made.requires_grad, isinstance(made, mq.nn.Parameter)) == (True,) * 3
    assert (result.is_leaf, result.requires_grad) == (False, True)
    with pytest.raises(RuntimeError, match=r"example input"):
        result.sum().backward()


def test_M20_data_may_be_kept() -> None:
    x = mq.ones(2)
    described = MetaConverter(copy_data=True).describer.describe_tensor(x)
    assert described.data is x


def test_M25_a_callback_makes_the_result(conv: MetaConverter) -> None:
    mode = mq.FakeTensorMode()
    seen = []

    def callback(make, *, device):
        seen.append(str(device))
        return mode.fake_tensor_converter.from_meta_and_device(mode, make(), device)

    x = mq.ones(4)
    made = conv(x[1:], callback=callback)
    assert seen == ["cpu"]
    assert (made.fake_mode, made._base.fake_mode, str(made.device)) == (mode, mode, "cpu")


def test_M25_a_callback_must_give_a_leaf(conv: MetaConverter) -> None:
    w = mq.ones(4, requires_grad=True, device="meta")
    with pytest.raises(AssertionError, match=r"callback.*detach"):
        conv(mq.ones(4), callback=lambda make, *, device: make() * w)


def test_M5_a_description_copies_as_a_value(describer: MetaTensorDescriber) -> None:
    described = describer.describe_tensor(mq.ones(2))
    assert copy.deepcopy(described) == described


# --- dense tensors, to meta tensors and to fakes -------------------------------------


@pytest.fixture(params=["meta", "fake"])
def convert(request: pytest.FixtureRequest):
    """Both converters: what a tensor becomes."""
    if request.param == "meta":
        return MetaConverter()
    return mq.FakeTensorMode().from_tensor


def test_M29_odd_strides_are_kept(convert) -> None:
    assert convert(mq.empty_strided((1, 3), (7, 1))).stride() == (7, 1)
    assert convert(mq.ones(3).expand(2, 3)).stride() == (0, 1)
    assert convert(mq.empty(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_M30_aliases_share_one_storage_of_full_size(convert, order: tuple[int, int]) -> None:
    a = mq.ones(10)
    b = mq.empty(0).set_(a.untyped_storage(), 2, (2, 3), (3, 1))
    made = [convert((a, b)[i]) for i in order]
    assert made[0].untyped_storage() is made[1].untyped_storage()
    assert made[0].untyped_storage().nbytes() == 40
    assert not any(t._is_view() for t in made)


def test_M31_an_emptied_storage_is_empty(convert) -> None:
    x = mq.ones(3)
    x.untyped_storage().resize_(0)
    made = convert(x)
    assert (made.shape, made.untyped_storage().nbytes()) == ((3,), 0)


def test_M32_leaves_stay_leaves_and_results_cannot_go_backward(convert) -> None:
    a = mq.ones(3, requires_grad=True)
    leaf, result = convert(a), convert(a * 2)
    assert (leaf.is_leaf, leaf.requires_grad) == (True, True)
    assert (result.is_leaf, result.requires_grad) == (False, True)
    with pytest.raises(RuntimeError, match=r"(?i)backward.*example input"):
        result.sum().backward()


def test_M37_a_view_shares_the_version_of_its_base(convert) -> None:
    x = mq.ones(4)
    r = convert(x[1:])
    b = convert(x)
    assert r._base is b
    b.add_(1)
    assert r._version == 1
