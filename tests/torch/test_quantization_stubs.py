"""What a program that could be quantized is written with computes with floats."""

import pytest

import maquette.torch as torch
from maquette.torch import nn


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = torch.quantization.QuantStub(), torch.quantization.DeQuantStub()
        self.skip_add = nn.quantized.FloatFunctional()

    def forward(self, x):
        return self.dequant(self.skip_add.add_relu(self.quant(x), x))


def test_a_program_with_stubs_computes_with_floats():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = Skip()(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([0, 4], [0, 2])
    assert list(Skip().state_dict()) == []
    assert "(activation_post_process): Identity()" in repr(Skip())


@pytest.mark.parametrize("kind", ["FloatFunctional", "FXFloatFunctional"])
def test_arithmetic_by_name(kind):
    module = getattr(torch.ao.nn.quantized, kind)()
    x, y = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 1.0])
    found = [module.add(x, y), module.mul(x, y), module.cat([x, y]), module.matmul(x, y)]
    assert [t.tolist() for t in found] == [[4, -1], [3, -2], [1, -2, 3, 1], 1]
    assert (module.add_scalar(x, 2).tolist(), module.mul_scalar(x, 2).tolist()) == ([3, 0], [2, -4])
    with pytest.raises(RuntimeError, match="no forward"):
        module(x)


def test_a_wrapper_has_the_names_and_the_mode_of_what_it_wraps():
    wrapped = torch.ao.quantization.QuantWrapper(nn.Linear(2, 1).eval())
    assert (list(wrapped.state_dict()), wrapped.training) == (["module.weight", "module.bias"], 0)
    assert wrapped(torch.ones(1, 2)).shape == (1, 1)


def test_converters_stay_absent():
    with pytest.raises(NotImplementedError, match=r"torch\.quantization\.prepare is not supported"):
        torch.quantization.prepare(Skip())
    with pytest.raises(NotImplementedError, match=r"torch\.nn\.quantized\.Linear is not supported"):
        nn.quantized.Linear(1, 2)
    assert not hasattr(nn, "not_there")
