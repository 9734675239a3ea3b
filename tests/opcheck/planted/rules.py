"""Batching rules and costs."""

from planted.planting import defect


def _weighted(p, rule):
    """x * w + x with a batching rule."""
    return p.custom("(Tensor x, Tensor w) -> Tensor", lambda x, w: x * w + x,
                    lambda x, w: x * w + x, vmap=rule)  # fmt: skip


def _right(x, w, in_dims, p):
    a, b = in_dims
    size = x.shape[a] if a is not None else w.shape[b]
    x = x.movedim(a, 0) if a is not None else x.expand(size, *x.shape)
    w = w.movedim(b, 0) if b is not None else w.expand(size, *w.shape)
    most = max(x.ndim, w.ndim)
    x = x.reshape(size, *[1] * (most - x.ndim), *x.shape[1:])
    w = w.reshape(size, *[1] * (most - w.ndim), *w.shape[1:])
    return x * w + x, 0


@defect("P41", "vmap.values")
def vmap_wrong_for_none(p, wrong):
    def rule(info, in_dims, x, w):
        if wrong and in_dims[1] is None:
            return x.movedim(in_dims[0], 0) * 2, 0
        return _right(x, w, in_dims, p)

    return _weighted(p, rule), (p.x(), p.x()), {}


@defect("P41", "vmap.values")
def vmap_assumes_dim_zero(p, wrong):
    def rule(info, in_dims, x):
        return x.cumsum(1 if wrong else (0 if in_dims[0] else 1)), in_dims[0]

    def right(info, in_dims, x):
        y = x.movedim(in_dims[0], 0)
        if y.ndim == 1:
            return y * 1, 0
        return y.cumsum(1), 0

    def kernel(x):
        return x.cumsum(0) if x.ndim else x * 1

    def wrong_rule(info, in_dims, x):
        return (x.cumsum(1) if x.ndim > 1 else x * 1), 0

    op = p.custom("(Tensor x) -> Tensor", kernel, kernel, vmap=wrong_rule if wrong else right)
    return op, (p.x(3, 3),), {}


@defect("P41", "vmap.values")
def vmap_wrong_for_last_dim(p, wrong):
    def rule(info, in_dims, x, w):
        a, b = in_dims
        if wrong and a is not None and a == x.ndim - 1 and a > 0:
            a = 0
            x = x.movedim(x.ndim - 1, 0).flip(0)
            return _right(x, w, (0, b), p)
        return _right(x, w, in_dims, p)

    return _weighted(p, rule), (p.x(), p.x()), {}


@defect("P41", "vmap.values")
def vmap_rule_raises_for_none(p, wrong):
    def rule(info, in_dims, x, w):
        if wrong and None in in_dims:
            return x.movedim(in_dims[0], 0) * w + x, in_dims[0] + 0
        return _right(x, w, in_dims, p)

    return _weighted(p, rule), (p.x(), p.x()), {}


@defect("P42", "vmap.values")
def vmap_out_dims_wrong(p, wrong):
    def rule(info, in_dims, x):
        return x * 2, (0 if wrong else in_dims[0])

    op = p.custom("(Tensor x) -> Tensor", lambda x: x * 2, p.like, vmap=rule)
    return op, (p.x(3, 3),), {}


@defect("P42", "vmap.values")
def vmap_out_dims_none(p, wrong):
    def rule(info, in_dims, x):
        y = x.movedim(in_dims[0], 0) * 2
        return (y[0], None) if wrong and y.shape[0] else (y, 0)

    op = p.custom("(Tensor x) -> Tensor", lambda x: x * 2, p.like, vmap=rule)
    return op, (p.x(),), {}


@defect("P43", "vmap.randomness")
def vmap_one_draw_for_all(p, wrong):
    def rule(info, in_dims, x):
        y = x.movedim(in_dims[0], 0)
        shape = y.shape[1:] if wrong or info.randomness == "same" else y.shape
        return y + p.torch.rand(shape), 0

    op = p.custom(
        "(Tensor x) -> Tensor", lambda x: x + p.torch.rand(x.shape),
        lambda x: x + p.torch.rand(x.shape), vmap=rule,
        tags=(p.torch.Tag.nondeterministic_seeded,),
    )  # fmt: skip
    return op, (p.x(),), {}


def _with_cost(p, cost):
    op = p.plain("(Tensor x) -> Tensor", lambda x: x * 2, lambda x: p.like(x))
    p.library.register_cost(op, cost, lib=p._libraries[-1])
    return op


@defect("P47", "cost.number", only="maquette")
def cost_negative(p, wrong):
    def cost(x, out):
        return p.library.Cost(flops=out.numel - (7 if wrong else 0))

    return _with_cost(p, cost), (p.x(3, 3),), {}


@defect("P47", "cost.monotone", only="maquette")
def cost_falls_with_size(p, wrong):
    def cost(x, out):
        return p.library.Cost(flops=1000 // (out.numel + 1) if wrong else out.numel)

    return _with_cost(p, cost), (p.x(),), {}


@defect("LX15", "cost.bytes written", only="maquette")
def cost_writes_too_little(p, wrong):
    def cost(x, out):
        return p.library.Cost(flops=out.numel, bytes_written=out.numel * (1 if wrong else 8))

    return _with_cost(p, cost), (p.x(),), {}


@defect("LX15", "cost.number", only="maquette")
def cost_reads_data(p, wrong):
    def cost(x, out):
        return p.library.Cost(flops=int(x.sum()) if wrong else x.numel)

    return _with_cost(p, cost), (p.x(),), {}
