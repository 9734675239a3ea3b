"""Private names of modules that libraries import: bases of families, helpers of containers."""

import dataclasses
from collections import namedtuple

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn


@pytest.mark.parametrize("kind", ["Reflection", "Replication"])
def test_paddings_of_a_kind_have_a_base(kind: str) -> None:
    base = getattr(torch.nn.modules.padding, f"_{kind}PadNd")
    classes = [getattr(nn, f"{kind}Pad{d}d") for d in (1, 2, 3)]
    assert all(issubclass(each, base) for each in classes)
    assert classes[1](1)(mq.arange(4.0).view(1, 1, 2, 2)).shape == (1, 1, 4, 4)
    assert repr(classes[0](2)) == f"{kind}Pad1d((2, 2))"


def test_tensors_are_found_in_nested_outputs() -> None:
    from maquette.torch.nn.parallel.distributed import _find_tensors
    from maquette.torch.nn.parallel.scatter_gather import _is_namedtuple

    @dataclasses.dataclass
    class Output:
        loss: mq.Tensor
        rest: object

    a, b, c = mq.ones(1), mq.ones(2), mq.ones(3)
    found = list(_find_tensors(Output(a, {"x": [b, "text"], "y": (c, None)})))
    assert [t.shape[0] for t in found] == [1, 2, 3]
    assert _is_namedtuple(namedtuple("Pair", "x y")(1, 2))
    assert not _is_namedtuple((1, 2))


def test_private_functions_of_distributions_are_there() -> None:
    from maquette.torch.distributions.constraints import _DependentProperty
    from maquette.torch.distributions.gamma import _standard_gamma
    from maquette.torch.distributions.lowrank_multivariate_normal import (
        _batch_lowrank_mahalanobis as low_rank,
    )
    from maquette.torch.distributions.multivariate_normal import _batch_mahalanobis

    w, d, x = mq.tensor([[1.0], [2.0]]), mq.tensor([1.0, 3.0]), mq.tensor([0.5, -1.0])
    covariance = w @ w.mT + mq.diag(d)
    factor = torch.linalg.cholesky(covariance)
    small = torch.linalg.cholesky(mq.eye(1) + w.mT @ (w / d[:, None]))
    expected = x @ torch.linalg.solve(covariance, x)
    assert _batch_mahalanobis(factor, x).item() == pytest.approx(expected.item(), rel=1e-5)
    assert low_rank(w, d, x, small).item() == pytest.approx(expected.item(), rel=1e-5)
    assert _standard_gamma(mq.ones(3)).min() > 0
    assert issubclass(_DependentProperty, property)


def test_a_module_without_a_forward_has_pytorchs() -> None:
    from maquette.torch.nn.modules.module import _forward_unimplemented

    assert nn.Module.forward is _forward_unimplemented
    assert isinstance(torch.autograd.Function, torch.autograd.function.FunctionMeta)


def test_the_base_of_unpoolings_stands_beside_the_poolings() -> None:
    base = torch.nn.modules.pooling._MaxUnpoolNd
    assert all(issubclass(each, base) for each in (nn.MaxUnpool1d, nn.MaxUnpool2d, nn.MaxUnpool3d))
