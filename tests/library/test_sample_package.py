"""The package of examples/ops: public names only, lessons that run, operators that work."""

import ast
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import maquette as mq
from maquette.cli.main import main
from maquette.fx import make_fx
from maquette.symbolic import ShapeEnv

ROOT = pathlib.Path(__file__).parents[2] / "examples" / "ops"
LESSONS = sorted((ROOT / "lessons").glob("*.md"))
PUBLIC = {"maquette", "maquette.library", "maquette.testing", "numpy", "sample_ops", "pytest"}


@pytest.fixture(scope="module")
def ops():
    sys.path.insert(0, str(ROOT))
    try:
        import sample_ops  # its folder is on the path only now

        yield sample_ops
    finally:
        sys.path.remove(str(ROOT))


def test_it_imports_public_names_only():
    for file in [*ROOT.glob("sample_ops/*.py"), ROOT / "test_sample_ops.py"]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert {a.name for a in node.names} <= PUBLIC
            elif isinstance(node, ast.ImportFrom) and node.module != "sample_ops":
                assert str(node.module).partition(".")[0] == "sample_ops" or node.module in PUBLIC
                assert not any(a.name.startswith("_") for a in node.names if node.module in PUBLIC)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_prints_what_it_says(lesson, ops, capsys):
    code = "\n".join(re.findall(r"```python\n(.*?)```", lesson.read_text("utf-8"), re.DOTALL))
    mq.manual_seed(0)
    exec(compile(code, str(lesson), "exec"), {})
    said = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said


@pytest.mark.parametrize(
    "name", ["rms_norm", "nucleus", "kv_append", "lookup", "sharded_embedding"]
)
def test_check_finds_nothing(name, ops, capsys):
    options = ["--max-inputs", "8", "--deadline", "0.4", "--quiet"]
    assert main(["check", f"sample_ops:{name}", *options]) == 0, capsys.readouterr().out


def test_the_kernel_in_c_is_that_in_numpy(tmp_path, ops):
    compiler = shutil.which("cc")
    if compiler is None or not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("no C compiler, or no headers of Python")
    made = tmp_path / f"_rms_norm{sysconfig.get_config_var('EXT_SUFFIX')}"
    source = ROOT / "sample_ops" / "_rms_norm.c"
    command = [compiler, "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"]
    subprocess.run([*command, str(source), "-o", str(made), "-lm"], check=True)
    spec = importlib.util.spec_from_file_location("_rms_norm", made)
    compiled = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compiled)
    numpy_rows = sys.modules["sample_ops.rms_norm"].rows_in_numpy
    for dtype in (np.float32, np.float64):
        x, w = np.random.default_rng(0).normal(size=(5, 7)).astype(dtype), np.arange(7, dtype=dtype)
        a, b = (np.empty_like(x), np.empty(5, dtype)), (np.empty_like(x), np.empty(5, dtype))
        compiled.rms_norm(x, w, *a, 1e-5)
        numpy_rows(x, w, *b, 1e-5)
        assert all(np.allclose(p, q, 1e-6) for p, q in zip(a, b))


def test_it_works_under_every_transform(ops):
    x, w = mq.randn(4, 3, 8), mq.rand(8)
    norm = lambda x, w: ops.rms_norm(x, w, 1e-5)[0]  # noqa: E731
    loop = mq.stack([norm(t, w) for t in x])
    assert mq.allclose(mq.func.vmap(norm, (0, None))(x, w), loop)
    each = mq.func.vmap(mq.func.grad(lambda t: (norm(t, w) ** 2).sum()))(x)
    assert mq.allclose(each[1], mq.func.grad(lambda t: (norm(t, w) ** 2).sum())(x[1]), 1e-4)
    symbolic = mq.FakeTensorMode(shape_env=ShapeEnv()).from_tensor(x)
    assert norm(symbolic, symbolic[0, 0]).shape == symbolic.shape
    traced = make_fx(norm, tracing_mode="symbolic")(x, w)
    assert mq.allclose(traced(x[:2], w), norm(x[:2], w))
