"""maquette against PyTorch 2.13 in one process: the ratios that the design's budgets are about.

Run by a Python that has torch, with maquette importable beside it:

    PYTHONPATH=src python benchmarks/bench.py [--only PATTERN] [--json OUT] [--repeats N]
    PYTHONPATH=src python benchmarks/bench.py --self      # maquette alone: times, no ratios
    PYTHONPATH=src python benchmarks/bench.py --jax PYTHON  # JAX's eval_shape as a second peer

A row is one statement, prepared by one function that is given a library and does not care which.
Both sides are warmed, then timed in turns; a figure is the median of the turns, and what counts is
the ratio. The garbage collector stays on, as it is where people work.
"""

import argparse
import contextlib
import fnmatch
import gc
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 0.03
IMPORT_TURNS = 9


# --- the two sides --------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """A library under torch's names, and where its fake mode and the Llama example are."""

    name: str
    torch: ModuleType
    fake_mode: type
    llama: ModuleType


def _is_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


@contextlib.contextmanager
def torch_is_maquette() -> Iterator[None]:
    """Let `import torch` find maquette inside the block, and what it found before after it."""
    maquette_torch = importlib.import_module("maquette.torch")
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_torch(name)}
    finders = list(sys.meta_path)
    maquette_torch.install()
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_torch(name)]:
            del sys.modules[name]
        sys.modules.update(hidden)
        sys.meta_path[:] = finders


def load_llama(name: str) -> ModuleType:
    """A copy of the Llama example of its own, bound to the torch that is found now."""
    path = ROOT / "examples" / "llama.py"
    spec = importlib.util.spec_from_file_location(f"bench_llama_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"expected the Llama example at {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def maquette_side() -> Side:
    """maquette, by its torch-named face."""
    with torch_is_maquette():
        llama = load_llama("maquette")
    maquette = importlib.import_module("maquette")
    face = importlib.import_module("maquette.torch")
    return Side("maquette", face, maquette.FakeTensorMode, llama)


def pytorch_side() -> Side:
    """PyTorch itself."""
    torch = importlib.import_module("torch")
    fake_mode = importlib.import_module("torch._subclasses").FakeTensorMode
    return Side("PyTorch", torch, fake_mode, load_llama("pytorch"))


# --- what is timed --------------------------------------------------------------------

Space = dict[str, object]


@dataclass(frozen=True)
class Row:
    """A statement, what its names mean on one side, and by what factor maquette must win.

    prepare: a side to the statement's names; `context`, where given, makes a context manager
        that is entered around each sample, outside the clock.
    fresh: a statement run before each sample, outside the clock; `number` is the loop count.
    """

    name: str
    goal: float
    statement: str
    prepare: Callable[[Side], Space]
    fresh: str = ""


def fake_pair(device: str) -> Callable[[Side], Space]:
    """Two fake 4 x 4 tensors on a device, inside their mode."""

    def prepare(side: Side) -> Space:
        mode = side.fake_mode()
        with mode:
            a = side.torch.ones(4, 4, device=device)
            b = side.torch.ones(4, 4, device=device)
        return {"a": a, "b": b, "mm": side.torch.mm, "context": lambda: mode}

    return prepare


def shape_env(side: Side) -> object:
    """A fresh shape environment."""
    home = (
        "maquette.symbolic" if side.name == "maquette" else "torch.fx.experimental.symbolic_shapes"
    )
    return importlib.import_module(home).ShapeEnv()


def symbolic_pair(side: Side) -> Space:
    """Fakes of 8 x 5 and 5 x 8 elements with symbolic sizes, inside their mode."""
    mode = side.fake_mode(shape_env=shape_env(side))
    a, b = (mode.from_tensor(side.torch.empty(*shape)) for shape in ((8, 5), (5, 8)))
    return {
        "a": a, "b": b, "n": a.shape[0] * a.shape[1], "mm": side.torch.mm,
        "context": lambda: mode,
    }  # fmt: skip


def new_symbolic_pairs(side: Side) -> Space:
    """Such pairs, each in an environment of its own, so that every call is a first one."""

    def make(number: int) -> Iterator[tuple[object, object]]:
        pairs = [symbolic_pair(side) for _ in range(number)]
        return iter([(pair["a"], pair["b"]) for pair in pairs])

    return {"make": make, "mm": side.torch.mm}


def symbolic_sources(side: Side) -> Space:
    """Real tensors to convert, each a first time, their sizes to be symbols."""
    empty = side.torch.empty
    return {
        "from_tensor": side.fake_mode(shape_env=shape_env(side)).from_tensor,
        "make": lambda number: iter([empty(8, 5) for _ in range(number)]),
    }


def plain_sources(side: Side) -> Space:
    """Real tensors to convert, each a first time: a mode remembers what it converted."""
    empty = side.torch.empty
    return {
        "from_tensor": side.fake_mode().from_tensor,
        "make": lambda number: iter([empty(4, 4) for _ in range(number)]),
    }


def view_sources(side: Side) -> Space:
    """Views to convert, each on a base of its own."""
    empty = side.torch.empty
    return {
        "from_tensor": side.fake_mode().from_tensor,
        "make": lambda number: iter([empty(4, 4).t() for _ in range(number)]),
    }


def llama_forward(side: Side) -> Space:
    """Llama 70 B and one sequence, without gradients, in a fake mode."""
    mode = side.fake_mode()
    with mode:
        model = side.llama.Llama(side.llama.LlamaConfig.llama_70b())
        tokens, _ = side.llama.batch(1, 2_048)

    @contextlib.contextmanager
    def context() -> Iterator[None]:
        with mode, side.torch.no_grad():
            yield

    return {"model": model, "tokens": tokens, "mode": mode, "context": context}


def replayed(prepare: Callable[[Side], Space]) -> Callable[[Side], Space]:
    """The same in a mode that runs equal layers once; PyTorch's mode runs them all."""

    def prepared(side: Side) -> Space:
        space = prepare(side)
        if side.name != "maquette":
            return space
        inner, mode = space["context"], space["mode"]

        @contextlib.contextmanager
        def context() -> Iterator[None]:
            with mode.replaying(), inner():  # type: ignore[attr-defined,operator]  # as made
                yield

        return {**space, "context": context}

    return prepared


def llama_training(side: Side) -> Space:
    """Llama 70 B, a forward and a backward pass, in a fake mode."""
    mode = side.fake_mode()
    with mode:
        model = side.llama.Llama(side.llama.LlamaConfig.llama_70b())
        batch = side.llama.batch(1, 2_048)

    def forward_backward() -> None:
        model.zero_grad()
        model(*batch).loss.backward()

    return {"forward_backward": forward_backward, "mode": mode, "context": lambda: mode}


def real_pair(side: Side) -> Space:
    """Two real 4 x 4 tensors."""
    return {"a": side.torch.ones(4, 4), "b": side.torch.ones(4, 4)}


def custom_op(side: Side) -> Space:
    """A `custom_op` whose body returns a tensor that is there already: the call alone."""
    library, answer = side.torch.library, side.torch.ones(4, 4)
    op = library.custom_op(
        "bench::answer", lambda x: answer, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    return {"op": op, "x": side.torch.ones(4, 4)}


def library_impl(side: Side) -> Space:
    """Two operators that `Library` defines and implements in Python: an idle one, and an add."""
    library, answer = side.torch.library.Library("bench_impl", "FRAGMENT"), side.torch.ones(4, 4)
    library.define("answer(Tensor x) -> Tensor")
    library.impl("answer", lambda x: answer, "CPU")
    library.define("add(Tensor x, Tensor y) -> Tensor")
    library.impl("add", lambda x, y: x + y, "CPU")
    ops = side.torch.ops.bench_impl
    x = side.torch.ones(4, 4)
    return {"answer": ops.answer.default, "add": ops.add.default, "x": x, "keep": library}


def tracing(mode: str) -> Callable[[Side], Space]:
    """`make_fx` of a program of 100 operators on a 4 x 4 tensor."""

    def prepare(side: Side) -> Space:
        torch = side.torch
        home = importlib.import_module(
            "maquette.fx" if side.name == "maquette" else "torch.fx.experimental.proxy_tensor"
        )

        def program(x: object) -> object:
            for i in range(100):
                x = torch.add(x, 1) if i % 3 else (torch.sin(x) if i % 2 else x * x)
            return x

        return {"trace": home.make_fx(program, tracing_mode=mode), "x": torch.ones(4, 4)}

    return prepare


def functional_program(x: Any) -> object:
    """A hundred operators: half change tensors in place, a quarter of them through views."""
    x = x.clone()
    for _ in range(20):
        y = x * 2
        y.add_(1)
        x.view(16).mul_(y.view(16))
    return x


def functionalized(*, fake: bool) -> Callable[[Side], Space]:
    """`functionalize` of that program on a 4 x 4 tensor, real or fake."""

    def prepare(side: Side) -> Space:
        run = side.torch.func.functionalize(functional_program)
        if not fake:
            return {"run": run, "x": side.torch.ones(4, 4)}
        mode = side.fake_mode()
        with mode:
            return {"run": run, "x": side.torch.ones(4, 4), "context": lambda: mode}

    return prepare


def transforms(side: Side) -> Space:
    """Function transforms of one or two operators on 4 x 4 tensors."""
    torch = side.torch
    func = torch.func
    long = func.vmap(lambda x: [x := x + 1 for _ in range(100)][-1])
    return {
        "batched_add": func.vmap(torch.add),
        "gradient": func.grad(lambda x: (x * x).sum()),
        "jvp": lambda x, v: func.jvp(torch.sin, (x,), (v,)),
        "long": long,
        "a": torch.ones(4, 4),
        "b": torch.ones(4, 4),
    }


def control_flow(side: Side) -> Space:
    """`cond` and a `scan` of 200 steps on 4 x 4 tensors, and a `cond` with its backward."""
    torch = side.torch
    home = "maquette.higher_order" if side.name == "maquette" else "torch._higher_order_ops"
    scan = importlib.import_module(home).scan
    x, carry, rows = torch.randn(4, 4), torch.zeros(4, 4), torch.randn(200, 4, 4)
    wanted = torch.randn(4, 4, requires_grad=True)
    pred = torch.tensor(True)

    def sin(x: object) -> object:
        return torch.sin(x)

    def cos(x: object) -> object:
        return torch.cos(x)

    def step(carry: object, row: object) -> tuple[object, object]:
        new = torch.add(carry, row)
        return new, torch.sin(new)

    return {
        "choose": lambda: torch.cond(pred, sin, cos, (x,)),
        "differentiate": lambda: torch.cond(pred, sin, cos, (wanted,)).sum().backward(),
        "run": lambda: scan(step, carry, rows),
    }


ROWS = (
    Row("fake add, cpu", 50, "a + b", fake_pair("cpu")),
    Row("fake mm, cpu", 50, "mm(a, b)", fake_pair("cpu")),
    Row("fake view, cpu", 50, "a.view(16)", fake_pair("cpu")),
    Row("fake add, cuda", 50, "a + b", fake_pair("cuda")),
    Row("fake mm, cuda", 50, "mm(a, b)", fake_pair("cuda")),
    Row("fake view, cuda", 50, "a.view(16)", fake_pair("cuda")),
    Row("from_tensor, plain", 40, "from_tensor(next(t))", plain_sources, "t = make(number)"),
    Row("from_tensor, view", 50, "from_tensor(next(t))", view_sources, "t = make(number)"),
    Row("symbolic add, seen", 150, "a + a", symbolic_pair),
    Row("symbolic mm, seen", 150, "mm(a, b)", symbolic_pair),
    Row("symbolic reshape, seen", 150, "a.reshape(n)", symbolic_pair),
    Row("symbolic add, first", 20, "a, b = next(t); a + a", new_symbolic_pairs, "t = make(number)"),
    Row(
        "symbolic mm, first", 20, "a, b = next(t); mm(a, b)", new_symbolic_pairs, "t = make(number)"
    ),
    Row(
        "symbolic reshape, first",
        20,
        "a, b = next(t); a.reshape(-1)",
        new_symbolic_pairs,
        "t = make(number)",
    ),
    Row("from_tensor, symbolic", 5, "from_tensor(next(t))", symbolic_sources, "t = make(number)"),
    Row("make_fx real, 100 ops", 40, "trace(x)", tracing("real")),
    Row("make_fx fake, 100 ops", 40, "trace(x)", tracing("fake")),
    Row("make_fx symbolic, 100 ops", 40, "trace(x)", tracing("symbolic")),
    Row("functionalize, 100 ops", 1, "run(x)", functionalized(fake=False)),
    Row("functionalize fake, 100 ops", 10, "run(x)", functionalized(fake=True)),
    Row("Llama 70B fake forward", 50, "model(tokens)", llama_forward),
    Row("Llama 70B fake forward+backward", 50, "forward_backward()", llama_training),
    Row("the forward, layers replayed", 200, "model(tokens)", replayed(llama_forward)),
    Row("both, layers replayed", 200, "forward_backward()", replayed(llama_training)),
    Row("real add, 4x4", 1, "a + b", real_pair),
    Row("custom_op call", 4, "op(x)", custom_op),
    Row("Library.impl call", 2, "answer(x)", library_impl),
    Row("Library.impl call, its body an add", 2, "add(x, x)", library_impl),
    Row("vmap(add)", 5, "batched_add(a, b)", transforms),
    Row("vmap of 100 adds", 1, "long(a)", transforms),
    Row("grad(sum(x*x))", 5, "gradient(a)", transforms),
    Row("jvp(sin)", 2, "jvp(a, b)", transforms),
    Row("cond", 5, "choose()", control_flow),
    Row("cond, with its backward", 5, "differentiate()", control_flow),
    Row("scan of 200 steps", 5, "run()", control_flow),
)


# --- timing ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """A row's medians in seconds, their ratio (how many times faster maquette is), its goal."""

    name: str
    goal: float
    maquette_s: float | None = None
    pytorch_s: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """PyTorch's time over maquette's; None where a side is missing."""
        if self.maquette_s is None or self.pytorch_s is None:
            return None
        return self.pytorch_s / self.maquette_s


class Sampler:
    """One side of one row, ready to be timed again and again."""

    def __init__(self, row: Row, side: Side) -> None:
        space = row.prepare(side)
        context = space.pop("context", contextlib.nullcontext)
        assert callable(context)
        self.context: Callable[[], contextlib.AbstractContextManager[object]] = context
        self.space = space
        fresh = f"import gc; gc.enable(); {row.fresh}"  # timeit would switch it off
        self.timer = timeit.Timer(row.statement, fresh, globals=space)
        self.number = self._calibrate()

    def sample(self) -> float:
        """Seconds a statement, over one loop."""
        return self._run(self.number) / self.number

    def _run(self, number: int) -> float:
        self.space["number"] = number
        with self.context():
            return self.timer.timeit(number)

    def _calibrate(self) -> int:
        """Warm up, and find the count that fills a sample."""
        self._run(1)
        number = 1
        while (seconds := self._run(number)) < SAMPLE_SECONDS / 2:
            number *= 2
        return max(1, round(number * SAMPLE_SECONDS / seconds))


def measure(row: Row, maquette: Side, pytorch: Side | None, repeats: int) -> Result:
    """Time both sides in turns. A side that cannot run the row is told of, not hidden."""
    result = Result(row.name, row.goal)
    samplers: dict[str, Sampler] = {}
    for side in (pytorch, maquette):
        if side is None:
            continue
        try:
            samplers[side.name] = Sampler(row, side)
        except Exception as error:  # noqa: BLE001  # whatever a side raises becomes the row's note
            note = f"{side.name}: {type(error).__name__}: {str(error).partition(chr(10))[0][:80]}"
            result = replace(result, note=f"{result.note} {note}".strip())
    seconds: dict[str, list[float]] = {name: [] for name in samplers}
    # Two frameworks in one process: without this, each side's garbage collections would scan the
    # other's modules too. Collection itself stays on.
    gc.collect()
    gc.freeze()
    for _ in range(repeats):
        for name, sampler in samplers.items():
            seconds[name].append(sampler.sample())
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return replace(result, maquette_s=medians.get("maquette"), pytorch_s=medians.get("PyTorch"))


def import_seconds(modules: tuple[str, ...]) -> dict[str, float]:
    """Median seconds of importing each module in a new process, less an empty one's."""
    programs = {"": "pass"} | {module: f"import {module}" for module in modules}
    seconds: dict[str, list[float]] = {module: [] for module in programs}
    # As installed packages are: compiled once, not at every import.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for program in programs.values():
        subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    for _ in range(IMPORT_TURNS):
        for module, program in programs.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True, env=environment)
            seconds[module].append(time.perf_counter() - start)
    empty = statistics.median(seconds.pop(""))
    return {module: statistics.median(values) - empty for module, values in seconds.items()}


def measure_imports(*, alone: bool) -> list[Result]:
    """`import maquette` against `import numpy` (goal: at most twice as long) and PyTorch."""
    others = ("numpy",) if alone else ("numpy", "torch")
    seconds = import_seconds(("maquette", *others))
    goals = {"numpy": 0.5, "torch": 1.0}
    return [
        Result(f"import, against {other}", goals[other], seconds["maquette"], seconds[other])
        for other in others
    ]


# --- the report -----------------------------------------------------------------------


def show_seconds(seconds: float | None) -> str:
    """Three digits and the unit that suits: 1.23 us, 45.6 ms."""
    if seconds is None:
        return "-"
    for scale, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * scale < 1_000:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def show(result: Result) -> str:
    """One line of the table."""
    ratio, verdict = "-", ""
    if result.ratio is not None:
        ratio = f"{result.ratio:.1f}x"
        verdict = "ok" if result.ratio >= result.goal else "BELOW"
    times = f"{show_seconds(result.maquette_s):>10} {show_seconds(result.pytorch_s):>10}"
    line = f"{result.name:<36} {times} {ratio:>8} {result.goal:>6g}x  {verdict:<5} {result.note}"
    return line.rstrip()


def show_jax(python: str | None) -> None:
    """Lines that set fake tensors beside JAX's eval_shape, or say why there are none."""
    sys.path.insert(0, str(Path(__file__).parent))
    found = importlib.import_module("eval_shape").compared(python)
    if isinstance(found, str):
        print(found)
        return
    print(f"\n{'an operator of 100, each time anew':<36} {'maquette':>10} {'JAX':>10} {'ratio':>8}")
    for name, (ours, theirs) in found.items():
        times = f"{show_seconds(ours):>10} {show_seconds(theirs):>10}"
        print(f"{f'eval_shape, {name}':<36} {times} {theirs / ours:>7.1f}x")


def write_json(path: Path, results: list[Result]) -> None:
    """The table as JSON: a list of rows, times in seconds."""
    rows = [asdict(result) | {"ratio": result.ratio} for result in results]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="*", metavar="PATTERN", help="rows whose name has this")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the rows there as well")
    parser.add_argument("--self", action="store_true", dest="alone", help="maquette only")
    parser.add_argument("--repeats", type=int, default=5, help="samples a side and row")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a row is below its goal")
    parser.add_argument("--jax", metavar="PYTHON", help="a Python that has JAX, a second peer")
    return parser.parse_args()


def main() -> int:
    """Measure the rows asked for and print them as they come."""
    options = parse_arguments()
    pytorch = None if options.alone else pytorch_side()
    maquette = maquette_side()
    pattern = f"*{options.only}*".casefold()
    head = f"{'':<36} {'maquette':>10} {'PyTorch':>10} {'ratio':>8} {'goal':>7}"
    print(head, "-" * len(head), sep="\n")
    results: list[Result] = []
    for row in ROWS:
        if fnmatch.fnmatch(row.name.casefold(), pattern):
            results.append(measure(row, maquette, pytorch, options.repeats))
            print(show(results[-1]), flush=True)
    if fnmatch.fnmatch("import", pattern):
        imports = measure_imports(alone=options.alone)
        print(*map(show, imports), sep="\n")
        results += imports
    if fnmatch.fnmatch("eval_shape, jax", pattern):
        show_jax(options.jax)
    if options.json is not None:
        write_json(options.json, results)
    below = any(r.ratio is None or r.ratio < r.goal for r in results)
    return 1 if options.strict and below else 0


if __name__ == "__main__":
    sys.exit(main())
