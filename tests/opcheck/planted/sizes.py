"""Sizes that are symbols, of data, negative or listed: what a fake makes of them."""

import math

import numpy as np

from planted.planting import defect


def _array(x):
    return x.detach().numpy()


@defect("P23", "symbolic.fixed size", "symbolic.shape")
def fake_halves_a_size_by_float(p, wrong):
    def kernel(x):
        p.check(x.ndim == 1, lambda: "a row")
        return x[: x.shape[0] // 2].clone()

    def fake(x):
        p.check(x.ndim == 1, lambda: "a row")
        n = x.shape[0]
        return x.new_empty(int(float(n) * 0.5) if wrong else n // 2)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(6),), {}


@defect("P23", "symbolic.fixed size", "symbolic.shape")
def fake_multiplies_sizes_by_numpy(p, wrong):
    def kernel(x):
        return (x * 1).reshape(-1).clone()

    def fake(x):
        n = int(np.prod([int(s) for s in x.shape])) if wrong else x.numel()
        return x.new_empty(n)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(5, 3),), {}


@defect("P23", "symbolic.fixed size", "symbolic.shape", "fake.shape", "fake.refuses")
def fake_looks_a_size_up(p, wrong):
    table = {n: n + 1 for n in range(40)}

    def kernel(x):
        p.check(x.ndim == 1 and x.shape[0] < 40, lambda: "a short row")
        return p.torch.cat([x, x.new_zeros(1)])

    def fake(x):
        p.check(x.ndim == 1 and x.shape[0] < 40, lambda: "a short row")
        n = x.shape[0]
        return x.new_empty(table[n] if wrong else n + 1)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(5),), {}


@defect("P23", "symbolic.fixed size", "symbolic.shape")
def fake_takes_a_power_of_two(p, wrong):
    def kernel(x):
        p.check(x.ndim == 1, lambda: "a row")
        n = 1
        while n < x.shape[0]:
            n *= 2
        return p.torch.cat([x, x.new_zeros(n - x.shape[0] if x.shape[0] else 1)])

    def right(x):
        p.check(x.ndim == 1, lambda: "a row")
        return x.new_empty(_up(x.shape[0], p))

    def fixing(x):
        p.check(x.ndim == 1, lambda: "a row")
        return x.new_empty(1 << max(int(x.shape[0]) - 1, 0).bit_length())

    op = p.custom("(Tensor x) -> Tensor", kernel, fixing if wrong else right)
    return op, (p.x(5),), {}


def _up(n, p):
    # Asks whether a size is above a power, which leaves it free between two of them.
    m = 1
    while m < n:
        m *= 2
    return m


@defect("P24", "symbolic.range")
def one_symbol_for_two_sizes_of_data(p, wrong):
    def check(x):
        p.check(x.ndim == 1 and not x.is_complex(), lambda: "a row of real numbers")

    def kernel(x):
        check(x)
        positive = _array(x.to(p.torch.float64)) > 0
        values = [np.flatnonzero(m) for m in (positive, ~positive)]
        return tuple([p.torch.tensor(v) for v in values])

    def fake(x):
        check(x)
        context = p.library.get_ctx()
        first = context.new_dynamic_size()
        second = first if wrong else context.new_dynamic_size()
        return tuple([x.new_empty(n, dtype=p.torch.int64) for n in (first, second)])

    op = p.custom("(Tensor x) -> (Tensor, Tensor)", kernel, fake)
    return op, (p.x(7),), {}


@defect("P24", "fake.shape")
def fake_says_a_filter_keeps_all(p, wrong):
    def check(x):
        p.check(x.ndim == 1 and not x.is_complex(), lambda: "a row of real numbers")

    def kernel(x):
        check(x)
        kept = np.flatnonzero(_array(x.to(p.torch.float64)) > -100)
        return x[p.torch.tensor(kept)].clone()

    def fake(x):
        check(x)
        n = x.shape[0] if wrong else p.library.get_ctx().new_dynamic_size()
        return x.new_empty(n)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(6).abs(),), {}


@defect("P25", "symbolic.range")
def dynamic_size_is_bounded_by_the_sample(p, wrong):
    def check(x):
        p.check(x.ndim == 1 and not x.is_complex(), lambda: "a row of real numbers")

    def kernel(x):
        check(x)
        return p.torch.tensor(np.unique(_array(x.to(p.torch.float64))))

    def fake(x):
        check(x)
        context = p.library.get_ctx()
        n = context.new_dynamic_size(max=6) if wrong else context.new_dynamic_size()
        return x.new_empty(n, dtype=p.torch.float64)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(4),), {}


@defect("P12", "fake.shape", "fake.refuses")
def fake_takes_minus_one_for_a_size(p, wrong):
    def check(x, shape):
        p.check(sum(n == -1 for n in shape) <= 1 and all(n >= -1 for n in shape), lambda: "shape")
        p.check(x.numel() > 0, lambda: "not empty")

    def kernel(x, shape):
        check(x, shape)
        return x.reshape(list(shape)).clone(memory_format=p.torch.contiguous_format)

    def fake(x, shape):
        check(x, shape)
        if wrong:
            return x.new_empty([abs(n) for n in shape])
        known = math.prod([n for n in shape if n != -1])
        full = [x.numel() // max(known, 1) if n == -1 else n for n in shape]
        p.check(math.prod(full) == x.numel(), lambda: "elements")
        return x.new_empty(full)

    op = p.custom("(Tensor x, int[] shape) -> Tensor", kernel, fake)
    return op, (p.x(2, 3), [3, 2]), {}


@defect("P15", "fake.shape", "fake.refuses")
def fake_forgets_negative_dims_of_a_list(p, wrong):
    def check(x, dims):
        p.check(all(-x.ndim <= d < x.ndim for d in dims), lambda: "dims")
        p.check(len({d % max(x.ndim, 1) for d in dims}) == len(dims) > 0, lambda: "dims once")

    def kernel(x, dims):
        check(x, dims)
        return (x * 1.0).sum(list(dims))

    def fake(x, dims):
        check(x, dims)
        wrapped = [d if wrong else d % x.ndim for d in dims]
        kept = [n for i, n in enumerate(x.shape) if i not in wrapped]
        return (x * 1.0).new_empty(kept)

    return p.custom("(Tensor x, int[] dims) -> Tensor", kernel, fake), (p.x(2, 3, 4), [0, 1]), {}


@defect("P14", "fake.shape", "fake.refuses")
def fake_broadcasts_two_of_three(p, wrong):
    def kernel(mask, x, y):
        p.check(x.dtype == y.dtype, lambda: "dtypes")
        chosen = mask.real > 0 if mask.is_complex() else mask > 0
        return p.torch.where(chosen, x, y).contiguous()

    def fake(mask, x, y):
        if not wrong:
            return kernel(mask, x, y)
        p.check(x.dtype == y.dtype, lambda: "dtypes")
        kernel(mask, x, y)
        return (x + y).contiguous()

    op = p.custom("(Tensor mask, Tensor x, Tensor y) -> Tensor", kernel, fake)
    return op, (p.x(), p.x(), p.x()), {}


@defect("P13", "fake.shape", "fake.refuses")
def fake_of_an_empty_list(p, wrong):
    def check(xs):
        p.check(all(x.ndim == 1 for x in xs), lambda: "rows")
        p.check(len({x.dtype for x in xs}) <= 1, lambda: "one dtype")

    def kernel(xs):
        check(xs)
        return p.torch.cat(list(xs)) if xs else p.torch.zeros(0)

    def fake(xs):
        check(xs)
        first = xs[0] if wrong or xs else p.torch.empty(0)
        return first.new_empty(sum([x.shape[0] for x in xs]))

    return p.custom("(Tensor[] xs) -> Tensor", kernel, fake), ([p.x(3), p.x(2)],), {}


@defect("P18", "fake.dtype")
def fake_of_an_average_of_integers(p, wrong):
    def kernel(x):
        return x.sum() / 2

    def fake(x):
        return x.new_empty(()) if wrong else kernel(x)

    whole = p.torch.tensor([[1, 2, 3], [4, 5, 6]])
    return p.custom("(Tensor x) -> Tensor", kernel, fake), (whole,), {}


@defect("P18", "fake.dtype")
def fake_of_a_modulus_stays_complex(p, wrong):
    def kernel(x):
        return x.abs().contiguous()

    def fake(x):
        return x.new_empty(x.shape) if wrong else x.abs().contiguous()

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(dtype=p.torch.complex64),), {}


@defect("P18", "fake.dtype")
def fake_of_a_comparison_is_no_bool(p, wrong):
    def kernel(x, y):
        return x.eq(y).contiguous()

    def fake(x, y):
        found = x.eq(y).contiguous()
        return found.to(p.torch.uint8) if wrong and x.dtype == p.torch.uint8 else found

    whole = p.torch.tensor([[1, 2, 3], [4, 5, 6]])
    return p.custom("(Tensor x, Tensor y) -> Tensor", kernel, fake), (whole, whole * 1), {}


@defect("P19", "fake.device follows")
def fake_drops_the_number_of_the_device(p, wrong):
    def kernel(x):
        return (x * 2).contiguous()

    def fake(x):
        where = x.device.type if wrong else x.device
        return p.torch.empty(x.shape, dtype=x.dtype, device=where)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P26", "fake.accepts")
def fake_takes_dims_the_kernel_refuses(p, wrong):
    def check(x, n):
        p.check(x.ndim == 2, lambda: "a matrix")
        p.check(n <= x.shape[1], lambda: f"n={n} above {x.shape[1]}")
        p.check(n >= 0, lambda: "n from 0 on")

    def kernel(x, n):
        check(x, n)
        return x[:, :n].clone(memory_format=p.torch.contiguous_format)

    def fake(x, n):
        if not wrong:
            check(x, n)
        p.check(x.ndim == 2 and n >= 0, lambda: "a matrix")
        return x.new_empty(x.shape[0], n)

    return p.custom("(Tensor x, int n) -> Tensor", kernel, fake), (p.x(3, 4), 2), {}
