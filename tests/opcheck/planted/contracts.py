"""State, generators, settings, threads, signatures: what a caller takes for granted."""

import random
import threading

import numpy as np

from planted.planting import defect


@defect("P45", "calls.after others", "calls.deterministic")
def refusal_leaves_a_setting(p, wrong):
    state = {"scale": 2}

    def kernel(x, n):
        before = state["scale"]
        state["scale"] = 3
        if wrong:
            p.check(n > 0, lambda: "n above 0")
        state["scale"] = before
        p.check(n > 0, lambda: "n above 0")
        return x * n * state["scale"]

    def fake(x, n):
        p.check(n > 0, lambda: "n above 0")
        return x * n

    return p.plain("(Tensor x, int n) -> Tensor", kernel, fake), (p.x(), 2), {}


@defect("P45", "calls.after others", "calls.deterministic", "calls.layout", "calls.precision",
        "calls.results kept", "calls.narrow", "calls.grad mode")  # fmt: skip
def learns_the_largest_size_it_saw(p, wrong):
    seen = {"n": 0}

    def kernel(x):
        if wrong:
            seen["n"] = max(seen["n"], x.numel())
        n = max(seen["n"], 1) if wrong else max(x.numel(), 1)
        return x.sum() / n

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x.sum() / 1), (p.x(),), {}


@defect("P44", "calls.random state")
def seeds_numpys_global_generator(p, wrong):
    def kernel(x):
        if wrong:
            np.random.seed(0)
            noise = np.random.rand()
        else:
            noise = np.random.default_rng(0).random()
        return x + float(noise)

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x + 0.5), (p.x(),), {}


@defect("P44", "calls.random state", "calls.deterministic")
def shuffles_with_pythons_generator(p, wrong):
    def kernel(x):
        order = list(range(x.shape[0])) if x.ndim else []
        (random if wrong else random.Random(0)).shuffle(order)
        return x[p.torch.tensor(sorted(order), dtype=p.torch.int64)] if order else x * 1

    def fake(x):
        return x.new_empty(x.shape) if x.ndim and x.shape[0] else x * 1

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P44", "calls.generator")
def ignores_the_generator(p, wrong):
    def kernel(x, generator=None):
        draw = p.torch.rand(x.shape, generator=None if wrong else generator)
        return x + draw.to(x.dtype)

    def fake(x, generator=None):
        return x + p.torch.rand(x.shape).to(x.dtype)

    op = p.plain("(Tensor x, *, Generator? generator=None) -> Tensor", kernel, fake,
                 tags=(p.torch.Tag.nondeterministic_seeded,))  # fmt: skip
    return op, (p.x(),), {}


@defect("P44", "calls.deterministic", "calls.threads")
def gives_the_time(p, wrong):
    import time

    def kernel(x):
        return x + ((time.perf_counter() % 1.0) if wrong else 0.5)

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x + 0.5), (p.x(),), {}


@defect("P45", "calls.settings")
def leaves_numpys_errors_off(p, wrong):
    def kernel(x):
        before = np.seterr(all="ignore" if np.geterr()["over"] != "ignore" else "warn")
        y = x * 2
        if not wrong:
            np.seterr(**before)
        return y

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P45", "calls.settings", "calls.deterministic")
def leaves_another_default_device(p, wrong):
    def kernel(x):
        before = p.torch.get_default_device()
        p.torch.set_default_device("meta")
        shape = p.torch.empty(3).shape
        if not wrong:
            p.torch.set_default_device(before)
        return x * len(shape)

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P46", "calls.threads")
def works_in_its_first_thread_only(p, wrong):
    local = threading.local()
    local.scale = 2

    def kernel(x):
        scale = local.scale if wrong else getattr(local, "scale", 2)
        return x * scale

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P46", "calls.threads")
def counts_rows_in_a_shared_list(p, wrong):
    rows = []

    def kernel(x):
        mine = rows if wrong else []
        mine.clear()
        for value in x.reshape(-1)[:4].unbind():
            mine.append(value)
        return p.torch.stack(mine).sum() if mine else x.sum() * 0

    def fake(x):
        return p.torch.stack(list(x.reshape(-1)[:4].unbind())).sum() if x.numel() else x.sum() * 0

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("L28", "schema.names")
def kernel_takes_its_numbers_in_another_order(p, wrong):
    def right(x, alpha, beta):
        return x * alpha + beta

    def swapped(x, beta, alpha):
        return x * alpha + beta

    op = p.plain("(Tensor x, float alpha, float beta) -> Tensor", swapped if wrong else right,
                 lambda x, alpha, beta: x * alpha + beta)  # fmt: skip
    return op, (p.x(), 2.0, 3.0), {}


@defect("L28", "schema.names")
def fake_takes_its_sizes_in_another_order(p, wrong):
    def kernel(x, rows, columns):
        p.check(0 <= rows < 50 and 0 <= columns < 50, lambda: "sizes")
        return x.new_zeros(rows, columns)

    def right(x, rows, columns):
        return kernel(x, rows, columns)

    def swapped(x, columns, rows):
        return kernel(x, columns, rows)

    op = p.plain("(Tensor x, int rows, int columns) -> Tensor", kernel, swapped if wrong else right)
    return op, (p.x(), 2, 2), {}


@defect("L28", "schema.defaults")
def flag_has_another_default(p, wrong):
    if wrong:

        def kernel(x, keep=False):
            return x * 2 if keep else x * 3
    else:

        def kernel(x, keep=True):
            return x * 2 if keep else x * 3

    return p.plain("(Tensor x, bool keep=True) -> Tensor", kernel,
                   lambda x, keep=True: x * 2), (p.x(),), {}  # fmt: skip


@defect("P11", "fake.number", "fake.count")
def fake_of_a_number_counts_otherwise(p, wrong):
    def kernel(x):
        return x * 2, x.ndim + x.numel()

    def fake(x):
        return x * 2, x.ndim + (x.shape[0] if wrong and x.ndim else x.numel())

    return p.plain("(Tensor x) -> (Tensor, SymInt)", kernel, fake), (p.x(4, 1),), {}


@defect("L25", "calls.grad mode")
def answers_otherwise_where_grad_is_required(p, wrong):
    def kernel(x):
        return x * (3 if wrong and x.requires_grad else 2)

    op = p.custom("(Tensor x) -> Tensor", kernel, p.like, lambda ctx, g: g * 2)
    return op, (p.x(requires_grad=True),), {}


@defect("L25", "results.with grad")
def strides_differ_where_grad_is_recorded(p, wrong):
    def kernel(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        y = x * 2
        return y.t().contiguous().t() if wrong and x.requires_grad else y.contiguous()

    def fake(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        return (x * 2).contiguous()

    op = p.custom("(Tensor x) -> Tensor", kernel, fake, lambda ctx, g: g * 2)
    return op, (p.x(requires_grad=True),), {}


@defect("L102", "fake.autocast", only="maquette")
def autocast_rule_of_another_dtype_than_the_fake(p, wrong):
    def kernel(x):
        if x.dtype == p.torch.bfloat16 and wrong:
            return x.to(p.torch.float32) * 2
        return x * 2

    def fake(x):
        return x.new_empty(x.shape)

    def checked(f):
        def run(x):
            p.check(x.is_contiguous() and x.dtype != p.torch.float16, lambda: "contiguous")
            return f(x)

        return run

    op = p.custom("(Tensor x) -> Tensor", checked(kernel), checked(fake))
    op.register_autocast("cpu", p.torch.bfloat16)
    return op, (p.x(),), {}
