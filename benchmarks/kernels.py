"""Kernels with data, one thread each: ``python benchmarks/kernels.py [--only TEXT] [--json OUT]``.

Every row runs one statement on PyTorch and on maquette in turn, in this process, on equal data, and
tells the least of several times of each and their ratio: how many times faster maquette is. The
rows are the operators that models spend their time in, and two whole training steps. Needs
PyTorch: run it in the environment that ``make peer`` makes. With ``--plain`` each row runs a third
time, without the loops that Numba compiles: as it is where the extra ``fast`` is not installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # read when NumPy and PyTorch are imported

GOAL = 0.3
MILLION = 1_000_000

# What the statements name, made on each side by the same seed, which gives the same numbers.
SETUP = """
T.manual_seed(0)
x = T.randn(1_000, 1_000)
y = T.randn(1_000, 1_000)
flat = T.randn(1_000_000)
positive = x.abs() + 0.1
whole = T.randint(0, 1_000, (1_000_000,))
index = T.randint(0, 1_000, (1_000, 1_000))
rows = T.randint(0, 1_000, (4_096,))
table = T.randn(1_000, 256)
tall = T.randn(64, 512, 256)
weight, bias = T.randn(256), T.randn(256)
square = T.randn(256, 256)
image = T.randn(8, 32, 56, 56)
kernel, depthwise = T.randn(64, 32, 3, 3), T.randn(32, 1, 3, 3)
scale, shift = T.rand(32), T.rand(32)
classes = T.randint(0, 1_000, (1_000,))
q, k, v = (T.randn(4, 8, 256, 64) for _ in range(3))
sequence = T.randn(64, 16, 128)
lstm, gru = T.nn.LSTM(128, 128), T.nn.GRU(128, 128)
wave = T.randn(64, 4_096)
doubles, halves, floats16 = x.double(), x.bfloat16(), x.half()
cube, mask = T.randn(100, 100, 100), x > 0
small, numbers = T.randint(0, 100, (1_000_000,)).int(), T.randint(-1_000, 1_000, (1_000, 1_000))
line, line_kernel = T.randn(16, 32, 2_048), T.randn(64, 32, 3)
volume, volume_kernel = T.randn(2, 8, 24, 24, 24), T.randn(16, 8, 3, 3, 3)
wide_kernel, points = T.randn(32, 16, 4, 4), T.randn(512, 64)
places, matrices = T.rand(8, 56, 56, 2) * 2 - 1, T.randn(500, 8, 8) + 4 * T.eye(8)
counts, bags = T.randint(0, 3, (1_000,)), T.arange(0, 4_096, 8)
image16, kernel16 = image.bfloat16(), kernel.bfloat16()
column, row = T.randn(2, 1_000)
packed = T.nn.utils.rnn.pack_padded_sequence(sequence, T.arange(64, 0, -4))
projected = T.nn.LSTM(128, 128, proj_size=64)
F = T.nn.functional
"""

STATEMENTS = {
    "add": "x + y",
    "mul, a number": "x * 2.5",
    "exp": "x.exp()",
    "tanh": "x.tanh()",
    "sigmoid": "x.sigmoid()",
    "relu": "x.relu()",
    "gelu": "F.gelu(flat)",
    "gelu, tanh": "F.gelu(flat, approximate='tanh')",
    "silu": "F.silu(flat)",
    "softplus": "F.softplus(flat)",
    "erf": "flat.erf()",
    "pow": "positive ** 1.7",
    "where": "T.where(x > 0, x, y)",
    "clamp": "x.clamp(-1, 1)",
    "sum": "x.sum()",
    "sum, rows": "x.sum(1)",
    "sum, columns": "x.sum(0)",
    "mean": "x.mean(1)",
    "var": "x.var(1)",
    "max": "x.max(1)",
    "argmax": "x.argmax(1)",
    "logsumexp": "x.logsumexp(1)",
    "softmax": "x.softmax(1)",
    "log_softmax": "x.log_softmax(1)",
    "norm": "x.norm()",
    "cumsum": "x.cumsum(1)",
    "cumprod": "x.cumprod(1)",
    "cummax": "x.cummax(1)",
    "sort": "x.sort(1)",
    "topk": "x.topk(10, 1)",
    "kthvalue": "x.kthvalue(10, 1)",
    "median": "x.median(1)",
    "unique": "whole.unique()",
    "bincount": "whole.bincount()",
    "gather": "x.gather(1, index)",
    "scatter_add": "T.zeros(1_000, 1_000).scatter_add(1, index, x)",
    "index_select": "table.index_select(0, rows)",
    "index_add": "table.index_add(0, rows[:512], table[:512])",
    "embedding": "F.embedding(rows, table)",
    "mask": "x[x > 0]",
    "cat": "T.cat([x, y], 1)",
    "transpose, copied": "x.t().contiguous()",
    "mm": "square @ square",
    "bmm": "T.bmm(tall[:8], tall[:8].transpose(1, 2))",
    "linear": "F.linear(tall, square, weight)",
    "layer_norm": "F.layer_norm(tall, (256,), weight, bias)",
    "rms_norm": "F.rms_norm(tall, (256,), weight)",
    "batch_norm": "F.batch_norm(image, scale.clone(), shift.clone(), scale, shift, True)",
    "group_norm": "F.group_norm(image, 8, scale, shift)",
    "conv2d": "F.conv2d(image, kernel, padding=1)",
    "conv2d, depthwise": "F.conv2d(image, depthwise, padding=1, groups=32)",
    "max_pool2d": "F.max_pool2d(image, 2)",
    "avg_pool2d": "F.avg_pool2d(image, 2)",
    "interpolate": "F.interpolate(image, scale_factor=2, mode='bilinear')",
    "attention": "F.scaled_dot_product_attention(q, k, v)",
    "attention, causal": "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
    "cross_entropy": "F.cross_entropy(x, classes)",
    "LSTM": "lstm(sequence)",
    "GRU": "gru(sequence)",
    "fft": "T.fft.rfft(wave)",
    "rand": "T.rand(1_000_000)",
    "randn": "T.randn(1_000_000)",
    "randperm": "T.randperm(1_000_000)",
    "dropout": "F.dropout(x, 0.1, True)",
    "multinomial": "positive.multinomial(10, True)",
    "leaky_relu": "F.leaky_relu(x)",
    "prelu": "F.prelu(x, weight[:1])",
    "hardswish": "F.hardswish(x)",
    "hardtanh": "F.hardtanh(x)",
    "softshrink": "F.softshrink(x)",
    "elu": "F.elu(x)",
    "sign": "x.sign()",
    "nan_to_num": "x.nan_to_num()",
    "floor_divide": "T.floor_divide(x, positive)",
    "logaddexp": "T.logaddexp(x, y)",
    "hypot": "T.hypot(x, y)",
    "erfc": "flat.erfc()",
    "erf, float64": "doubles.erf()",
    "add, bfloat16": "halves + halves",
    "add, float16": "floats16 + floats16",
    "to float16": "x.half()",
    "from float16": "floats16.float()",
    "to bfloat16": "x.bfloat16()",
    "sum, middle": "cube.sum(1)",
    "sum, float64": "doubles.sum()",
    "sum, float16": "floats16.sum(1)",
    "nansum": "x.nansum()",
    "prod": "x.prod(1)",
    "amax": "x.amax(1)",
    "amin, columns": "x.amin(0)",
    "argmin": "x.argmin(0)",
    "any": "mask.any(1)",
    "all": "mask.all()",
    "std": "x.std()",
    "norm, rows": "x.norm(dim=1)",
    "cumsum, columns": "x.cumsum(0)",
    "cumsum, float64": "doubles.cumsum(1)",
    "cummin, columns": "x.cummin(0)",
    "logcumsumexp": "x.logcumsumexp(1)",
    "diff": "x.diff(dim=1)",
    "sort, flat": "flat.sort()",
    "sort, int64": "whole.sort()",
    "topk, flat": "flat.topk(100)",
    "topk, columns": "x.topk(10, 0)",
    "unique, floats": "flat.unique()",
    "unique_consecutive": "whole.unique_consecutive()",
    "searchsorted": "T.searchsorted(T.arange(-3.0, 3.0, 0.1), flat)",
    "histc": "flat.histc(100)",
    "nonzero": "mask.nonzero()",
    "masked_select": "x.masked_select(mask)",
    "masked_fill": "x.masked_fill(mask, 0.0)",
    "index_put": "x.index_put((rows[:1_000],), y)",
    "scatter": "x.scatter(1, index, y)",
    "scatter_reduce": "x.scatter_reduce(1, index, y, 'amax')",
    "index_reduce": "x.index_reduce(0, rows[:1_000], y, 'amax')",
    "put": "x.put(index, y)",
    "flip": "x.flip(1)",
    "roll": "x.roll(10, 1)",
    "repeat_interleave": "x.repeat_interleave(counts, 0)",
    "tril": "x.tril()",
    "triu": "x.triu()",
    "linspace": "T.linspace(0, 1, 1_000_000)",
    "bernoulli": "positive.clamp(0, 1).bernoulli()",
    "randperm, 1e5": "T.randperm(100_000)",
    "mm, int64": "numbers[:200, :200] @ numbers[:200, :200]",
    "mm, bfloat16": "halves[:256, :256] @ halves[:256, :256]",
    "addmm": "T.addmm(square, square, square)",
    "baddbmm": "T.baddbmm(T.zeros(8, 512, 512), tall[:8], tall[:8].mT)",
    "einsum": "T.einsum('bij,bkj->bik', tall[:8], tall[:8])",
    "cdist": "T.cdist(points, points)",
    "conv1d": "F.conv1d(line, line_kernel, padding=1)",
    "conv3d": "F.conv3d(volume, volume_kernel, padding=1)",
    "conv_transpose2d": "F.conv_transpose2d(image[:, :, :32, :32], wide_kernel, stride=2)",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(image, 7)",
    "adaptive_max_pool2d": "F.adaptive_max_pool2d(image, 7)",
    "max_pool1d": "F.max_pool1d(line, 3)",
    "interpolate, nearest": "F.interpolate(image, scale_factor=2)",
    "embedding_bag": "F.embedding_bag(rows, table, bags)",
    "smooth_l1_loss": "F.smooth_l1_loss(x, y)",
    "huber_loss": "F.huber_loss(x, y)",
    "log1p": "positive.log1p()",
    "tan": "x.tan()",
    "asinh": "x.asinh()",
    "sin, float64": "doubles.sin()",
    "erfinv": "x.tanh().erfinv()",
    "mish": "F.mish(x)",
    "log_sigmoid": "F.logsigmoid(x)",
    "remainder": "x % positive",
    "fmod, float64": "doubles.fmod(0.3)",
    "nextafter": "T.nextafter(x, y)",
    "hypot, float64": "T.hypot(doubles, doubles)",
    "lerp, by a tensor": "T.lerp(x, y, positive)",
    "polygamma": "positive.polygamma(1)",
    "grid_sample": "F.grid_sample(image, places, align_corners=False)",
    "pdist": "F.pdist(points)",
    "inverses, 8 x 8": "T.linalg.inv(matrices)",
    "solutions, 8 x 8": "T.linalg.solve(matrices, matrices)",
    "cholesky, 8 x 8": "T.linalg.cholesky(matrices @ matrices.mT)",
    "poisson": "T.poisson(positive)",
    "binomial": "T.binomial(T.full((1_000, 1_000), 20.0), positive.clamp(0, 1))",
    "gamma draws": "T._standard_gamma(positive)",
    "rand, float64": "T.rand(1_000_000, dtype=T.float64)",
    "layer_norm, trained": "_train(F.layer_norm, tall, (256,), weight, bias)",
    "gelu, trained": "_train(F.gelu, flat)",
    "softmax, trained": "_train(F.softmax, x, 1)",
    "conv2d, trained": "_train(F.conv2d, image, kernel)",
    "batch_norm, trained": "_train(F.batch_norm, image, None, None, scale, shift, True)",
    "avg_pool, trained": "_train(F.avg_pool2d, image, 2)",
    "max_pool, trained": "_train(F.max_pool2d, image, 2)",
    "embedding, trained": "_train(lambda t: F.embedding(rows, t), table)",
    "cross_entropy, trained": "_train(F.cross_entropy, x, classes)",
    "LSTM, trained": "_train(lambda t: lstm(t)[0], sequence)",
    "depthwise, trained": "_train(F.conv2d, image, depthwise, None, 1, 1, 1, 32)",
    "conv2d, bfloat16": "F.conv2d(image16, kernel16, padding=1)",
    "conv2d, bfloat16, trained": "_train(F.conv2d, image16, kernel16)",
    "conv2d, both gradients": "_gradients(F.conv2d, image, kernel)",
    "conv3d, both gradients": "_gradients(F.conv3d, volume, volume_kernel)",
    "depthwise, strided": "F.conv2d(image, depthwise, stride=2, padding=1, groups=32)",
    "depthwise, both gradients": "_gradients(F.conv2d, image, depthwise, None, 1, 1, 1, 32)",
    "pad, reflect": "F.pad(image, (3, 3, 3, 3), mode='reflect')",
    "embedding_bag, max": "F.embedding_bag(rows, table, bags, mode='max')",
    "adaptive_avg_pool, trained": "_train(F.adaptive_avg_pool2d, image, 7)",
    "adaptive_max_pool, trained": "_train(F.adaptive_max_pool2d, image, 7)",
    "max_pool1d, trained": "_train(F.max_pool1d, line, 3)",
    "outer": "T.outer(column, row)",
    "addr": "T.addr(x, column, row)",
    "cdist, p=1": "T.cdist(points, points, p=1.0)",
    "LSTM, packed": "lstm(packed)",
    "LSTM, projected": "projected(sequence)",
    "tiny GPT, a step": "_gpt()",
    "small CNN, a step": "_cnn()",
}

# What some statements call, written once for both sides.
PROGRAMS = """
def _train(function, x, *rest):
    leaf = x.detach().requires_grad_()
    function(leaf, *rest).sum().backward()
    return leaf.grad


def _gradients(function, *given):
    x, weight = (t.detach().requires_grad_() for t in given[:2])
    function(x, weight, *given[2:]).sum().backward()
    return x.grad, weight.grad


class _Block(T.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = T.nn.LayerNorm(128), T.nn.LayerNorm(128)
        self.mixed, self.out = T.nn.Linear(128, 384), T.nn.Linear(128, 128)
        self.up, self.down = T.nn.Linear(128, 512), T.nn.Linear(512, 128)

    def forward(self, x):
        q, k, v = (
            p.unflatten(-1, (4, 32)).transpose(1, 2)
            for p in self.mixed(self.first(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x))))


T.manual_seed(1)
_gpt_model = T.nn.Sequential(
    T.nn.Embedding(256, 128), *[_Block() for _ in range(4)], T.nn.Linear(128, 256)
)
_gpt_optimizer = T.optim.AdamW(_gpt_model.parameters(), lr=1e-3)
_tokens = T.randint(0, 256, (8, 129))
_cnn_model = T.nn.Sequential(
    T.nn.Conv2d(3, 16, 3, padding=1), T.nn.BatchNorm2d(16), T.nn.ReLU(), T.nn.MaxPool2d(2),
    T.nn.Conv2d(16, 32, 3, padding=1), T.nn.BatchNorm2d(32), T.nn.ReLU(), T.nn.MaxPool2d(2),
    T.nn.Flatten(), T.nn.Linear(2048, 10),
)
_cnn_optimizer = T.optim.SGD(_cnn_model.parameters(), lr=0.01, momentum=0.9)
_pictures, _kinds = T.randn(32, 3, 32, 32), T.randint(0, 10, (32,))


def _gpt():
    _gpt_optimizer.zero_grad()
    loss = F.cross_entropy(_gpt_model(_tokens[:, :-1]).flatten(0, 1), _tokens[:, 1:].flatten())
    loss.backward()
    _gpt_optimizer.step()
    return loss


def _cnn():
    _cnn_optimizer.zero_grad()
    loss = F.cross_entropy(_cnn_model(_pictures), _kinds)
    loss.backward()
    _cnn_optimizer.step()
    return loss
"""


@dataclass(frozen=True)
class Measured:
    """A row: the least seconds of both sides, and how many times faster maquette is."""

    name: str
    maquette_s: float
    pytorch_s: float
    plain_s: float | None = None

    @property
    def ratio(self) -> float:
        return self.pytorch_s / self.maquette_s

    @property
    def plain_ratio(self) -> float | None:
        """The same without compiled loops, where that was measured."""
        return None if self.plain_s is None else self.pytorch_s / self.plain_s


def prepared(torch: Any, statements: dict[str, str]) -> dict[str, Callable[[], object]]:
    """The rows as functions of no arguments, on one side."""
    space: dict[str, Any] = {"T": torch}
    exec(SETUP + PROGRAMS, space)
    return {name: eval(f"lambda: {text}", space) for name, text in statements.items()}


def least_seconds(run: Callable[[], object], *, budget: float) -> float:
    """The least CPU time of a call, of at least 3 calls and as many as ``budget`` seconds allow."""
    run()
    best, spent, calls = float("inf"), 0.0, 0
    while calls < 3 or spent < budget:
        before = time.process_time()
        run()
        took = time.process_time() - before
        if took > 0.0:  # now and then the system's clock has not moved
            best, calls = min(best, took), calls + 1
        spent += took
    return best


def without_loops(run: Callable[[], object]) -> Callable[[], object]:
    """The function as it runs where Numba is not installed."""
    from maquette.tensor.backend import backend_of

    backend = backend_of("cpu")

    def plain() -> object:
        loops, backend.loops = backend.loops, None
        try:
            return run()
        finally:
            backend.loops = loops

    return plain


def line(row: Measured, goal: float, *, markdown: bool) -> str:
    """A row as it is printed."""
    plain = row.plain_ratio
    if markdown:
        more = "" if plain is None else f" {plain:.2f} |"
        milliseconds = f"{row.maquette_s * 1e3:.2f} | {row.pytorch_s * 1e3:.2f}"
        return f"| {row.name} | {milliseconds} | {row.ratio:.2f} |{more}"
    told = "" if row.ratio >= goal else "  BELOW"
    times = f"{row.maquette_s * 1e3:9.2f} ms{row.pytorch_s * 1e3:9.2f} ms"
    more = "" if plain is None else f"{plain:7.2f}x plain"
    return f"{row.name:24}{times}{row.ratio:7.2f}x{goal:6.1f}x{more}{told}"


def pytorch() -> ModuleType | None:
    """PyTorch's module; None, and a line that says so, where it is not installed."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        print("PyTorch is not installed here: run this in the environment of `make peer`")
        return None


def keep(found: Sequence[Measured], file: pathlib.Path) -> None:
    """Write the rows and their ratios as JSON."""
    rows = [{**asdict(row), "ratio": row.ratio} for row in found]
    file.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


def main() -> int:
    """Measure and print; 1 where a row is below the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds a row and side (0.2)")
    parser.add_argument("--plain", action="store_true", help="measure without Numba's loops too")
    parser.add_argument("--markdown", action="store_true", help="print rows of a Markdown table")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    options = parser.parse_args()
    torch = pytorch()
    if torch is None:
        return 2
    torch.set_num_threads(1)
    import maquette.torch

    chosen = {n: s for n, s in STATEMENTS.items() if options.only in n}
    ours, theirs = prepared(maquette.torch, chosen), prepared(torch, chosen)
    print(f"{'':24}{'maquette':>12}{'PyTorch':>12}{'ratio':>8}{'goal':>7}")
    found = []
    for name in chosen:
        runs = [ours[name], theirs[name]]
        if options.plain:
            runs.append(without_loops(ours[name]))
        row = Measured(name, *[least_seconds(run, budget=options.budget) for run in runs])
        found.append(row)
        goal = 0.8 if name.endswith("a step") else GOAL
        print(line(row, goal, markdown=options.markdown), flush=True)
    if options.json:
        keep(found, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
