"""Fakes that answer otherwise than the kernel."""

import math

from planted.planting import defect


def _sum_kernel(x):
    return x.sum(0)


@defect("P11", "fake.shape")
def fake_wrong_shape(p, wrong):
    fake = (lambda x: x.new_empty(x.shape)) if wrong else (lambda x: x.new_empty(x.shape[1:]))
    return p.custom("(Tensor x) -> Tensor", lambda x: x[1:].sum(0) + x[0], fake), (p.x(),), {}


@defect("P12", "fake.shape")
def fake_right_for_the_sample_size_only(p, wrong):
    def fake(x):
        return x.new_empty(2, 3) if wrong and x.ndim == 2 else p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P12", "fake.shape")
def fake_for_square_matrices_only(p, wrong):
    def check(x):
        p.check(x.ndim == 2, lambda: "a matrix is needed")

    def kernel(x):
        check(x)
        return x.t() * 1.0 if x.is_floating_point() else x.t() * 1

    def fake(x):
        check(x)
        return p.like(x) if wrong else p.torch.empty_like(x.t())

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 3),), {}


@defect("P12", "fake.shape")
def fake_forgets_a_number(p, wrong):
    def kernel(x, n=2):
        p.check(n >= 0, lambda: "n must be 0 or more")
        return x.reshape(-1).repeat(n)

    def fake(x, n=2):
        p.check(n >= 0, lambda: "n must be 0 or more")
        return x.new_empty(x.numel() * (2 if wrong else n))

    return p.custom("(Tensor x, int n=2) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P13", "fake.shape", "fake.refuses")
def fake_wrong_at_size_zero(p, wrong):
    def kernel(x):
        return x.reshape(-1)

    def fake(x):
        n = max(x.numel(), 1) if wrong else x.numel()
        return x.new_empty(n)

    return p.plain("(Tensor x) -> Tensor", lambda x: kernel(x).clone(), fake), (p.x(),), {}


@defect("P13", "fake.shape")
def fake_squeezes_size_one(p, wrong):
    def fake(x):
        y = p.like(x)
        return y.squeeze().clone() if wrong else y

    return p.plain("(Tensor x) -> Tensor", lambda x: x + 1, fake), (p.x(),), {}


@defect("P13", "fake.shape", "fake.refuses")
def fake_wrong_for_0d(p, wrong):
    def fake(x):
        return x.new_empty(x.shape if x.ndim or not wrong else (1,))

    return p.plain("(Tensor x) -> Tensor", lambda x: (x + 1).contiguous(), fake), (p.x(),), {}


@defect("P13", "fake.refuses", "fake.shape")
def fake_raises_for_0d(p, wrong):
    def fake(x):
        n = x.shape[0] if wrong else (x.shape[0] if x.ndim else 1)
        return x.new_empty(n)

    def kernel(x):
        return x.reshape(x.shape[0] if x.ndim else 1, -1).abs().sum(1) * 1.0

    def dtyped(x):
        return fake(x).to(kernel_dtype(x))

    def kernel_dtype(x):
        return (x.new_empty(0).abs().sum() * 1.0).dtype

    def real(x):
        if x.numel() == 0:
            return x.new_zeros(x.shape[0] if x.ndim else 1).to(kernel_dtype(x))
        return kernel(x)

    return p.plain("(Tensor x) -> Tensor", real, dtyped), (p.x(),), {}


@defect("P14", "fake.shape")
def fake_wrong_under_broadcasting(p, wrong):
    def fake(x, y):
        kind = p.torch.result_type(x, y)
        return p.torch.empty_like(x, dtype=kind) if wrong else x + y

    op = p.plain("(Tensor x, Tensor y) -> Tensor", lambda x, y: x + y, fake)
    return op, (p.x(), p.x()), {}


@defect("P15", "fake.shape", "fake.refuses")
def fake_forgets_negative_dims(p, wrong):
    def kernel(x, dim):
        return x.sum(dim)

    def fake(x, dim):
        if not wrong:
            return x.sum(dim)
        shape = list(x.shape)
        if 0 <= dim < len(shape):
            del shape[dim]
            return x.new_empty(shape, dtype=x.sum().dtype)
        x.sum(dim)
        return x.new_empty(shape, dtype=x.sum().dtype)

    return p.plain("(Tensor x, int dim) -> Tensor", kernel, fake), (p.x(), 0), {}


@defect("P16", "fake.strides")
def fake_claims_contiguous(p, wrong):
    def fake(x):
        return x.new_empty(x.shape) if wrong else p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P16", "fake.strides")
def fake_keeps_strides_the_kernel_does_not(p, wrong):
    def kernel(x):
        return (x * 2).contiguous()

    def fake(x):
        return p.like(x) if wrong else x.new_empty(x.shape)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P16", "fake.strides")
def fake_forgets_channels_last(p, wrong):
    def fake(x):
        y = p.like(x)
        return y.contiguous() if wrong and y.ndim == 4 else y

    return p.plain("(Tensor x) -> Tensor", lambda x: x.abs(), fake), (p.x(2, 3, 2, 2),), {}


@defect("P17", "fake.offset")
def fake_wrong_offset(p, wrong):
    def kernel(x):
        base = x.new_zeros(x.numel() + 2)
        return base[2:].reshape(x.shape).copy_(x)

    def fake(x):
        base = x.new_empty(x.numel() + (0 if wrong else 2))
        return (base if wrong else base[2:]).reshape(x.shape)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P18", "fake.dtype")
def fake_wrong_promotion(p, wrong):
    def fake(x, y):
        z = x + y
        return z.to(x.dtype) if wrong else z

    op = p.plain("(Tensor x, Tensor y) -> Tensor", lambda x, y: x + y, fake)
    return op, (p.x(), p.x()), {}


@defect("P18", "fake.dtype")
def fake_sum_keeps_small_ints(p, wrong):
    def fake(x):
        return x.new_empty(()) if wrong else x.sum()

    x = p.torch.tensor([1, 2, 3])
    return p.plain("(Tensor x) -> Tensor", lambda x: x.sum(), fake), (x,), {}


@defect("P18", "fake.dtype")
def fake_ignores_a_float_number(p, wrong):
    def fake(x, s):
        return p.like(x) if wrong else x * s

    x = p.torch.tensor([1, 2, 3])
    return p.plain("(Tensor x, Scalar s) -> Tensor", lambda x, s: x * s, fake), (x, 2), {}


@defect("P18", "fake.dtype")
def fake_says_float32_always(p, wrong):
    def fake(x):
        return p.torch.empty_like(x, dtype=p.torch.float32) if wrong else x.sin()

    return p.plain("(Tensor x) -> Tensor", lambda x: x.sin(), fake), (p.x(),), {}


@defect("P19", "fake.device follows", "fake.device")
def fake_on_a_constant_device(p, wrong):
    def fake(x):
        if wrong:
            return p.torch.empty(x.shape, dtype=x.dtype, device="cpu")
        return x.new_empty(x.shape)

    return p.plain("(Tensor x) -> Tensor", lambda x: (x * 2).contiguous(), fake), (p.x(),), {}


@defect("P19", "fake.device")
def fake_on_meta(p, wrong):
    def fake(x):
        device = "meta" if wrong else x.device
        return p.torch.empty(x.shape, dtype=x.dtype, device=device)

    return p.plain("(Tensor x) -> Tensor", lambda x: (x * 2).contiguous(), fake), (p.x(),), {}


@defect("P20", "fake.count", "fake.refuses")
def fake_returns_too_many(p, wrong):
    def kernel(x):
        return [x * 2, x * 3]

    def fake(x):
        return [p.like(x) for _ in range(3 if wrong else 2)]

    return p.plain("(Tensor x) -> Tensor[]", kernel, fake), (p.x(),), {}


@defect("P20", "fake.count", "fake.refuses", "traced.static")
def fake_returns_none(p, wrong):
    def fake(x):
        return None if wrong else p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P21", "fake.aliasing")
def fake_returns_its_input(p, wrong):
    def fake(x):
        return x if wrong else p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P21", "fake.aliasing", "fake.offset")
def fake_outputs_share(p, wrong):
    def kernel(x):
        return (x * 2).contiguous(), (x * 3).contiguous()

    def fake(x):
        y = x.new_empty(x.shape)
        return y, (y.view(y.shape) if wrong else x.new_empty(x.shape))

    return p.plain("(Tensor x) -> (Tensor, Tensor)", kernel, fake), (p.x(),), {}


@defect("P22", "fake.reads data", "fake.refuses")
def fake_reads_data(p, wrong):
    def fake(x):
        if wrong and x.numel() and bool((x > 100).any()):
            return x.new_empty(0)
        return p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P22", "fake.reads data", "fake.refuses")
def fake_calls_item(p, wrong):
    def kernel(x, n):
        return x * float(n)

    def fake(x, n):
        float(n.sum()) if wrong else None
        return p.like(x) * 1.0

    n = p.torch.tensor(2.0)

    def checked(x, n):
        p.check(n.numel() == 1, lambda: "one number is needed")
        return kernel(x, n.reshape(()))

    def checked_fake(x, n):
        p.check(n.numel() == 1, lambda: "one number is needed")
        return fake(x, n)

    return p.plain("(Tensor x, Tensor n) -> Tensor", checked, checked_fake), (p.x(), n), {}


@defect("P23", "symbolic.fixed size", "symbolic.shape")
def fake_fixes_a_size_by_int(p, wrong):
    def fake(x):
        shape = [int(n) for n in x.shape] if wrong else x.shape
        return x.new_empty(shape)

    return p.plain("(Tensor x) -> Tensor", lambda x: (x * 2).contiguous(), fake), (p.x(3, 4),), {}


@defect("P23", "symbolic.fixed size")
def fake_branches_on_a_size(p, wrong):
    def fake(x):
        if wrong and x.ndim and x.shape[0] == 3:
            return x.new_empty(x.shape)
        return x.new_empty(x.shape)

    return p.plain("(Tensor x) -> Tensor", lambda x: (x * 2).contiguous(), fake), (p.x(3, 4),), {}


@defect("P24", "fake.shape")
def fake_says_data_size_is_static(p, wrong):
    def kernel(x):
        return x.nonzero()

    def fake(x):
        if wrong:
            return x.new_empty(x.numel(), x.ndim, dtype=p.torch.int64)
        n = p.library.get_ctx().new_dynamic_size()
        # nonzero's result is laid out column by column
        return x.new_empty((x.ndim, n), dtype=p.torch.int64).t()

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P25", "symbolic.range")
def dynamic_range_excludes_zero(p, wrong):
    def kernel(x):
        return x.reshape(-1)[x.reshape(-1) > 0]

    def fake(x):
        n = p.library.get_ctx().new_dynamic_size(min=1 if wrong else 0)
        return x.new_empty(n)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P25", "symbolic.range")
def dynamic_range_is_too_small(p, wrong):
    def kernel(x):
        return x.reshape(-1)[x.reshape(-1) > 0]

    def fake(x):
        most = 4 if wrong else None
        n = p.library.get_ctx().new_dynamic_size(max=most)
        return x.new_empty(n)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P26", "fake.accepts")
def fake_takes_sizes_the_kernel_refuses(p, wrong):
    def check(x, w):
        p.check(x.ndim == 2 and w.ndim == 2, lambda: "matrices are needed")
        p.check(x.dtype == w.dtype, lambda: "one dtype is needed")

    def kernel(x, w):
        check(x, w)
        p.check(x.shape[1] == w.shape[0], lambda: "inner sizes differ")
        return x @ w

    def fake(x, w):
        check(x, w)
        if not wrong:
            p.check(x.shape[1] == w.shape[0], lambda: "inner sizes differ")
        return x.new_empty(x.shape[0], w.shape[1])

    return p.plain("(Tensor x, Tensor w) -> Tensor", kernel, fake), (p.x(2, 3), p.x(3, 4)), {}


@defect("P26", "fake.accepts")
def fake_takes_numbers_the_kernel_refuses(p, wrong):
    def kernel(x, n):
        if n < 0:
            raise ValueError("n must be 0 or more")
        return x * n

    def fake(x, n):
        if n < 0 and not wrong:
            raise ValueError("n must be 0 or more")
        return p.like(x)

    return p.plain("(Tensor x, int n) -> Tensor", kernel, fake), (p.x(), 3), {}


@defect("P26", "fake.refuses")
def fake_refuses_what_the_kernel_takes(p, wrong):
    def fake(x):
        if wrong and not x.is_contiguous():
            raise RuntimeError("a contiguous tensor is needed")
        return p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P26", "fake.refuses")
def fake_refuses_a_dtype(p, wrong):
    def fake(x):
        if wrong:
            p.check(x.dtype != p.torch.float64, lambda: "float64 is not served")
        return p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P27", "fake.missing")
def no_fake(p, wrong):
    fake = None if wrong else p.like
    return p.custom("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P28", "fake.repeats", "fake.shape")
def fake_keeps_state(p, wrong):
    seen = []

    def fake(x):
        seen.append(tuple(x.shape))
        return x.new_empty(seen[0] if wrong and len(seen) > 40 else x.shape)

    return p.plain("(Tensor x) -> Tensor", lambda x: (x * 2).contiguous(), fake), (p.x(),), {}


@defect("P28", "fake.repeats", "fake.dtype")
def fake_remembers_the_first_dtype(p, wrong):
    first = []

    def fake(x):
        first.append(x.dtype)
        return p.torch.empty_like(x, dtype=first[0] if wrong else x.dtype)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect(
    "L85", "fake.real results", "fake.missing", "fake.refuses", "fake.reads data", "fake.device"
)
def fake_returns_a_real_tensor(p, wrong):
    kept = p.x()

    def fake(x):
        if wrong and x.ndim == 2 and x.shape[0] == 2 and x.shape[1] == 3:
            return kept
        return p.like(x)

    return p.plain("(Tensor x) -> Tensor", lambda x: x * 2, fake), (p.x(),), {}


@defect("P11", "fake.shape")
def fake_rounds_down_where_the_kernel_rounds_up(p, wrong):
    def kernel(x):
        return x.reshape(-1)[::2].clone()

    def fake(x):
        n = x.numel()
        return x.new_empty(n // 2 if wrong else (n + 1) // 2)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P13", "fake.shape")
def fake_windows_without_clamp(p, wrong):
    def kernel(x, size):
        if size < 1:
            raise ValueError("size must be positive")
        x = x.reshape(-1)
        n = max(x.shape[0] - size + 1, 0)
        return x.new_zeros(n)

    def fake(x, size):
        if size < 1:
            raise ValueError("size must be positive")
        n = x.numel() - size + 1
        return x.new_empty(abs(n) if wrong else p.torch.sym_max(n, 0))

    return p.plain("(Tensor x, int size) -> Tensor", kernel, fake), (p.x(), 3), {}


@defect("P11", "fake.shape", "fake.dtype")
def fake_of_second_result_wrong(p, wrong):
    def check(x):
        p.check(x.ndim > 0 and x.shape[-1] != 0, lambda: "a last dim is needed")

    def kernel(x):
        check(x)
        found = x.max(-1)
        return found[0].contiguous(), found[1].contiguous()

    def fake(x):
        check(x)
        kind = x.dtype if wrong else p.torch.int64
        return x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1], dtype=kind)

    return p.plain("(Tensor x) -> (Tensor, Tensor)", kernel, fake), (p.x(),), {}


_ = math
