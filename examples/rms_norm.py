"""An operator of your own, as two pages: RMS normalization, fused, and its backward.

An operator's page holds all that is known of it: schema, shape rule, kernel, derivative, cost.
Nothing here is privileged: these are the calls that maquette's own operators are written with. In
return `rms_norm` runs on data, is differentiated, runs fake on devices that are not there,
and is planned like a built-in operator.

    python examples/rms_norm.py
"""

import maquette as mq
from maquette import Tensor, TensorMeta
from maquette.library import Cost
from maquette.library import define_page as define

# --- forward: out = input * rstd * weight, with rstd = 1 / sqrt(mean(input ** 2) + eps) -----------

rms_norm = define(
    "example::rms_norm(Tensor input, Tensor weight, float eps=1e-06) -> (Tensor, Tensor)"
)


@rms_norm.shape
def rms_norm_shape(
    input: TensorMeta, weight: TensorMeta, eps: float
) -> tuple[TensorMeta, TensorMeta]:
    """Metas in, metas out, and every check: data, meta and fake tensors are refused alike."""
    if not (input.ndim > 0 and weight.shape == input.shape[-1:] and weight.dtype is input.dtype):
        raise RuntimeError(
            f"rms_norm: expected a weight of the input's last dimension and dtype; got input "
            f"{input} and weight {weight}"
        )
    return input.fresh(input.shape), input.fresh((*input.shape[:-1], 1), dtype=statistics(input))


def statistics(input: TensorMeta) -> mq.dtype:
    """The dtype of the sums: a bfloat16 sum of ones sticks at 256."""
    return mq.float64 if input.dtype is mq.float64 else mq.float32


@rms_norm.kernel
def rms_norm_kernel(xp, input, weight, eps):
    """Arrays of the namespace `xp` in, arrays out: knows nothing of tensors."""
    x = input.astype(xp.float64 if input.dtype == xp.float64 else xp.float32)
    rstd = 1 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + eps)
    return (x * rstd * weight).astype(input.dtype), rstd


@rms_norm.derivative("input", "weight")
def rms_norm_grad(grad: Tensor, input: Tensor, weight: Tensor, result1: Tensor) -> object:
    """A formula saves what its parameters name: here input, weight and rstd, but not the output."""
    return rms_norm_backward(grad, input, weight, result1)


rms_norm.nondifferentiable(1)


@rms_norm.cost
def rms_norm_cost(input: TensorMeta, *others: object) -> Cost:
    """Bytes default to every operand once, which is what a fused kernel moves."""
    return Cost(flops=4 * input.numel)


# --- backward: fused too, so that no intermediate is ever in memory -------------------------------

rms_norm_backward = define(
    "example::rms_norm_backward(Tensor grad, Tensor input, Tensor weight, Tensor rstd) "
    "-> (Tensor, Tensor)"
)


@rms_norm_backward.shape
def rms_norm_backward_shape(
    grad: TensorMeta, input: TensorMeta, weight: TensorMeta, rstd: TensorMeta
) -> tuple[TensorMeta, TensorMeta]:
    if grad.shape != input.shape:
        raise RuntimeError(
            f"rms_norm_backward: expected a gradient like the input {input}; got {grad}"
        )
    return input.fresh(input.shape), weight.fresh(weight.shape)


@rms_norm_backward.kernel
def rms_norm_backward_kernel(xp, grad, input, weight, rstd):
    normal = input.astype(rstd.dtype) * rstd
    wide = grad.astype(rstd.dtype)
    to_normal = wide * weight
    shared = xp.mean(to_normal * normal, axis=-1, keepdims=True)
    to_weight = xp.sum(wide * normal, axis=tuple(range(grad.ndim - 1)))
    return (to_normal - normal * shared) * rstd, to_weight


@rms_norm_backward.cost
def rms_norm_backward_cost(grad: TensorMeta, *others: object) -> Cost:
    return Cost(flops=9 * grad.numel)


# --- using it -------------------------------------------------------------------------------------


class Block(mq.nn.Module):
    """A module that uses the operator: normalize, then project."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight = mq.nn.Parameter(mq.ones(width))
        self.projection = mq.nn.Parameter(mq.empty(width, hidden))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight)[0] @ self.projection


def run_on_data() -> None:
    """Forward and backward with numbers, against the same written with plain operators."""
    width = 8
    x = (mq.arange(4 * width, dtype=mq.float32).view(4, width) - 10).requires_grad_()
    weight = mq.ones(width).requires_grad_()
    out, _ = rms_norm(x, weight)
    start = mq.arange(4 * width, dtype=mq.float32).view(4, width)
    fused = mq.autograd.grad(out, (x, weight), start)
    plain_out = x / (x * x).mean(-1, True).add(1e-6).sqrt() * weight
    plain = mq.autograd.grad(plain_out, (x, weight), start)
    for name, a, b in zip(
        ("output", "gradient of input", "gradient of weight"),
        (out, *fused),
        (plain_out, *plain),
    ):
        worst = (a - b).abs().max().item()
        print(f"  {name:18} {tuple(a.shape)!s:8} differs from the plain one by {worst:.1e}")


def run_in_outline() -> None:
    """Forward and backward on a cuda device that need not exist, in bfloat16, without data."""
    with mq.FakeTensorMode():
        options = {"dtype": mq.bfloat16, "device": "cuda"}
        x = mq.empty(8, 4096, 8192, **options).requires_grad_()
        weight = mq.empty(8192, **options).requires_grad_()
        out, rstd = rms_norm(x, weight)
        out.sum().backward()
    for name, t in {"out": out, "rstd": rstd, "x.grad": x.grad, "weight.grad": weight.grad}.items():
        print(f"  {name:12} {t.dtype} {tuple(t.shape)} on {t.device}: {t.nbytes / 2**20:.2f} MiB")


def plan_it() -> None:
    """What the planner says of a training step: the operator is on its list, with its own cost."""
    with mq.FakeTensorMode():
        model = Block(8192, 1024)
        x = mq.empty(8, 4096, 8192)
    made = mq.plan.plan(model, (x,), train=True, loss=lambda out: out.sum(), device="cuda")
    print(f"  peak {made.peak_bytes / 2**30:.2f} GiB, {made.flops / 1e12:.2f} TFLOP; of these:")
    for operation in made.operators:
        if operation.name.startswith("example"):
            print(f"  {operation.name:35} {operation.phase:8} {operation.flops / 1e9:.2f} GFLOP")


def refuse() -> None:
    """The same words for data and for fake tensors: the shape rule is the one place for checks."""
    messages = []
    for mode in (mq.no_grad(), mq.FakeTensorMode()):
        with mode:
            try:
                rms_norm(mq.ones(2, 8), mq.ones(7))
            except RuntimeError as error:
                messages.append(str(error))
    print(f"  {messages[0]}\n  the same in fake mode: {messages[0] == messages[1]}")


def main() -> None:
    """Run every part."""
    print("On data:")
    run_on_data()
    print("In fake mode:")
    run_in_outline()
    print("Planned:")
    plan_it()
    print("Refused:")
    refuse()


if __name__ == "__main__":
    main()
