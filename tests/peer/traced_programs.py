"""Small programs whose graphs are compared with PyTorch's: run by either library, as ``torch``.

Each is a function of the library and float64 tensors; `operators` traces it by `make_fx` and gives
the operators in order. Programs whose name ends in ``grad`` are traced with their backward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[..., Any]
V, M, B, I = (4,), (4, 4), (2, 3, 4), (2, 4, 8, 8)  # noqa: E741  # vector, matrix, batch, image


def _gradient(function: Program) -> Program:
    def joint(torch: Any, *inputs: Any) -> Any:
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = function(torch, *leaves)
        loss = out if out.ndim == 0 else (out * out).sum()
        return torch.autograd.grad(loss, leaves)

    return joint


def _elementwise() -> dict[str, tuple[Program, tuple[Any, ...]]]:
    names = """
        abs neg exp log1p sin cos tanh sigmoid relu sqrt rsqrt square reciprocal floor erf sign
        expm1 log2 atan sinh asinh lgamma digamma isnan isinf isfinite logical_not deg2rad frac
        trunc round nan_to_num positive
    """.split()
    found: dict[str, tuple[Program, tuple[Any, ...]]] = {}
    for name in names:
        found[name] = (lambda torch, x, _n=name: getattr(torch, _n)(x), (M,))
    for name in "add sub mul div pow maximum atan2 fmod eq lt xlogy".split():
        found[name] = (lambda torch, x, y, _n=name: getattr(torch, _n)(x, y), (M, M))
    return found


def _functional() -> dict[str, tuple[Program, tuple[Any, ...]]]:
    F = lambda torch: torch.nn.functional  # noqa: E731
    found: dict[str, tuple[Program, tuple[Any, ...]]] = {
        "linear": (lambda t, x, w, b: F(t).linear(x, w, b), (M, M, V)),
        "linear 3d": (lambda t, x, w, b: F(t).linear(x, w, b), (B, M, V)),
        "layer_norm": (lambda t, x, w, b: F(t).layer_norm(x, [4], w, b), (B, V, V)),
        "group_norm": (lambda t, x, w: F(t).group_norm(x, 2, w, w), (I, V)),
        "batch_norm": (lambda t, x, w: F(t).batch_norm(x, w, w.abs(), w, w), (I, V)),
        "batch_norm train": (
            lambda t, x, w: F(t).batch_norm(x, None, None, w, w, training=True), (I, V)),
        "instance_norm": (lambda t, x: F(t).instance_norm(x), (I,)),
        "rms_norm": (lambda t, x, w: F(t).rms_norm(x, [4], w), (B, V)),
        "conv2d": (lambda t, x, w, b: F(t).conv2d(x, w, b), (I, (4, 4, 3, 3), V)),
        "conv_transpose2d": (lambda t, x, w: F(t).conv_transpose2d(x, w), (I, (4, 4, 3, 3))),
        "max_pool2d": (lambda t, x: F(t).max_pool2d(x, 2), (I,)),
        "avg_pool2d": (lambda t, x: F(t).avg_pool2d(x, 2), (I,)),
        "adaptive_avg_pool2d": (lambda t, x: F(t).adaptive_avg_pool2d(x, 2), (I,)),
        "interpolate": (lambda t, x: F(t).interpolate(x, scale_factor=2), (I,)),
        "pad": (lambda t, x: F(t).pad(x, (1, 1)), (B,)),
        "pad reflect": (lambda t, x: F(t).pad(x, (1, 1), mode="reflect"), (B,)),
        "softmax": (lambda t, x: F(t).softmax(x, -1), (B,)),
        "log_softmax": (lambda t, x: F(t).log_softmax(x, -1), (B,)),
        "gelu": (lambda t, x: F(t).gelu(x), (B,)),
        "silu": (lambda t, x: F(t).silu(x), (B,)),
        "leaky_relu": (lambda t, x: F(t).leaky_relu(x), (B,)),
        "elu": (lambda t, x: F(t).elu(x), (B,)),
        "softplus": (lambda t, x: F(t).softplus(x), (B,)),
        "hardswish": (lambda t, x: F(t).hardswish(x), (B,)),
        "glu": (lambda t, x: F(t).glu(x), (B,)),
        "normalize": (lambda t, x: F(t).normalize(x), (M,)),
        "mse_loss": (lambda t, x, y: F(t).mse_loss(x, y), (M, M)),
        "l1_loss": (lambda t, x, y: F(t).l1_loss(x, y), (M, M)),
        "smooth_l1_loss": (lambda t, x, y: F(t).smooth_l1_loss(x, y), (M, M)),
        "huber_loss": (lambda t, x, y: F(t).huber_loss(x, y), (M, M)),
        "cross_entropy": (
            lambda t, x: F(t).cross_entropy(x, t.tensor([0, 1, 2, 3])), (M,)),
        "bce_with_logits": (
            lambda t, x, y: F(t).binary_cross_entropy_with_logits(x, y), (M, M)),
        "kl_div": (lambda t, x, y: F(t).kl_div(x, y, reduction="batchmean"), (M, M)),
        "cosine_similarity": (lambda t, x, y: F(t).cosine_similarity(x, y), (M, M)),
        "embedding": (lambda t, w: F(t).embedding(t.tensor([0, 2, 1]), w), (M,)),
        "dropout eval": (lambda t, x: F(t).dropout(x, 0.5, training=False), (M,)),
    }  # fmt: skip
    return found


def _others() -> dict[str, tuple[Program, tuple[Any, ...]]]:
    def mutated(t: Any, x: Any) -> Any:
        y = x.clone()
        y[0].add_(1)
        y.view(-1)[2:4].mul_(2)
        return y

    return {
        "sum": (lambda t, x: x.sum(), (M,)),
        "sum dim": (lambda t, x: x.sum(-1, keepdim=True), (M,)),
        "mean": (lambda t, x: x.mean(0), (M,)),
        "var": (lambda t, x: x.var(1), (M,)),
        "std": (lambda t, x: x.std(), (M,)),
        "prod": (lambda t, x: x.prod(1), (M,)),
        "amax": (lambda t, x: x.amax(1), (M,)),
        "max dim": (lambda t, x: x.max(1).values, (M,)),
        "argmax": (lambda t, x: x.argmax(1), (M,)),
        "cumsum": (lambda t, x: x.cumsum(0), (M,)),
        "logsumexp": (lambda t, x: x.logsumexp(1), (M,)),
        "norm": (lambda t, x: x.norm(), (M,)),
        "all": (lambda t, x: (x > 0).all(), (M,)),
        "topk": (lambda t, x: x.topk(2).values, (M,)),
        "sort": (lambda t, x: x.sort(0).values, (M,)),
        "view": (lambda t, x: x.view(2, 8), (M,)),
        "reshape": (lambda t, x: x.t().reshape(-1), (M,)),
        "transpose": (lambda t, x: x.transpose(0, 2), (B,)),
        "permute": (lambda t, x: x.permute(2, 0, 1).contiguous(), (B,)),
        "squeeze": (lambda t, x: x.unsqueeze(0).squeeze(0), (M,)),
        "expand": (lambda t, x: x.expand(3, 4), (V,)),
        "chunk": (lambda t, x: x.chunk(2)[1] + 1, (M,)),
        "split": (lambda t, x: t.cat(x.split(1, 1)[::-1], 1), (B,)),
        "stack": (lambda t, x, y: t.stack([x, y]), (M, M)),
        "flatten": (lambda t, x: x.flatten(1), (B,)),
        "repeat": (lambda t, x: x.repeat(2, 1), (M,)),
        "roll": (lambda t, x: x.roll(1, 0), (M,)),
        "flip": (lambda t, x: x.flip(0), (M,)),
        "tril": (lambda t, x: x.tril(), (M,)),
        "diagonal": (lambda t, x: x.diagonal() * 2, (M,)),
        "item index": (lambda t, x: x[1, :2], (M,)),
        "list index": (lambda t, x: x[[0, 2]], (M,)),
        "step index": (lambda t, x: x[::2, None], (M,)),
        "mask fill": (lambda t, x: x.masked_fill(x > 0, 0.0), (M,)),
        "where": (lambda t, x, y: t.where(x > y, x, y), (M, M)),
        "gather": (lambda t, x: x.gather(1, t.zeros(4, 1, dtype=t.int64)), (M,)),
        "index_select": (lambda t, x: x.index_select(0, t.tensor([1, 0])), (M,)),
        "set item": (lambda t, x: x.clone().__setitem__(0, 1.0), (M,)),
        "mutated": (mutated, (M,)),
        "clamp_": (lambda t, x: x.clone().clamp_(min=0), (M,)),
        "mm": (lambda t, x, y: x @ y, (M, M)),
        "mv": (lambda t, x, y: x @ y, (M, V)),
        "dot": (lambda t, x, y: x @ y, (V, V)),
        "bmm": (lambda t, x, y: x @ y.transpose(1, 2), (B, B)),
        "matmul 3d 2d": (lambda t, x, y: x @ y, (B, M)),
        "addmm": (lambda t, x, y: t.addmm(x, x, y), (M, M)),
        "einsum": (lambda t, x, y: t.einsum("ij,kj->ik", x, y), (M, M)),
        "outer": (lambda t, x, y: t.outer(x, y), (V, V)),
        "inv": (lambda t, x: t.linalg.inv(x), (M,)),
        "to float32": (lambda t, x: x.to(t.float32).to(t.float64), (M,)),
        "type promotion": (lambda t, x: x + t.arange(4), (M,)),
        "scalars": (lambda t, x: 2 - x / 3 + x**2, (M,)),
        "factories": (lambda t, x: t.zeros(4) + t.ones_like(x) + t.full((4,), 2.0), (M,)),
        "new": (lambda t, x: x.new_zeros(2) + x.new_ones(2), (M,)),
        "arange": (lambda t, x: t.arange(4) * 2, (M,)),
        "functionalized": (lambda t, x: t.func.functionalize(lambda v: mutated(t, v))(x), (M,)),
        "vmap": (lambda t, x: t.func.vmap(lambda row: row * row.sum())(x), (M,)),
        "func grad": (lambda t, x: t.func.grad(lambda v: (v * v).sum())(x), (M,)),
        "attention": (
            lambda t, q: (q @ q.transpose(1, 2) / 2).softmax(-1) @ q, (B,)),
    }  # fmt: skip


def programs() -> dict[str, tuple[Program, tuple[Any, ...]]]:
    """All programs by name, each with the shapes of its inputs."""
    found = {**_elementwise(), **_functional(), **_others()}
    differentiable = """
        linear layer_norm conv2d softmax gelu mse_loss cross_entropy embedding sum mean amax view
        permute gather where mm einsum attention tanh mul pow silu group_norm max_pool2d cumsum
    """.split()
    grads = {f"{n} grad": (_gradient(found[n][0]), found[n][1]) for n in differentiable}
    return {**found, **grads}


def inputs(torch: Any, shapes: tuple[Any, ...]) -> list[Any]:
    """Positive float64 tensors of these shapes, always the same."""
    made = []
    for k, shape in enumerate(shapes):
        count = 1
        for n in shape:
            count *= n
        values = [((7 * i + 3 * k) % 11 + 1) / 8 for i in range(count)]
        made.append(torch.tensor(values, dtype=torch.float64).view(shape))
    return made


def operators(torch: Any, make_fx: Any, name: str, mode: str = "fake") -> list[str]:
    """The operators that `make_fx` records of a program, in order; or why it records none."""
    program, shapes = programs()[name]
    given = inputs(torch, shapes)
    try:
        graph = make_fx(lambda *x: program(torch, *x), tracing_mode=mode)(*given).graph
    except Exception as error:  # it is compared, too
        return [f"refused: {type(error).__name__}"]
    return [str(n.target) for n in graph.nodes if n.op == "call_function"]
