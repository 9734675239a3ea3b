"""Planned peaks beside PyTorch's own runs: small models of transformers, five ways of training.

    python tools/verify/peaks.py --peer PYTHON [MODEL ...]

Each model (made small by `small_configurations.py`) is planned here for a training step with AdamW,
plainly, under autocast, with checkpoints, with two accumulated batches, and with LoRA. PYTHON has
PyTorch, transformers and peft: the same steps run there on the cpu, with data and with fake
tensors, and a mode counts the bytes of all live storages. Peaks must agree to the byte with the run
on data, or with the one on fakes: transformers builds masks for fakes that it leaves out where data
says that they hide nothing. A checkpoint keeps the generator's state, 5,056 bytes, which the plan
counts and PyTorch shows to no mode. What differs otherwise is listed. Without transformers beside
maquette there is nothing to do.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import os
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

MODELS = (
    "albert bart bert big_bird blenderbot bloom clip convnext cohere deberta deit distilbert "
    "electra falcon gemma gemma2 gpt2 gpt_neo gpt_neox gptj llama mbart mistral mixtral olmo opt "
    "pegasus phi phi3 qwen2 qwen3 resnet roberta segformer stablelm starcoder2 swin t5 vit whisper"
).split()
BATCH = 8  # times the inputs, so that activations count beside parameters
DIFFER = "differ"
STATES = 4 * 5056  # bytes of the cpu generator's states, one a block: these have two to four
EXPLAINED = {
    "llama, checkpoint": "a run on data leaves out the masks, which hide nothing; the plan has "
    "them, twice where a block runs again, and PyTorch's fakes raise a TypeError there",
    "big_bird, autocast": "PyTorch's fakes give layer_norm's statistics of a bfloat16 input beside "
    "float32 weights in bfloat16; its kernel, and the plan, in float32",
}
RECIPES = ("plain", "autocast", "checkpoint", "accumulate", "lora")


def main(arguments: Sequence[str]) -> int:
    """Print each difference, and counts; 1 if there is one that is not explained."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--peer", metavar="PYTHON", help="a Python with PyTorch, transformers, peft"
    )
    parser.add_argument("--work", choices=("planned", "tracked"), help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=MODELS, metavar="MODEL")
    given = parser.parse_args(arguments)
    if importlib.util.find_spec("transformers") is None:
        print("peaks: transformers is not installed, nothing was planned")
        return 0
    if given.work:
        return work(given.work, given.names)
    if given.peer is None:
        print("peaks: no --peer PYTHON to compare with, nothing was planned")
        return 0
    ours = answers(sys.executable, "planned", given.names)
    theirs = answers(given.peer, "tracked", given.names)
    return compare(ours, theirs)


def answers(python: str, side: str, names: Sequence[str]) -> dict[str, Any]:
    """What a process of a Python prints: for each model and recipe its peaks, or what it raised."""
    command = [python, "-W", "ignore", __file__, "--work", side, *names]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"model"')]
    return {f"{f['model']}, {f['recipe']}": f["peak"] for f in found}


def compare(ours: dict[str, Any], theirs: dict[str, Any]) -> int:
    """Print where peaks differ, and counts of what agrees with what; 1 if one differs."""
    counts: Counter[str] = Counter()
    for name, runs in theirs.items():
        if not isinstance(runs, list):
            counts["not run there"] += 1
            continue
        kind = agreement(ours.get(name), runs, states="checkpoint" in name)
        if kind == DIFFER and name in EXPLAINED:
            kind = "explained"
            print(f"{name}: {EXPLAINED[name]}")
        counts[kind] += 1
        if kind == DIFFER:
            print(f"{name:32}planned {ours.get(name)}, PyTorch {runs[0]}, with fakes {runs[1]}")
    print(", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    return int(counts[DIFFER] > 0)


def agreement(planned: Any, runs: Sequence[Any], *, states: bool) -> str:
    """Which run a planned peak is equal to; runs: the peak with data, and that with fakes."""
    if planned == runs[0]:
        return "equal to the byte"
    if planned == runs[1]:
        return "equal to the byte on fakes"
    if states and isinstance(planned, int):
        for run in runs:
            if isinstance(run, int) and 0 < planned - run <= STATES:
                return "equal but for the generator's states"
    return DIFFER


# --- one side ------------------------------------------------------------------------------------


def work(side: str, names: Sequence[str]) -> int:
    """Print a line of JSON for each model and recipe."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if side == "planned":
        importlib.import_module("maquette.torch").install()
    torch: Any = importlib.import_module("torch")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    architectures = importlib.import_module("architectures")
    peak_of: Any = planned if side == "planned" else both
    for name in names:
        for recipe in RECIPES:
            try:
                torch.manual_seed(0)
                model, inputs = architectures._model("transformers", name, torch)
                model = prepared(model.train(), recipe)
                inputs = {k: torch.cat([v] * BATCH) for k, v in inputs.items()}
                found: object = peak_of(torch, model, inputs, recipe, architectures)
            except Exception as error:  # noqa: BLE001  # whatever a program raises is its answer
                found = f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:160]
            print(json.dumps({"model": name, "recipe": recipe, "peak": found}), flush=True)
    return 0


def prepared(model: Any, recipe: str) -> Any:
    """The model as the recipe trains it."""
    for module in model.modules():  # what draws random masks saves them: both sides alike
        if type(module).__name__ == "Dropout":
            module.p = 0.1
    if recipe == "checkpoint":
        model.gradient_checkpointing_enable()
    if recipe == "lora":
        peft: Any = importlib.import_module("peft")
        config = peft.LoraConfig(r=4, target_modules="all-linear", init_lora_weights=True)
        return peft.get_peft_model(model, config)
    return model


def planned(torch: Any, model: Any, inputs: dict[str, Any], recipe: str, tools: Any) -> int:
    """The peak of the plan."""
    plan: Any = importlib.import_module("maquette.plan").plan
    made = plan(
        model,
        (),
        inputs,
        train=True,
        optimizer="adamw",
        loss=tools._loss,
        autocast=torch.bfloat16 if recipe == "autocast" else None,
        accumulate=2 if recipe == "accumulate" else 1,
    )
    peak: int = made.peak_bytes
    return peak


def both(torch: Any, model: Any, inputs: dict[str, Any], recipe: str, tools: Any) -> list[Any]:
    """The peaks of a run with data and of one with fakes, or why that cannot be."""
    fakes: Any = importlib.import_module("torch._subclasses.fake_tensor")
    model.zero_grad()
    real = tracked(torch, model, inputs, recipe, tools._loss)
    model.zero_grad()
    try:
        with fakes.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            tools._made_fake(model, mode, torch)
            given = {name: mode.from_tensor(value) for name, value in inputs.items()}
            return [real, tracked(torch, model, given, recipe, tools._loss)]
    except Exception as error:  # noqa: BLE001  # PyTorch's fakes cannot run it
        return [real, type(error).__name__]


def tracked(
    torch: Any, model: Any, inputs: dict[str, Any], recipe: str, loss: Callable[[Any], Any]
) -> int:
    """The peak of a run: parameters, buffers and inputs are there from the start."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = 2 if recipe == "accumulate" else 1
    tracker = tracker_of(torch)
    tracker.watch([*model.parameters(), *model.buffers(), *tensors(inputs)])
    with tracker:
        for _ in range(batches):
            lower = torch.autocast("cpu", torch.bfloat16) if recipe == "autocast" else nullcontext()
            with lower:
                output = model(**inputs)
                value = loss(output)
            if batches > 1:
                value = value / batches
            value.backward()
        optimizer.step()
    peak: int = tracker.peak
    return peak


def tensors(value: Any) -> Iterator[Any]:
    """The tensors of nested containers."""
    if hasattr(value, "untyped_storage"):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)


def tracker_of(torch: Any) -> Any:
    """A mode that counts the bytes of live storages, each from the first operator that shows it."""
    modes: Any = importlib.import_module("torch.utils._python_dispatch")

    class Tracker(modes.TorchDispatchMode):
        live: dict[int, tuple[Any, int]]

        def __init__(self) -> None:
            super().__init__()
            self.live, self.now, self.peak = {}, 0, 0

        def watch(self, given: Any) -> None:
            for t in tensors(given):
                self.enter(t.untyped_storage())
            self.peak = max(self.peak, self.now)

        def enter(self, storage: Any) -> None:
            key = storage._cdata
            if key not in self.live:
                known = weakref.ref(storage, lambda _: self.leave(key))
                self.live[key] = known, storage.nbytes()
                self.now += storage.nbytes()

        def leave(self, key: int) -> None:
            self.now -= self.live.pop(key)[1]

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            self.watch(result)
            return result

    return Tracker()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
