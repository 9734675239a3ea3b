"""Batching rules, twins and costs of operators as people write them."""

from planted.planting import defect


def _front(x, d):
    return x if d is None else x.movedim(d, 0)


@defect("P41", "vmap.gradients")
def vmap_rule_detaches(p, wrong):
    def rule(info, in_dims, x):
        y = _front(x, in_dims[0])
        return (y.detach() if wrong else y) * 2, 0

    op = p.custom("(Tensor x) -> Tensor", lambda x: x * 2, p.like, lambda ctx, g: g * 2, vmap=rule)
    return op, (p.x(requires_grad=True),), {}


@defect("P41", "vmap.values")
def vmap_rule_gives_another_dtype(p, wrong):
    def kernel(x):
        return (x > 0) if not x.is_complex() else x.real > 0

    def rule(info, in_dims, x):
        y = kernel(_front(x, in_dims[0]))
        return (y.to(p.torch.int64) if wrong else y), 0

    op = p.custom("(Tensor x) -> Tensor", kernel, kernel, vmap=rule)
    return op, (p.x(),), {}


@defect("P41", "vmap.values")
def vmap_rule_is_right_for_one_number_only(p, wrong):
    def kernel(x, dim):
        p.check(x.ndim > 0 and -x.ndim <= dim < x.ndim, lambda: "dim")
        return x.cumsum(dim)

    def rule(info, in_dims, x, dim):
        y = _front(x, in_dims[0])
        at = dim + 1 if dim >= 0 or wrong else dim + y.ndim
        return y.cumsum(at), 0

    op = p.custom("(Tensor x, int dim) -> Tensor", kernel, kernel, vmap=rule)
    return op, (p.x(2, 3), 1), {}


@defect("P41", "vmap.values", "functionalize.values")
def vmap_of_a_write_is_lost(p, wrong):
    def rule(info, in_dims, x, y):
        a, b = in_dims
        target = x if not wrong else x.clone()
        moved = _front(target, a)
        add = _front(y, b) if b is not None else y.unsqueeze(0).expand(moved.shape)
        moved.add_(add)
        return None, None

    def kernel(x, y):
        p.check(x.shape == y.shape and x.dtype == y.dtype, lambda: "alike")
        x.add_(y)

    op = p.custom("(Tensor(a!) x, Tensor y) -> ()", kernel, lambda x, y: None, vmap=rule,
                  writes={"x"})  # fmt: skip
    return op, (p.x(), p.x()), {}


@defect("P42", "vmap.values")
def vmap_out_dims_are_those_of_the_input(p, wrong):
    def kernel(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        return x.t().clone(memory_format=p.torch.contiguous_format)

    def rule(info, in_dims, x):
        y = x.movedim(in_dims[0], 0).transpose(1, 2)
        if wrong:
            return y, in_dims[0]
        return y.contiguous(), 0

    op = p.custom("(Tensor x) -> Tensor", kernel, kernel, vmap=rule)
    return op, (p.x(3, 3),), {}


@defect("P41", "vmap.values")
def vmap_takes_the_batch_size_from_the_first(p, wrong):
    def kernel(x, y):
        p.check(x.ndim == y.ndim == 1 and x.dtype == y.dtype, lambda: "rows")
        return p.torch.cat([x, y])

    def rule(info, in_dims, x, y):
        a, b = in_dims
        x, y = _front(x, a), _front(y, b)
        size = x.shape[0] if wrong else info.batch_size
        if a is None:
            x = x.unsqueeze(0).expand(size, x.shape[0])
        if b is None:
            y = y.unsqueeze(0).expand(size, y.shape[0])
        return p.torch.cat([x, y], 1), 0

    op = p.custom("(Tensor x, Tensor y) -> Tensor", kernel, kernel, vmap=rule)
    return op, (p.x(3), p.x(3)), {}


@defect("P43", "vmap.randomness")
def vmap_draws_by_members_though_same(p, wrong):
    def kernel(x):
        return x + p.torch.rand(x.shape).to(x.dtype)

    def rule(info, in_dims, x):
        y = _front(x, in_dims[0])
        shape = y.shape if wrong or info.randomness == "different" else y.shape[1:]
        return y + p.torch.rand(shape).to(y.dtype), 0

    op = p.custom("(Tensor x) -> Tensor", kernel, kernel, vmap=rule,
                  tags=(p.torch.Tag.nondeterministic_seeded,))  # fmt: skip
    return op, (p.x(3, 3),), {}


@defect("P", "twins.in place", "twins.functional")
def twin_differs_for_negative_numbers(p, wrong):
    def function(x, n):
        return x * n

    def in_place(x, n):
        x.mul_(abs(n) if wrong else n)
        return x

    lib = p.library.Library(p.ns, "FRAGMENT")
    p._libraries.append(lib)
    lib.define("scaled(Tensor x, int n) -> Tensor")
    lib.impl("scaled", function, "CPU")
    p.library.register_fake(f"{p.ns}::scaled", function, lib=lib)
    lib.define("scaled_(Tensor(a!) x, int n) -> Tensor(a!)")
    lib.impl("scaled_", in_place, "CPU")
    p.library.register_fake(f"{p.ns}::scaled_", lambda x, n: x, lib=lib)
    return getattr(p.torch.ops, p.ns).scaled_.default, (p.x(), 2), {}


@defect("P", "twins.functional", "writes.out read")
def out_twin_keeps_old_elements(p, wrong):
    def function(x):
        return x.clamp(min=0) if not x.is_complex() else x * 1

    def out_form(x, *, out):
        y = function(x)
        out.resize_(y.shape)
        if wrong and not x.is_complex():
            out.copy_(p.torch.where(y > 0, y, out.to(y.dtype)))
        else:
            out.copy_(y)
        return out

    lib = p.library.Library(p.ns, "FRAGMENT")
    p._libraries.append(lib)
    lib.define("cut(Tensor x) -> Tensor")
    lib.impl("cut", function, "CPU")
    p.library.register_fake(f"{p.ns}::cut", function, lib=lib)
    lib.define("cut.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    lib.impl("cut.out", out_form, "CPU")
    p.library.register_fake(f"{p.ns}::cut.out", out_form, lib=lib)
    return getattr(p.torch.ops, p.ns).cut.out, (p.x(),), {"out": p.x() * 0}


def _with_cost(p, cost, kernel=None, schema="(Tensor a, Tensor b) -> Tensor"):
    def product(a, b):
        p.check(a.ndim == b.ndim == 2 and a.dtype == b.dtype, lambda: "matrices")
        p.check(a.shape[1] == b.shape[0], lambda: "inner sizes")
        return (a @ b).contiguous()

    kernel = kernel or product
    op = p.plain(schema, kernel, kernel)
    p.library.register_cost(op, cost, lib=p._libraries[-1])
    return op


@defect("LX15", "cost.counted", only="maquette")
def cost_counts_half_of_a_product(p, wrong):
    def cost(a, b, out):
        n, k = a.shape
        return p.library.Cost(flops=(1 if wrong else 2) * n * k * b.shape[1])

    return _with_cost(p, cost), (p.x(6, 5), p.x(5, 4)), {}


@defect("LX15", "cost.counted", only="maquette")
def cost_forgets_the_inner_size(p, wrong):
    def cost(a, b, out):
        n, k = a.shape
        return p.library.Cost(flops=2 * n * (1 if wrong else k) * b.shape[1])

    return _with_cost(p, cost), (p.x(6, 5), p.x(5, 4)), {}


@defect("LX15", "cost.counted", only="maquette")
def cost_is_a_thousand_times_too_much(p, wrong):
    def cost(a, b, out):
        n, k = a.shape
        return p.library.Cost(flops=(4000 if wrong else 2) * n * k * b.shape[1])

    return _with_cost(p, cost), (p.x(6, 5), p.x(5, 4)), {}


@defect("LX15", "cost.bytes read", only="maquette")
def cost_reads_elements_not_bytes(p, wrong):
    def cost(a, b, out):
        size = 1 if wrong else a.itemsize
        return p.library.Cost(
            flops=2 * a.numel * b.shape[1],
            bytes_read=(a.numel + b.numel) * size,
            bytes_written=out.numel * out.itemsize,
        )

    return _with_cost(p, cost), (p.x(6, 5), p.x(5, 4)), {}


@defect("LX15", "cost.bytes read", only="maquette")
def cost_forgets_to_read_the_bias(p, wrong):
    def kernel(x, bias):
        p.check(x.shape == bias.shape and x.dtype == bias.dtype, lambda: "alike")
        return x + bias

    def cost(x, bias, out):
        read = x.numel * x.itemsize * (1 if wrong else 2)
        return p.library.Cost(flops=out.numel, bytes_read=read,
                              bytes_written=out.numel * out.itemsize)  # fmt: skip

    schema = "(Tensor x, Tensor bias) -> Tensor"
    return _with_cost(p, cost, kernel, schema), (p.x(2, 3), p.x(2, 3)), {}


@defect("LX16", "decomposition.values", only="maquette")
def decomposition_rounds_otherwise(p, wrong):
    def kernel(x, n):
        p.check(x.is_floating_point() and n > 0, lambda: "floats, n above 0")
        return (x * n).floor()

    def decomposed(x, n):
        y = x * n
        return y.trunc() if wrong else y.floor()

    def fake(x, n):
        p.check(x.is_floating_point() and n > 0, lambda: "floats, n above 0")
        return p.torch.empty_like(x)

    op = p.custom("(Tensor x, int n) -> Tensor", kernel, fake)
    from maquette.fx.decompositions import register_decomposition

    register_decomposition(op._opoverload)(decomposed)
    return op, (p.x().abs(), 2), {}
