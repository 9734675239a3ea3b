"""Under `install` classes say that they are where PyTorch has them."""

import copy
import importlib
import pickle
import subprocess
import sys
from types import ModuleType

import pytest

import maquette.torch as torch
from maquette.torch.saving.pickles import torch_place

_LAYERS = [n for n in dir(torch.nn) if isinstance(getattr(torch.nn, n), type)]


def test_types_say_that_they_are_in_torch(installed: ModuleType) -> None:
    assert repr(type(torch.ones(1))) == "<class 'torch.Tensor'>"
    assert repr(torch.dtype) == "<class 'torch.dtype'>"
    assert torch.nn.Parameter.__module__ == "torch.nn.parameter"


def test_tensors_under_a_transform_say_that_they_are_in_torch(installed: ModuleType) -> None:
    seen: list[str] = []

    def summed(x):
        seen.append(type(x).__module__)
        return x.sum()

    torch.func.grad(summed)(torch.ones(2))
    torch.func.vmap(summed)(torch.ones(2, 2))
    torch.func.jvp(summed, (torch.ones(2),), (torch.ones(2),))
    torch.func.functionalize(summed)(torch.ones(2))
    assert seen == ["torch"] * 4


def test_layers_say_the_files_that_pytorch_has_them_in(installed: ModuleType) -> None:
    importlib.import_module("torch.nn")
    kinds = torch.nn.Linear, torch.nn.Fold, torch.nn.MaxUnpool2d, torch.nn.Module
    files = [kind.__module__.removeprefix("torch.nn.modules.") for kind in kinds]
    assert files == ["linear", "fold", "pooling", "module"]


@pytest.mark.parametrize("name", _LAYERS)
def test_layers_are_found_where_they_say_they_are(name: str, installed: ModuleType) -> None:
    kind = getattr(importlib.import_module("torch.nn"), name)
    assert pickle.loads(pickle.dumps(kind)) is kind


@pytest.mark.parametrize(
    "place",
    [
        "torch.OutOfMemoryError",
        "torch.DispatchKey",
        "torch.Stream",
        "torch.autograd.graph.save_on_cpu",
        "torch.autograd.profiler.record_function",
        "torch.cuda.StreamContext",
        "torch.distributed.ProcessGroup",
        "torch.distributed.ReduceOp",
        "torch.library.Library",
        "torch.linalg.LinAlgError",
        "torch.serialization.LoadEndianness",
        "torch.utils.checkpoint.CheckpointError",
        "torch.utils.weak.WeakIdRef",
    ],
)
def test_classes_are_of_torch_wherever_they_are_found(place: str, installed: ModuleType) -> None:
    """Libraries ask a class for its package."""
    path, _, name = place.rpartition(".")
    kind = getattr(importlib.import_module(path), name)
    assert kind.__module__.partition(".")[0] == "torch"
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_classes_that_were_found_before_are_named_by_install() -> None:
    kinds = torch.AcceleratorError, torch.masked.MaskedTensor, torch.relu
    torch.install()
    assert {kind.__module__.partition(".")[0] for kind in kinds} == {"torch"}
    torch.uninstall()
    assert {kind.__module__.partition(".")[0] for kind in kinds} == {"maquette"}


def test_uninstalled_classes_say_where_they_are() -> None:
    torch.install()
    importlib.import_module("torch.nn")
    torch.uninstall()
    assert torch.Tensor.__module__ == "maquette.tensor.tensor"
    assert torch.nn.Linear.__module__ == "maquette.nn.modules.linear"


def test_copies_of_fakes_stay_in_their_mode_under_install(installed: ModuleType) -> None:
    fake = importlib.import_module("torch._subclasses").FakeTensorMode().from_tensor(torch.ones(2))
    assert type(fake).__module__ == "torch._subclasses.fake_tensor"
    assert copy.deepcopy([fake, fake.view(-1)])[1].fake_mode is fake.fake_mode


def test_a_programs_tracer_knows_layers_by_their_module(installed: ModuleType) -> None:
    importlib.import_module("torch.nn")

    class Own(torch.fx.Tracer):
        def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
            return m.__module__.startswith("torch.nn.modules.linear")

    found = Own().trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    assert [node.op for node in found.nodes][1:3] == ["call_module", "call_function"]


def test_calls_of_layers_are_normalized_under_install(installed: ModuleType) -> None:
    importlib.import_module("torch.nn")
    schemas = importlib.import_module("torch.fx.operator_schemas")
    root = torch.nn.Sequential(torch.nn.Linear(2, 2))
    x = torch.ones(2)
    found = schemas.normalize_module(root, "0", (x,), normalize_to_only_use_kwargs=True)
    assert found.kwargs["input"] is x


def test_everybodys_classes_say_the_files_that_pytorch_has_them_in(installed: ModuleType) -> None:
    kinds = (
        torch.optim.AdamW,
        torch.optim.lr_scheduler.CosineAnnealingLR,
        torch.utils.data.DataLoader,
        torch.distributions.OneHotCategoricalStraightThrough,
        torch.distributions.transforms.TanhTransform,
        torch.autograd.Function,
        torch.fx.GraphModule,
        torch.no_grad,
        torch.Generator,
    )
    assert [kind.__module__ for kind in kinds] == [
        "torch.optim.adamw",
        "torch.optim.lr_scheduler",
        "torch.utils.data.dataloader",
        "torch.distributions.one_hot_categorical",
        "torch.distributions.transforms",
        "torch.autograd.function",
        "torch.fx.graph_module",
        "torch.autograd.grad_mode",
        "torch._C",
    ]


_PUBLIC = "optim optim.lr_scheduler distributions utils.data amp fx nn.utils.rnn".split()


@pytest.mark.parametrize("path", _PUBLIC)
def test_public_classes_are_found_where_they_say_they_are(path: str, installed: ModuleType) -> None:
    module = importlib.import_module(f"torch.{path}")
    named = (getattr(module, name) for name in dir(module))
    kinds = [k for k in named if isinstance(k, type) and k.__module__.startswith("torch.")]
    assert kinds
    assert [k for k in kinds if pickle.loads(pickle.dumps(k)) is not k] == []


def test_distributions_are_pickled_as_pytorch_has_them() -> None:
    assert torch_place(torch.distributions.LogNormal) == (
        "torch.distributions.log_normal",
        "LogNormal",
    )


def test_nodes_of_functions_say_that_they_are_in_torch(installed: ModuleType) -> None:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    made = Own.apply(torch.ones(1, requires_grad=True))
    assert repr(made.grad_fn).startswith("<torch.autograd.function.OwnBackward object at 0x")


def test_naming_classes_does_not_import_layers() -> None:
    program = "import sys, maquette.torch as t; t.install(); print('maquette.nn' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "False\n"


def test_transformed_distributions_expand_under_install(installed: ModuleType) -> None:
    importlib.import_module("torch.distributions")
    wide = torch.distributions.Gumbel(0.0, torch.ones(2)).expand((3, 2))
    assert wide.sample().shape == (3, 2)


def test_a_programs_transformed_distribution_expands_itself(installed: ModuleType) -> None:
    class Own(torch.distributions.LogNormal):
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match=r"must also define a custom .expand\(\)"):
        torch.distributions.TransformedDistribution.expand(Own(), (3,))


def test_fake_tensors_say_that_they_are_torchs(installed: ModuleType) -> None:
    """opt_einsum asks the module of a type for the library whose `tensordot` it calls."""
    fakes = importlib.import_module("torch._subclasses.fake_tensor")
    kinds = fakes.FakeTensor, fakes.FakeTensorMode
    assert {kind.__module__ for kind in kinds} == {"torch._subclasses.fake_tensor"}


@pytest.mark.parametrize(
    ("place", "name", "home"),
    [
        ("torch", "relu", "torch"),
        ("torch", "einsum", "torch"),
        ("torch.nn.functional", "gelu", "torch.nn.functional"),
        ("torch.nn.functional", "conv2d", "torch.nn.functional"),
        ("torch.nn.init", "normal_", "torch.nn.init"),
        ("torch.linalg", "qr", "torch._C._linalg"),
        ("torch.fft", "fft", "torch._C._fft"),
    ],
)
def test_functions_say_that_they_are_in_torch(
    place: str, name: str, home: str, installed: ModuleType
) -> None:
    function = getattr(importlib.import_module(place), name)
    assert function.__module__ == home
    assert pickle.loads(pickle.dumps(function)) is function


def test_a_function_of_torch_in_a_programs_class_is_no_method(installed: ModuleType) -> None:
    class Own(torch.nn.Module):
        act = importlib.import_module("torch").relu

    assert Own().act(torch.ones(1)).item() == 1


def test_functions_of_torch_are_normalized_under_install(installed: ModuleType) -> None:
    importlib.import_module("torch.nn")
    schemas = importlib.import_module("torch.fx.operator_schemas")
    relu = importlib.import_module("torch").relu
    assert list(schemas.normalize_function(relu, (torch.ones(1),), {}).kwargs) == []
    assert schemas.get_signature_for_torch_op(relu) is not None
