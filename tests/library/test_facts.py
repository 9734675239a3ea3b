"""What is known of an operator is one object, shared by its forms (DESIGN decision 2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import maquette as mq
from maquette.autograd.formulas import Kind
from maquette.dispatch.facts import Cost
from maquette.library.page import OperatorPage, Variant, define

aten = mq.ops.aten


@pytest.fixture
def scale() -> Iterator[OperatorPage]:
    page = define("facts_test::scale(Tensor self, Scalar by) -> Tensor", variants=[*Variant])
    page.shape(lambda self, by: self.like())
    page.kernel(lambda xp, self, by: self * by)
    page.linear(self=lambda grad, by: grad * by)
    yield page
    page.withdraw()


def test_forms_share_one_object() -> None:
    facts = aten.add.Tensor.facts
    for op in (aten.add_.Tensor, aten.add.out, aten.add.Scalar, aten.add_.Scalar):
        assert op.facts is facts
    assert facts.takes_numbers
    assert aten.mm.default.facts is not facts


def test_a_fact_stated_once_serves_every_form(scale: OperatorPage) -> None:
    scale.cost(lambda self, by, out: Cost(flops=out.numel))
    for form in scale.variants:
        assert form.facts.cost is scale.facts.cost
    x = mq.ones(3)
    mq.ops.facts_test.scale_(x, 2)
    assert x.tolist() == [2, 2, 2]


def test_linear_slope_and_bilinear_are_kept_as_data(scale: OperatorPage) -> None:
    assert scale.facts.derivatives.arguments(Kind.LINEAR) == ["self"]
    assert aten.mul.Tensor.derivatives.arguments(Kind.BILINEAR) == ["other", "self"]
    assert aten.lgamma.default.derivatives.rule_of("self").kind is Kind.SLOPE
    x = mq.ones(3, requires_grad=True)
    (grad,) = mq.autograd.grad(scale(x, 5).sum(), x)
    assert grad.tolist() == [5, 5, 5]


def test_a_form_for_numbers_saves_only_what_its_own_formulas_need() -> None:
    x = mq.ones(3, requires_grad=True).clone()
    aten.mul_.Scalar(x, 3)  # with the formula of `other` too, it would keep a copy of x
    assert x.grad_fn.saved == (3,)


def test_bytes_default_to_every_operand_and_result_once(scale: OperatorPage) -> None:
    scale.cost(lambda self, by, out: Cost(flops=out.numel))
    meta = mq.ones(4).meta
    assert scale.facts.whole_cost((meta, 2), (meta,)) == Cost(4, 16, 16)


def test_a_users_page_says_what_a_built_in_says() -> None:
    page = define("facts_test::alias(Tensor(a) x) -> Tensor(a)", takes_numbers=True).without_base()
    try:
        page.shape(lambda x: x)
        x = mq.ones(2)
        assert page(x)._base is None
        assert page(x).data_ptr() == x.data_ptr()
        assert page.op.takes_numbers
    finally:
        page.withdraw()


def test_defining_a_page_again_replaces_it() -> None:
    for number in (1, 2):
        page = define("facts_test::again(Tensor x) -> Tensor", variants=[Variant.OUT])
        page.shape(lambda x: x.like())
        page.kernel(lambda xp, x, number=number: x * number)
    assert mq.ops.facts_test.again(mq.ones(1)).item() == 2
    page.withdraw()
    assert not hasattr(mq.ops.facts_test, "again")


def test_a_page_ends_with_its_library() -> None:
    with mq.library._scoped_library("facts_test", "FRAGMENT") as lib:
        define("facts_test::ends(Tensor x) -> Tensor", lib=lib).shape(lambda x: x)
        assert hasattr(mq.ops.facts_test, "ends")
    assert not hasattr(mq.ops.facts_test, "ends")


def test_a_built_in_operator_is_not_replaced_by_a_page() -> None:
    with pytest.raises(RuntimeError, match="is defined already"):
        define("aten::mm(Tensor self, Tensor mat2) -> Tensor")


# --- registrations by name -------------------------------------------------------------------


@pytest.fixture
def lib() -> Iterator[mq.library.Library]:
    with mq.library._scoped_library("facts_lib", "FRAGMENT") as library:
        library.define("double(Tensor x) -> Tensor")
        mq.library.register_shape("facts_lib::double", lambda x: x.like(), lib=library)
        yield library


def test_a_kernel_on_arrays_is_a_pages_kernel(lib: mq.library.Library) -> None:
    @mq.library.register_kernel("facts_lib::double", None, lib=lib, arrays=True)
    def double_kernel(xp, x):  # type: ignore[no-untyped-def]  # arrays
        return xp.add(x, x, dtype=xp.float64)  # the shape rule says float32

    assert mq.ops.facts_lib.double.default.facts.kernel is double_kernel
    assert mq.ops.facts_lib.double(mq.ones(2)).dtype is mq.float32


def test_a_kernel_of_one_device_is_laid_out_by_the_shape_rule(lib: mq.library.Library) -> None:
    kernel = lambda x: x.astype("float64") * 2  # noqa: E731
    mq.library.register_kernel("facts_lib::double", "cpu", kernel, lib=lib, arrays=True)
    out = mq.ops.facts_lib.double(mq.ones(2))
    assert (out.dtype, out.tolist()) == (mq.float32, [2, 2])


def test_a_registered_derivative_ends_with_its_library(lib: mq.library.Library) -> None:
    mq.library.register_kernel("facts_lib::double", None, lambda x: x * 2, lib=lib, arrays=True)
    with mq.library._scoped_library("facts_lib", "FRAGMENT") as other:
        mq.library.register_derivative("facts_lib::double", x=lambda grad: grad * 2, lib=other)
        x = mq.ones(2, requires_grad=True)
        mq.ops.facts_lib.double(x).sum().backward()
        assert x.grad.tolist() == [2, 2]
    assert mq.ops.facts_lib.double.default.derivatives is None


def test_a_derivative_by_an_unknown_argument_is_refused(lib: mq.library.Library) -> None:
    with pytest.raises(ValueError, match="has no argument 'y'; it has x"):
        mq.library.register_derivative("facts_lib::double", y=lambda grad: grad, lib=lib)


def test_withdrawing_a_library_leaves_no_fact(lib: mq.library.Library) -> None:
    facts = mq.ops.facts_lib.double.default.facts
    with mq.library._scoped_library("facts_lib", "FRAGMENT") as other:
        mq.library.register_tangent("facts_lib::double", lambda x_t: x_t * 2, lib=other)
        mq.library.register_sharding("facts_lib::double", lambda x: x, lib=other)
        assert facts.tangent is not None
    assert facts.tangent is None
    assert facts.sharding is None


# --- costs and results whose size depends on data --------------------------------------------


def test_costs_of_calls_count_bytes() -> None:
    a, b = mq.ones(2, 3), mq.ones(3, 4)
    cost = mq.library.cost_of(aten.mm.default, (a, b), {}, a @ b)
    assert cost == Cost(flops=2 * 2 * 3 * 4, bytes_read=(6 + 12) * 4, bytes_written=8 * 4)
    assert mq.library.cost_of(aten.t.default, (a,), {}, a.t()) == Cost(0, 0, 0)


def test_a_page_may_leave_the_size_to_the_data() -> None:
    page = define("facts_test::positive(Tensor x) -> Tensor", tags=[mq.Tag.dynamic_output_shape])
    try:
        page.data_dependent()(lambda xp, x: x[x > 0])
        assert page(mq.tensor([1.0, -1.0, 2.0])).tolist() == [1, 2]
        with mq.FakeTensorMode(), pytest.raises(RuntimeError, match="facts_test"):
            page(mq.ones(3))
    finally:
        page.withdraw()
