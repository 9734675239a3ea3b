"""Training steps compiled on XLA, beside PyTorch eager and JAX written by hand, on one core.

    python benchmarks/compiled.py [--jax PYTHON] [--torch PYTHON] [--rounds N] [--json OUT]

A tiny GPT with AdamW and a small CNN with SGD: written once for maquette and PyTorch, and once in
`jax.numpy` as an author of JAX would. All start from equal numbers; their losses are compared. Each
side runs in processes of its own, in turns, bound to one core with one thread; the least CPU time
of a step counts, and compiling apart. What is not installed is told of and left out. A last line
shows an array ten times as large as a chunk going through Dask, and the memory that it takes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ONE_CORE = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
GOALS = {"PyTorch": 1.5, "JAX": 0.8}
LAYERS, HEADS, WIDTH, VOCAB, BATCH, LENGTH = 2, 4, 128, 512, 4, 64
LR, BETAS, EPS, DECAY = 1e-3, (0.9, 0.999), 1e-8, 0.01
Arrays = dict[str, Any]


def numbers(seed: int, **shapes: tuple[int, ...]) -> Arrays:
    """Small random arrays, the same for every side."""
    rng = np.random.default_rng(seed)
    return {n: (0.05 * rng.standard_normal(s)).astype(np.float32) for n, s in shapes.items()}


def tokens() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The GPT's inputs and targets."""
    rng = np.random.default_rng(1)
    return rng.integers(VOCAB, size=(BATCH, LENGTH)), rng.integers(VOCAB, size=(BATCH, LENGTH))


def pictures() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The CNN's inputs and targets."""
    rng = np.random.default_rng(2)
    images = rng.standard_normal((16, 3, 32, 32)).astype(np.float32)
    return images, rng.integers(10, size=(16,))


def gpt_shapes() -> dict[str, tuple[int, ...]]:
    """The GPT's parameters by their names in the module."""
    found: dict[str, tuple[int, ...]] = {"embed.weight": (VOCAB, WIDTH), "place": (LENGTH, WIDTH)}
    for i in range(LAYERS):
        for name, rows, columns in (
            ("mixed", 3 * WIDTH, WIDTH), ("out", WIDTH, WIDTH),
            ("up", 4 * WIDTH, WIDTH), ("down", WIDTH, 4 * WIDTH),
        ):  # fmt: skip
            found[f"blocks.{i}.{name}.weight"] = (rows, columns)
            found[f"blocks.{i}.{name}.bias"] = (rows,)
        for name in ("first", "second"):
            found[f"blocks.{i}.{name}.weight"] = found[f"blocks.{i}.{name}.bias"] = (WIDTH,)
    return found | {"head.weight": (VOCAB, WIDTH), "head.bias": (VOCAB,)}


CNN_SHAPES: dict[str, tuple[int, ...]] = {
    "0.weight": (16, 3, 3, 3), "0.bias": (16,), "3.weight": (32, 16, 3, 3), "3.bias": (32,),
    "7.weight": (10, 2048), "7.bias": (10,),
}  # fmt: skip


# --- written for PyTorch ----------------------------------------------------------------------


def torch_steps(torch: Any) -> dict[str, Callable[[], Any]]:
    """Both steps, on PyTorch or on maquette under its names; each gives its loss."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[name-defined, misc]  # a class of either library
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.mixed, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                p.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
                for p in self.mixed(self.first(x)).chunk(3, -1)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))

    class GPT(nn.Module):  # type: ignore[name-defined, misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(VOCAB, WIDTH)
            self.place = nn.Parameter(torch.zeros(LENGTH, WIDTH))
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.head = nn.Linear(WIDTH, VOCAB)

        def forward(self, x: Any) -> Any:
            x = self.embed(x) + self.place
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    cnn = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2048, 10),
    )  # fmt: skip
    gpt = GPT()
    for model, shapes, seed in ((gpt, gpt_shapes(), 3), (cnn, CNN_SHAPES, 4)):
        given = {n: torch.from_numpy(a) for n, a in numbers(seed, **shapes).items()}
        model.load_state_dict(given)
    adamw = torch.optim.AdamW(gpt.parameters(), lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
    sgd = torch.optim.SGD(cnn.parameters(), lr=0.01)

    def step(model: Any, optimizer: Any, classes: int) -> Callable[[Any, Any], Any]:
        def run(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).reshape(-1, classes), y.reshape(-1))
            loss.backward()
            optimizer.step()
            return loss.detach()

        return run

    def bound(run: Callable[[Any, Any], Any], arrays: Any) -> Callable[[], Any]:
        x, y = map(torch.from_numpy, arrays)
        if torch.__name__ != "torch":
            run = torch.compile(run, backend="jax")
        return lambda: run(x, y)

    return {
        "tiny GPT": bound(step(gpt, adamw, VOCAB), tokens()),
        "small CNN": bound(step(cnn, sgd, 10), pictures()),
    }


# --- written for JAX --------------------------------------------------------------------------


def jax_steps() -> dict[str, Callable[[], Any]]:
    """Both steps in `jax.numpy`, by hand."""
    jax = importlib.import_module("jax")
    jnp = jax.numpy

    def cross_entropy(logits: Any, y: Any) -> Any:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1)
        return -chosen.mean()

    def linear(p: Arrays, name: str, x: Any) -> Any:
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def norm(p: Arrays, name: str, x: Any) -> Any:
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / jnp.sqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def gpt_loss(p: Arrays, x: Any, y: Any) -> Any:
        x = p["embed.weight"][x] + p["place"]
        causal = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))
        for i in range(LAYERS):
            q, k, v = (
                a.reshape(BATCH, LENGTH, HEADS, -1)
                for a in jnp.split(
                    linear(p, f"blocks.{i}.mixed", norm(p, f"blocks.{i}.first", x)), 3, -1
                )
            )
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(jnp.float32(WIDTH // HEADS))
            weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
            mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(BATCH, LENGTH, WIDTH)
            x = x + linear(p, f"blocks.{i}.out", mixed)
            up = jax.nn.gelu(linear(p, f"blocks.{i}.up", norm(p, f"blocks.{i}.second", x)))
            x = x + linear(p, f"blocks.{i}.down", up)
        return cross_entropy(linear(p, "head", x).reshape(-1, VOCAB), y.reshape(-1))

    def adamw_step(state: Any, x: Any, y: Any) -> Any:
        p, m, v, count = state
        loss, g = jax.value_and_grad(gpt_loss)(p, x, y)
        count = count + 1
        m = {n: BETAS[0] * m[n] + (1 - BETAS[0]) * g[n] for n in p}
        v = {n: BETAS[1] * v[n] + (1 - BETAS[1]) * g[n] ** 2 for n in p}
        first, second = 1 - BETAS[0] ** count, 1 - BETAS[1] ** count
        p = {
            n: p[n] * (1 - LR * DECAY) - LR * (m[n] / first) / (jnp.sqrt(v[n] / second) + EPS)
            for n in p
        }
        return (p, m, v, count), loss

    def conv(p: Arrays, name: str, x: Any) -> Any:
        dims = ("NCHW", "OIHW", "NCHW")
        made = jax.lax.conv_general_dilated(
            x, p[f"{name}.weight"], (1, 1), "SAME", dimension_numbers=dims
        )
        return made + p[f"{name}.bias"][:, None, None]

    def pool(x: Any) -> Any:
        window = (1, 1, 2, 2)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")

    def cnn_loss(p: Arrays, x: Any, y: Any) -> Any:
        x = pool(jax.nn.relu(conv(p, "0", x)))
        x = pool(jax.nn.relu(conv(p, "3", x)))
        return cross_entropy(linear(p, "7", x.reshape(len(x), -1)), y)

    def sgd_step(p: Any, x: Any, y: Any) -> Any:
        loss, g = jax.value_and_grad(cnn_loss)(p, x, y)
        return {n: p[n] - 0.01 * g[n] for n in p}, loss

    def bound(step: Any, state: Any, arrays: Any) -> Callable[[], Any]:
        compiled = jax.jit(step, donate_argnums=0)
        x, y = (jnp.asarray(a) for a in arrays)
        held = [state]

        def run() -> Any:
            held[0], loss = compiled(held[0], x, y)
            return loss.block_until_ready()

        return run

    gpt = {n: jnp.asarray(a) for n, a in numbers(3, **gpt_shapes()).items()}
    zeros = [{n: jnp.zeros_like(a) for n, a in gpt.items()} for _ in range(2)]
    cnn = {n: jnp.asarray(a) for n, a in numbers(4, **CNN_SHAPES).items()}
    return {
        "tiny GPT": bound(adamw_step, (gpt, *zeros, jnp.float32(0)), tokens()),
        "small CNN": bound(sgd_step, cnn, pictures()),
    }


# --- a side, in a process of its own ------------------------------------------------------------


def steps_of(side: str) -> dict[str, Callable[[], Any]]:
    """The steps of a side by its name."""
    if side == "JAX":
        return jax_steps()
    torch = importlib.import_module("torch" if side == "PyTorch" else "maquette.torch")
    if side == "PyTorch":
        torch.set_num_threads(1)
    return torch_steps(torch)


def timed(side: str, budget: float) -> dict[str, Any]:
    """For each step its first call's and its least seconds, and the losses of the first three."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found = {}
    for name, step in steps_of(side).items():
        before = time.perf_counter()
        losses = [float(step())]
        first = time.perf_counter() - before
        losses += [float(step()) for _ in range(2)]
        best, spent = float("inf"), 0.0
        while spent < budget:
            before = time.process_time()
            step()
            took = time.process_time() - before
            best, spent = min(best, took), spent + took
        found[name] = {"first": first, "least": best, "losses": losses}
    return found


def shown_in_chunks() -> str:
    """An array ten times as large as a chunk through Dask: the memory of Python's objects."""
    import tempfile

    mq = importlib.import_module("maquette")
    dask = importlib.import_module("dask")
    rows, columns, parts = 40_000, 500, 10
    with tempfile.NamedTemporaryFile() as file:
        whole = np.memmap(file.name, np.float32, "w+", shape=(rows, columns))
        for start in range(0, rows, rows // parts):
            whole[start : start + rows // parts] = 0.5
        whole.flush()
        f = mq.compile(
            lambda x: ((x * 2).exp() - 1).mean(), backend="dask", chunks=(rows // parts, columns)
        )
        x = mq.from_numpy(np.memmap(file.name, np.float32, "c", shape=(rows, columns)))
        tracemalloc = importlib.import_module("tracemalloc")
        tracemalloc.start()
        with dask.config.set(scheduler="synchronous"):
            found = float(f(x))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    size = rows * columns * 4
    assert abs(found - (np.e - 1)) < 1e-3, found
    return (
        f"dask: an array of {size / 1e6:.0f} MB in {parts} chunks of {size / parts / 1e6:.0f} MB: "
        f"at most {peak / 1e6:.0f} MB at a time"
    )


# --- the report -------------------------------------------------------------------------------


def python_with(module: str, given: str | None) -> str | None:
    """The Python that has a module: the one named, else this one; None if it has not."""
    if given is None:
        return sys.executable if importlib.util.find_spec(module) is not None else None
    asked = subprocess.run([given, "-c", f"import {module}"], capture_output=True, check=False)
    return given if asked.returncode == 0 else None


def asked(python: str, side: str, budget: float) -> Any:
    """What a side's process says."""
    source = str(Path(__file__).resolve().parents[1] / "src")
    done = subprocess.run(
        [python, __file__, "--side", side, "--budget", str(budget)],
        capture_output=True,
        text=True,
        env={**os.environ, **ONE_CORE, "PYTHONPATH": source},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{side} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def merged(rounds: list[Any]) -> Any:
    """The least times of several rounds of one side."""
    return {
        name: {
            "first": min(r[name]["first"] for r in rounds),
            "least": min(r[name]["least"] for r in rounds),
            "losses": rounds[0][name]["losses"],
        }
        for name in rounds[0]
    }


def report(sides: dict[str, Any]) -> list[str]:
    """The table: milliseconds a step, compiling apart, and the two ratios."""
    lines = [f"{'a step, ms':<12} {'maquette':>9} {'JAX':>9} {'PyTorch':>9}   maquette compiles in"]
    for name, ours in sides["maquette"].items():
        cells = [f"{1e3 * ours['least']:9.2f}"]
        verdicts = []
        for other in ("JAX", "PyTorch"):
            if other not in sides:
                cells.append(f"{'-':>9}")
                continue
            theirs = sides[other][name]
            cells.append(f"{1e3 * theirs['least']:9.2f}")
            ratio = theirs["least"] / ours["least"]
            word = "ok" if ratio >= GOALS[other] else "BELOW"
            apart = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"]))
            verdicts.append(
                f"{ratio:.2f}x {other} (goal {GOALS[other]}x, {word}; losses within {apart:.0e})"
            )
        lines.append(f"{name:<12} {' '.join(cells)}   {ours['first']:.1f} s; {'; '.join(verdicts)}")
    return lines


def main() -> int:
    """Measure what is installed; 0 also where something is not, which is said."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has JAX (and Dask)")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has PyTorch")
    parser.add_argument("--rounds", type=int, default=3, help="processes a side")
    parser.add_argument("--budget", type=float, default=3.0, help="seconds a step and process")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write what was measured")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side is not None:
        chunks = options.side == "Dask"
        print(json.dumps(shown_in_chunks() if chunks else timed(options.side, options.budget)))
        return 0
    with_jax, with_torch = python_with("jax", options.jax), python_with("torch", options.torch)
    if with_jax is None:
        print("JAX is not installed here, so compiled steps are not measured (--jax PYTHON)")
        return 0
    pythons = {"maquette": with_jax, "JAX": with_jax}
    if with_torch is not None:
        pythons["PyTorch"] = with_torch
    rounds: dict[str, list[Any]] = {side: [] for side in pythons}
    for _ in range(options.rounds):
        for side, python in pythons.items():
            rounds[side].append(asked(python, side, options.budget))
    sides = {side: merged(found) for side, found in rounds.items()}
    print(*report(sides), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps(sides, indent=1) + "\n")
    with_dask = python_with("dask", options.jax)
    if with_dask is None:
        print("Dask is not installed here, so no array in chunks is shown")
    else:
        print(asked(with_dask, "Dask", 0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
