"""Functions that few programs call: places of storages, scaled products, undone schedulers."""

from __future__ import annotations

import pytest

import maquette.torch as torch
import maquette.torch.nn.functional as F
from maquette.torch import serialization
from maquette.torch.overrides import BaseTorchFunctionMode


def test_a_storage_is_tagged_and_restored_by_its_device() -> None:
    storage = torch.ones(2).untyped_storage()
    assert serialization.location_tag(storage) == "cpu"
    assert serialization.default_restore_location(storage, "cpu") is storage
    with pytest.raises(RuntimeError, match="map_location='cpu'"):
        serialization.default_restore_location(storage, "cuda:0")


def test_versions_of_modules_are_compared_by_numbers() -> None:
    newer = serialization.check_module_version_greater_or_equal
    module = type(torch)("made")
    module.__version__ = "1.10.2"  # type: ignore[attr-defined]  # what is asked for
    assert newer(module, (1, 9))
    assert not newer(module, (2,))


def test_a_scaled_product_takes_scales_of_matrices_and_rows() -> None:
    a = torch.ones(16, 16).to(torch.float8_e4m3fn)
    two, whole = torch.tensor(2.0), F.ScalingType.TensorWise
    assert F.scaled_mm(a, a.t(), two, whole, two, whole)[0, 0] == 64
    with pytest.raises(NotImplementedError, match="blocks"):
        F.scaled_mm(a, a.t(), two, F.ScalingType.BlockWise1x32, two, whole)


@pytest.mark.parametrize("kind", [torch.nn.LazyBatchNorm2d, torch.nn.LazyInstanceNorm2d])
def test_a_lazy_normalization_without_bias_waits_for_a_weight_alone(kind: type) -> None:
    layer = kind(affine=True, bias=False)
    layer(torch.ones(2, 3, 4, 4))
    assert layer.bias is None
    assert tuple(layer.weight.shape) == (3,)


def test_steps_of_schedulers_are_undone_one_by_one() -> None:
    lr = torch.optim.lr_scheduler
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    both = lr.SequentialLR(optimizer, [lr.ConstantLR(optimizer), lr.ConstantLR(optimizer)], [2])
    before = [s.last_epoch for s in both._schedulers]
    both.recursive_undo()
    assert [s.last_epoch for s in both._schedulers] == [n - 1 for n in before]


def test_a_mode_that_is_pushed_warns() -> None:
    with pytest.warns(UserWarning, match="no longer necessary"):
        mode = BaseTorchFunctionMode.push()
    assert isinstance(mode, BaseTorchFunctionMode)


def test_few_of_many_eigenvalues_fit_their_equation() -> None:
    half = torch.arange(144.0, dtype=torch.float64).reshape(12, 12).sin()
    a, b = half @ half.mT, torch.eye(12, dtype=torch.float64) * 2
    values, vectors = torch.lobpcg(a, k=2, B=b)
    torch.testing.assert_close(a @ vectors, b @ vectors * values)
    assert values[0] > values[1]
    with pytest.raises(ValueError, match="3 x"):
        torch.lobpcg(a, k=5)
