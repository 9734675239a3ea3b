"""Large arrays of 16-bit floats: steps, blocks and tables give what the plain path gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from plain_path import Plainly, plainly

import maquette as mq
import maquette.torch as torch
from maquette.library import arrays, in_blocks
from maquette.tensor.backend import Backend
from maquette.tensor.tensor import Tensor

__all__ = ["plainly"]

F = torch.nn.functional
HALVES = [torch.float16, torch.bfloat16]
ROWS, COLUMNS = 700, 500
assert ROWS * COLUMNS >= in_blocks._LEAST


def _operands(kind: mq.dtype) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    sizes = torch.tensor([1e-7, 1e-3, 1.0, 30.0, 1e4]).repeat(COLUMNS // 5)
    x = (torch.randn(ROWS, COLUMNS) * sizes).to(kind)
    y = torch.randn(ROWS, COLUMNS).to(kind)
    inf, nan = torch.inf, torch.nan
    x[0, :8] = torch.tensor([0.0, -0.0, inf, -inf, nan, 6e-8, 65504, 1]).to(kind)
    y[0, :8] = torch.tensor([-0.0, 0.0, 1, nan, 2, 0, 0, inf]).to(kind)
    y[1], y[2] = x[1], 0
    return x, y, torch.rand(ROWS, COLUMNS).to(kind)


Function = Callable[[Tensor, Tensor, Tensor], Tensor]
STEPS: dict[str, Function] = {
    **{
        name: lambda x, y, z, name=name: getattr(torch, name)(x)
        for name in (
            "floor ceil trunc round frac sqrt rsqrt reciprocal square deg2rad relu".split()
        )
    },
    **{
        name: lambda x, y, z, name=name: getattr(torch, name)(x, y)
        for name in "add sub mul div maximum minimum copysign rsub logical_or".split()
    },
    "a number more": lambda x, y, z: x + 1.1,
    "scaled number more": lambda x, y, z: torch.add(x, 1.3, alpha=2.3),
    "number less it": lambda x, y, z: 1.1 - x,
    "scaled difference": lambda x, y, z: torch.sub(x, y, alpha=1.3),
    "times a number": lambda x, y, z: x * 1.1,
    "by a number": lambda x, y, z: x / 1.1,
    "times a number of float32": lambda x, y, z: x * torch.tensor(1.1),
    "clamp": lambda x, y, z: x.clamp(-1.1, 1.1),
    "clamp, crossed": lambda x, y, z: x.clamp(2, -2),
    "clamp, NaN": lambda x, y, z: x.clamp(torch.nan, 1),
    "clamp, tensors": lambda x, y, z: torch.clamp(x, y, z),
    "clamp_max": lambda x, y, z: x.clamp_max(0.3),
    "cube": lambda x, y, z: x**3,
    "inverse square": lambda x, y, z: x**-2,
    "inverse root": lambda x, y, z: x**-0.5,
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=1.3),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=1.3),
    "lerp, near": lambda x, y, z: torch.lerp(x, y, 0.3),
    "lerp, far": lambda x, y, z: torch.lerp(x, y, 0.7),
    "lerp, tensor": lambda x, y, z: torch.lerp(x, y, z),
    "hardtanh": lambda x, y, z: F.hardtanh(x, -1.1, 2.2),
    "leaky_relu": lambda x, y, z: F.leaky_relu(x, 0.13),
    "row": lambda x, y, z: x + y[0],
    "column": lambda x, y, z: x * y[:, :1],
    "row and column": lambda x, y, z: torch.addcmul(x, y[0], z[:, :1]),
    "one": lambda x, y, z: x * y[:1, :1],
    "rows in the middle": lambda x, y, z: x.reshape(7, 100, COLUMNS) + y[:7, None],
    "rows of two": lambda x, y, z: x.reshape(7, 100, COLUMNS) * y[:100],
    "transposed": lambda x, y, z: x.t() + y.t(),
    "one transposed": lambda x, y, z: x + y.reshape(COLUMNS, ROWS).t(),
    "strided": lambda x, y, z: x[:, 1:] - y[:, 1:],
    "in blocks": lambda x, y, z: torch.atan2(x, y),
    "in blocks, by numbers": lambda x, y, z: torch.fmod(x, 0.3),
    "in blocks, cut": lambda x, y, z: torch.div(x, y, rounding_mode="trunc"),
    "in place": lambda x, y, z: x.clone().mul_(y[0]),
    "in place, scaled": lambda x, y, z: x.clone().sub_(y, alpha=1.3),
    "in place, of three": lambda x, y, z: x.clone().addcdiv_(y, z, value=-0.3).lerp_(y, 0.3),
    "in place, transposed": lambda x, y, z: x.t().clone().add_(y.t()),
    "in place, strided": lambda x, y, z: x.clone()[:, 1:].mul_(y[:, 1:]),
    "in place, by itself": lambda x, y, z: (lambda t: t.mul_(t))(x.clone()),
    "in place, a number": lambda x, y, z: x.clone().div_(3).clamp_(-0.1, 1),
}


def _whole(op: Any, meta: object, backend: Backend, args: list[object]) -> object:
    """A kernel on whole arrays, where `computed_in_blocks` would take them in blocks."""
    return op.array_kernel(backend.namespace, *args)


def _assert_same(found: Tensor, expected: Tensor) -> None:
    assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
    np.testing.assert_array_equal(found.double().numpy(), expected.double().numpy())
    signs, numbers = np.signbit(found.double().numpy()), ~found.isnan().numpy()
    np.testing.assert_array_equal(signs[numbers], expected.double().signbit().numpy()[numbers])


@pytest.mark.parametrize("kind", HALVES, ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_large_halves_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands, function = _operands(kind), STEPS[name]
    by_loop, in_blocks_alone = function(*operands), plainly(lambda: function(*operands))
    monkeypatch.setattr(arrays, "computed_in_blocks", _whole)
    plain = plainly(lambda: function(*operands))
    _assert_same(by_loop, plain)
    _assert_same(in_blocks_alone, plain)


SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "hardtanh": lambda x: F.hardtanh(x, -1.1, 2.2),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.13),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardsigmoid": F.hardsigmoid,
}


@pytest.mark.parametrize("kind", HALVES, ids=str)
@pytest.mark.parametrize("name", SLOPES)
def test_gradients_of_large_halves_have_the_plain_bits(
    name: str, kind: mq.dtype, plainly: Plainly, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, _, z = _operands(kind)

    def run() -> Tensor:
        leaf = x.detach().requires_grad_()
        (SLOPES[name](leaf) * z).sum().backward()
        return leaf.grad

    found = run()
    monkeypatch.setattr(arrays, "computed_in_blocks", _whole)
    _assert_same(found, plainly(run))


def test_powers_of_16_bits_with_halves_of_a_whole_number() -> None:
    # As PyTorch's: roots in bfloat16, powers in float16.
    x = torch.tensor([-0.0, -torch.inf, 4.0])
    assert str((x.bfloat16() ** -0.5).tolist()) == "[-inf, nan, 0.5]"
    assert str((x.half() ** -0.5).tolist()) == "[inf, 0.0, 0.5]"


# --- conversions ---------------------------------------------------------------------------

EIGHT = [
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
]  # fmt: skip


def _near(kind: mq.dtype) -> Tensor:
    """Every number of 8 bits, what is halfway between two, and what is beside that."""
    every = torch.arange(256, dtype=torch.uint8).view(kind).float().nan_to_num(0, 1e5, -1e5)
    every, _ = every.sort()
    halfway = (every[1:] + every[:-1]) / 2
    bits = torch.cat([every, halfway]).view(torch.int32)
    near = torch.cat([bits + step for step in (-0x10000, -1, 0, 1, 0x10000)]).view(torch.float32)
    edges = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 464.1, 480, 1e30, -1e30])
    return torch.cat([near, edges])


@pytest.mark.parametrize("given", [torch.float32, torch.float64, *HALVES], ids=str)
@pytest.mark.parametrize("kind", EIGHT, ids=str)
def test_many_numbers_are_rounded_to_8_bits_as_few(
    kind: mq.dtype, given: mq.dtype, plainly: Plainly
) -> None:
    x = _near(kind).to(given)
    few = [t.to(kind) for t in x.split(100)]
    many = x.repeat(20)
    for found in (many.to(kind), plainly(lambda: many.to(kind)), many.new_empty(0).to(kind)):
        bits = found[: len(x)].view(torch.uint8).numpy()
        expected = torch.cat(few).view(torch.uint8).numpy()[: len(bits)]
        np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("kind", EIGHT, ids=str)
def test_many_numbers_of_8_bits_are_widened_as_few(kind: mq.dtype, plainly: Plainly) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(kind)
    for wide in (torch.float32, torch.float16, torch.float64, torch.int32):
        few = every.to(wide).numpy()
        many = every.view(torch.uint8).repeat(80).view(kind)
        np.testing.assert_array_equal(many.to(wide)[:256].numpy(), few)
        plain = plainly(partial(many.to, wide))[:256]
        np.testing.assert_array_equal(plain.numpy(), few)


def test_doubles_are_rounded_to_16_bits_through_float32_as_by_pytorch() -> None:
    x = torch.tensor([1 + 2**-11 + 2**-40, 65519.9999999999], dtype=torch.float64)
    assert x.half().tolist() == x.repeat(20_000).half()[:2].tolist() == [1.0, torch.inf]


def test_float8_e4m3fn_holds_its_largest_number_as_by_pytorch() -> None:
    x = torch.tensor([464.1, 1e30, torch.inf, -torch.inf, torch.nan])
    expected = "[448.0, 448.0, 448.0, -448.0, nan]"
    for given in (x, x.half(), x.double(), x.repeat(20_000)):
        assert str(given.to(torch.float8_e4m3fn).float()[:5].tolist()) == expected
    into = torch.empty(5, dtype=torch.float8_e4m3fn)
    assert str(into.copy_(x).float().tolist()) == expected


@pytest.mark.parametrize("given", [torch.float64, torch.int64, torch.bool, torch.uint8], ids=str)
@pytest.mark.parametrize("kind", HALVES, ids=str)
def test_many_numbers_of_other_types_become_halves_as_few(kind: mq.dtype, given: mq.dtype) -> None:
    x = torch.arange(-200, 70_000, 7).to(given)
    few = torch.cat([t.to(kind) for t in x.split(1000)])
    many = x.repeat(4).to(kind)[: len(x)]
    np.testing.assert_array_equal(many.float().numpy(), few.float().numpy())
    back = torch.cat([t.to(given) for t in few[:9000].split(1000)])
    np.testing.assert_array_equal(few[:9000].repeat(4).to(given)[:9000].numpy(), back.numpy())
