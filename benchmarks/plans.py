"""Plans of published models beside PyTorch's `FakeTensorMode` and `MemTracker`: CPU seconds.

    python benchmarks/plans.py --torch PYTHON [--limit SECONDS] [--log FILE] [NAME ...]

For each model of `tools/verify/configurations.json` that is named (by default `REPRESENTATIVE`:
most families, of 60 million to 35 billion parameters): it is built from its configuration without
weights, and one training step at batch 1, the forward and the backward, is run on fakes while its
memory is watched. Here that is what ``maquette plan hf:CONFIG --train`` does. PYTHON, which has
PyTorch and transformers, does the same in `FakeTensorMode` under `MemTracker`, with inputs of the
same sizes. Both pay for what a first use costs, neither for importing its libraries. A model that
PyTorch refuses, or that takes it more than --limit CPU seconds, is named and left out of the sums.
With a log, PyTorch's answers, which take an hour, are kept in it and not asked for again. The
Python that runs this needs transformers too.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CONFIGURATIONS = Path(__file__).parent.parent / "tools" / "verify" / "configurations.json"
REPRESENTATIVE = (
    "gpt2 HuggingFaceTB/SmolLM2-135M distilbert/distilbert-base-uncased "
    "google-bert/bert-large-uncased EleutherAI/pythia-1.4b google/gemma-7b microsoft/phi-2 "
    "microsoft/resnet-50 openai/whisper-medium facebook/bart-large google-t5/t5-large "
    "meta-llama/Meta-Llama-3-8B google/vit-base-patch16-224 "
    "microsoft/swin-tiny-patch4-window7-224 facebook/convnext-tiny-224 "
    "facebook/wav2vec2-base-960h FacebookAI/roberta-base google/electra-base-discriminator "
    "facebook/opt-125m EleutherAI/gpt-neo-125m EleutherAI/pythia-160m bigscience/bloom-560m "
    "google-t5/t5-small google/flan-t5-small facebook/bart-base Qwen/Qwen2.5-0.5B "
    "Qwen/Qwen3-0.6B stabilityai/stablelm-2-1_6b EleutherAI/gpt-j-6b "
    "mistralai/Mistral-7B-v0.1 bigcode/starcoder2-3b allenai/OLMo-2-1124-7B "
    "microsoft/Phi-3-mini-4k-instruct tiiuae/falcon-7b openai/gpt-oss-20b google/gemma-2-2b "
    "CohereForAI/c4ai-command-r-v01 openai/clip-vit-base-patch32"
).split()
GOAL = 30


class TooLongError(Exception):
    """A model took more CPU time than it is given."""


# --- this side -----------------------------------------------------------------------------------


def planned(model: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Seconds to build a model and to plan its step, its peak, and what the peer has to call."""
    from maquette.cli.sources import program
    from maquette.plan.assumptions import building
    from maquette.plan.plan import plan
    from maquette.tensor.tensor import Tensor

    file = folder / "config.json"
    file.write_text(json.dumps(model["config"]))
    transformers: Any = importlib.import_module("transformers")
    config = transformers.CONFIG_MAPPING[model["config"]["model_type"]]
    importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
    names = ("module", "model", "args", "kwargs", "loss", "seq")
    options = argparse.Namespace(file=f"hf:{file}", batch=1, train=True, **dict.fromkeys(names))
    started = time.process_time()
    with building():
        about = program(options, {})
    built = time.process_time()
    made = plan(about.model, about.args, about.kwargs, train=True)
    ended = time.process_time()
    inputs = {
        k: (list(v.shape), v.dtype.name) if isinstance(v, Tensor) else v
        for k, v in about.kwargs.items()
    }
    call = {"class": type(about.model).__name__, "inputs": inputs}
    return {
        "build": built - started, "step": ended - built, "peak": made.peak_bytes, "call": call
    }  # fmt: skip


# --- PyTorch's side ------------------------------------------------------------------------------


def tracked(model: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    """Seconds to build a model and to run its step on fakes under `MemTracker`, and its peak."""
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    fakes: Any = importlib.import_module("torch._subclasses.fake_tensor")
    tracker: Any = importlib.import_module("torch.distributed._tools.mem_tracker")
    fields = dict(model["config"])
    config = transformers.CONFIG_MAPPING[fields.pop("model_type")].from_dict(fields)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    kind, mode = getattr(transformers, call["class"]), fakes.FakeTensorMode()
    started = time.process_time()
    try:
        with mode:
            made = kind._from_config(config)
    except fakes.DataDependentOutputException:  # it reads a number: built for real, then converted
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        made = kind._from_config(config)._apply(mode.from_tensor)
    made.train()
    built = time.process_time()
    with mode:
        inputs = {
            k: torch.empty(v[0], dtype=getattr(torch, v[1])) if isinstance(v, list) else v
            for k, v in call["inputs"].items()
        }
        watch = tracker.MemTracker()
        watch.track_external(made)
        with watch:
            output = made(**inputs)
            loss = getattr(output, "loss", None)
            (output[0].mean() if loss is None else loss).backward()
        peak = watch.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    return {"build": built - started, "step": time.process_time() - built, "peak": peak}


# --- both ----------------------------------------------------------------------------------------


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """The block may take so many CPU seconds; then TooLongError."""

    def stop(*_: object) -> None:
        raise TooLongError(f"more than {seconds:.0f} CPU seconds")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def work(side: str, limit: float) -> int:
    """Answer each model that a line of stdin asks for by a line of JSON."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if side == "planned":
        importlib.import_module("maquette.torch").install()
    else:
        importlib.import_module("torch").set_num_threads(1)
    importlib.import_module("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                with at_most(limit):
                    if side == "planned":
                        found = planned(asked["model"], Path(folder))
                    else:
                        found = tracked(asked["model"], asked["call"])
            except Exception as error:  # noqa: BLE001  # whatever a program raises is its answer
                text = (str(error).splitlines() or [""])[0]
                found = {"error": f"{type(error).__name__}: {text}"[:200]}
            gc.collect()
            print(f"answer {json.dumps(found)}", flush=True)
    return 0


class Worker:
    """A process of a Python that does one side's work, a model at a time."""

    def __init__(self, python: str, side: str, limit: float) -> None:
        command = [python, "-W", "ignore", __file__, "--work", side, "--limit", str(limit)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What the process says of one model."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("answer "):
                return dict(json.loads(line.removeprefix("answer ")))
        return {"error": f"the process ended with {self.process.wait()}"}

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def measured(
    models: Sequence[dict[str, Any]], peer: str, limit: float, log: Path | None
) -> Iterator[dict[str, Any]]:
    """Each model's name with both sides' answers; PyTorch's from the log where it has them."""
    lines = log.read_text("utf-8").splitlines() if log is not None and log.is_file() else []
    known = {found["name"]: found["theirs"] for found in map(json.loads, lines)}
    ours, theirs = Worker(sys.executable, "planned", limit), Worker(peer, "tracked", limit)
    for model in models:
        name = model["name"]
        here = ours.answer({"model": model})
        call = here.pop("call", None)
        there = known.get(name)
        if there is None and call is not None:
            there = theirs.answer({"model": model, "call": call})
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"name": name, "theirs": there}) + "\n")
        yield {"name": name, "ours": here, "theirs": there or {"error": "not asked"}}
    ours.close()
    theirs.close()


def main(arguments: Sequence[str]) -> int:
    """Print each model's seconds and the sums; 1 if a plan fails or the ratio misses the goal."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with PyTorch and transformers")
    parser.add_argument("--limit", type=float, default=300, help="CPU seconds a model (300)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="results, to go on from")
    parser.add_argument("--work", choices=("planned", "tracked"), help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=REPRESENTATIVE, metavar="NAME")
    given = parser.parse_args(arguments)
    if given.work:
        return work(given.work, given.limit)
    if given.torch is None or importlib.util.find_spec("transformers") is None:
        parser.error("needs --torch PYTHON, and transformers beside maquette")
    models = {m["name"]: m for m in json.loads(CONFIGURATIONS.read_text("utf-8"))}
    chosen = [models[name] for name in given.names]
    print(f"{'CPU seconds':44}{'build':>8}{'step':>8}{'PyTorch':>10}{'step':>8}{'ratio':>8}")
    sums = [0.0, 0.0, 0.0, 0.0]
    failed = refused = 0
    for found in measured(chosen, given.torch, given.limit, given.log):
        ours, theirs = found["ours"], found["theirs"]
        wrong = ours.get("error") or theirs.get("error")
        failed += "error" in ours
        if wrong is not None:
            refused += "error" not in ours
            print(f"{found['name']:44}{'plan' if 'error' in ours else 'PyTorch'}: {wrong}")
            continue
        row = [ours["build"], ours["step"], theirs["build"], theirs["step"]]
        sums = [a + b for a, b in zip(sums, row, strict=True)]
        print(line(found["name"], row), flush=True)
    many = len(chosen) - failed - refused
    print(line(f"{many} models", sums))
    steps, whole = sums[3] / max(sums[1], 1e-9), sum(sums[2:]) / max(sum(sums[:2]), 1e-9)
    print(f"PyTorch's time by ours: {steps:.1f} x for the steps, {whole:.1f} x with the building")
    print(f"{failed} plans failed; {refused} models that PyTorch refused or did not end in time")
    return int(failed > 0 or steps < GOAL)


def line(name: str, row: Sequence[float]) -> str:
    """A line of the table: both sides' seconds, and the ratio of the steps."""
    here, step, there, peer = row
    return f"{name:44}{here:8.2f}{step:8.2f}{there:10.2f}{peer:8.2f}{peer / max(step, 1e-9):7.1f}x"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
