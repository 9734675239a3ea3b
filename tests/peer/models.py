"""What PyTorch and maquette both run: the examples at tiny sizes, their inputs, their training.

Everything here is written once and run twice, `torch` being PyTorch in `reference.py` and
`maquette.torch` in `test_examples.py`; so nothing here imports either. What only one side can do
(counting FLOPs, tracking storages, planning) is not here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:  # whichever torch is installed when this runs
    from torch import nn, optim

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STEPS = 3

Arrays: TypeAlias = dict[str, np.ndarray]
Inputs: TypeAlias = tuple[np.ndarray, np.ndarray]

# Operators whose FLOPs both sides count, by their name without overload. What an operator is
# called differs with the path (a linear layer is `addmm` or `mm`), so groups are compared.
FLOP_GROUPS: Mapping[str, frozenset[str]] = {
    "matmul": frozenset({"mm", "addmm", "bmm", "baddbmm"}),
    "convolution": frozenset({"convolution", "convolution_backward"}),
    "attention": frozenset(
        {
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
        }
    ),
}

# eps: the gradient of a key's bias is zero but for rounding (softmax does not see a shift). With
# Adam's usual 1e-8 that rounding, divided by its own size, would become a step.
ADAMW: Mapping[str, float] = {"lr": 1e-3, "eps": 1e-6, "weight_decay": 0.1}
SGD: Mapping[str, float] = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}


@dataclass(frozen=True)
class Case:
    """One example at a tiny size, and how it is trained."""

    name: str
    model: str
    config: str
    inputs: Callable[[np.random.Generator], Inputs]
    optimizer: str = "AdamW"


def _tokens(size: int, seq: int, vocab: int) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        return rng.integers(vocab, size=(size, seq)), rng.integers(vocab, size=(size, seq))

    return make


def _masked_tokens(size: int, seq: int, vocab: int) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        tokens = rng.integers(vocab, size=(size, seq))
        targets = np.where(rng.random((size, seq)) < 0.3, tokens, -100)
        return np.where(targets >= 0, 103, tokens), targets

    return make


def _images(size: int, pixels: int, classes: int) -> Callable[[np.random.Generator], Inputs]:
    def make(rng: np.random.Generator) -> Inputs:
        images = rng.standard_normal((size, 3, pixels, pixels)).astype(np.float32)
        return images, rng.integers(classes, size=(size,))

    return make


CASES = (
    Case("gpt2", "GPT2", "GPT2Config", _tokens(8, 16, 101)),
    Case("llama", "Llama", "LlamaConfig", _tokens(8, 16, 101)),
    Case("resnet", "ResNet", "ResNetConfig", _images(4, 32, 10), optimizer="SGD"),
    Case("vit", "ViT", "ViTConfig", _images(8, 16, 10)),
    Case("bert", "Bert", "BertConfig", _masked_tokens(8, 16, 107)),
)


def load_example(name: str) -> ModuleType:
    """A fresh copy of `examples/<name>.py`; its `import torch` finds what is installed as torch."""
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"peer_example_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected an example at {path}, found none")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_model(case: Case) -> nn.Module:
    """The case's model with its own initialisation, in training mode."""
    example = load_example(case.name)
    return getattr(example, case.model)(getattr(example, case.config).tiny())


def make_inputs(case: Case) -> Inputs:
    """The case's inputs and targets, the same on every call and on both sides."""
    return case.inputs(np.random.default_rng(2026))


def make_optimizer(torch: ModuleType, case: Case, model: nn.Module) -> optim.Optimizer:
    """The optimizer that trains this case."""
    settings = dict(SGD if case.optimizer == "SGD" else ADAMW)
    if case.optimizer == "AdamW" and case.name == "resnet":
        # What is added before a normalization has a gradient of rounding alone, and AdamW divides
        # it by its own size: without this the two libraries' last bits would be compared.
        settings["eps"] = 1e-4
    return getattr(torch.optim, case.optimizer)(model.parameters(), **settings)


def load_arrays(torch: ModuleType, model: nn.Module, weights: Arrays) -> None:
    """Give the model these weights, by their names in its state dict."""
    model.load_state_dict({name: torch.from_numpy(a.copy()) for name, a in weights.items()})


def state_arrays(model: nn.Module) -> Arrays:
    """Copies of the model's parameters and persistent buffers, by name."""
    return {name: t.detach().numpy().copy() for name, t in model.state_dict().items()}


def train(torch: ModuleType, case: Case, model: nn.Module) -> Arrays:
    """Train three steps on one batch; keep what the first step saw and what the last one left.

    Keys: `logits` (without targets), `loss`, `grad/<parameter>` of the first step, `losses` of
    all steps, `after/<name>` for the state dict at the end.
    """
    inputs, targets = (torch.from_numpy(a) for a in make_inputs(case))
    optimizer = make_optimizer(torch, case, model)
    seen: Arrays = {}
    losses = []
    for step in range(STEPS):
        output = model(inputs, targets)
        optimizer.zero_grad()
        output.loss.backward()
        losses.append(output.loss.item())
        if step == 0:
            seen["logits"] = output.logits.detach().numpy().copy()
            seen["loss"] = output.loss.detach().numpy().copy()
            for name, parameter in model.named_parameters():
                seen[f"grad/{name}"] = parameter.grad.numpy().copy()
        optimizer.step()
    seen["losses"] = np.array(losses)
    return seen | {f"after/{name}": a for name, a in state_arrays(model).items()}


def programs_to_trace(
    torch: ModuleType, model: nn.Module
) -> dict[str, tuple[Callable[..., object], Callable[[], tuple[object, ...]]]]:
    """Programs of (parameters, buffers, inputs, targets), and what makes the first two anew.

    "forward" gives the loss, "joint" the loss and the gradients of all parameters.
    """

    def forward(parameters: Mapping, buffers: Mapping, inputs: object, targets: object) -> object:
        state = (parameters, buffers)
        return torch.func.functional_call(model, state, (inputs, targets)).loss

    def joint(parameters: Mapping, *rest: object) -> object:
        loss = forward(parameters, *rest)
        return loss, torch.autograd.grad(loss, list(parameters.values()))

    def state() -> tuple[object, ...]:
        parameters = {k: p.detach().clone().requires_grad_() for k, p in model.named_parameters()}
        return parameters, {k: b.clone() for k, b in model.named_buffers()}

    return {"forward": (forward, state), "joint": (joint, state)}


def traced_operators(torch: ModuleType, case: Case, model: nn.Module) -> dict[str, list[str]]:
    """By program, the operators that `make_fx` records, in order."""
    make_fx = importlib.import_module("torch.fx.experimental.proxy_tensor").make_fx
    inputs, targets = (torch.from_numpy(a) for a in make_inputs(case))
    found = {}
    for name, (program, state) in programs_to_trace(torch, model).items():
        graph = make_fx(program, tracing_mode="fake")(*state(), inputs, targets).graph
        found[name] = [str(n.target) for n in graph.nodes if n.op == "call_function"]
    return found
