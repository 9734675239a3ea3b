"""Which values are fake and whose, and how they are made one by one (F36, F40, F47)."""

from __future__ import annotations

import pytest

import maquette as mq
from maquette.fake import detect_fake_mode, is_fake, maybe_get_fake_mode


class Two(mq.Tensor):
    """A wrapper of two tensors and a number, which nobody calls operators on here."""

    a: mq.Tensor
    b: mq.Tensor

    def __tensor_flatten__(self):
        return ["a", "b", "note"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return two(inner["a"], inner["b"])


def two(a: mq.Tensor, b: mq.Tensor) -> Two:
    made = mq.ones(2).as_subclass(Two)
    made.a, made.b, made.note = a, b, "opaque"
    return made


@pytest.fixture
def m() -> mq.FakeTensorMode:
    return mq.FakeTensorMode()


def fake(mode: mq.FakeTensorMode) -> mq.FakeTensor:
    return mode.from_tensor(mq.ones(2))


def test_F36_a_fake_converts_to_another_fake_once(m: mq.FakeTensorMode) -> None:
    a = fake(m)
    again = m.from_tensor(a)
    assert again is not a
    assert again is m.from_tensor(a)
    assert again.fake_mode is m


def test_F36_a_fake_of_another_mode_converts_to_one_of_this(m: mq.FakeTensorMode) -> None:
    a = mq.FakeTensorMode().from_tensor(mq.ones(4, 2).t())
    again = m.from_tensor(a)
    assert again.fake_mode is m
    assert again.meta is a.meta


def test_F39_fakes_and_wrappers_of_fakes_are_fake(m: mq.FakeTensorMode) -> None:
    assert is_fake(fake(m))
    assert is_fake(two(fake(m), fake(m)))
    assert is_fake(two(fake(m), two(fake(m), fake(m))))


def test_F39_nothing_else_is(m: mq.FakeTensorMode) -> None:
    for value in (mq.ones(2), two(mq.ones(2), mq.ones(2)), 3, None, [fake(m)]):
        assert not is_fake(value)
        assert maybe_get_fake_mode(value) is None


def test_F39_a_wrapper_of_both_is_refused(m: mq.FakeTensorMode) -> None:
    with pytest.raises(AssertionError, match="Two wraps both fake and real"):
        is_fake(two(fake(m), mq.ones(2)))


def test_F39_the_mode_of_a_wrapper_is_that_of_its_fakes(m: mq.FakeTensorMode) -> None:
    assert maybe_get_fake_mode(fake(m)) is m
    assert maybe_get_fake_mode(two(fake(m), fake(m))) is m
    with pytest.raises(AssertionError, match="several modes"):
        maybe_get_fake_mode(two(fake(m), fake(mq.FakeTensorMode())))


def test_F40_the_active_mode_is_detected(m: mq.FakeTensorMode) -> None:
    with m:
        assert detect_fake_mode() is m
        assert detect_fake_mode([mq.empty(2)]) is m
    assert detect_fake_mode() is None


def test_F40_the_mode_of_inputs_is_detected(m: mq.FakeTensorMode) -> None:
    assert detect_fake_mode({"x": [1, fake(m)]}) is m
    assert detect_fake_mode([two(fake(m), fake(m))]) is m
    assert detect_fake_mode([mq.ones(2)]) is None


def test_F40_modes_that_differ_are_refused_with_their_stacks(m: mq.FakeTensorMode) -> None:
    other = mq.FakeTensorMode()
    with pytest.raises(AssertionError) as error:
        detect_fake_mode([fake(m), 3, fake(other)])
    text = str(error.value)
    assert all(part in text for part in (repr(m), repr(other), m.stack, other.stack, "input 2"))


def test_F40_inputs_of_another_mode_than_the_active_one_are_refused(m: mq.FakeTensorMode) -> None:
    with mq.FakeTensorMode(), pytest.raises(AssertionError, match="active"):
        detect_fake_mode([fake(m)])


def test_F47_a_constant_is_attached_as_it_is(m: mq.FakeTensorMode) -> None:
    t = mq.tensor([2.0])
    known = m.fake_tensor_converter.from_real_tensor(m, t, make_constant=True)
    assert known.constant is t
    assert known.item() == 2.0
    assert m.from_tensor(t).constant is None


def test_F47_a_parameter_is_no_constant(m: mq.FakeTensorMode) -> None:
    weight = mq.nn.Parameter(mq.ones(1))
    with pytest.raises(AssertionError, match="parameter"):
        m.fake_tensor_converter.from_real_tensor(m, weight, make_constant=True)
    assert m.fake_tensor_converter.from_real_tensor(m, weight) is m.from_tensor(weight)


def test_F47_a_meta_tensor_becomes_a_fake_on_a_device(m: mq.FakeTensorMode) -> None:
    t = mq.empty(2, 3, device="meta")
    made = m.fake_tensor_converter.from_meta_and_device(m, t, "cuda")
    assert (made.shape, str(made.device)) == ((2, 3), "cuda:0")
    assert m.fake_tensor_converter.from_meta_and_device(m, t, mq.device("cpu")) is made


def test_F47_only_a_meta_tensor_does(m: mq.FakeTensorMode) -> None:
    with pytest.raises(AssertionError, match="cpu"):
        m.fake_tensor_converter.from_meta_and_device(m, mq.ones(1), "cuda")


def test_F68_constants_elsewhere_than_on_the_cpu_can_be_forgotten(m: mq.FakeTensorMode) -> None:
    here, there = mq.tensor(1.0), mq.empty((), device="meta")
    converter = m.fake_tensor_converter
    kept, dropped = (converter.from_real_tensor(m, t, make_constant=True) for t in (here, there))
    converter.clear_non_cpu_constants()
    assert (kept.constant is here, dropped.constant) == (True, None)
