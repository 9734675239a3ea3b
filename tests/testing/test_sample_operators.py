"""The operators that ship for tests (L110)."""

import numpy as np
import pytest

import maquette as mq
from maquette.library import opcheck
from maquette.testing import sample_operators
from maquette.testing.sample_operators import numpy_nms, numpy_sort, samples
from maquette.torch.autograd.gradcheck import gradcheck

CALLS = [(op, args, kwargs) for op, calls in samples().items() for args, kwargs in calls]
WITHOUT_GRAD = ("numpy_nonzero", "numpy_nms")
each = pytest.mark.parametrize(
    ("op", "args", "kwargs"), CALLS, ids=[f"{op._name}{i}" for i, (op, _, _) in enumerate(CALLS)]
)


def test_L110_eleven_operators_are_there_by_pytorchs_names():
    names = "cube mul mul_scalar sort take nonzero nms view_copy cat split_copy split_copy_with_int"
    assert {op._name for op in samples()} == {f"numpy_{n}" for n in names.split()}
    assert mq.ops._torch_testing.numpy_sort.default is numpy_sort._opoverload
    assert set(sample_operators.__all__) == {op._name for op in samples()} | {"samples"}


@each
def test_L110_it_passes_opcheck(op, args, kwargs):
    assert set(opcheck(op, args, kwargs).values()) == {"SUCCESS"}


@pytest.mark.verify
@each
def test_L110_it_has_every_property(op, args, kwargs):
    assert opcheck(op, args, kwargs, report=True).ok


@each
def test_L110_it_passes_gradcheck(op, args, kwargs):
    if op._name not in WITHOUT_GRAD:
        names = list(kwargs)
        flat = [*args, *kwargs.values()]
        positional = len(args)

        def called(*given):
            return op(*given[:positional], **dict(zip(names, given[positional:], strict=True)))

        if not isinstance(args[0], list):
            assert gradcheck(lambda *a: _floating(called(*a)), tuple(flat))


def _floating(result):
    leaves = [result] if isinstance(result, mq.Tensor) else [*result]
    flat = [t for r in leaves for t in (r if isinstance(r, list) else [r])]
    return tuple(t for t in flat if isinstance(t, mq.Tensor) and t.dtype.is_floating_point)


@each
def test_L110_vmap_is_the_loop(op, args, kwargs):
    if op._name in WITHOUT_GRAD:
        return
    stacked, dims = _stacked(args[0])
    in_dims = (dims, *[None] * (len(args) - 1))
    got = _floating(
        mq.func.vmap(lambda *a: _floating(op(*a, **kwargs)), in_dims)(stacked, *args[1:])
    )
    for i in range(2):
        one = [t[i] for t in stacked] if isinstance(stacked, list) else stacked[i]
        for g, e in zip(got, _floating(op(one, *args[1:], **kwargs)), strict=True):
            assert np.array_equal(g[i].detach().numpy(), e.detach().numpy())


def _stacked(value):
    if isinstance(value, list):
        return [mq.stack([t, t * 2]) for t in value], [0] * len(value)
    return mq.stack([value, value.flip(0)]), 0


def test_L110_nms_keeps_the_best_of_boxes_that_overlap():
    boxes = mq.tensor([[0.0, 0, 9, 9], [1, 1, 10, 10], [20, 20, 29, 29]])
    assert numpy_nms(boxes, mq.tensor([0.5, 0.9, 0.1]), 0.5).tolist() == [1, 2]
