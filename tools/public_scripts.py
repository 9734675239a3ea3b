"""Run unmodified public training scripts on PyTorch and on maquette; compare the losses they print.

    python tools/public_scripts.py FOLDER --torch PYTHON [--python PYTHON] [-k TEXT]

FOLDER holds checkouts of the repositories below, each named as its repository is; they are never
part of this one. What is not there is told and left out.

--torch PYTHON     a Python that has torch, and what else the scripts import.
--python PYTHON    a Python that has maquette and the same packages (this one).
--packages FOLDER  more packages for both, made by ``pip install --target FOLDER matplotlib ...``.
-k TEXT            only scripts whose name holds the text.
--keep FOLDER      keep what was printed there; PyTorch's output is not made again.
--timeout S        longest time of a run (300 s).
--markdown         print the table as Markdown.

Each script runs in a copy of its checkout, with small data that is made there, until it ends or has
printed 20 losses. Losses agree if each is within 1e-4, relative to PyTorch's where that is above 1.
Where a repository is a library, the few lines of its own documentation that train it are here.
"""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import training_data as data

ROOT = Path(__file__).resolve().parents[1]
STEPS = 20
TOLERANCE = 1e-4
NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"


@dataclass(frozen=True)
class Script:
    """A script, by its repository: what runs in which folder, on which data, and its losses.

    before: scripts that run first, such as one that makes data. losses: patterns of what is
    printed, each with the number as its group. driver: the program, where the repository is a
    library.
    unseeded: the script leaves a generator unseeded, so that lines before it seed all of them.
    path: folders to import from.
    """

    name: str
    repository: str
    file: str
    arguments: str = ""
    folder: str = "."
    losses: tuple[str, ...] = (rf"[Ll]oss:? {NUMBER}",)
    data: Callable[[Path], None] = lambda folder: None
    before: tuple[str, ...] = ()
    driver: str = ""
    steps: int = STEPS
    unseeded: bool = False
    path: tuple[str, ...] = ()


SEEDED = """
import random, runpy, sys
import numpy, torch

random.seed(0)
numpy.random.seed(0)
torch.manual_seed(0)
sys.argv = sys.argv[1:]
sys.path.insert(0, ".")
runpy.run_path(sys.argv[0], run_name="__main__")
"""

EXAMPLES = "pytorch/examples"
MNIST_LOSS = (rf"Loss: {NUMBER}",)


def digits_beside(folder: Path) -> None:
    """MNIST's files where the scripts of pytorch/examples look for them."""
    data.digits(folder.parent / "data")


def _makemore(kind: str) -> Script:
    return Script(
        f"makemore, {kind}",
        "karpathy/makemore",
        "makemore.py",
        f"-i words.txt --type {kind} --max-steps 41 -n 0",
        data=lambda folder: data.words_by_line(folder / "words.txt"),
        losses=(rf"\| loss {NUMBER} \|",),
        steps=5,
    )


def _example(name: str, arguments: str, **others: object) -> Script:
    return Script(
        f"examples/{name}",
        EXAMPLES,
        "main.py",
        arguments,
        folder=name.split(",")[0],
        **{"losses": MNIST_LOSS, **others},  # type: ignore[arg-type]  # fields by name
    )


VIT = """
import torch
from vit_pytorch import {kind}

torch.manual_seed(0)
model = {kind}({sizes})
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
images, labels = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
for _ in range(20):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
"""

DIFFUSION = """
import torch
from denoising_diffusion_pytorch import GaussianDiffusion, Unet

torch.manual_seed(0)
model = Unet(dim=16, dim_mults=(1, 2), flash_attn={flash})
diffusion = GaussianDiffusion(model, image_size=16, timesteps=100, objective="{objective}")
optimizer = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
images = torch.rand(4, 3, 16, 16)
for _ in range(20):
    loss = diffusion(images)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
"""

X_TRANSFORMER = """
import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
layers = Decoder(dim=64, depth=3, heads=4, rotary_pos_emb=True)
model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=64, attn_layers=layers))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
tokens = torch.randint(0, 64, (4, 65))
for _ in range(20):
    loss = model(tokens)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
"""


def _vit(kind: str, sizes: str) -> Script:
    return Script(
        f"vit-pytorch, {kind}",
        "lucidrains/vit-pytorch",
        "train.py",
        driver=VIT.format(kind=kind, sizes=sizes),
        losses=(rf"loss {NUMBER}",),
    )


def _diffusion(objective: str, *, flash: bool) -> Script:
    return Script(
        f"denoising-diffusion, {objective}",
        "lucidrains/denoising-diffusion-pytorch",
        "train.py",
        driver=DIFFUSION.format(objective=objective, flash=flash),
        losses=(rf"loss {NUMBER}",),
    )


NANO_GPT = (
    "--device=cpu --compile=False --dtype=float32 --dataset=small --eval_iters=2 --log_interval=1 "
    "--block_size=64 --batch_size=8 --n_layer=3 --n_head=4 --n_embd=64 --max_iters=20 "
    "--lr_decay_iters=20 --warmup_iters=5 --gradient_accumulation_steps=2 --dropout=0.1"
)

SCRIPTS = (
    Script(
        "nanoGPT",
        "karpathy/nanoGPT",
        "train.py",
        NANO_GPT,
        data=lambda folder: data.characters(folder / "data" / "small"),
        losses=(rf"iter \d+: loss {NUMBER}",),
    ),
    Script(
        "minGPT, chargpt",
        "karpathy/minGPT",
        "projects/chargpt/chargpt.py",
        "--trainer.num_workers=0 --trainer.max_iters=41 --trainer.batch_size=8 "
        "--model.model_type=gpt-nano --data.block_size=32",
        data=lambda folder: data.text(folder / "input.txt"),
        losses=(rf"train loss {NUMBER}",),
        steps=5,
        path=(".",),
    ),
    Script(
        "minGPT, adder",
        "karpathy/minGPT",
        "projects/adder/adder.py",
        "--trainer.num_workers=0 --trainer.max_iters=41 --trainer.batch_size=16",
        losses=(rf"train loss {NUMBER}",),
        steps=5,
        path=(".",),
    ),
    *[_makemore(kind) for kind in ("transformer", "rnn", "gru", "mlp", "bow", "bigram")],
    Script(
        "ng-video-lecture, bigram",
        "karpathy/ng-video-lecture",
        "bigram.py",
        losses=(rf"train loss {NUMBER}", rf"val loss {NUMBER}"),
        steps=4,  # two evaluations, 300 steps apart
    ),
    Script(
        "jcjohnson, optim",
        "jcjohnson/pytorch-examples",
        "nn/two_layer_net_optim.py",
        losses=(rf"^\d+ {NUMBER}$",),
        unseeded=True,
    ),
    Script(
        "jcjohnson, custom function",
        "jcjohnson/pytorch-examples",
        "autograd/two_layer_net_custom_function.py",
        losses=(rf"^\d+ {NUMBER}$",),
        unseeded=True,
    ),
    _example("mnist", "--log-interval 1 --no-accel", data=digits_beside),
    _example("mnist_rnn", "--log-interval 1", data=digits_beside),
    _example("vae", "--log-interval 1 --no-accel", data=digits_beside),
    _example("siamese_network", "--log-interval 1 --no-accel", data=digits_beside, unseeded=True),
    _example(
        "mnist_forward_forward",
        "--no_accel --epochs 20 --train_size 500 --test_size 100 --log-interval 1",
        data=digits_beside,
    ),
    *[
        _example(
            f"word_language_model, {kind}",
            f"--model {kind} --epochs 1 --log-interval 1 --emsize 64 --nhid 64 --batch_size 8",
            data=lambda folder: data.three_texts(folder / "data" / "wikitext-2"),
            losses=(rf"loss +{NUMBER} \| ppl",),
        )
        for kind in ("LSTM", "GRU", "RNN_TANH", "Transformer")
    ],
    Script(
        "examples/time_sequence_prediction",
        EXAMPLES,
        "train.py",
        "--steps 2",
        folder="time_sequence_prediction",
        before=("generate_sine_wave.py",),
        losses=(rf"loss: {NUMBER}",),
    ),
    _example(
        "super_resolution",
        "--upscale_factor 3 --batchSize 4 --nEpochs 4 --threads 0",
        data=lambda folder: data.photographs(folder / "dataset" / "BSDS300" / "images"),
        losses=(rf"\): Loss: {NUMBER}",),
    ),
    _example(
        "dcgan",
        "--dataset fake --workers 0 --batchSize 4 --imageSize 64 --ngf 8 --ndf 8 --manualSeed 1",
        losses=(rf"Loss_D: {NUMBER}", rf"Loss_G: {NUMBER}"),
        steps=2 * STEPS,
    ),
    _example(
        "regression", "", losses=(rf"Loss: {NUMBER}", r"([+-]\d+\.\d+)"), unseeded=True, steps=11
    ),
    _example(
        "imagenet, resnet18",
        "--dummy --no-accel -a resnet18 -b 4 -p 1 -j 0 --seed 1 --epochs 1",
        losses=(rf"Loss {NUMBER} ",),
        steps=10,
    ),
    Script(
        "tiny-diffusion",
        "tanelp/tiny-diffusion",
        "ddpm.py",
        "--dataset moons --num_epochs 1 --hidden_size 32",
        losses=(rf"loss={NUMBER}",),
        unseeded=True,
    ),
    _vit(
        "ViT", "image_size=32, patch_size=8, num_classes=10, dim=64, depth=3, heads=4, mlp_dim=128"
    ),
    _vit(
        "SimpleViT",
        "image_size=32, patch_size=8, num_classes=10, dim=64, depth=3, heads=4, mlp_dim=128",
    ),
    _diffusion("pred_v", flash=False),
    _diffusion("pred_noise", flash=True),
    Script(
        "x-transformers, decoder",
        "lucidrains/x-transformers",
        "train.py",
        driver=X_TRANSFORMER,
        losses=(rf"loss {NUMBER}",),
    ),
)


class Printed(NamedTuple):
    """What a run printed: its losses, the whole text, and its exit status (None: was stopped)."""

    losses: list[float]
    text: str
    status: int | None
    seconds: float


@dataclass(frozen=True)
class Side:
    """How a script is run: the command before its name, and the environment."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]


def sides(options: argparse.Namespace) -> tuple[Side, Side]:
    """PyTorch's side and ours."""
    # tqdm prints by time, unless it may print at any; one thread each, so that sums have one order.
    base = {**os.environ, "PYTHONUNBUFFERED": "1", "TQDM_MININTERVAL": "0", "MPLBACKEND": "agg"}
    base |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    packages = [str(options.packages)] if options.packages else []
    theirs = {**base, "PYTHONPATH": os.pathsep.join(packages)}
    ours = {**base, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *packages])}
    run = (options.python, "-m", "maquette.cli.main", "run")
    return Side("torch", (options.torch,), theirs), Side("maquette", run, ours)


def losses_in(script: Script, text: str) -> list[float]:
    """The numbers that a script printed as its losses, in order."""
    found: list[float] = []
    for line in re.split(r"[\r\n]+", text):
        for pattern in script.losses:
            found += [float(number) for number in re.findall(pattern, line)]
    return found


def run(script: Script, side: Side, checkouts: Path, timeout: float) -> Printed:
    """Run a script in a copy of its checkout, until it has printed its losses or the time is up."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "checkout"
        shutil.copytree(_checkout(checkouts, script), copy, ignore=shutil.ignore_patterns(".git"))
        folder = copy / script.folder
        script.data(folder)
        if script.driver:
            (folder / script.file).write_text(script.driver, "utf-8")
        environment = dict(side.environment)
        more = [str(copy / path) for path in script.path]
        environment["PYTHONPATH"] = os.pathsep.join([environment["PYTHONPATH"], *more])
        for name in script.before:
            subprocess.run(
                [*side.command, name], cwd=folder, env=environment, timeout=timeout, check=True
            )
        command = [*side.command, script.file, *script.arguments.split()]
        if script.unseeded:
            (folder / "seeded.py").write_text(SEEDED, "utf-8")
            command.insert(len(side.command), "seeded.py")
        return _until_printed(script, command, folder, environment, timeout)


def _checkout(checkouts: Path, script: Script) -> Path:
    """The checkout's folder: by owner and name, or by name alone."""
    owner, name = script.repository.split("/")
    both = checkouts / f"{owner}-{name}"
    return both if both.exists() else checkouts / name


def _until_printed(
    script: Script, command: list[str], folder: Path, environment: dict[str, str], timeout: float
) -> Printed:
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    pieces: queue.Queue[bytes] = queue.Queue()
    assert process.stdout is not None
    reader = threading.Thread(target=_pass_on, args=(process.stdout.fileno(), pieces), daemon=True)
    reader.start()
    gathered = b""
    enough = False
    while not enough and time.monotonic() - began < timeout:
        try:
            piece = pieces.get(timeout=1)
        except queue.Empty:
            continue
        if not piece:
            break
        gathered += piece
        ended = gathered.decode("utf-8", "replace")
        enough = len(losses_in(script, ended[: ended.rfind("\n") + 1])) >= script.steps
    status = None
    if not enough and time.monotonic() - began < timeout:
        status = process.wait()
    else:
        process.kill()
        process.wait()
    reader.join(timeout=5)  # a worker that lives on may hold the pipe
    process.stdout.close()
    text = gathered.decode("utf-8", "replace")
    found = losses_in(script, text)[: script.steps]
    return Printed(found, text, status, time.monotonic() - began)


def _pass_on(source: int, pieces: queue.Queue[bytes]) -> None:
    while piece := os.read(source, 1 << 16):
        pieces.put(piece)
    pieces.put(b"")


def difference(ours: list[float], theirs: list[float]) -> float:
    """The largest difference of two lists of losses, relative to PyTorch's where it is above 1."""
    return max(
        (abs(a - b) / max(1.0, abs(b)) for a, b in zip(ours, theirs, strict=True)), default=0
    )


class Row(NamedTuple):
    """What came of a script; ``agrees`` is None where PyTorch's own run printed no losses."""

    script: Script
    agrees: bool | None
    told: str
    ours_seconds: float = 0
    theirs_seconds: float = 0


def compare(script: Script, options: argparse.Namespace) -> Row:
    """Run a script on both sides."""
    results = []
    for side in sides(options):
        kept = options.keep and options.keep / f"{script.name.replace('/', ' ')}.{side.name}.txt"
        if kept and kept.exists() and side.name == "torch":
            text = kept.read_text("utf-8")
            results.append(Printed(losses_in(script, text)[: script.steps], text, 0, 0))
            continue
        printed = run(script, side, options.folder, options.timeout)
        results.append(printed)
        if kept:
            kept.write_text(printed.text, "utf-8")
        if side.name == "torch" and not printed.losses:
            return Row(script, None, f"PyTorch: {_last_line(printed.text)}")
    theirs, ours = results
    seconds = ours.seconds, theirs.seconds
    if len(ours.losses) < len(theirs.losses):
        words = f"{len(ours.losses)} of {len(theirs.losses)} losses; {_last_line(ours.text)}"
        return Row(script, False, words, *seconds)
    most = difference(ours.losses[: len(theirs.losses)], theirs.losses)
    # Half a digit more: both numbers were rounded when they were printed.
    agrees = most <= TOLERANCE * 1.01
    told = f"{len(theirs.losses)} losses, {theirs.losses[0]:.6g} to {theirs.losses[-1]:.6g}"
    return Row(script, agrees, f"{told}; largest difference {most:.1e}", *seconds)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing was printed"


def tell(row: Row, *, markdown: bool) -> None:
    """Print a row."""
    verdict = {True: "agrees", False: "DIFFERS", None: "not run"}[row.agrees]
    if markdown:
        print(
            f"| {row.script.name} | {row.script.repository} | {verdict} | {row.told} |", flush=True
        )
    else:
        took = f"{row.ours_seconds:.0f} s, PyTorch {row.theirs_seconds:.0f} s"
        print(f"{verdict:8} {row.script.name:36} {row.told} ({took})", flush=True)


def main() -> int:
    """Run and compare; 1 where a script's losses differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--torch", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("-k", default="", dest="chosen")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--timeout", type=float, default=300.0)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    chosen = [s for s in SCRIPTS if options.chosen in s.name]
    rows = []
    for script in chosen:
        if not _checkout(options.folder, script).exists():
            print(f"{script.name}: no checkout of {script.repository} in {options.folder}")
            continue
        rows.append(compare(script, options))
        tell(rows[-1], markdown=options.markdown)
    agreeing = sum(row.agrees is True for row in rows)
    print(f"{agreeing} of {len(rows)} scripts print PyTorch's losses")
    return int(any(row.agrees is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
