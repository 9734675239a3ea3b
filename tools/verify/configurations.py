"""Plan published models of transformers at their true sizes: training, and generation.

Their sizes are typed into ``configurations.json``; no weights and no network are needed. For each:
``maquette plan hf:CONFIG`` as a user calls it, for a training step with AdamW and, where the model
writes text, for 128 tokens after a prompt of 512. The number of parameters must be the published
one, to 1 %; flan-t5's (``published``) have a last layer of their own, which this transformers ties
to the embeddings. ``seq`` shortens both sequences: transformers' own mamba goes over tokens one by
one, so that 2,048 of them are millions of operators. transformers must be beside maquette
(docs/programs.md); without it there is nothing to do.

    python tools/verify/configurations.py [TEXT] [--log FILE]

With TEXT, those whose name has it. With a log, each result is added to it as a line of JSON, and a
model that the log says is well is not planned again: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence

from maquette.cli.main import main as command

DATA = pathlib.Path(__file__).with_name("configurations.json")
WRITERS = set(
    "bloom cohere deepseek_v3 falcon gemma gemma2 gemma3_text gpt2 gpt_neo gpt_neox gpt_oss gptj "
    "llama mamba mistral mixtral olmo olmo2 opt phi phi3 qwen2 qwen3 qwen3_moe stablelm "
    "starcoder2".split()
)


def planned(file: pathlib.Path, *options: str) -> tuple[dict[str, object], str]:
    """The plan as JSON, and what was said on stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command(["plan", f"hf:{file}", "--json", "-", *options])
    return (json.loads(out.getvalue()) if code == 0 else {}), err.getvalue()


def wrong(model: dict[str, object], folder: pathlib.Path) -> list[str]:
    """What is wrong with the plans of one model."""
    file = folder / "config.json"
    config = model["config"]
    assert isinstance(config, dict)
    file.write_text(json.dumps(config))
    seq = ["--seq", str(model["seq"])] if "seq" in model else []
    trained, said = planned(file, "--train", "--optimizer", "adamw", "--dtype", "bfloat16", *seq)
    found = [] if trained else [f"training: {said.strip()}"]
    if trained:
        millions, published = int(str(trained["parameters"])) / 1e6, float(str(model["millions"]))
        if abs(millions - published) > 0.01 * published:
            found.append(f"{millions:,.1f} M parameters, published are {published:,.1f} M")
    if config["model_type"] in WRITERS:
        seq = seq or ["--seq", "512"]
        made, said = planned(file, "--generate", "128", *seq, "--dtype", "bfloat16")
        found += [] if made else [f"generation: {said.strip()}"]
    return found


def well_before(log: pathlib.Path | None) -> set[str]:
    """The models that a log says are well: the last word on each counts."""
    if log is None or not log.is_file():
        return set()
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    last = {line["name"]: line["problems"] for line in lines}
    return {name for name, problems in last.items() if not problems}


def main(arguments: Sequence[str]) -> int:
    """Print each model that is wrong and how many are right; 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", nargs="?", default="", help="part of the models' names")
    parser.add_argument("--log", type=pathlib.Path, metavar="FILE", help="results, to go on from")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("transformers") is None:
        print("configurations: transformers is not installed, nothing was planned")
        return 0
    chosen = [m for m in json.loads(DATA.read_text("utf-8")) if options.text in m["name"]]
    well = well_before(options.log)
    left = [m for m in chosen if m["name"] not in well]
    failed = 0
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for model in left:
            begun = time.process_time()
            problems = wrong(model, pathlib.Path(folder))
            failed += bool(problems)
            seconds = time.process_time() - begun
            for problem in problems or ["ok"]:
                print(f"{model['name']:44}{seconds:6.1f} s  {problem}", flush=True)
            if options.log is not None:
                line = {"name": model["name"], "seconds": round(seconds, 1), "problems": problems}
                with options.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    seconds = time.perf_counter() - started
    known = f", {len(chosen) - len(left)} of them before" if len(chosen) > len(left) else ""
    print(f"{len(chosen) - failed} of {len(chosen)} models planned{known}, in {seconds:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
