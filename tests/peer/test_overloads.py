"""Overloads of aten: which there are, and that forms with outputs do what PyTorch's do.

Forms that no program calls by a function (`OpOverload.seldom`) are called on PyTorch's recorded
calls of their operators, and those of lists of tensors on lists made by their schemas. Each is
called with an empty output, one that has the result's layout turned round, one of another shape
and one of another dtype; on meta tensors too.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections import defaultdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import all_overloads
from maquette.dispatch.tags import Tag

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

ROOT = Path(__file__).resolve().parents[2]
CALLS_EACH = 2


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = _loaded(ROOT / "conformance" / "check.py")
OVERLOADS = _loaded(ROOT / "tools" / "overloads.py")
PEER, OURS = CHECK.TorchBackend(), CHECK.Backend("maquette")

# Where the answers differ, and why. PyTorch's kernels write some results to an output as if it
# were contiguous, or give it other strides than it has: ours keep to the output's layout.
MISWRITTEN = (
    "_upsample_bilinear2d_aa adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool3d "
    "adaptive_max_pool3d_backward avg_pool3d_backward col2im fractional_max_pool2d "
    "fractional_max_pool2d_backward fractional_max_pool3d fractional_max_pool3d_backward im2col "
    "max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d max_unpool3d "
    "reflection_pad2d reflection_pad2d_backward reflection_pad3d replication_pad2d "
    "replication_pad2d_backward replication_pad3d replication_pad3d_backward upsample_bicubic2d "
    "upsample_bicubic2d_backward upsample_trilinear3d slow_conv_dilated2d"
).split()
KNOWN = {
    **{(name, "turned"): "PyTorch writes as if the output were contiguous" for name in MISWRITTEN},
    ("im2col", "dtype"): "PyTorch converts what it copies row by row",
    ("replication_pad2d_backward", "dtype"): "PyTorch looks at no dtype where nothing is written",
    ("log_sigmoid_backward", "dtype"): "PyTorch casts empty results",
    ("tril_indices", "dtype"): "positions are written to outputs of any dtype",
    ("triu_indices", "dtype"): "positions are written to outputs of any dtype",
    ("randn_like", "dtype"): "draws into integers are refused, as for normal_",
}


def test_every_overload_is_here_or_left_out_for_a_reason() -> None:
    ours = OVERLOADS.here()
    unsaid = [n for n in OVERLOADS.jit_schemas() if n not in ours and not OVERLOADS.reason(n)]
    assert unsaid == []


def test_schemas_are_PyTorchs() -> None:
    ours = OVERLOADS.here()
    differing = [
        name
        for name, schema in OVERLOADS.jit_schemas().items()
        if name in ours and ours[name].seldom and str(ours[name]._schema) != str(schema)
    ]
    # PyTorch's own schemas of this family do not say that the steps are mutated.
    assert [n for n in differing if not n.startswith("_fused_adagrad.tensor_lr")] == []


# --- the calls ---------------------------------------------------------------------------------


def _forms() -> dict[str, list[OpOverload]]:
    """The forms with outputs that are looked into, by the name of their operator's overload."""
    found = defaultdict(list)
    for op in all_overloads():
        link = op.functional_link
        if op.namespace == "aten" and op.seldom and link is not None:
            found[f"aten.{link._opname}.{link._overloadname}"].append(op)
    return found


FORMS = _forms()


def _recorded() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for _, case in CHECK.read(ROOT / "conformance" / "aten_public.jsonl.gz"):
        name = case.get("op")
        if name in FORMS and len(found[name]) < CALLS_EACH:
            found[name].append(case)
    return found


CASES = _recorded()
OF_LISTS = [f for fs in FORMS.values() for f in fs if f._opname.startswith("_foreach")]


def _outs(b: Any, form: OpOverload, result: Any, variant: str) -> dict[str, Any]:
    names = [a.name for a in form._schema.arguments if a.is_out]
    results = result if isinstance(result, (tuple, list)) else (result,)
    made = [_out(b.module, r, variant) for r in results]
    return {names[0]: made} if not form._schema.returns else dict(zip(names, made, strict=True))


def _out(module: Any, result: Any, variant: str) -> Any:
    kind = result.dtype
    if variant == "dtype":
        kind = module.float64 if kind is not module.float64 else module.int64
    if variant == "turned" and result.dim():
        made = module.empty(tuple(result.shape)[::-1], dtype=kind, device=result.device)
        return made.permute(*reversed(range(result.dim())))
    size = (2, 5) if variant == "shape" else (0,)
    return module.empty(size, dtype=kind, device=result.device)


def _answer(b: Any, form: OpOverload, args: Any, kwargs: Any, outs: Any) -> tuple[Any, ...]:
    """What became of the outputs, or the class of the error."""
    op = b.operator(f"aten.{form._opname}.{form._overloadname}")
    taken = {a.name for a in form._schema.arguments}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = op(*args, **{k: v for k, v in kwargs.items() if k in taken}, **outs)
        except Exception as error:
            return (type(error).__name__,)
    flat = [x for out in outs.values() for x in (out if isinstance(out, list) else [out])]
    given = result if isinstance(result, tuple) else (result,)
    same = result is None or all(x is y for x, y in zip(given, flat, strict=True))
    return same, [(tuple(x.shape), x.stride(), str(x.dtype)[-8:]) for x in flat], flat


def _compared(form: OpOverload, peer: tuple[Any, ...], ours: tuple[Any, ...]) -> None:
    assert ours[:2] == peer[:2]
    drawn = Tag.nondeterministic_seeded in form.tags or "empty" in form._opname
    if len(peer) == 1 or drawn or ours[2][0].device.type == "meta":
        return
    for x, y in zip(peer[2], ours[2], strict=True):
        expected, found = PEER.array(x), OURS.array(y)
        loose = 2e-2 if expected.dtype.itemsize < 4 else 1e-4
        found, expected = found.astype(np.complex128), expected.astype(np.complex128)
        finite = np.abs(expected[np.isfinite(expected)])
        largest = max(1.0, float(finite.max())) if finite.size else 1.0
        np.testing.assert_allclose(found, expected, loose, loose * largest)


def _run(form: OpOverload, variant: str, calls: dict[Any, tuple[Any, Any]]) -> None:
    """Compare a call, given for both sides by positional and keyword arguments."""
    link = form.functional_link
    assert link is not None
    answers = []
    for b, (args, kwargs) in calls.items():
        functional = b.operator(f"aten.{link._opname}.{link._overloadname}")
        result = CHECK.quietly(functional, *args, **kwargs)
        answers.append(_answer(b, form, args, kwargs, _outs(b, form, result, variant)))
    _compared(form, *answers)


def _lacks_a_result(recorded: Any) -> bool:
    """Whether one of several results is None, as of a gradient that is not asked for."""
    parts = recorded["v"] if isinstance(recorded, dict) and "v" in recorded else recorded
    return isinstance(parts, list) and None in parts


@pytest.mark.parametrize("variant", ["empty", "turned", "shape", "dtype"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_forms_on_recorded_calls(name: str, variant: str) -> None:
    if (name.split(".")[1], variant) in KNOWN:
        pytest.skip(KNOWN[name.split(".")[1], variant])
    for form in FORMS[name]:
        for case in CASES[name]:
            if _lacks_a_result(case["out"]):
                continue  # there is no dtype that an output could have
            given = {b: CHECK.Arguments(b, case) for b in (PEER, OURS)}
            _run(form, variant, {b: (a.args, a.kwargs) for b, a in given.items()})


def _made(module: Any, kind: str, name: str) -> Any:
    values = {
        "Tensor[]": lambda: [module.ones(2, 3) * 0.5, module.arange(4.0) * 0.25],
        "Tensor": lambda: module.tensor([2.0, 0.5]) if name == "scalars" else module.tensor(2.0),
        "Scalar[]": lambda: [2.0, 0.5],
        "Scalar": lambda: 2.0,
    }
    return values[kind]()


@pytest.mark.parametrize("variant", ["empty", "turned", "shape", "dtype"])
@pytest.mark.parametrize("form", OF_LISTS, ids=str)
def test_forms_of_lists(form: OpOverload, variant: str) -> None:
    link = form.functional_link
    assert link is not None
    needed = [a for a in link._schema.arguments if not a.has_default_value()]
    calls = {
        b: ([_made(b.module, a.type.written, a.name) for a in needed], {}) for b in (PEER, OURS)
    }
    _run(form, variant, calls)


# --- what no recorded call reaches ------------------------------------------------------------

LINES = """
A.__and__(i, i)|A.__or__.Scalar(i, 3)|A.__xor__(i, 1)|A.__lshift__(i, 2)|A.__rshift__.Tensor(i, i)
A.__ilshift__.Scalar(i.clone(), 1)|A.__iand__.Tensor(i.clone(), i)|A.__lshift__.Scalar(x, 1)
A.__lshift__.Tensor_out(i, i, out=T.empty(0, dtype=T.int64))|A.floor_divide.Scalar(x, 2)
A._scaled_mm(f, f.t(), s, s)|A._scaled_mm(f, f.t(), s, s, None, None, T.float32)
A._scaled_mm(f, f.t(), T.ones(16, 1), T.ones(1, 16), T.ones(16), None, T.bfloat16)
A.mm.dtype(m, m, T.float32)|A.bmm.dtype(m[None], m[None], T.bfloat16)|A.mm.dtype(m, m, T.float64)
A.addmm.dtype(m, m, m, T.float32)|T.mm(m, m, out_dtype=T.float32)
A.pad_sequence([x, x[:1]], True, 9.0, "left")|A.flatten_dense_tensors([x, x[:1]])
A.unflatten_dense_tensors(T.arange(9.0), [x, x[:1]])|A._pad_enum(x[None], [1, 1], 0)
A._pad_enum(x[None], [1, 1], 2)|A._pad_circular(x[None], [1, 1])|A.trace_backward(s, [2, 3])
A.masked_select_backward(T.ones(2), x, x > 3)|A._dim_arange(x, 1)|A._logcumsumexp(x, 1)
A.cummaxmin_backward(x, x, i[:3].expand(2, 3) * 0, 1)|A._saturate_weight_to_fp16(x * 1e6)
A.embedding_backward(T.ones(2, 3), i[:2], 4, -1, False, False)|A._linalg_eigvals(T.eye(2))
A.infinitely_differentiable_gelu_backward(x, x)|A._compute_linear_combination(x, T.eye(2))
A.glu_jvp(F.glu(x[0, :2], 0), x[0, :2], T.ones(2), 0)|A._reshape_from_tensor(x, i[2:] )
A.glu_backward_jvp(A.glu_backward(s[None], x[0, :2], 0), s[None], x[0, :2], s[None], x[1, :2], 0)
A._cholesky_solve_helper(T.ones(2, 1), T.eye(2) * 2, False)|A._reshape_copy(x, [3, 2])
A._slow_conv2d_forward(x[None, None], T.ones(1, 1, 2, 2), [2, 2], None, [1, 1], [0, 0])
A._convolution_mode(x[None], T.ones(2, 2, 1), None, [1], "same", [1], 1)|A._stack([x, x], 1)
A._debug_has_internal_overlap(x)|A._debug_has_internal_overlap(x.expand(2, 2, 3))
A._debug_has_internal_overlap(T.as_strided(x, (2, 2), (1, 1)))|A.get_device(x)|A.is_pinned(x)
A._functional_assert_scalar(1, "m", s)|A._rowwise_prune(x, T.tensor([True, False]), T.int64)
A.crow_indices_copy(x.to_sparse_csr())|A.col_indices_copy(x.to_sparse_csr())
A._coalesced(x.to_sparse(), True).is_coalesced()|A.mean.dtype_out(x, out=T.empty(0))
A.range.out_(0, 3, out=T.empty(0))|A.special_logsumexp.out(x, [0], out=T.empty(0))
A.linalg_matmul.out(x, x.t(), out=T.empty(0))|A.nll_loss.out(x, i[:2], out=T.empty(0))
A.slogdet.out(T.eye(3), sign=T.empty(0), logabsdet=T.empty(0))
A.rrelu_with_noise.out(x, T.ones(2, 3), out=T.empty(0))|A.is_set_to(x, x)|A._is_zerotensor(x)
F.interpolate(x[None, None], size=(3, 5), mode="lanczos", antialias=True)
A.relu.out(x, out=T.empty(2, 3, device="meta"))|A.relu.out(x, out=T.empty(3).expand(2, 3))
A.relu.out(x, out=T.empty(2, 3).requires_grad_())|A._foreach_abs.out([x, x], out=[T.empty(0)])
"""
REFUSED_THERE = ("A.mm.dtype(m", "A.bmm.dtype", "A.addmm.dtype", "T.mm(m")  # on cpu


def _evaluated(T: Any, line: str, device: str = "cpu") -> object:
    names = {
        "T": T,
        "A": T.ops.aten,
        "F": T.nn.functional,
        "x": T.arange(6.0, device=device).reshape(2, 3),
        "i": T.arange(4, device=device),
        "s": T.tensor(2.0, device=device),
        "m": T.ones(2, 2, dtype=T.bfloat16, device=device),
        "f": T.ones(16, 16, device=device).to(T.float8_e4m3fn),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(line.strip(), names)
        except Exception as error:
            return type(error).__name__
    flat = result if isinstance(result, (tuple, list)) else [result]
    return [
        (str(r.dtype)[-8:], tuple(r.shape), r.tolist() if device == "cpu" else None)
        if hasattr(r, "tolist")
        else r
        for r in flat
    ]


def _close(a: object, b: object) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return bool(np.isclose(a, b, 1e-4, 1e-5, equal_nan=True))
    return a == b


@pytest.mark.parametrize("line", "|".join(LINES.strip().splitlines()).split("|"))
def test_other_overloads_give_PyTorchs_answers(line: str) -> None:
    import maquette.torch as mt

    device = "meta" if line.startswith(REFUSED_THERE) else "cpu"
    ours, theirs = _evaluated(mt, line, device), _evaluated(torch, line, device)
    assert _close(ours, theirs), (ours, theirs)


def test_forms_run_on_fakes() -> None:
    with mq.FakeTensorMode():
        x, out = mq.ones(2, 3), mq.empty(0)
        assert mq.ops.aten.relu.out(x, out=out) is out
    assert tuple(out.shape) == (2, 3)
