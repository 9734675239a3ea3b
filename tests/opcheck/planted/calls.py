"""Calls that do not repeat: randomness, state, buffers, layouts; twins that differ."""

import numpy as np

from planted.planting import defect


@defect("P44", "calls.random state", "calls.deterministic")
def untagged_randomness(p, wrong):
    tags = () if wrong else (p.torch.Tag.nondeterministic_seeded,)
    op = p.plain(
        "(Tensor x) -> Tensor",
        lambda x: x + p.torch.rand(x.shape),
        lambda x: x + p.torch.rand(x.shape),
        tags=tags,
    )
    return op, (p.x(),), {}


@defect("P44", "calls.deterministic")
def foreign_random_generator(p, wrong):
    draws = np.random.default_rng(0)

    def kernel(x):
        return x + (float(draws.random()) if wrong else 0.5)

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x + 0.5), (p.x(),), {}


@defect("P45", "calls.deterministic", "traced.static")
def counts_its_calls(p, wrong):
    count = [0]

    def kernel(x):
        count[0] += 1
        return x + (count[0] if wrong else 1)

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P45", "calls.deterministic", "calls.precision", "calls.results kept")
def remembers_the_first_answer(p, wrong):
    kept = {}

    def kernel(x):
        key = (tuple(x.shape), x.dtype)
        if not wrong:
            return x.sum() * 1
        if key not in kept:
            kept[key] = x.sum()
        return kept[key] * 1

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x.sum()), (p.x(),), {}


@defect("P45", "calls.deterministic", "calls.threads", "calls.precision", "calls.layout")
def caches_by_shape(p, wrong):
    kept = {}

    def kernel(x):
        key = (tuple(x.shape), x.dtype) if wrong else (x.numpy().tobytes(), x.shape, x.dtype)
        if key not in kept:
            kept[key] = (x * 2).contiguous()
        return kept[key].clone()

    def checked(x):
        return kernel(x) if x.dtype != p.torch.bfloat16 else (x * 2).contiguous()

    return p.plain("(Tensor x) -> Tensor", checked, lambda x: x.new_empty(x.shape)), (p.x(),), {}


@defect("P46", "calls.results kept", "calls.deterministic", "calls.threads")
def returns_a_shared_buffer(p, wrong):
    kept = {}

    def kernel(x):
        key = (tuple(x.shape), x.dtype)
        buffer = kept.setdefault(key, x.new_empty(x.shape)) if wrong else x.new_empty(x.shape)
        return buffer.copy_(x).mul_(2)

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x.new_empty(x.shape)), (p.x(),), {}


@defect("P46", "calls.threads")
def computes_in_a_shared_buffer(p, wrong):
    kept = {}

    def kernel(x):
        key = (tuple(x.shape), x.dtype)
        buffer = kept.setdefault(key, x.new_empty(x.shape)) if wrong else x.new_empty(x.shape)
        buffer.copy_(x)
        buffer.mul_(2)
        return buffer.clone()

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x.new_empty(x.shape)), (p.x(),), {}


@defect("P46", "calls.threads")
def a_global_setting_between_lines(p, wrong):
    setting = {"x": None}

    def kernel(x):
        setting["x"] = x
        y = setting["x"] if wrong else x
        return y * 3

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("LX3", "calls.layout")
def kernel_reads_memory_not_strides(p, wrong):
    def kernel(x):
        if wrong and x.ndim == 2 and x.numel():
            return x.as_strided(x.shape, (x.shape[1], 1), x.storage_offset()).clone() * 2
        return (x * 2).contiguous()

    def fake(x):
        return x.new_empty(x.shape)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 3),), {}


@defect("LX3", "calls.layout")
def kernel_forgets_the_offset(p, wrong):
    def kernel(x):
        y = x.as_strided(x.shape, x.stride(), 0) if wrong else x
        return y + 1

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("L25", "calls.grad mode", "derivative.value", "autograd.key")
def autograd_kernel_computes_something_else(p, wrong):
    op = p.plain("(Tensor x) -> Tensor", lambda x: x.detach() * 2, p.like)
    p._libraries[-1].impl("op", lambda x: x * (3 if wrong and x.requires_grad else 2), "Autograd")
    return op, (p.x(),), {}


@defect("P", "twins.in place", "twins.functional")
def in_place_twin_differs(p, wrong):
    op = p.plain("(Tensor x) -> Tensor", lambda x: x * 2 + 1, lambda x: p.like(x))

    def write(x):
        return x.mul_(2).add_(2 if wrong else 1)

    p.plain("(Tensor(a!) x) -> Tensor(a!)", write, lambda x: x, name="op_")
    return op, (p.x(),), {}


@defect("P", "twins.functional")
def out_twin_differs(p, wrong):
    p.plain("(Tensor x) -> Tensor", lambda x: x * 2, lambda x: p.like(x))
    lib = p.library.Library(p.ns, "FRAGMENT")
    p._libraries.append(lib)
    lib.define("op.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")

    def check(x, out):
        p.check(out.shape == x.shape and out.dtype == x.dtype, lambda: "out must be like x")

    def write(x, *, out):
        check(x, out)
        return out.copy_(x * (3 if wrong and x.numel() > 2 else 2))

    lib.impl("op.out", write, "CPU")
    p.library.register_fake(f"{p.ns}::op.out", lambda x, *, out: (check(x, out), out)[1], lib=lib)
    return getattr(p.torch.ops, p.ns).op.out, (p.x(),), {"out": p.x()}


@defect("LX16", "decomposition.values", only="maquette")
def decomposition_differs(p, wrong):
    op = p.plain("(Tensor x) -> Tensor", lambda x: x.detach() * 2, None)
    p._libraries[-1].impl(
        "op", lambda x: (x * 2).clone() if not wrong else (x + x) * 1.5, "CompositeImplicitAutograd"
    )
    return op, (p.x(),), {}
