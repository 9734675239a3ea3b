"""Fakes of operators as people write them: reductions, joins, projections, each with a defect."""

import numpy as np

from planted.planting import defect


def _array(x):
    return x.detach().numpy()


@defect("P18", "fake.dtype")
def fake_forgets_that_half_is_widened(p, wrong):
    def kernel(x):
        wide = x.float() if x.dtype in (p.torch.float16, p.torch.bfloat16) else x
        return (wide * 2).contiguous()

    def fake(x):
        few = x.dtype in (p.torch.float16, p.torch.bfloat16) and not wrong
        return x.new_empty(x.shape, dtype=p.torch.float32 if few else x.dtype)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P26", "fake.refuses")
def fake_needs_the_optional_bias(p, wrong):
    def kernel(x, weight, bias=None):
        y = (x @ weight.t()).contiguous()
        return y if bias is None else y + bias

    def check(x, weight, bias):
        p.check(x.ndim == weight.ndim == 2, lambda: "matrices")
        p.check(x.shape[1] == weight.shape[1], lambda: "inner sizes")
        if bias is not None:
            p.check(bias.shape == weight.shape[:1], lambda: "bias")
        p.check(len({t.dtype for t in (x, weight, bias) if t is not None}) == 1, lambda: "dtypes")

    def fake(x, weight, bias=None):
        check(x, weight, bias)
        return x.new_empty(x.shape[0], bias.shape[0] if wrong else weight.shape[0])

    def checked(x, weight, bias=None):
        check(x, weight, bias)
        return kernel(x, weight, bias)

    op = p.custom("(Tensor x, Tensor weight, Tensor? bias=None) -> Tensor", checked, fake)
    return op, (p.x(2, 3), p.x(4, 3), p.x(4)), {}


@defect("P12", "fake.shape")
def fake_ignores_keepdim(p, wrong):
    def kernel(x, keepdim=False):
        return (x * 1.0).sum(0, keepdim=keepdim) if x.ndim else x * 1.0

    def fake(x, keepdim=False):
        return kernel(x, False if wrong else keepdim)

    return p.custom("(Tensor x, bool keepdim=False) -> Tensor", kernel, fake), (p.x(), False), {}


@defect("P12", "fake.shape")
def fake_takes_no_dims_for_none(p, wrong):
    def kernel(x, dims):
        p.check(len(set(dims)) == len(dims) and all(0 <= d < x.ndim for d in dims), lambda: "dims")
        return (x * 1.0).sum(list(dims)) if dims else (x * 1.0).sum()

    def fake(x, dims):
        return (x * 1.0).clone() if wrong and not dims else kernel(x, dims)

    return p.custom("(Tensor x, int[] dims) -> Tensor", kernel, fake), (p.x(2, 3), [0]), {}


@defect("P12", "fake.shape")
def fake_counts_the_first_of_a_list(p, wrong):
    def check(xs):
        p.check(len(xs) > 0 and all(x.ndim == 1 for x in xs), lambda: "rows")
        p.check(len({x.dtype for x in xs}) == 1, lambda: "one dtype")

    def kernel(xs):
        check(xs)
        return p.torch.cat(list(xs))

    def fake(xs):
        check(xs)
        size = xs[0].shape[0] * len(xs) if wrong else sum([x.shape[0] for x in xs])
        return xs[0].new_empty(size)

    return p.custom("(Tensor[] xs) -> Tensor", kernel, fake), ([p.x(3), p.x(3)],), {}


@defect("P15", "fake.shape")
def fake_stacks_at_a_negative_dim_wrongly(p, wrong):
    def kernel(x, dim):
        return p.torch.stack([x, x], dim).contiguous()

    def fake(x, dim):
        at = dim if dim >= 0 else dim + x.ndim + (0 if wrong else 1)
        p.check(0 <= at <= x.ndim and -x.ndim - 1 <= dim, lambda: "dim")
        return x.new_empty([*x.shape[:at], 2, *x.shape[at:]])

    def checked(x, dim):
        p.check(-x.ndim - 1 <= dim <= x.ndim, lambda: "dim")
        return kernel(x, dim)

    return p.custom("(Tensor x, int dim) -> Tensor", checked, fake), (p.x(2, 3), 0), {}


@defect("P18", "fake.dtype")
def fake_of_positions_in_int32(p, wrong):
    def kernel(x):
        return x.sort(-1)[0].contiguous(), x.argsort(-1).contiguous()

    def fake(x):
        kind = p.torch.int32 if wrong else p.torch.int64
        return x.new_empty(x.shape), x.new_empty(x.shape, dtype=kind)

    return p.custom("(Tensor x) -> (Tensor, Tensor)", kernel, fake), (p.x(),), {}


@defect("P12", "fake.shape")
def fake_splits_evenly(p, wrong):
    def check(x, n):
        p.check(x.ndim == 1 and x.shape[0] > 0 and 0 < n <= 64, lambda: "a row, n above 0")

    def kernel(x, n):
        check(x, n)
        return [part.clone() for part in x.split(n)]

    def fake(x, n):
        check(x, n)
        parts = [part.clone() for part in x.split(n)]
        return [x.new_empty(n) for _ in parts] if wrong and x.shape[0] > n else parts

    return p.custom("(Tensor x, int n) -> Tensor[]", kernel, fake), (p.x(6), 2), {}


@defect("P12", "fake.shape")
def fake_counts_steps_by_floor(p, wrong):
    def check(x, step):
        p.check(x.ndim == 1 and 0 < step < 1000, lambda: "a row, step from 1 on")

    def kernel(x, step):
        check(x, step)
        return x[::step].clone()

    def fake(x, step):
        check(x, step)
        n = x.shape[0]
        return x.new_empty(n // step if wrong else (n + step - 1) // step)

    return p.custom("(Tensor x, int step) -> Tensor", kernel, fake), (p.x(6), 2), {}


@defect("P18", "fake.dtype")
def fake_of_a_look_up_has_the_dtype_of_the_indices(p, wrong):
    def check(weight, index):
        p.check(weight.ndim == 2 and index.dtype == p.torch.int64, lambda: "a table, positions")

    def kernel(weight, index):
        check(weight, index)
        rows = np.clip(_array(index), 0, max(weight.shape[0] - 1, 0))
        p.check(weight.shape[0] > 0, lambda: "an empty table")
        return weight[p.torch.tensor(np.array(rows))].clone()

    def fake(weight, index):
        check(weight, index)
        p.check(weight.shape[0] > 0, lambda: "an empty table")
        like = index if wrong else weight
        return like.new_empty([*index.shape, weight.shape[1]])

    op = p.custom("(Tensor weight, Tensor index) -> Tensor", kernel, fake)
    return op, (p.x(4, 3), p.torch.tensor([0, 2, 1])), {}


@defect("P19", "fake.device follows", "fake.device")
def fake_of_the_second_result_on_cpu(p, wrong):
    def kernel(x):
        return x * 2, p.torch.zeros(x.shape, device=x.device)

    def fake(x):
        second = p.torch.empty(x.shape) if wrong else p.torch.empty(x.shape, device=x.device)
        return p.like(x), second

    return p.custom("(Tensor x) -> (Tensor, Tensor)", kernel, fake), (p.x(),), {}


@defect("P18", "fake.dtype")
def fake_promotes_0d_tensors_like_others(p, wrong):
    def kernel(x, y):
        return (x + y).contiguous()

    def fake(x, y):
        found = (x + y).contiguous()
        if wrong:
            return found.new_empty(found.shape, dtype=p.torch.promote_types(x.dtype, y.dtype))
        return found.new_empty(found.shape)

    return p.custom("(Tensor x, Tensor y) -> Tensor", kernel, fake), (p.x(), p.x()), {}


@defect("P16", "fake.strides")
def fake_forgets_permuted_strides_of_3d(p, wrong):
    def kernel(x):
        return x * 2

    def fake(x):
        return x.new_empty(x.shape) if wrong and x.ndim == 3 else p.like(x)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(2, 3, 4),), {}


@defect("P26", "fake.refuses", "symbolic.shape", "symbolic.fixed size")
def fake_views_what_is_not_contiguous(p, wrong):
    def kernel(x):
        return (x * 2).reshape(-1).clone()

    def fake(x):
        return x.view(-1).clone() if wrong else x.reshape(-1).clone()

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(2, 3),), {}


@defect("P23", "symbolic.fixed size", "symbolic.shape")
def fake_loops_over_a_size(p, wrong):
    def kernel(x):
        return x.sum(0) if x.ndim else x * 1

    def fake(x):
        if not wrong or not x.ndim:
            return kernel(x)
        rows = [x[i] for i in range(x.shape[0])]
        return kernel(p.torch.stack(rows)) if rows else kernel(x)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 2),), {}


@defect("P14", "fake.shape", "fake.refuses")
def fake_of_a_product_forgets_vectors(p, wrong):
    def check(a, b):
        p.check(a.ndim == 2 and b.ndim in (1, 2), lambda: "a matrix, and a matrix or vector")
        p.check(a.shape[1] == b.shape[0] and a.dtype == b.dtype, lambda: "inner sizes")

    def kernel(a, b):
        check(a, b)
        return (a @ b).contiguous()

    def fake(a, b):
        check(a, b)
        if b.ndim == 1 and not wrong:
            return a.new_empty(a.shape[0])
        return a.new_empty(a.shape[0], b.shape[-1])

    return p.custom("(Tensor a, Tensor b) -> Tensor", kernel, fake), (p.x(2, 3), p.x(3)), {}


@defect("P13", "fake.shape", "fake.dtype")
def fake_of_a_mean_over_nothing(p, wrong):
    def kernel(x):
        return (x * 1.0).sum() if x.numel() == 0 else (x * 1.0).sum(-1) if x.ndim else x * 1.0

    def fake(x):
        if wrong and x.ndim:
            return (x * 1.0).sum(-1)
        return kernel(x)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(2, 3),), {}


@defect("L118", "results.requires grad")
def result_requires_grad_by_itself(p, wrong):
    def kernel(x):
        y = x.detach() * 2
        return y.requires_grad_() if wrong and y.is_floating_point() else y

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("L28", "schema.defaults")
def kernel_has_another_default_than_the_schema(p, wrong):
    if wrong:

        def kernel(x, n=3):
            return x * n
    else:

        def kernel(x, n=2):
            return x * n

    return p.plain("(Tensor x, int n=2) -> Tensor", kernel, lambda x, n=2: x * n), (p.x(),), {}


@defect("L28", "schema.defaults", "fake.shape")
def fake_has_another_default_than_the_schema(p, wrong):
    def kernel(x, n=2):
        return x.new_zeros(n)

    def fake(x, n=2):
        return x.new_empty(n)

    def other(x, n=4):
        return x.new_empty(n)

    check = lambda f: lambda x, n=2: (p.check(0 <= n < 9000, lambda: "n"), f(x, n))[1]  # noqa: E731
    op = p.plain("(Tensor x, int n=2) -> Tensor", check(kernel), other if wrong else check(fake))
    return op, (p.x(),), {}
