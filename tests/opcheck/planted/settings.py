"""Kernels that leave the world changed, lose writes, or alias what they should not."""

import random

import numpy as np

from planted.planting import defect


@defect("P45", "calls.settings")
def leaves_grad_mode_off(p, wrong):
    def kernel(x):
        before = p.torch.is_grad_enabled()
        p.torch.set_grad_enabled(False)
        y = x * 2
        p.torch.set_grad_enabled(True if wrong else before)
        return y

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P45", "calls.settings")
def leaves_another_default_dtype(p, wrong):
    def kernel(x):
        before = p.torch.get_default_dtype()
        p.torch.set_default_dtype(p.torch.float64)
        y = x * 2
        p.torch.set_default_dtype(p.torch.float64 if wrong else before)
        return y

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P44", "calls.random state", "calls.deterministic")
def seeds_the_generator(p, wrong):
    def kernel(x):
        if wrong:
            p.torch.manual_seed(0)
        return x * 2

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P44", "calls.deterministic", "calls.random state")
def draws_from_pythons_generator(p, wrong):
    def kernel(x):
        return x + (random.random() if wrong else 0.25)

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x + 0.25), (p.x(),), {}


@defect("P44", "calls.deterministic", "calls.random state")
def draws_from_numpys_global_generator(p, wrong):
    def kernel(x):
        noise = np.random.rand() if wrong else 0.25
        return x + noise

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x + 0.25), (p.x(),), {}


@defect("P44", "calls.deterministic")
def seeded_randomness_with_a_generator_of_its_own(p, wrong):
    draws = np.random.default_rng(0)

    def kernel(x):
        noise = p.torch.tensor(draws.random(x.shape)) if wrong else p.torch.rand(x.shape)
        return x + noise.to(x.dtype)

    tags = (p.torch.Tag.nondeterministic_seeded,)
    fake = lambda x: x + p.torch.rand(x.shape).to(x.dtype)  # noqa: E731
    return p.plain("(Tensor x) -> Tensor", kernel, fake, tags=tags), (p.x(),), {}


@defect("P4", "writes.never made", "traced.static", "functionalize.values")
def write_is_lost_where_not_contiguous(p, wrong):
    def kernel(x):
        flat = x.contiguous() if wrong else x
        flat.mul_(2)

    op = p.custom("(Tensor(a!) x) -> ()", kernel, lambda x: None, writes={"x"})
    return op, (p.x(),), {}


@defect("P1", "writes.undeclared")
def writes_an_optional_argument(p, wrong):
    def kernel(x, mask=None):
        if mask is None:
            return x * 1
        m = mask if wrong else mask.clone()
        m.mul_(2)
        return x * m

    def fake(x, mask=None):
        return x * 1 if mask is None else x * mask

    op = p.plain("(Tensor x, Tensor? mask=None) -> Tensor", kernel, fake)
    return op, (p.x(), p.x()), {}


@defect("P7", "aliases.undeclared")
def returns_a_view_of_what_it_writes(p, wrong):
    def kernel(cache, x):
        cache.add_(x)
        return cache.view(-1) if wrong and cache.is_contiguous() else cache.reshape(-1).clone()

    def fake(cache, x):
        return cache.reshape(-1).clone()

    def check(cache, x):
        p.check(cache.shape == x.shape and cache.dtype == x.dtype, lambda: "alike")
        return kernel(cache, x)

    def checked_fake(cache, x):
        p.check(cache.shape == x.shape and cache.dtype == x.dtype, lambda: "alike")
        return fake(cache, x)

    op = p.plain("(Tensor(a!) cache, Tensor x) -> Tensor", check, checked_fake)
    return op, (p.x(2, 3), p.x(2, 3)), {}


@defect("P1", "writes.undeclared")
def sorts_its_input(p, wrong):
    def kernel(x):
        values = x.numpy() if wrong else np.array(x.numpy())
        if values.ndim:
            values.sort(-1)
        return p.torch.tensor(np.array(values, order="C"))

    return (
        p.custom("(Tensor x) -> Tensor", _few(p, kernel), lambda x: x.new_empty(x.shape)),
        (p.x(2, 3),),
        {},
    )


def _few(p, kernel):
    """The kernel for dtypes that NumPy has."""

    def checked(x):
        return kernel(x) if x.dtype != p.torch.bfloat16 else (x * 1).sort(-1)[0].contiguous()

    return checked


@defect("P8", "aliases.undeclared")
def returns_its_input_where_nothing_is_to_do(p, wrong):
    def kernel(x, n):
        p.check(0 <= n < 100, lambda: "padding from 0 on")
        if n == 0:
            return x if wrong else x.clone()
        return p.torch.cat([x, x.new_zeros([n, *x.shape[1:]])]) if x.ndim else x * 1

    def fake(x, n):
        p.check(0 <= n < 100, lambda: "padding from 0 on")
        if n == 0:
            return x.clone()
        return p.torch.cat([x, x.new_zeros([n, *x.shape[1:]])]) if x.ndim else x * 1

    return p.plain("(Tensor x, int n) -> Tensor", kernel, fake), (p.x(), 2), {}


@defect("P45", "calls.deterministic", "calls.results kept", "calls.order", "calls.precision",
        "calls.layout")  # fmt: skip
def depends_on_the_call_before(p, wrong):
    last = {}

    def kernel(x):
        scale = last.get("n", 1) if wrong else 1
        last["n"] = 1 if x.numel() < 3 else 2
        return x * scale

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P46", "calls.threads")
def lock_is_not_held_to_the_end(p, wrong):
    kept = {}

    def kernel(x):
        kept["x"] = x
        y = x * 2
        other = kept["x"] if wrong else x
        return y + other

    return p.custom("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P47", "cost.symbolic", "cost.number", only="maquette")
def cost_needs_plain_sizes(p, wrong):
    def cost(x, out):
        n = x.numel
        return p.library.Cost(flops=int(n) * 2 if wrong else n * 2)

    op = p.plain("(Tensor x) -> Tensor", lambda x: x * 2, p.like)
    p.library.register_cost(op, cost, lib=p._libraries[-1])
    return op, (p.x(),), {}


@defect("LX15", "cost.bytes written", only="maquette")
def cost_exchanges_reads_and_writes(p, wrong):
    def cost(x, out):
        read, written = x.numel * x.itemsize, out.numel * out.itemsize
        if wrong:
            read, written = written, read
        return p.library.Cost(flops=out.numel, bytes_read=read, bytes_written=written)

    def kernel(x):
        return p.torch.cat([x.reshape(-1), x.reshape(-1)])

    op = p.plain("(Tensor x) -> Tensor", kernel, kernel)
    p.library.register_cost(op, cost, lib=p._libraries[-1])
    return op, (p.x(),), {}
