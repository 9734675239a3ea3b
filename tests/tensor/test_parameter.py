"""Parameters and buffers, real and fake."""

import pytest

import maquette as mq
from maquette.tensor import Buffer, Parameter


def test_F8_a_parameter_shares_the_memory_of_its_data() -> None:
    data = mq.ones(2)
    p = Parameter(data)
    assert p.data_ptr() == data.data_ptr()
    assert p.is_leaf
    assert p.requires_grad
    assert not data.requires_grad


def test_F8_a_parameter_of_a_result_is_a_leaf() -> None:
    p = Parameter(mq.ones(2, requires_grad=True) * 2)
    assert p.is_leaf
    assert p.grad_fn is None


def test_F8_a_parameter_of_a_fake_is_a_fake_and_an_instance() -> None:
    mode = mq.FakeTensorMode()
    p = Parameter(mode.from_tensor(mq.ones(2)))
    assert type(p) is mq.FakeTensor
    assert isinstance(p, Parameter)
    assert p.fake_mode is mode
    assert p.requires_grad


def test_F8_a_fake_of_a_parameter_is_an_instance() -> None:
    fake = mq.FakeTensorMode().from_tensor(Parameter(mq.ones(2)))
    assert isinstance(fake, Parameter)


def test_F8_tensors_are_no_parameters() -> None:
    assert not isinstance(mq.ones(2), Parameter)
    assert not isinstance(mq.FakeTensorMode().from_tensor(mq.ones(2)), Parameter)
    assert not isinstance("p", Parameter)


def test_F8_a_subclass_of_parameter_asks_for_its_own_class() -> None:
    class Scale(Parameter):
        pass

    made = Scale(mq.ones(2))
    assert isinstance(made, Scale)
    assert isinstance(made, Parameter)
    assert not isinstance(Parameter(mq.ones(2)), Scale)


def test_D136_what_operators_make_of_a_parameter_is_a_plain_tensor() -> None:
    p = Parameter(mq.ones(2))
    assert type(p + 1) is mq.Tensor
    assert type(p.detach()) is mq.Tensor


def test_T27_integers_need_requires_grad_off() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        Parameter(mq.tensor([1]))
    assert not Parameter(mq.tensor([1]), requires_grad=False).requires_grad


def test_F8_a_parameter_takes_tensors_only() -> None:
    with pytest.raises(TypeError, match="takes a Tensor, got list"):
        Parameter([1.0])


def test_F8_a_parameter_without_data_is_empty() -> None:
    assert Parameter().shape == (0,)


def test_F8_buffers_are_marked_aliases() -> None:
    data = mq.ones(2)
    buffer = Buffer(data, persistent=False)
    assert isinstance(buffer, Buffer)
    assert not isinstance(data, Buffer)
    assert buffer.data_ptr() == data.data_ptr()
    assert buffer.persistent is False
