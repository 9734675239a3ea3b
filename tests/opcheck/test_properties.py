"""Our properties: inputs derived from a sample, reports, shrinking (LX3-LX19)."""

import warnings

import pytest
from hypothesis import given, settings
from planted import DEFECTS
from planted.planting import for_maquette

import maquette as mq
from maquette.api.from_schema import default_device
from maquette.library import custom_op, opcheck, opcheck_strategy
from maquette.opcheck import OpCheckError, OpReport
from maquette.opcheck.deriving import derived
from maquette.opcheck.operators import checked
from maquette.opcheck.properties import PROPERTIES
from maquette.opcheck.recipes import sample_of
from maquette.testing import opchecks

Tensor = mq.Tensor
NAMES = {d.name: d for d in DEFECTS}


def examined(name, wrong=True, **more):
    planter = for_maquette()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        op, args, kwargs = NAMES[name].plant(planter, wrong)
    try:
        return opcheck(op, args, kwargs, report=True, **more)
    finally:
        planter.close()


def found(name, *properties, **more):
    report = examined(name, properties=list(properties), **more)
    return {f.property: f for f in report.findings}


def caught(name, property):
    """Whether a property catches a planted defect; all of them are tried under `make verify`."""
    return property in found(name, property, max_inputs=60, deadline=2)


def test_LX6_the_fake_is_held_to_the_real_call_on_derived_inputs():
    assert caught("fake_claims_contiguous", "fake.strides")
    assert caught("fake_right_for_the_sample_size_only", "fake.shape")
    assert caught("declares_a_view_returns_a_copy", "aliases.not made")


def test_LX7_writes_are_checked_by_bytes_both_ways():
    assert caught("writes_over_nan", "writes.undeclared")
    assert caught("writes_for_one_dtype", "writes.undeclared")
    assert caught("declares_a_write_never_made", "writes.never made")
    assert caught("backward_writes_the_gradient", "derivative.writes")


def test_LX8_L99_writing_what_requires_grad_is_reported():
    assert caught("writes_what_requires_grad", "writes.requires grad")
    assert examined("writes_what_requires_grad", wrong=False, properties=["writes"]).ok


def test_LX9_vmap_is_held_to_the_loop():
    assert caught("vmap_wrong_for_none", "vmap.values")
    assert caught("vmap_out_dims_wrong", "vmap.values")
    assert caught("vmap_one_draw_for_all", "vmap.randomness")


def test_LX10_derivatives_are_held_to_differences():
    assert caught("broadcast_gradient_not_summed", "derivative.value")
    assert caught("missing_conj", "derivative.value")
    assert caught("second_derivative_zero", "derivative.second")
    assert caught("tensor_kept_as_attribute", "derivative.saved")
    assert caught("gradient_in_float32", "derivative.dtype")
    assert caught("loses_a_gradient_for_one_subset", "derivative.subsets")


def test_LX11_sizes_that_a_fake_fixes_and_ranges_that_are_wrong_are_found():
    assert caught("fake_branches_on_a_size", "symbolic.fixed size")
    assert caught("dynamic_range_excludes_zero", "symbolic.range")


def test_LX3_the_fake_refuses_what_the_kernel_refuses():
    assert caught("fake_takes_sizes_the_kernel_refuses", "fake.accepts")


def test_LX13_calls_repeat_and_leave_the_random_state_alone():
    assert caught("counts_its_calls", "calls.deterministic")
    assert caught("untagged_randomness", "calls.random state")


def test_LX14_calls_at_the_same_time_are_calls_one_after_the_other():
    assert caught("computes_in_a_shared_buffer", "calls.threads")


def test_LX15_costs_grow_and_cover_what_is_written():
    assert caught("cost_falls_with_size", "cost.monotone")
    assert caught("cost_negative", "cost.number")
    assert caught("cost_writes_too_little", "cost.bytes written")
    assert caught("cost_reads_data", "cost.number")


def test_LX16_a_decomposition_equals_its_kernel():
    assert caught("decomposition_differs", "decomposition.values")


def test_LX3_conventions_of_calls_are_looked_at():
    assert caught("leaves_another_default_dtype", "calls.settings")
    assert caught("result_requires_grad_by_itself", "results.requires grad")
    assert caught("kernel_has_another_default_than_the_schema", "schema.defaults")
    assert caught("vmap_writes_its_input", "vmap.values")


def test_twins_are_held_to_each_other():
    assert caught("in_place_twin_differs", "twins.in place")


@pytest.mark.parametrize("wrong", [True, False])
def test_LX3_a_check_leaves_the_default_device_as_it_was(wrong):
    name = "leaves_another_default_device"
    examined(name, wrong=wrong, max_inputs=8, deadline=1)
    assert default_device() is None  # "cpu" would say it to factories that come next
    with mq.device("meta"):
        examined(name, wrong=wrong, max_inputs=8, deadline=1)
        assert default_device() == mq.device("meta")


@pytest.mark.parametrize("name", ["fake_wrong_promotion", "vmap_wrong_for_none"])
def test_LX19_its_right_twin_is_not_flagged(name):
    assert examined(name, wrong=False, max_inputs=20, deadline=1).ok


@pytest.mark.verify
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_LX19_every_planted_defect_is_caught_and_its_twin_is_not(defect):
    caught = [f.property for f in examined(defect.name, deadline=20).findings]
    assert set(caught) & set(defect.caught_by), caught
    assert examined(defect.name, wrong=False, deadline=20).ok


# --- derived inputs -------------------------------------------------------------------------


def recipes(op, *args, **kwargs):
    sample = sample_of(checked(op), args, kwargs)
    return sample, list(derived(sample))


def test_LX3_sizes_layouts_and_dtypes_are_derived():
    _, made = recipes(mq.ops.aten.add.Tensor, mq.ones(2, 3), mq.ones(2, 3))
    tensors = [t for r in made for t in r.tensors()]
    assert {0, 1, 4} <= {n for t in tensors for n in t.shape}
    assert any(t.shape == () for t in tensors)
    assert {"transposed", "sliced", "expanded", "offset"} <= {t.layout for t in tensors}
    assert {"float16", "bfloat16", "float64", "int64"} <= {t.dtype for t in tensors}
    assert any(r.tensors()[0].share for r in made)
    shapes = {tuple(t.shape for t in r.tensors()) for r in made}
    assert ((2, 3), (1, 3)) in shapes
    assert ((5, 3), (5, 3)) in shapes or ((4, 3), (4, 3)) in shapes


def test_LX3_optionals_lists_and_numbers_are_derived():
    layer_norm = mq.ops.aten.native_layer_norm.default
    _, made = recipes(layer_norm, mq.ones(2, 3), [3], mq.ones(3), mq.ones(3), 1e-5)
    assert any(r.value("weight") is None for r in made)
    assert any(r.value("normalized_shape") == () for r in made)
    assert any(r.value("eps") == -1.0 for r in made)


def test_LX3_what_the_operator_refuses_is_dropped_and_counted(ns):
    op = custom_op(f"{ns}::op", _needs_matrix, mutates_args=())
    op.register_fake(_needs_matrix)
    report = opcheck(op, (mq.ones(2, 3),), report=True, properties="fake")
    assert report.ok
    assert report.inputs > 20
    assert report.dropped >= 1


def _needs_matrix(x: Tensor) -> Tensor:
    if x.ndim != 2:
        raise ValueError("a matrix is needed")
    return x * 2


def test_LX3_where_restricts_the_inputs(ns):
    sizes = []

    def look(x: Tensor) -> Tensor:
        sizes.append(x.shape[0])
        return x * 2

    op = custom_op(f"{ns}::op", look, mutates_args=())
    op.register_fake(mq.empty_like)
    where = lambda args, kwargs: args[0].ndim == 1 and args[0].shape[0] > 1  # noqa: E731
    opcheck(op, (mq.ones(3),), properties="fake", where=where, test_utils=[])
    assert min(sizes) > 1


def test_LX4_failures_shrink_to_the_plainest_input():
    finding = found("fake_claims_contiguous", "fake.strides", deadline=20)["fake.strides"]
    assert "(torch.ones(2, 2).t().contiguous().t())" in finding.input


def test_LX4_equal_seeds_give_equal_inputs():
    sample, made = recipes(mq.ops.aten.mm.default, mq.ones(2, 3), mq.ones(3, 4))
    assert made == list(derived(sample))
    assert made != list(derived(sample, seed=1))


def test_LX4_the_strategy_draws_calls_that_work(square):
    @settings(max_examples=15)
    @given(opcheck_strategy(square, (mq.ones(2, 3),)))
    def holds(call):
        (x,), _ = call
        assert square(x).shape == x.shape

    holds()


def test_LX5_inputs_and_time_are_bounded(square):
    report = opcheck(square, (mq.ones(2, 3),), report=True, max_inputs=10, deadline=0.5)
    assert report.inputs <= 10
    assert 0 < report.seconds < 20


def test_LX12_another_device_is_skipped_with_the_reason_where_there_is_none(square):
    report = opcheck(square, (mq.ones(2),), report=True, properties="calls.devices")
    reason = report.skipped.get("calls.devices")
    assert reason == "no other device is there" or report.passed["calls.devices"]


def test_LX12_a_result_on_cpu_for_cuda_is_found():
    assert caught("fake_on_a_constant_device", "fake.device follows")
    assert caught("fake_of_the_second_result_on_cpu", "fake.device follows")


# --- reports --------------------------------------------------------------------------------


def three_defects(ns):
    def kernel(x: Tensor) -> Tensor:
        x.add_(1)
        return x.sum(0)

    op = custom_op(f"{ns}::op", kernel, mutates_args=())
    op.register_fake(lambda x: x.new_empty(x.shape, dtype=mq.float64))
    return op


def test_LX17_each_defect_is_a_row_with_input_expected_got_and_hint(ns):
    names = ["writes.undeclared", "fake.shape", "fake.dtype"]
    report = opcheck(three_defects(ns), (mq.ones(2, 3),), report=True, properties=names)
    assert [f.property for f in report.findings] == names
    for finding in report.findings:
        assert finding.input.startswith(f"torch.ops.{ns}.op.default(torch.")
        assert finding.expected
        assert finding.got
        assert finding.hint
    assert "x.add_(1)" in report.findings[0].line
    assert max(map(len, str(report).splitlines())) <= 100


def test_LX17_a_report_goes_through_json(ns):
    report = opcheck(three_defects(ns), (mq.ones(2, 3),), report=True, properties="fake")
    again = OpReport.from_json(report.to_json())
    assert again == report
    assert again.seed == 0
    assert again.schema.startswith(f"{ns}::op(")


def test_LX17_findings_raise_unless_a_report_is_asked_for(ns):
    op = three_defects(ns)
    with pytest.raises(OpCheckError, match=r"fake\.shape"):
        opcheck(op, (mq.ones(2, 3),), properties="fake", test_utils=[])
    outcome = opcheck(op, (mq.ones(2, 3),), properties="fake", test_utils=[], raise_exception=False)
    assert isinstance(outcome["fake.shape"], AssertionError)


def test_LX17_property_ids_are_distinct_and_unknown_ones_refused(square):
    assert len({p.id for p in PROPERTIES}) == len(PROPERTIES)
    with pytest.raises(ValueError, match=r"no property is called nothing.*fake\.shape"):
        opcheck(square, (mq.ones(2),), properties="nothing")


def test_a_sample_that_does_not_work_is_a_finding(ns):
    op = custom_op(f"{ns}::op", _needs_matrix, mutates_args=())
    report = opcheck(op, (mq.ones(3),), report=True)
    assert [f.property for f in report.findings] == ["sample.runs"]


# --- an author's tests ------------------------------------------------------------------------

DOUBLE = custom_op("opcheck_author::double", lambda x: x * 2, mutates_args=(),
                   schema="(Tensor x) -> Tensor")  # fmt: skip
DOUBLE.register_fake(mq.empty_like)
CHECKS = opchecks(DOUBLE, [(mq.ones(2, 3),)], properties="fake.shape", test_utils=["test_schema"])


@pytest.mark.parametrize("check", CHECKS)
def test_LX18_opchecks_are_parameters_for_pytest(check):
    check()


def test_LX18_a_failing_check_asserts_with_the_report(ns):
    (check,) = opchecks(three_defects(ns), [(mq.ones(2, 3),)], properties="fake.shape")
    assert check.__name__ == f"{ns}::op-fake.shape"
    with pytest.raises(AssertionError, match=r"expected\s+result 0: shape"):
        check()


def test_LX3_narrow_dtypes_and_memory_formats_are_tried():
    assert caught("bfloat16_is_read_as_integers", "calls.narrow")
    assert caught("fake_ignores_the_memory_format", "fake.strides")
    assert caught("writes_before_it_refuses", "writes.undeclared")


def test_LX13_LX14_calls_leave_nothing_behind():
    assert caught("refusal_leaves_a_setting", "calls.after others")
    assert caught("keeps_its_inputs_alive", "calls.keeps inputs")
    assert caught("returns_a_table_that_it_keeps", "calls.results kept")
    assert caught("ignores_the_generator", "calls.generator")
    assert caught("leaves_numpys_errors_off", "calls.settings")


def test_LX10_LX11_LX12_backward_runs_over_fakes():
    assert caught("backward_fixes_a_size", "symbolic.backward")
    assert caught("gradient_is_brought_to_cpu", "derivative.device")
    assert caught("backward_of_a_linear_operator_is_detached", "derivative.second")


def test_LX15_costs_are_held_to_the_products_and_to_what_is_read():
    assert caught("cost_counts_half_of_a_product", "cost.counted")
    assert caught("cost_reads_elements_not_bytes", "cost.bytes read")


def test_L28_parameters_stand_in_the_schemas_order():
    assert caught("kernel_takes_its_numbers_in_another_order", "schema.names")


def test_L76_what_out_held_is_no_input():
    assert caught("out_form_adds_to_what_was_there", "writes.out read")


def test_P24_equal_symbols_are_equal_sizes():
    assert caught("one_symbol_for_two_sizes_of_data", "symbolic.range")


def test_L116_a_result_that_the_dispatcher_refuses_as_an_alias_is_told_as_one():
    assert caught("custom_returns_its_input", "aliases.undeclared")


def test_LX3_examining_leaves_storages_that_may_grow():
    assert examined("out_twin_keeps_old_elements", wrong=False, properties=["fake"]).ok
