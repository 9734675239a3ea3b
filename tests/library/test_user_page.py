"""A user's operator as a page, with the example of the documentation."""

import importlib.util
import pathlib

import pytest

import maquette as mq
from maquette.library import page
from maquette.library.functions import register_cost, register_kernel, register_shape

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "rms_norm.py"


@pytest.fixture(scope="module")
def example():
    """The module of the example; its operators are defined once."""
    spec = importlib.util.spec_from_file_location("rms_norm_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_LX1_a_users_page_is_an_operator_like_any_other(example):
    assert mq.ops.example.rms_norm.default is example.rms_norm.op
    out, rstd = example.rms_norm(mq.ones(2, 8), mq.ones(8))
    assert out.shape == (2, 8)
    assert rstd.shape == (2, 1)


def test_LX1_a_users_page_is_differentiated(example):
    x, weight = mq.ones(2, 8).requires_grad_(), mq.ones(8).requires_grad_()
    out, rstd = example.rms_norm(x, weight)
    assert out.grad_fn.name() == "RmsNormBackward0"
    assert not rstd.requires_grad
    out.sum().backward()
    assert weight.grad.numpy().tolist() == pytest.approx([2] * 8)


def test_LX1_a_users_page_answers_in_fake_mode_as_eager_does(example):
    args = mq.ones(2, 3, 8, dtype=mq.bfloat16), mq.ones(8, dtype=mq.bfloat16)
    eager = example.rms_norm(*args)
    mode = mq.FakeTensorMode()
    fake = example.rms_norm(*map(mode.from_tensor, args))
    assert [t.meta for t in fake] == [t.meta for t in eager]


def test_LX1_the_example_runs(example, capsys):
    example.main()
    printed = capsys.readouterr().out
    assert "example.rms_norm_backward.default" in printed
    assert "the same in fake mode: True" in printed


def test_LX1_a_page_by_public_calls(lib, ns):
    lib.define("mm(Tensor a, Tensor b) -> Tensor")
    name = f"{ns}::mm"
    register_shape(name, lambda a, b: a.fresh((a.shape[0], b.shape[1])))
    register_kernel(name, "cpu", lambda a, b: a @ b, lib=lib, arrays=True)
    register_cost(name, lambda a, b, out: page.Cost(flops=2 * out.numel * a.shape[1]), lib=lib)
    op = getattr(mq.ops, ns).mm.default
    page.OperatorPage(op).derivative(a=lambda grad, b: grad @ b.t(), b=lambda grad, a: a.t() @ grad)
    a, b = mq.ones(2, 3).requires_grad_(), mq.ones(3, 4).requires_grad_()
    out = op(a, b)
    out.sum().backward()
    assert out.detach().numpy().tolist() == [[3] * 4] * 2
    assert b.grad.numpy().tolist() == [[2] * 4] * 3
    mode = mq.FakeTensorMode()
    assert op(mode.from_tensor(a), mode.from_tensor(b)).shape == (2, 4)
    assert op.facts.cost(a.meta, b.meta, out.meta).flops == 48


def test_L43_an_answer_of_a_rule_that_is_replaced_meanwhile_is_not_remembered():
    op = page.define("answers::late(Tensor x) -> Tensor").op
    x = mq.empty(2, device="meta")

    def old_rule(x):
        page.set_shape_rule(op, lambda x: x.fresh((2, 2)))  # as another thread would
        return x.fresh((1,))

    page.set_shape_rule(op, old_rule)
    assert op(x).shape == (1,)
    assert op(x).shape == (2, 2)


def test_LX1_a_page_says_the_layout_of_what_only_data_tells(lib):
    positions = page.define(
        f"{lib.ns}::positive(Tensor x) -> Tensor", tags=[mq.Tag.dynamic_output_shape], lib=lib
    )

    @positions.data_dependent(layout=lambda shape, x: x.fresh(shape, mq.int64, (1, shape[0])))
    def positive_kernel(xp, x):
        return xp.stack(xp.nonzero(x > 0)).T

    found = positions(mq.tensor([[1.0, -1.0], [2.0, 3.0]]))
    assert found.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert found.stride() == (1, 3)
    assert positions(mq.zeros(2, 2)).stride() == (1, 0)


def test_LX1_checks_that_tell_the_result_serve_tensors_without_data(lib):
    spread = page.define(f"{lib.ns}::spread(Tensor n, int? total=None) -> Tensor", lib=lib)

    @spread.data_dependent(lambda n, total: None if total is None else n.fresh((total,)))
    def spread_kernel(xp, n, total):
        return xp.repeat(xp.arange(len(n)), n)

    counts = mq.tensor([2, 1])
    assert spread(counts).tolist() == [0, 0, 1]
    assert spread(counts.to("meta"), 3).shape == (3,)
    with pytest.raises(NotImplementedError):
        spread(counts.to("meta"))


def test_LX1_a_page_has_data_translate_a_list_before_the_rule(lib):
    pick = page.define(f"{lib.ns}::pick(Tensor x, Tensor[] which) -> Tensor", lib=lib)
    pick.shape(lambda x, which: x.fresh(which[0].shape))
    pick.kernel(lambda xp, x, which: x[which[0]])

    @pick.translated("which", when=lambda x, which: which[0].dtype is mq.bool)
    def masks_as_positions(xp, which):
        return list(xp.nonzero(which[0]))

    x = mq.tensor([5.0, 6.0, 7.0])
    assert pick(x, [mq.tensor([True, False, True])]).tolist() == [5.0, 7.0]
    assert pick(x, [mq.tensor([1])]).tolist() == [6.0]
