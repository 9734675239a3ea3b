"""Whole objects in files: written as PyTorch writes them, and read from what PyTorch wrote."""

import copy
import io
import pickle
import pickletools
import zipfile
from typing import Any

import pytest

import maquette.torch as torch
from maquette.torch.saving.pickles import find, torch_place


def saved(obj: object, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def names_in(file: io.BytesIO) -> set[str]:
    """The names of modules and classes in a file's pickle."""
    data = zipfile.ZipFile(file).read("archive/data.pkl")
    file.seek(0)
    return {str(arg) for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"}


def test_T56_a_lazy_module_is_written_under_pytorchs_names() -> None:
    names = names_in(saved(torch.nn.LazyLinear(3)))
    assert "torch.utils.hooks RemovableHandle" in names
    assert not any("_handle" in name for name in names)


def test_T56_a_lazy_module_that_was_read_takes_its_hooks_away() -> None:
    made = torch.load(saved(torch.nn.LazyLinear(3)), weights_only=False)
    assert made(torch.ones(2, 4)).shape == (2, 3)
    assert type(made) is torch.nn.Linear
    assert (len(made._forward_pre_hooks), len(made._load_state_dict_pre_hooks)) == (0, 0)


def test_T56_a_state_holds_the_dict_that_a_handle_takes_its_hook_from() -> None:
    state = torch.nn.LazyLinear(3).__getstate__()
    hooks, _, extra = state["_initialize_hook"].__getstate__()
    assert hooks is state["_forward_pre_hooks"]
    assert extra == (state["_forward_pre_hooks_with_kwargs"],)


def test_T56_a_handle_of_pytorchs_file_has_two_parts() -> None:
    made = torch.utils.hooks.RemovableHandle.__new__(torch.utils.hooks.RemovableHandle)
    made.__setstate__((None, 7))
    made.remove()
    assert made.id == 7


def first(module: Any, state: dict[str, Any], *rest: object) -> None:
    """A hook on loading that is given the module."""
    module.seen = sorted(state)


def test_T56_hooks_on_loading_are_wrapped_as_in_pytorch() -> None:
    model = torch.nn.Linear(1, 1)
    model.register_load_state_dict_pre_hook(first)
    file = saved(model)
    assert "torch.nn.modules.module _WrappedHook" in names_in(file)
    made = torch.load(file, weights_only=False)
    made.load_state_dict(model.state_dict())
    assert made.seen == ["bias", "weight"]


def test_T53_a_generator_is_taken_apart_as_pytorchs_is() -> None:
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    assert "torch Generator" in names_in(saved(generator))
    made = torch.load(saved(generator), weights_only=False)
    assert torch.equal(torch.rand(3, generator=made), torch.rand(3, generator=generator))


class Sub(torch.Tensor):
    """A subclass."""


@pytest.mark.parametrize("copied", [
    lambda t: torch.load(saved(t), weights_only=False),
    lambda t: pickle.loads(pickle.dumps(t)),
])  # fmt: skip
def test_T56_a_parameter_of_a_subclass_stays_a_parameter(copied: Any) -> None:
    made = copied(torch.nn.Parameter(torch.ones(2).as_subclass(Sub)))
    assert type(made) is Sub
    assert isinstance(made, torch.nn.Parameter)


def named(module: str, name: str) -> io.BytesIO:
    """A file with one name, as protocol 4 has it."""
    strings = b"".join(b"\x8c" + bytes([len(s)]) + s.encode() for s in (module, name))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x04" + strings + b"\x93.")
    file.seek(0)
    return file


def test_T56_names_of_protocol_4_may_have_dots() -> None:
    read = [
        torch.load(named(module, name), weights_only=False)
        for module, name in (
            ("torch._utils", "torch.channels_last"),  # so PyTorch writes it
            ("torch._C", "TensorBase.add"),
            ("torch.nn.modules.linear", "Linear.forward"),
        )
    ]
    assert read == [torch.channels_last, torch.Tensor.add, torch.nn.Linear.forward]


@pytest.mark.parametrize("trusted", [True, False])
def test_quantized_tensors_are_refused_by_that_name(trusted: bool) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02ctorch._utils\n_rebuild_qtensor\n)R.")
    file.seek(0)
    with pytest.raises((NotImplementedError, RuntimeError), match="quantized tensor"):
        torch.load(file, weights_only=not trusted)


def _traced() -> Any:
    def program(x: Any) -> Any:
        return torch.relu(x) + torch.nn.functional.gelu(x).sum() + float("inf")

    return torch.fx.symbolic_trace(program)


def test_T56_a_graph_module_is_written_under_pytorchs_names() -> None:
    names = names_in(saved(_traced()))
    assert "torch.fx.graph_module reduce_graph_module" in names
    assert not any(name.startswith(("maquette", "torch.fx.saving")) for name in names)


def test_T56_a_graph_module_that_was_read_has_its_graph() -> None:
    traced = _traced()
    next(iter(traced.graph.nodes)).meta["note"] = "kept"
    made = torch.load(saved(traced), weights_only=False)
    assert made.code == traced.code
    assert next(iter(made.graph.nodes)).meta["note"] == "kept"


def test_T56_a_graph_whose_code_was_changed_in_pytorch_is_traced_again() -> None:
    rebuild, (body, imports) = _traced().__reduce__()
    body["_code"] = body["_code"].replace("torch.relu", "torch.tanh")
    assert "import torch\n" in imports
    assert "torch.tanh" in rebuild(body, imports).code


def test_copies_of_graph_modules_are_named_as_pytorchs_are() -> None:
    traced = torch.fx.symbolic_trace(torch.nn.ReLU())
    assert (traced._get_name(), copy.deepcopy(traced)._get_name()) == ("ReLU", "GraphModule")
    assert copy.copy(traced)._get_name() == "GraphModule"


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("linalg.qr", "torch._C._linalg linalg_qr"),
        ("fft.rfft", "torch._C._fft fft_rfft"),
        ("special.erf", "torch._C._special special_erf"),
    ],
)
def test_T56_functions_of_families_are_written_under_pytorchs_names(place: str, name: str) -> None:
    family, _, last = place.partition(".")
    function = getattr(getattr(torch, family), last)
    assert name in names_in(saved(function))
    assert torch.load(saved(function), weights_only=False) is function


_LOSSES = [n for n in dir(torch.nn) if n.endswith("Loss") and n != "AdaptiveLogSoftmaxWithLoss"]


@pytest.mark.parametrize("name", _LOSSES)
def test_T56_losses_are_written_under_pytorchs_file(name: str) -> None:
    assert torch_place(getattr(torch.nn, name)) == ("torch.nn.modules.loss", name)


@pytest.mark.parametrize(
    ("cls", "file"),
    [
        (torch.nn.LinearCrossEntropyOptions, "nn.modules.linear_cross_entropy_options"),
        (torch.nn.modules.loss._WeightedLoss, "nn.modules.loss"),
        (torch.utils.checkpoint.CheckpointPolicy, "utils.checkpoint"),
        (torch.utils.checkpoint.CheckpointError, "utils.checkpoint"),
    ],
)
def test_T56_classes_of_shared_files_are_found_where_pytorch_has_them(cls: type, file: str) -> None:
    place = torch_place(cls)
    assert place == (f"torch.{file}", cls.__name__)
    assert find(*place) is cls


def as_pytorch_keeps_it(module: Any, *missing: str) -> Any:
    """A module read from a file in which these attributes do not stand, as in PyTorch's."""
    assert not set(missing) & set(vars(module))
    return torch.load(saved(module), weights_only=False)


def test_T56_lazy_norms_keep_only_attributes_that_pytorchs_have() -> None:
    made = as_pytorch_keeps_it(torch.nn.LazyBatchNorm1d(bias=False), "_mq_waits_for_bias")
    assert made(torch.ones(2, 3)).shape == (2, 3)
    assert made.weight.shape == made.running_mean.shape == (3,)
    assert made.bias is None


def test_T56_a_linear_cross_entropy_asks_its_layer_for_sizes() -> None:
    made = as_pytorch_keeps_it(torch.nn.LinearCrossEntropyLoss(4, 3), "in_features", "bias")
    assert made(torch.ones(2, 4), torch.tensor([0, 1])).shape == ()
    assert "in_features=4, num_classes=3, out_features=(), bias=False" in repr(made)


@pytest.mark.parametrize(
    ("activation", "code"),
    [("relu", 1), ("gelu", 2), (torch.nn.ReLU(), 1), (torch.nn.GELU("tanh"), 2), (torch.tanh, 0)],
)
def test_T56_encoder_layers_note_what_pytorchs_ask_for(activation: Any, code: int) -> None:
    """PyTorch's layer fails without it, and its encoder packs padded batches by the other."""
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, activation=activation, batch_first=True)
    assert layer.activation_relu_or_gelu == code
    assert torch.nn.TransformerEncoder(layer, 1).use_nested_tensor is (code != 0)
    assert not torch.nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).use_nested_tensor


def whole(scheduler: Any) -> Any:
    """What comes back of a scheduler that is pickled whole, and the names in the file."""
    file = saved(scheduler)
    assert not any("maquette" in name for name in names_in(file))
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("mode", ["triangular", "triangular2", "exp_range"])
def test_T56_whole_cyclic_schedules_name_pytorchs_functions(mode: str) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    made = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, 3, mode=mode, gamma=0.5)
    function = made._scale_fn_ref
    function = function.func if mode == "exp_range" else function
    assert function is getattr(torch.optim.lr_scheduler.CyclicLR, f"_{mode}_scale_fn")
    assert "_scale_fn_ref" not in made.state_dict()
    height = {"triangular": 1, "triangular2": 0.5, "exp_range": 0.25}[mode]
    assert whole(made).scale_fn(2) == made.scale_fn(2) == height


@pytest.mark.parametrize(("strategy", "name"), [("cos", "_cosine"), ("linear", "_linear")])
def test_T56_whole_averaging_schedules_name_pytorchs_functions(strategy: str, name: str) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    made = torch.optim.swa_utils.SWALR(optimizer, 0.05, anneal_strategy=strategy)
    assert made.anneal_func is getattr(torch.optim.swa_utils.SWALR, f"{name}_anneal")
    assert "anneal_func" not in made.state_dict()
    assert whole(made).anneal_func(0.25) == made.anneal_func(0.25)
    other = torch.optim.swa_utils.SWALR(optimizer, 0.05, anneal_strategy="cos")
    other.load_state_dict(made.state_dict())
    assert other.anneal_func is made.anneal_func
