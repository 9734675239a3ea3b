"""What `inspect.signature` says of a function or class is what a call takes, as in PyTorch."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch import nn
from maquette.torch.distributions import constraints

X = torch.arange(12.0).reshape(4, 3)


def names(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", ["norm", "split", "stft", "unflatten", "unique"])
def test_methods_written_in_python_know_their_own_names_alone(name: str) -> None:
    told = names(getattr(torch.Tensor, name))
    assert told[0] == "self"
    assert not {"out", "axis", "input"} & {*told}


def test_the_fourth_of_norms_arguments_is_a_dtype() -> None:
    assert X.norm(2, 0, False, torch.float64).dtype is torch.float64
    with pytest.raises(TypeError, match="'out'"):
        X.norm(2, 0, out=torch.empty(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.split(2, axis=0),
        lambda: X.unflatten(axis=0, sizes=(2, 2)),
        lambda: X.nonzero(out=X),
        lambda: torch.meshgrid(X[0], X[0], out=X),
        lambda: torch.broadcast_tensors(X, X, like=1),
        lambda: torch.utils.data.Sampler([1]),
        lambda: torch.FloatStorage([1.0]).to("cpu"),
        lambda: nn.LazyLinear(3).initialize_parameters(X, 1),
        lambda: torch.is_tensor(obj=X),
    ],
)
def test_what_a_signature_does_not_say_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(TypeError):
        call()


def test_the_eighth_argument_of_a_recurrent_layer_is_no_device() -> None:
    assert nn.GRU(2, 3, 1, True, False, 0.0, False, 0, "cpu").proj_size == 0
    with pytest.raises(ValueError, match="proj_size"):
        nn.RNN(2, 3, 1, "tanh", True, False, 0.0, False, 1)


def test_schedulers_of_schedulers_take_no_epoch() -> None:
    optimizer = torch.optim.SGD([X.clone().requires_grad_()], lr=1.0)
    parts = [torch.optim.lr_scheduler.StepLR(optimizer, 1) for _ in range(2)]
    for made in (
        torch.optim.lr_scheduler.ChainedScheduler(parts),
        torch.optim.lr_scheduler.SequentialLR(optimizer, parts, [2]),
    ):
        with pytest.raises(TypeError):
            made.step(1)


def test_what_nobody_said_of_a_dependent_constraint_cannot_be_asked() -> None:
    dependent = constraints.dependent
    for made in (dependent, dependent(is_discrete=True), constraints.independent(dependent, 1)):
        with pytest.raises(NotImplementedError, match="event_dim"):
            _ = made.event_dim
    assert dependent(is_discrete=True).is_discrete
    assert dependent(event_dim=2)(is_discrete=False).event_dim == 2


def test_shapes_of_draws_are_sizes_by_default() -> None:
    told = inspect.signature(torch.distributions.Normal.sample).parameters["sample_shape"].default
    assert type(told) is torch.Size
    assert torch.distributions.Normal(X, 1.0).sample().shape == X.shape


def test_storages_of_a_dtype_are_typed_storages() -> None:
    assert issubclass(torch.FloatStorage, torch.TypedStorage)
    held = torch.TypedStorage(wrap_storage=X.untyped_storage(), dtype=X.dtype)
    assert isinstance(held, torch.FloatStorage)
    assert not isinstance(held, torch.IntStorage)
    assert torch.FloatStorage([1.0, 2.0]).to(device="cpu").dtype is torch.float32
    with pytest.raises(RuntimeError, match="child classes"):
        torch.storage._LegacyStorage()


def test_a_buffer_is_a_tensor_and_so_is_its_class() -> None:
    assert issubclass(nn.Buffer, torch.Tensor)
    assert not isinstance(X, nn.Buffer)
    assert isinstance(nn.Buffer(X), nn.Buffer)


def test_events_of_devices_are_asked_for_times_first() -> None:
    first, second = torch.cuda.Event(True), torch.cuda.Event(enable_timing=True)
    first.record()
    second.record()
    assert first.elapsed_time(second) >= 0
    assert isinstance(torch.cuda.current_stream().record_event(), torch.cuda.Event)
    assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
    assert issubclass(torch.cuda.Stream, torch.Stream)


def test_the_device_of_a_tensor_on_the_cpu_is_no_change() -> None:
    with torch.cuda.device_of(X):
        assert X.device.type == "cpu"
    assert issubclass(torch.cuda.device_of, torch.cuda.device)
    assert torch.cuda.memory_stats_as_nested_dict() == {}


def test_gradients_are_not_recorded_by_a_function_under_pytorchs_name() -> None:
    doubled = torch.no_grad(orig_func=lambda x: x * 2)
    assert not doubled(X.clone().requires_grad_()).requires_grad


# --- modules of tools ------------------------------------------------------------------------


def test_flops_of_an_operator_of_ones_own_are_registered() -> None:
    formulas = torch.utils.flop_counter
    target = torch.ops.aten.logaddexp2
    formulas.register_flop_formula(target)(lambda a, b, out_shape=None, **rest: 5 * a.numel())
    try:
        with formulas.FlopCounterMode(display=False) as counter:
            torch.logaddexp2(X, X)
        assert counter.get_flop_counts()["Global"] == {target: 60}
        with pytest.raises(RuntimeError, match="duplicate"):
            formulas.register_flop_formula([target], get_raw=True)(lambda *a, out_val=None: 1)
    finally:
        del formulas.flop_registry[target]
    with pytest.raises(ValueError, match="OpOverloadPacket"):
        formulas.register_flop_formula(torch.ops.aten.sin.default)(lambda x: 1)


def test_flops_by_shapes_are_the_pages() -> None:
    """PyTorch's own figures."""
    formulas = torch.utils.flop_counter
    assert formulas.mm_flop((2, 3), (3, 4)) == formulas.addmm_flop((4,), (2, 3), (3, 4)) == 48
    assert formulas.bmm_flop((2, 2, 3), (2, 3, 4)) == 96
    assert formulas.conv_flop_count([1, 3, 8, 8], [4, 3, 3, 3], [1, 4, 6, 6]) == 7776
    assert formulas.conv_flop_count([1, 3, 8, 8], [3, 4, 3, 3], [1, 4, 10, 10], True) == 13824
    shapes = (1, 2, 5, 4), (1, 2, 7, 4), (1, 2, 7, 6)
    assert formulas.sdpa_flop_count(*shapes) == 1400
    assert formulas.sdpa_backward_flop_count((1, 2, 5, 6), *shapes) == 3360
    assert formulas.mm_flop(X, X.t(), out_val=X @ X.t()) == 2 * 4 * 3 * 4


@pytest.mark.parametrize(
    ("number", "suffix"), [(999, ""), (1000, ""), (10**4, "K"), (123456, "K"), (10**9, "M")]
)
def test_numbers_of_flops_have_suffixes(number: int, suffix: str) -> None:
    assert torch.utils.flop_counter.get_suffix_str(number) == suffix


def test_marks_for_nvidias_profiler_decorate_where_no_device_is() -> None:
    nvtx = torch.cuda.nvtx

    @nvtx.range("a step")
    def step() -> int:
        return 1

    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        step()


def test_a_partitioner_that_skips_horizontal_fusion_joins_what_is_handed_on() -> None:
    from maquette.torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
    from maquette.torch.fx.passes.operator_support import OperatorSupportBase

    class Calls(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return node.op == "call_function"

    def parts(**options: bool) -> list[list[str]]:
        traced = torch.fx.symbolic_trace(lambda a, b: (torch.sin(torch.cos(a)), torch.exp(b)))
        found = CapabilityBasedPartitioner(traced, Calls(), True, **options)
        return sorted(sorted(n.name for n in p.nodes) for p in found.propose_partitions())

    assert parts() == [["cos", "exp", "sin"]]
    assert parts(skip_horizontal_fusion=True) == [["cos", "sin"], ["exp"]]
    assert Partition(1, ["a"], [3]).nodes == {"a": 3}


def test_reports_of_the_machine_are_asked_with_what_runs_commands() -> None:
    collect = torch.utils.collect_env
    assert collect.run("echo 1") == (0, "1", "")
    assert collect.run_and_parse_first_match(collect.run, "echo v12", r"v(\d+)") == "12"
    pip, packages = collect.get_pip_packages(collect.run)
    assert pip == "pip3"
    assert "numpy==" in packages
    assert collect.get_pip_packages(collect.run, ["numpy"])[1].startswith("numpy")
    assert collect.SystemEnv._fields[3] == "gcc_version"


def test_rounds_of_a_profiler_have_names() -> None:
    with torch.profiler.profile(custom_trace_id_callback=lambda: "mine") as found:
        torch.ones(3)
    assert found.get_trace_id() == "mine"
    with torch.profiler.profile() as found:
        torch.ones(3)
    assert len(found.get_trace_id()) == 32


def test_a_trace_has_the_texts_that_are_given(tmp_path: Any) -> None:
    with torch.autograd.profiler.profile() as found:
        torch.ones(3)
    found.export_chrome_trace(str(tmp_path / "trace"), {"step": 3})
    assert '"step": 3' in (tmp_path / "trace").read_text()


def test_types_of_tensors_have_tensors_methods() -> None:
    assert torch.FloatTensor.add(X, X).equal(2 * X)
    assert "add" in dir(torch.FloatTensor)
    assert not hasattr(torch.FloatTensor, "no_such_method")


def test_a_function_has_what_its_context_has() -> None:
    from maquette.torch.autograd.function import FunctionCtx

    assert issubclass(torch.autograd.Function, FunctionCtx)
    with pytest.warns(FutureWarning, match="mark_shared_storage"):
        FunctionCtx().mark_shared_storage()


def test_hooks_of_norms_are_put_on_and_taken_away_by_themselves() -> None:
    from maquette.torch.nn.utils.weight_norm import WeightNorm

    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    hook = WeightNorm.apply(layer, "weight", 0)
    assert {*dict(layer.named_parameters())} == {"bias", "weight_g", "weight_v"}
    hook.remove(layer)
    assert torch.allclose(layer.weight, before)


def test_data_parallel_calls_the_module_in_one_place() -> None:
    layer = nn.Linear(3, 2)
    assert nn.parallel.data_parallel(layer, X).equal(layer(X))
    assert nn.parallel.data_parallel(layer, (), module_kwargs={"input": X}).equal(layer(X))


def test_a_place_of_a_fake_is_further_up_on_request() -> None:
    lib = torch.library.Library("true_signatures", "FRAGMENT")
    lib.define("f(Tensor x) -> Tensor")
    register = torch.library.register_fake
    register("true_signatures::f", lambda x: x.new_empty(x.shape), lib=lib, _stacklevel=2)
    assert torch.ops.true_signatures.f(X.to("meta")).shape == X.shape


def test_hooks_of_spectral_norms_are_put_on_and_taken_away_by_themselves() -> None:
    from maquette.torch.nn.utils.spectral_norm import SpectralNorm

    layer = nn.Linear(3, 2)
    hook = SpectralNorm.apply(layer, "weight", 1, 0, 1e-12)
    assert hook.reshape_weight_to_matrix(layer.weight_orig).shape == (2, 3)
    hook.remove(layer)
    assert {*dict(layer.named_parameters())} == {"bias", "weight"}


def test_numbers_are_summed_from_a_list_or_one_by_one() -> None:
    assert torch.sym_sum([1, 2]) == torch.sym_sum(1, 2) == 3


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("add", ["self", "other"]),
        ("neg", ["self"]),
        ("round", ["self", "ndigits"]),
        ("sym_ite", ["self", "then_val", "else_val"]),
        ("bool_", ["self"]),
        ("wrap_int", ["self", "num"]),
    ],
)
def test_nodes_of_symbols_take_what_they_compute_with(name: str, told: list[str]) -> None:
    from maquette.torch.fx.experimental.sym_node import SymNode

    assert names(getattr(SymNode, name)) == told


def test_fresh_symbols_that_were_looked_at_are_fresh_still() -> None:
    from maquette.torch.fx.experimental.symbolic_shapes import ShapeEnv, compute_unbacked_bindings

    env = ShapeEnv()
    made = env.create_unbacked_symint()
    first = compute_unbacked_bindings(env, made, peek=True)
    assert first == compute_unbacked_bindings(env, made)
    assert compute_unbacked_bindings(env, made) is None


@pytest.mark.parametrize("name", ["eig", "symeig"])
def test_removed_methods_have_the_parameters_that_they_had(name: str) -> None:
    assert names(getattr(torch.Tensor, name)) == ["self", "eigenvectors"]
    with pytest.raises(RuntimeError, match="is now removed"):
        getattr(X, name)(eigenvectors=True)
    with pytest.raises(TypeError):
        getattr(X, name)(1, 2, 3)


def test_states_of_submodules_are_refused() -> None:
    from maquette.torch.distributed.checkpoint.state_dict import get_model_state_dict

    layer = nn.Sequential(nn.Linear(3, 2))
    assert {*get_model_state_dict(layer)} == {"0.weight", "0.bias"}
    with pytest.raises(NotImplementedError, match="submodules"):
        get_model_state_dict(layer, submodules={layer[0]})


def test_a_map_pipe_knows_nothing_of_data_frames() -> None:
    pipes = torch.utils.data.MapDataPipe, torch.utils.data.IterDataPipe
    told = [names(kind.register_datapipe_as_function) for kind in pipes]
    assert told[1] == [*told[0], "enable_df_api_tracing"]


def test_settings_of_the_compiler_are_told() -> None:
    settings = torch.compiler.config
    assert "dynamic_shapes" in dir(settings)
    assert "sys" not in settings.__all__
    assert settings.wrap_top_frame is False


def test_nodes_of_an_annotated_function_carry_its_values() -> None:
    from maquette.torch.fx.experimental.proxy_tensor import make_fx
    from maquette.torch.fx.traceback import annotate_fn, preserve_node_meta

    @annotate_fn({"stage": 1})
    def inner(x: Any) -> Any:
        return x.sin()

    with preserve_node_meta():
        nodes = make_fx(lambda x: inner(x).cos())(X).graph.nodes
    found = {n.name: n.meta.get("custom") for n in nodes if n.op == "call_function"}
    assert found == {"sin": {"stage": 1}, "cos": None}
