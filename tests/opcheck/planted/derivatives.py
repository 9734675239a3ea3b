"""Derivatives that stand at the wrong key, or are not derivatives."""

from planted.planting import defect, save


def _square(x):
    return x * x


def _dfdx(ctx, grad):
    (x,) = ctx.saved_tensors
    return 2 * x.conj() * grad


def op_of(p, backward, kernel=_square, setup=None, schema="(Tensor x) -> Tensor", fake=None):
    return p.custom(schema, kernel, fake or p.like, backward, setup or save(0))


def pair(p, backward, kernel=None, setup=None):
    """x * y with a formula."""
    return p.custom(
        "(Tensor x, Tensor y) -> Tensor", kernel or (lambda x, y: x * y), p.broadcast, backward,
        setup or save(0, 1),
    )  # fmt: skip


def summed(grad, like):
    """A gradient that is summed over what was broadcast."""
    while grad.ndim > like.ndim:
        grad = grad.sum(0)
    for d, n in enumerate(like.shape):
        if n == 1 and grad.shape[d] != 1:
            grad = grad.sum(d, keepdim=True)
    return grad


@defect("P29", "autograd.key")
def function_at_a_backend_key(p, wrong):
    Function = p.torch.autograd.Function

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    def kernel(x):
        return Square.apply(x) if wrong else (x.detach() * x.detach())

    x = p.x(requires_grad=True)
    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (x if wrong else x.detach(),), {}


@defect("P30", "autograd.key")
def differentiable_body_at_a_backend_key(p, wrong):
    key = "CPU" if wrong else "CompositeImplicitAutograd"
    fake = p.like if wrong else None
    op = p.plain("(Tensor x) -> Tensor", lambda x: x.sin() * 2, fake, key)
    return op, (p.x(requires_grad=True),), {}


@defect("P31", "derivative.value", "traced.static", "traced.dynamic")
def no_formula(p, wrong):
    backward = None if wrong else _dfdx
    x = p.x(requires_grad=True)
    return p.custom("(Tensor x) -> Tensor", _square, p.like, backward, save(0)), (x,), {}


@defect("P31", "derivative.value")
def no_formula_in_a_library(p, wrong):
    def kernel(x):
        y = x.detach() * 2
        return p.torch.tensor(y.numpy()) if wrong else y.contiguous()

    op = p.plain("(Tensor x) -> Tensor", kernel, lambda x: x.new_empty(x.shape))
    return op, (p.x(requires_grad=wrong),), {}


@defect("P32", "derivative.value", "traced.static")
def too_many_gradients(p, wrong):
    def backward(ctx, grad):
        g = _dfdx(ctx, grad)
        return (g, g) if wrong else g

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P33", "derivative.value")
def broadcast_gradient_not_summed(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gx, gy = grad * y, grad * x
        if wrong:  # the first row stands for all
            while gy.ndim > y.ndim:
                gy = gy[0]
            for d, n in enumerate(y.shape):
                gy = gy.narrow(d, 0, 1) if n == 1 and gy.shape[d] > 1 else gy
        return summed(gx, x), summed(gy, y)

    return pair(p, backward), (p.x(requires_grad=True), p.x(requires_grad=True)), {}


@defect("P33", "derivative.value")
def broadcast_gradient_averaged(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        total = grad.sum() if not wrong else grad.mean() if grad.numel() else grad.sum()
        return (total * p.torch.ones_like(x)) if x.ndim == 0 else grad * 1.0

    def kernel(x):
        return x.expand(4).clone() if x.ndim == 0 else x * 1.0

    return op_of(p, backward, kernel, fake=kernel), (p.x(requires_grad=True),), {}


@defect("P34", "derivative.dtype")
def gradient_in_float32(p, wrong):
    def backward(ctx, grad):
        g = _dfdx(ctx, grad)
        return g.float() if wrong and g.dtype == p.torch.float64 else g

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P34", "derivative.dtype")
def gradient_through_half(p, wrong):
    def backward(ctx, grad):
        g = grad * 2
        return g.half().to(g.dtype) if wrong else g

    return op_of(p, backward, lambda x: x * 2), (p.x(requires_grad=True),), {}


@defect("P34", "derivative.dtype", only="maquette")
def gradient_in_float64(p, wrong):
    def backward(ctx, grad):
        g = _dfdx(ctx, grad)
        return g.double() if wrong and not g.is_complex() else g

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P35", "derivative.value")
def wrong_factor(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (3 if wrong else 2) * x * grad

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P35", "derivative.value")
def wrong_sign_for_negative(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() if wrong else x) * 2

    x = p.torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    return op_of(p, backward), (x,), {}


@defect("P35", "derivative.value")
def missing_conj(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * (x if wrong else x.conj()) * grad

    x = p.torch.tensor([1 + 2j, 0.5 - 1j], requires_grad=True)
    return op_of(p, backward), (x,), {}


@defect("P35", "derivative.value")
def gradients_swapped(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gx, gy = grad * y.conj(), grad * x.conj()
        if wrong and x.shape == y.shape:
            gx, gy = gy, gx
        return summed(gx, x), summed(gy, y)

    return pair(p, backward), (p.x(requires_grad=True), p.x(requires_grad=True)), {}


@defect("P35", "derivative.value")
def wrong_for_transposed(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if wrong and not x.is_contiguous():
            x = x.as_strided(x.shape, x.contiguous().stride(), x.storage_offset())
        return 2 * x * grad

    return op_of(p, backward), (p.x(3, 3, requires_grad=True),), {}


@defect("P35", "derivative.value")
def forgets_the_number(p, wrong):
    def setup(ctx, inputs, output):
        ctx.n = inputs[1]

    def backward(ctx, grad):
        return grad * (3 if wrong else ctx.n), None

    op = op_of(p, backward, lambda x, n: x * n, setup, "(Tensor x, int n) -> Tensor",
               lambda x, n: x * n)  # fmt: skip
    return op, (p.x(requires_grad=True), 3), {}


@defect("P36", "derivative.value", "derivative.linear")
def gradient_ignores_the_incoming(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * (p.torch.ones_like(grad) if wrong else grad)

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P36", "derivative.value", "derivative.linear")
def gradient_uses_the_sum_of_the_incoming(p, wrong):
    def backward(ctx, grad):
        g = grad.mean() if wrong and grad.numel() else grad
        return 2 * g * p.torch.ones_like(grad)

    return op_of(p, backward, lambda x: x * 2), (p.x(requires_grad=True),), {}


@defect("P36", "derivative.value", "derivative.linear", "traced.static")
def undefined_gradient_ignored(p, wrong):
    def setup(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0])

    def backward(ctx, a, b):
        (x,) = ctx.saved_tensors
        if wrong:
            return None if a is None or b is None else a * 2 + b * 2 * x
        total = 0 * x
        if a is not None:
            total = total + a * 2
        if b is not None:
            total = total + b * 2 * x
        return total

    op = p.custom("(Tensor x) -> (Tensor, Tensor)", lambda x: (x * 2, x * x),
                  lambda x: (p.like(x), p.like(x)), backward, setup)  # fmt: skip
    return op, (p.x(requires_grad=True),), {}


@defect("P36", "derivative.value", "derivative.linear")
def expanded_gradient_misread(p, wrong):
    def backward(ctx, grad):
        if wrong and grad.numel() and grad.ndim and 0 in grad.stride():
            grad = grad / grad.shape[0]
        return grad * 2

    return op_of(p, backward, lambda x: x * 2), (p.x(requires_grad=True),), {}


@defect("P37", "derivative.writes", "derivative.value", "derivative.second")
def backward_writes_the_gradient(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        g = grad if wrong else grad.clone()
        return g.mul_(2) * x

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P37", "derivative.writes", "derivative.value")
def backward_writes_what_was_saved(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if not wrong:
            return x.clone() * 2 * grad
        return x.detach().mul_(2) * grad

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P38", "derivative.saved")
def tensor_kept_as_attribute(p, wrong):
    def setup(ctx, inputs, output):
        if wrong:
            ctx.x = inputs[0].detach()
        else:
            ctx.save_for_backward(inputs[0])

    def backward(ctx, grad):
        x = ctx.x if wrong else ctx.saved_tensors[0]
        return 2 * x.conj() * grad

    return op_of(p, backward, setup=setup), (p.x(requires_grad=True),), {}


@defect("P38", "derivative.saved")
def output_kept_as_attribute(p, wrong):
    def setup(ctx, inputs, output):
        if wrong:
            ctx.y = output.detach()
        else:
            ctx.save_for_backward(output)

    def backward(ctx, grad):
        y = ctx.y if wrong else ctx.saved_tensors[0]
        return grad * y

    return (
        op_of(p, backward, lambda x: x.exp(), setup, fake=lambda x: x.exp()),
        (p.x(requires_grad=True),),
        {},
    )


@defect("P39", "derivative.second")
def second_derivative_zero(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * (x.detach() if wrong else x) * grad

    return op_of(p, backward), (p.x(requires_grad=True),), {}


@defect("P39", "derivative.second")
def second_derivative_without_grad_mode(p, wrong):
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if wrong:
            with p.torch.no_grad():
                return 3 * x * x * grad
        return 3 * x * x * grad

    return op_of(p, backward, lambda x: x * x * x), (p.x(requires_grad=True),), {}


@defect("P39", "derivative.second")
def second_derivative_wrong(p, wrong):
    inner = p.custom(
        "(Tensor x, Tensor g) -> Tensor", lambda x, g: 3 * x * x * g, p.broadcast,
        lambda ctx, grad: (
            (5 if wrong else 6) * ctx.saved_tensors[0] * ctx.saved_tensors[1] * grad,
            3 * ctx.saved_tensors[0] ** 2 * grad,
        ),
        save(0, 1), name="inner",
    )  # fmt: skip

    def backward(ctx, grad):
        return inner(ctx.saved_tensors[0], grad)

    return op_of(p, backward, lambda x: x * x * x), (p.x(requires_grad=True),), {}


@defect("P40", "derivative.subsets", "derivative.value")
def loses_a_gradient_for_one_subset(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        gx = gy = None
        if ctx.needs_input_grad[0]:
            gx = summed(grad * y, x)
        if ctx.needs_input_grad[1] and not (wrong and not ctx.needs_input_grad[0]):
            gy = summed(grad * x, y)
        return gx, gy

    return pair(p, backward), (p.x(requires_grad=True), p.x(requires_grad=True)), {}


@defect("P40", "derivative.subsets")
def doubles_a_gradient_for_one_subset(p, wrong):
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        factor = 2 if wrong and not ctx.needs_input_grad[1] else 1
        return summed(grad * y, x) * factor, summed(grad * x, y)

    return pair(p, backward), (p.x(requires_grad=True), p.x(requires_grad=True)), {}


@defect("P35", "derivative.value")
def gradient_of_a_list_member_forgotten(p, wrong):
    def setup(ctx, inputs, output):
        ctx.count = len(inputs[0])

    def backward(ctx, grad):
        grads = [grad * (i + 1) for i in range(ctx.count)]
        if wrong and ctx.count > 1:
            grads[-1] = grads[-1] * 0
        return grads

    def kernel(xs):
        p.check(len(xs) > 0, lambda: "a tensor is needed")
        p.check(all(x.shape == xs[0].shape for x in xs), lambda: "one shape is needed")
        total = xs[0] * 1
        for i, x in enumerate(xs[1:]):
            total = total + x * (i + 2)
        return total

    op = op_of(p, backward, kernel, setup, "(Tensor[] xs) -> Tensor", kernel)
    return op, ([p.x(requires_grad=True), p.x(requires_grad=True)],), {}


@defect("P35", "derivative.value")
def gradient_of_an_optional_forgotten(p, wrong):
    def setup(ctx, inputs, output):
        ctx.there = inputs[1] is not None
        ctx.save_for_backward(*[t for t in inputs if t is not None])

    def backward(ctx, grad):
        x, *rest = ctx.saved_tensors
        gx = grad * rest[0] if rest and not wrong else grad * 1
        return summed(gx, x), (summed(grad * x, rest[0]) if rest else None)

    def kernel(x, w=None):
        return x * 1 if w is None else x * w

    op = op_of(p, backward, kernel, setup, "(Tensor x, Tensor? w=None) -> Tensor", kernel)
    return op, (p.x(requires_grad=True), p.x(requires_grad=True)), {}
