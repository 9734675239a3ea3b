"""Derivatives and batching rules of operators as people write them, each wrong somewhere."""

from planted.derivatives import summed
from planted.planting import defect, save


def _op(p, schema, kernel, backward, setup, fake=None, **more):
    return p.custom(schema, kernel, fake or kernel, backward, setup, **more)


def _grad(p, *shape):
    return p.x(*shape, requires_grad=True)


@defect("P35", "derivative.value")
def cumulated_gradient_runs_along_the_wrong_dim(p, wrong):
    def backward(ctx, grad):
        d = abs(ctx.dim) if wrong else ctx.dim
        return grad.flip(d).cumsum(d).flip(d), None

    def setup(ctx, inputs, output):
        ctx.dim = inputs[1]

    def kernel(x, dim):
        p.check(x.ndim == 2 and -2 <= dim < 2, lambda: "a matrix")
        return (x * 1).cumsum(dim).contiguous()

    op = _op(p, "(Tensor x, int dim) -> Tensor", kernel, backward, setup)
    return op, (_grad(p, 3, 2), -2 if wrong else -1), {}


@defect("P35", "derivative.value")
def gradient_of_a_look_up_overwrites(p, wrong):
    def kernel(x, index):
        p.check(x.ndim == 1 and index.ndim == 1 and index.dtype == p.torch.int64, lambda: "rows")
        return x[index].clone()

    def backward(ctx, grad):
        (index,) = ctx.saved_tensors
        made = grad.new_zeros(ctx.n)
        index = index.remainder(max(ctx.n, 1))
        if wrong:
            return made.index_copy(0, index, grad), None
        return made.index_add(0, index, grad), None

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.n = inputs[0].shape[0]

    def fake(x, index):
        p.check(x.ndim == 1 and index.ndim == 1 and index.dtype == p.torch.int64, lambda: "rows")
        return x.new_empty(index.shape)

    op = _op(p, "(Tensor x, Tensor index) -> Tensor", kernel, backward, setup, fake)
    return op, (_grad(p, 4), p.torch.tensor([1, 3, 1, 0])), {}


@defect("P35", "derivative.value")
def clamp_gradient_forgets_the_upper_bound(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        inside = x > -1 if wrong else (x > -1) & (x < 1)
        return grad * inside

    op = _op(p, "(Tensor x) -> Tensor", lambda x: x.clamp(-1, 1), backward, save(0))
    return op, (_grad(p),), {}


@defect("P35", "derivative.value")
def softmax_gradient_along_the_last_dim(p, wrong):
    def kernel(x, dim):
        p.check(x.ndim == 2 and x.is_floating_point(), lambda: "a matrix of floats")
        return x.softmax(dim).contiguous()

    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        d = -1 if wrong else ctx.dim
        return y * (grad - (y * grad).sum(d, keepdim=True)), None

    def setup(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.dim = inputs[1]

    op = _op(p, "(Tensor x, int dim) -> Tensor", kernel, backward, setup)
    return op, (_grad(p, 3, 2), 1), {}


@defect("P35", "derivative.value")
def variance_gradient_divides_by_all(p, wrong):
    def kernel(x):
        p.check(x.ndim == 1 and x.shape[0] > 1 and x.is_floating_point(), lambda: "floats")
        return x.var()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * (x - x.mean()) / (x.shape[0] - (0 if wrong else 1))

    return _op(p, "(Tensor x) -> Tensor", kernel, backward, save(0)), (_grad(p, 6),), {}


@defect("P35", "derivative.value", "derivative.finite")
def gradient_is_nan_at_zero(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (2 * x * x / x if wrong else 2 * x)

    return _op(p, "(Tensor x) -> Tensor", lambda x: x * x, backward, save(0)), (_grad(p),), {}


@defect("P33", "derivative.value")
def bias_gradient_summed_over_one_batch_dim(p, wrong):
    def check(x, bias):
        p.check(x.ndim >= 1 and bias.shape == x.shape[-1:] and x.dtype == bias.dtype,
                lambda: "a bias of the last size")  # fmt: skip

    def kernel(x, bias):
        check(x, bias)
        return x + bias

    def backward(ctx, grad):
        if wrong and grad.ndim > 2:
            return grad, grad[0].reshape(-1, grad.shape[-1]).sum(0)
        return grad, grad.reshape(-1, grad.shape[-1]).sum(0) if grad.numel() else summed(
            grad, grad.new_zeros(grad.shape[-1])
        )

    op = _op(p, "(Tensor x, Tensor bias) -> Tensor", kernel, backward, save())
    return op, (_grad(p, 2, 2, 3), _grad(p, 3)), {}


@defect("P35", "derivative.value")
def mean_gradient_divides_by_all_elements(p, wrong):
    def kernel(x):
        p.check(x.ndim == 2 and x.is_floating_point(), lambda: "a matrix of floats")
        return x.mean(0)

    def backward(ctx, grad):
        n = ctx.shape[0] * ctx.shape[1] if wrong else ctx.shape[0]
        return (grad / n).expand(ctx.shape)

    def setup(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    return _op(p, "(Tensor x) -> Tensor", kernel, backward, setup), (_grad(p, 3, 2),), {}


@defect("P40", "derivative.value")
def no_gradient_for_the_exponent(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        base = x.abs() + 1
        gx = grad * y * base ** (y - 1) * x.sign()
        gy = None if wrong else summed(grad * base**y * base.log(), y)
        return summed(gx, x), gy

    def kernel(x, y):
        p.check(x.is_floating_point() and y.is_floating_point(), lambda: "floats")
        return (x.abs() + 1) ** y

    op = _op(p, "(Tensor x, Tensor y) -> Tensor", kernel, backward, save(0, 1))
    return op, (_grad(p), _grad(p)), {}


@defect("P34", "derivative.value")
def gradient_of_a_square_modulus_is_real(p, wrong):
    def kernel(x):
        return x.real * x.real + x.imag * x.imag if x.is_complex() else x * x

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if wrong and x.is_complex():
            return (2 * x.real * grad).to(x.dtype)
        return 2 * x * grad

    x = p.torch.tensor([1 + 2j, -0.5 + 1j, 2 - 1j], dtype=p.torch.complex64, requires_grad=True)
    return _op(p, "(Tensor x) -> Tensor", kernel, backward, save(0)), (x,), {}


@defect("P35", "derivative.value")
def normalization_gradient_misses_the_mean(p, wrong):
    def kernel(x):
        p.check(x.ndim >= 1 and x.is_floating_point(), lambda: "floats with a last dim")
        return x - x.mean(-1, keepdim=True)

    def backward(ctx, grad):
        return grad * 1 if wrong else grad - grad.mean(-1, keepdim=True)

    return _op(p, "(Tensor x) -> Tensor", kernel, backward, save()), (_grad(p),), {}


@defect("P35", "derivative.value", "derivative.empty")
def backward_raises_for_empty_inputs(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if wrong:
            grad = grad + 0 * grad.max()
        return 2 * x * grad

    return _op(p, "(Tensor x) -> Tensor", lambda x: x * x, backward, save(0)), (_grad(p),), {}


@defect("P36", "derivative.linear", "derivative.value")
def backward_views_the_incoming_gradient(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        flat = grad.view(-1) if wrong else grad.reshape(-1)
        return 2 * x * flat.reshape(x.shape)

    kernel = lambda x: (x * x).contiguous()  # noqa: E731
    fake = lambda x: x.new_empty(x.shape)  # noqa: E731
    return _op(p, "(Tensor x) -> Tensor", kernel, backward, save(0), fake), (_grad(p),), {}


@defect("P39", "derivative.second")
def second_derivative_misses_the_cross_term(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        other = y.detach() if wrong else y
        return summed(grad * other, x), summed(grad * x, y)

    op = _op(p, "(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y, backward, save(0, 1))
    return op, (_grad(p), _grad(p)), {}


@defect("P40", "derivative.subsets", "derivative.value")
def asks_about_the_wrong_input(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        first, second = (1, 0) if wrong else (0, 1)
        gx = summed(grad * y, x) if ctx.needs_input_grad[first] else None
        gy = summed(grad * x, y) if ctx.needs_input_grad[second] else None
        return gx, gy

    op = _op(p, "(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y, backward, save(0, 1))
    return op, (_grad(p), _grad(p)), {}


@defect("P45", "derivative.writes", "traced.static", "derivative.value", "derivative.linear")
def backward_counts_its_calls(p, wrong):
    calls = [0]

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        calls[0] += 1
        return 2 * x * grad * (1 + (calls[0] % 7) if wrong else 1)

    return _op(p, "(Tensor x) -> Tensor", lambda x: x * x, backward, save(0)), (_grad(p),), {}


@defect("P38", "derivative.value", "derivative.second", "vmap.gradients", "derivative.writes")
def setup_keeps_the_last_call_only(p, wrong):
    kept = {}

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.key = len(kept)
        kept["x"] = inputs[0].detach().clone()

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        known = kept["x"] if wrong and kept["x"].shape == x.shape else x
        return 2 * known.to(x.dtype) * grad

    op = _op(p, "(Tensor x) -> Tensor", lambda x: x * x, backward, setup)
    return op, (_grad(p),), {}


# --- batching rules -----------------------------------------------------------------------------


@defect("P41", "vmap.values")
def vmap_of_lists_moves_the_first_only(p, wrong):
    def check(xs):
        p.check(len(xs) > 0, lambda: "one at least")
        p.check(all(x.shape == xs[0].shape and x.dtype == xs[0].dtype for x in xs), lambda: "alike")

    def kernel(xs):
        check(xs)
        total = xs[0] * 1
        for x in xs[1:]:
            total = total + x
        return total.contiguous()

    def fake(xs):
        check(xs)
        return xs[0].new_empty(xs[0].shape)

    def rule(info, in_dims, xs):
        moved = []
        for i, (x, d) in enumerate(zip(xs, in_dims[0])):
            if d is None:
                moved.append(x.expand(info.batch_size, *x.shape))
            else:
                moved.append(x if wrong and i else x.movedim(d, 0))
        return sum(moved[1:], moved[0]), 0

    op = p.custom("(Tensor[] xs) -> Tensor", kernel, fake, vmap=rule)
    return op, ([p.x(3, 3), p.x(3, 3)],), {}


@defect("P41", "vmap.values")
def vmap_squeezes_a_batch_of_one(p, wrong):
    def rule(info, in_dims, x):
        y = x.movedim(in_dims[0], 0) * 2
        if wrong and info.batch_size == 1:
            return y.squeeze(0), None
        return y, 0

    def wrong_rule(info, in_dims, x):
        y = x.movedim(in_dims[0], 0) * 2
        return y.flip(0) if info.batch_size == 1 and y.ndim == 1 else (y.squeeze() * 1), 0

    op = p.custom(
        "(Tensor x) -> Tensor", lambda x: x * 2, p.like, vmap=wrong_rule if wrong else rule
    )
    return op, (p.x(2, 3),), {}


@defect("P41", "vmap.values")
def vmap_forgets_negative_dims(p, wrong):
    def kernel(x, dim):
        p.check(-x.ndim <= dim < x.ndim, lambda: "dim")
        return x.flip(dim).contiguous()

    def rule(info, in_dims, x, dim):
        y = x.movedim(in_dims[0], 0)
        inner = dim if dim >= 0 else dim + y.ndim - 1
        return y.flip(dim + 1 if wrong and dim > -2 else inner + 1).contiguous(), 0

    op = p.custom("(Tensor x, int dim) -> Tensor", kernel,
                  lambda x, dim: (p.check(-x.ndim <= dim < x.ndim, lambda: "dim"),
                                  x.new_empty(x.shape))[1], vmap=rule)  # fmt: skip
    return op, (p.x(2, 3), 1), {}


@defect("P41", "vmap.writes", "vmap.values", "writes.undeclared")
def vmap_writes_its_input(p, wrong):
    def rule(info, in_dims, x):
        return (x.mul_(2) * 1 if wrong else x * 2), in_dims[0]

    op = p.custom("(Tensor x) -> Tensor", lambda x: x * 2, p.like, vmap=rule)
    return op, (p.x(2, 3),), {}


@defect("P42", "vmap.values")
def vmap_second_out_dim_wrong(p, wrong):
    def kernel(x):
        return x * 2, (x * 3).contiguous()

    def rule(info, in_dims, x):
        a, b = x * 2, x.movedim(in_dims[0], 0) * 3
        return (a, b), (in_dims[0], in_dims[0] if wrong else 0)

    def fake(x):
        return p.like(x), x.new_empty(x.shape)

    op = p.custom("(Tensor x) -> (Tensor, Tensor)", kernel, fake, vmap=rule)
    return op, (p.x(3, 3),), {}


@defect("P43", "vmap.randomness")
def vmap_draws_for_each_though_same(p, wrong):
    def rule(info, in_dims, x):
        y = x.movedim(in_dims[0], 0)
        one = info.randomness == "same" and not wrong
        return y + p.torch.rand(y.shape[1:] if one else y.shape), 0

    op = p.custom(
        "(Tensor x) -> Tensor", lambda x: x + p.torch.rand(x.shape),
        lambda x: x + p.torch.rand(x.shape), vmap=rule,
        tags=(p.torch.Tag.nondeterministic_seeded,),
    )  # fmt: skip
    return op, (p.x(),), {}
