"""On which device results are, and which operands go together (F51-F59)."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette.fake import FakeTensorDeviceMismatchError

aten = mq.ops.aten


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


def on(mode: mq.FakeTensorMode, device: str, *size: int) -> mq.Tensor:
    with mode:
        return mq.empty(size, device=device)


def devices(tensors: list[mq.Tensor]) -> list[str]:
    return [str(t.device) for t in tensors]


@pytest.mark.parametrize("order", [("cuda", "cpu"), ("cpu", "cuda")])
def test_F51_a_preferred_type_of_device_wins(order: tuple[str, str]) -> None:
    mode = mq.FakeTensorMode(prefer_device_type="cuda")
    a, b = (on(mode, device, 2) for device in order)
    assert devices([a + b, mq.cat([a, b])]) == ["cuda:0", "cuda:0"]


def test_F51_a_preference_does_not_choose_between_two_of_its_type() -> None:
    mode = mq.FakeTensorMode(prefer_device_type="cuda")
    with pytest.raises(FakeTensorDeviceMismatchError, match=r"cuda:0.*cuda:1"):
        on(mode, "cuda:0", 2) + on(mode, "cuda:1", 2)


def test_F51_a_preference_moves_nothing_that_is_written() -> None:
    mode = mq.FakeTensorMode(prefer_device_type="cuda")
    h, c = on(mode, "cpu", 2), on(mode, "cuda", 2)
    assert c.add_(h) is c
    with pytest.raises(FakeTensorDeviceMismatchError):
        h.add_(c)
    assert devices([h, c]) == ["cpu", "cuda:0"]


def test_F51_a_preference_may_come_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mq.fake.config, "prefer_device_type", "cuda")
    mode = mq.FakeTensorMode()
    assert str((on(mode, "cpu", 2) + on(mode, "cuda", 2)).device) == "cuda:0"


@pytest.mark.parametrize("sides", [("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda")])
def test_F51_a_list_is_copied_from_and_to_the_cpu(
    m: mq.FakeTensorMode, sides: tuple[str, str]
) -> None:
    to, source = (on(m, device, 2) for device in sides)
    aten._foreach_copy_([to], [source])
    assert str(to.device).startswith(sides[0])


def test_F51_a_meta_operand_multiplies_nothing(m: mq.FakeTensorMode) -> None:
    with pytest.raises(FakeTensorDeviceMismatchError, match=r"cuda:0.*meta"):
        on(m, "cuda", 2).mul_(on(m, "meta", 2))


def test_F52_numbers_alone_give_a_result_on_the_cpu(m: mq.FakeTensorMode) -> None:
    with m:
        t = aten.add.Tensor(1, 2)
    assert (t.shape, t.dtype, str(t.device)) == ((), mq.int64, "cpu")
    assert t.fake_mode is m


def test_F52_numbers_alone_are_no_operand_elsewhere(m: mq.FakeTensorMode) -> None:
    with m, pytest.raises(RuntimeError, match=r"aten::sin"):
        aten.sin.default(1)


def test_F53_a_users_rule_chooses_the_device(m: mq.FakeTensorMode) -> None:
    with mq.library._scoped_library("f53", "DEF") as lib:
        lib.define("upload(Tensor x) -> Tensor")
        mq.library.register_fake("f53::upload", lambda x: mq.empty(2, device="cuda"), lib=lib)
        assert str(mq.ops.f53.upload(on(m, "cpu", 2)).device) == "cuda:0"


def test_F53_results_are_where_operands_are_or_where_they_are_told(m: mq.FakeTensorMode) -> None:
    c, scalar = on(m, "cuda:1", 2), on(m, "cpu")
    found = devices([scalar * c, c.sum(), c.new_zeros(3), mq.ones_like(c, device="cpu")])
    assert found == ["cuda:1", "cuda:1", "cuda:1", "cpu"]


def test_F56_a_copy_is_where_self_is(m: mq.FakeTensorMode) -> None:
    c, h = on(m, "cuda", 2), on(m, "cpu", 2)
    assert c.copy_(h) is c
    assert devices([c, aten.copy(c, h), aten.copy(h, c)]) == ["cuda:0", "cuda:0", "cpu"]


def test_F57_indices_are_where_the_weight_is(m: mq.FakeTensorMode) -> None:
    with m:
        indices = mq.tensor([0, 1])
    with pytest.raises(FakeTensorDeviceMismatchError, match=r"cuda:0.*cpu"):
        aten.embedding(on(m, "cuda", 10, 3), indices)


def test_F58_each_position_of_lists_has_its_device(m: mq.FakeTensorMode) -> None:
    c, h = on(m, "cuda", 2), on(m, "cpu", 2)
    assert devices(aten._foreach_add([c, h], [c, h])) == ["cuda:0", "cpu"]
    assert devices(aten._foreach_addcmul([c, h], [c, h], [c, h])) == ["cuda:0", "cpu"]
    assert devices(aten._foreach_norm([c, h])) == ["cuda:0", "cpu"]


def test_F58_devices_that_differ_at_a_position_are_refused(m: mq.FakeTensorMode) -> None:
    c, h = on(m, "cuda", 2), on(m, "cpu", 2)
    with pytest.raises(FakeTensorDeviceMismatchError, match=r"cuda:0.*cpu"):
        aten._foreach_add([c, h], [h, c])


def test_F58_lists_of_unequal_lengths_are_refused(m: mq.FakeTensorMode) -> None:
    c, h = on(m, "cuda", 2), on(m, "cpu", 2)
    with pytest.raises(RuntimeError, match=r"2 and 1"):
        aten._foreach_add([c, h], [c])


def test_F59_the_place_of_a_template_does_not_matter(m: mq.FakeTensorMode) -> None:
    c, h = on(m, "cuda", 2, 3), on(m, "cpu", 6)
    found = [h.view_as(c), h.reshape_as(c), h[:1].expand_as(c)]
    assert devices(found) == ["cpu"] * 3
    assert [tuple(t.shape) for t in found] == [(2, 3)] * 3


def test_F59_type_as_goes_where_its_template_is(m: mq.FakeTensorMode) -> None:
    assert str(on(m, "cpu", 2).type_as(on(m, "cuda", 1)).device) == "cuda:0"


# --- operators with rules of their own -----------------------------------------------


def test_F51_nextafter_has_no_rule_for_scalars(m: mq.FakeTensorMode) -> None:
    c, scalar = on(m, "cuda", 2), on(m, "cpu")
    for program in (lambda: mq.nextafter(c, scalar), lambda: c.nextafter_(scalar)):
        with pytest.raises(FakeTensorDeviceMismatchError, match=r"cuda:0.*cpu"):
            program()
    assert str(mq.nextafter(c, c).device) == "cuda:0"


def test_F51_a_meta_operand_may_be_added_in_place(m: mq.FakeTensorMode) -> None:
    c = on(m, "cuda", 2)
    assert c.add_(on(m, "meta", 2)) is c
    assert str(c.device) == "cuda:0"
    with pytest.raises(FakeTensorDeviceMismatchError):
        c + on(m, "meta", 2)


def indices(mode: mq.FakeTensorMode, device: str) -> mq.Tensor:
    with mode:
        return mq.empty(2, dtype=mq.int64, device=device)


@pytest.mark.parametrize("pair", [("cuda", "cpu"), ("cpu", "cuda")])
def test_F56_results_are_on_self_whatever_is_scattered(
    m: mq.FakeTensorMode, pair: tuple[str, str]
) -> None:
    self, src = on(m, pair[0], 2), on(m, pair[1], 2)
    found = [
        aten.slice_scatter(self, src),
        aten.diagonal_scatter(on(m, pair[0], 2, 3), src),
        aten._unsafe_index_put(self, [indices(m, pair[1])], src),
    ]
    assert {t.device for t in found} == {self.device}


def test_F56_indices_may_be_on_the_cpu(m: mq.FakeTensorMode) -> None:
    c, i = on(m, "cuda", 2), indices(m, "cpu")
    found = [c[i], aten.index(c, [i]), aten.index_put(c, [i], c)]
    assert devices(found) == ["cuda:0"] * 3
    assert aten.index_put_(c, [i], c.clone()) is c


@pytest.mark.parametrize(
    "program", [lambda h, i: aten.index(h, [i]), lambda h, i: aten.index_put(h, [i], h)]
)
def test_F56_indices_elsewhere_are_refused(m: mq.FakeTensorMode, program) -> None:
    with pytest.raises(RuntimeError, match=r"indices should be .*\(cpu\).*cuda:0"):
        program(on(m, "cpu", 2), indices(m, "cuda"))


def test_F56_unsafe_indices_are_where_self_is(m: mq.FakeTensorMode) -> None:
    with pytest.raises(FakeTensorDeviceMismatchError):
        aten._unsafe_index(on(m, "cuda", 2), [indices(m, "cpu")])


@pytest.mark.parametrize("op", [aten.index_put.default, aten.index_put_.default])
def test_F56_values_are_with_self_or_0_dim(m: mq.FakeTensorMode, op) -> None:
    c, i = on(m, "cuda", 2), indices(m, "cuda")
    assert str(op(c, [i], on(m, "cpu")).device) == "cuda:0"
    with pytest.raises(RuntimeError, match=r"index_put: expected the values with self on cuda:0"):
        op(c, [i], on(m, "cpu", 2))


def test_F57_a_weight_or_indices_may_be_meta(m: mq.FakeTensorMode) -> None:
    found = [
        aten.embedding(on(m, weight, 10, 3), indices(m, index))
        for weight, index in (("meta", "cpu"), ("cuda", "meta"), ("cuda", "cuda"))
    ]
    assert devices(found) == ["meta", "cuda:0", "cuda:0"]
    assert {tuple(t.shape) for t in found} == {(2, 3)}


def test_F57_a_bag_is_on_the_weight_and_its_offsets_with_the_indices(
    m: mq.FakeTensorMode,
) -> None:
    bag = aten._embedding_bag(on(m, "cuda", 10, 3), indices(m, "cpu"), indices(m, "cpu"))
    assert devices(bag) == ["cuda:0", "cpu", "cpu", "cpu"]


def test_F59_a_template_elsewhere_gives_its_size(m: mq.FakeTensorMode) -> None:
    h, c = on(m, "cpu", 2), on(m, "cuda", 2, 3)
    assert h.resize_as_(c) is h
    assert (tuple(h.shape), str(h.device)) == ((2, 3), "cpu")
    assert h.untyped_storage().nbytes() == 24


def test_histc_on_cuda_keeps_integers() -> None:
    """Finding 35: CUDA's rule, not the CPU kernel's."""
    with mq.FakeTensorMode():
        assert mq.histc(mq.ones(3, dtype=mq.int32, device="cuda"), 3).dtype is mq.int32
