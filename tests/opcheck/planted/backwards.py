"""Formulas that are right at first sight: layouts, sizes, devices, the second derivative."""

from planted.planting import defect, save


def _square(p, backward, **more):
    return p.custom("(Tensor x) -> Tensor", lambda x: x * x, lambda x: x * x, backward,
                    save(0), **more)  # fmt: skip


@defect("P39", "derivative.second")
def backward_detaches_the_incoming_gradient(p, wrong):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return (g.detach() if wrong else g) * 2 * x

    return _square(p, backward), (p.x(requires_grad=True),), {}


@defect("P39", "derivative.second")
def backward_of_a_linear_operator_is_detached(p, wrong):
    def backward(ctx, g):
        return (g.detach() if wrong else g) * 3

    op = p.custom("(Tensor x) -> Tensor", lambda x: x * 3, p.like, backward)
    return op, (p.x(requires_grad=True),), {}


@defect("P39", "derivative.second")
def second_derivative_misses_the_saved_result(p, wrong):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (y.detach() if wrong else x.exp())

    op = p.custom("(Tensor x) -> Tensor", lambda x: x.exp(), lambda x: x.exp(), backward,
                  setup)  # fmt: skip
    return op, (p.x(requires_grad=True),), {}


@defect("P35", "derivative.value")
def gradient_lost_where_not_contiguous(p, wrong):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return None if wrong and not x.is_contiguous() else g * 2 * x

    return _square(p, backward), (p.x(requires_grad=True),), {}


@defect("P35", "derivative.value")
def gradient_of_whole_blocks_only(p, wrong):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        made = (g * 2 * x).reshape(-1)
        if wrong:
            whole = made.numel() // 2 * 2
            made = p.torch.cat([made[:whole], made[whole:] * 0])
        return made.reshape(x.shape)

    return _square(p, backward), (p.x(2, 2, requires_grad=True),), {}


@defect("P35", "derivative.value")
def gradient_lost_where_both_are_one(p, wrong):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.same = inputs[0] is inputs[1]

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        if wrong and ctx.same:
            return g * y, None
        return g * y, g * x

    def kernel(x, y):
        p.check(x.shape == y.shape and x.dtype == y.dtype, lambda: "alike")
        return x * y

    op = p.custom("(Tensor x, Tensor y) -> Tensor", kernel, kernel, backward, setup)
    return op, (p.x(requires_grad=True), p.x(requires_grad=True)), {}


@defect("P35", "derivative.value")
def gradient_wrong_for_size_one(p, wrong):
    def kernel(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        return x - x.mean(1, keepdim=True)

    def checked(x):
        p.check(x.is_floating_point() or x.is_complex(), lambda: "floats")
        return kernel(x)

    def backward(ctx, g):
        if wrong and g.shape[1] == 1:
            return g
        return g - g.mean(1, keepdim=True)

    op = p.custom("(Tensor x) -> Tensor", checked, checked, backward)
    return op, (p.x(2, 3, requires_grad=True),), {}


@defect("P32", "derivative.value", "traced.static", "traced.dynamic")
def gradient_stands_at_the_place_of_an_index(p, wrong):
    def check(x, index):
        p.check(index.dtype == p.torch.int64 and index.ndim == 0, lambda: "a 0-d index")
        p.check(x.ndim == 1 and x.shape[0] > 0, lambda: "a row")

    def kernel(index, x):
        check(x, index)
        return x[int(index) % x.shape[0]].clone()

    def fake(index, x):
        check(x, index)
        return x.new_empty(())

    def setup(ctx, inputs, output):
        ctx.n, ctx.index = inputs[1].shape[0], inputs[0]

    def backward(ctx, g):
        one = p.torch.arange(ctx.n) == ctx.index % ctx.n
        found = one.to(g.dtype) * g
        return (found, None) if wrong else (None, found)

    op = p.custom("(Tensor index, Tensor x) -> Tensor", kernel, fake, backward, setup)
    return op, (p.torch.tensor(1), p.x(4, requires_grad=True)), {}


@defect("P36", "derivative.linear", "derivative.value")
def gradient_is_read_by_memory(p, wrong):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if wrong and g.numel() and not g.is_contiguous() and 0 not in g.stride():
            g = g.as_strided(g.shape, p.torch.empty(g.shape).stride(), g.storage_offset())
        return g * 2 * x

    return _square(p, backward), (p.x(2, 3, requires_grad=True),), {}


@defect("P19", "derivative.device")
def gradient_is_brought_to_cpu(p, wrong):
    def setup(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    def backward(ctx, g):
        where = "cpu" if wrong else g.device
        return (g * 2).to(where)

    op = p.custom("(Tensor x) -> Tensor", lambda x: x * 2, p.like, backward, setup)
    return op, (p.x(requires_grad=True),), {}


@defect("P23", "symbolic.backward", "traced.dynamic")
def backward_fixes_a_size(p, wrong):
    def setup(ctx, inputs, output):
        ctx.n = int(inputs[0].shape[0]) if wrong else inputs[0].shape[0]

    def backward(ctx, g):
        return g.reshape(1, 1).expand(ctx.n, 1).reshape(ctx.n)

    def kernel(x):
        p.check(x.ndim == 1 and x.is_floating_point(), lambda: "a row")
        return x.sum()

    op = p.custom("(Tensor x) -> Tensor", kernel, kernel, backward, setup)
    return op, (p.x(5, requires_grad=True),), {}


@defect("P22", "symbolic.backward", "traced.static", "traced.dynamic")
def backward_asks_for_a_value(p, wrong):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if wrong and bool((x * x).sum() < 0):
            return g * 0
        return g * 2 * x

    return _square(p, backward), (p.x(requires_grad=True),), {}


@defect("P35", "derivative.value")
def gradient_of_a_maximum_goes_to_the_first(p, wrong):
    def kernel(x):
        p.check(x.ndim == 1 and x.shape[0] > 0, lambda: "a row")
        p.check(x.is_floating_point(), lambda: "floats")
        return x.max() * 1

    def fake(x):
        p.check(x.ndim == 1 and x.shape[0] > 0, lambda: "a row")
        p.check(x.is_floating_point(), lambda: "floats")
        return x.new_empty(())

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        at = 0 if wrong else x.argmax()
        return (p.torch.arange(x.shape[0]) == at).to(g.dtype) * g

    op = p.custom("(Tensor x) -> Tensor", kernel, fake, backward, save(0))
    return op, (p.x(5, requires_grad=True),), {}


@defect("P33", "derivative.value")
def gradient_summed_over_the_wrong_size(p, wrong):
    def kernel(x, bias):
        p.check(x.ndim == 2 and bias.ndim == 1 and x.shape[1] == bias.shape[0], lambda: "a bias")
        p.check(x.dtype == bias.dtype, lambda: "dtypes")
        return x + bias

    def backward(ctx, g):
        square = g.shape[0] == g.shape[1]
        return g, g.sum(1 if wrong and square else 0)

    op = p.custom("(Tensor x, Tensor bias) -> Tensor", kernel, kernel, backward)
    return op, (p.x(2, 3, requires_grad=True), p.x(3, requires_grad=True)), {}


@defect("P35", "derivative.tangent", only="maquette")
def tangent_forgets_the_second_factor(p, wrong):
    def kernel(x, y):
        return x * y

    op = p.plain("(Tensor x, Tensor y) -> Tensor", kernel, kernel)
    lib = p._libraries[-1]
    p.library.register_derivative(
        op, lib=lib, x=lambda grad, y: grad * y.conj(), y=lambda grad, x: grad * x.conj()
    )

    def tangent(x_t, y_t, x, y):
        return x_t * y if wrong else x_t * y + x * y_t

    p.library.register_tangent(op, tangent, lib=lib)
    return op, (p.x(requires_grad=True), p.x(requires_grad=True)), {}


@defect("P35", "derivative.tangent", only="maquette")
def tangent_is_not_of_the_result(p, wrong):
    op = p.plain("(Tensor x) -> Tensor", lambda x: x.exp(), lambda x: x.exp())
    lib = p._libraries[-1]
    p.library.register_derivative(op, lib=lib, x=lambda grad, result: grad * result.conj())
    right = lambda x_t, result: x_t * result  # noqa: E731
    slipped = lambda x_t, x: x_t * x  # noqa: E731
    p.library.register_tangent(op, slipped if wrong else right, lib=lib)
    return op, (p.x(requires_grad=True),), {}


@defect("P34", "derivative.dtype", "derivative.value")
def gradient_of_a_mixed_pair_has_the_wrong_precision(p, wrong):
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        dx = g * y.conj()
        return (dx.to(p.torch.float16).to(g.dtype) if wrong and x.ndim > y.ndim else dx), None

    def kernel(x, y):
        p.check(y.ndim <= x.ndim and y.numel() == 1, lambda: "a factor")
        return x * y.reshape(())

    op = p.custom("(Tensor x, Tensor y) -> Tensor", kernel, kernel,
                  lambda ctx, g: (backward(ctx, g)[0], _factor(ctx, g)), save(0, 1))  # fmt: skip
    return op, (p.x(2, 3, requires_grad=True), p.x(1)), {}


def _factor(ctx, g):
    x, y = ctx.saved_tensors
    return (g * x.conj()).sum().reshape(y.shape)
