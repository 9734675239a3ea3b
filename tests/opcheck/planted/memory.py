"""Schema lies: writes and aliases."""

import numpy as np

from planted.planting import defect


@defect("P1", "writes.undeclared")
def writes_undeclared(p, wrong):
    def kernel(x):
        y = x.clone()
        (x if wrong else y).add_(1)
        return y

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P1", "writes.undeclared")
def writes_second_argument(p, wrong):
    def kernel(x, y):
        z = y if wrong else y.clone()
        z.mul_(2)
        return x + z

    return p.plain("(Tensor x, Tensor y) -> Tensor", kernel, p.broadcast), (p.x(), p.x()), {}


@defect("P1", "writes.undeclared")
def writes_list_member(p, wrong):
    def kernel(xs):
        last = xs[-1] if wrong else xs[-1].clone()
        last.add_(1)
        return last * 2

    return (
        p.plain("(Tensor[] xs) -> Tensor", kernel, lambda xs: p.like(xs[-1])),
        ([p.x(), p.x()],),
        {},
    )


@defect("P2", "writes.undeclared")
def writes_for_one_dtype(p, wrong):
    def kernel(x):
        y = x if wrong and x.dtype == p.torch.float64 else x.clone()
        return y.add_(1).clone()

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P2", "writes.undeclared")
def writes_if_contiguous(p, wrong):
    def kernel(x):
        # contiguous() copies only what is not.
        y = x.contiguous() if wrong else x.clone()
        return y.abs_().clone()

    def fake(x):
        return x.contiguous().clone() if wrong else p.like(x)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 2).t(),), {}


@defect("P3", "writes.undeclared")
def writes_over_nan(p, wrong):
    def kernel(x):
        if wrong:
            x.numpy()[np.isnan(x.numpy())] = -np.nan
            x.numpy().view("u4")[np.isnan(x.numpy())] ^= 1
        return x.clone()

    def checked(x):
        return kernel(x) if x.dtype == p.torch.float32 else x.clone()

    return p.plain("(Tensor x) -> Tensor", checked, p.like), (p.x(),), {}


@defect("P3", "writes.undeclared")
def writes_nan_to_zero(p, wrong):
    def kernel(x):
        y = x if wrong else x.clone()
        return p.torch.nan_to_num_(y).clone() if hasattr(p.torch, "nan_to_num_") else y.clone()

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P3", "writes.beside", "writes.undeclared")
def writes_outside_its_view(p, wrong):
    def kernel(x):
        if wrong and x.storage_offset():
            whole = x.as_strided((1,), (1,), 0)
            whole.fill_(3)
        x.mul_(2)

    return (
        p.plain("(Tensor(a!) x) -> ()", kernel, lambda x: None),
        (p.x(),),
        {},
    )


@defect("P4", "writes.never made")
def declares_a_write_never_made(p, wrong):
    def kernel(x, y):
        (y.clone() if wrong else y).add_(x)

    op = p.custom("(Tensor x, Tensor(a!) y) -> ()", kernel, lambda x, y: None, writes={"y"})
    return op, (p.x(), p.x()), {}


@defect("P5", "writes.undeclared")
def changes_strides(p, wrong):
    def kernel(x):
        y = x if wrong and x.ndim == 2 else x.view(x.shape)
        y.t_() if y.ndim == 2 else None
        return x.clone()

    def fake(x):
        return (x.t() if wrong and x.ndim == 2 else x).clone()

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 3),), {}


@defect("P6", "aliases.undeclared")
def returns_its_input(p, wrong):
    def kernel(x):
        return x if wrong else x.clone()

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P6", "aliases.undeclared")
def custom_returns_its_input(p, wrong):
    def kernel(x):
        return x if wrong and x.ndim == 0 else x.clone()

    return p.custom("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P7", "aliases.undeclared")
def returns_a_view(p, wrong):
    def kernel(x):
        return x[:1] if wrong else x[:1].clone()

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x[:1].clone()), (p.x(),), {}


@defect("P7", "aliases.undeclared")
def returns_a_detached_reshape(p, wrong):
    def kernel(x):
        y = x.reshape(-1)
        return y if wrong else y.clone()

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x.new_empty(x.numel())), (p.x(),), {}


@defect("P8", "aliases.undeclared")
def returns_its_input_if_contiguous(p, wrong):
    def kernel(x):
        return x.contiguous() if wrong else x.contiguous().clone()

    fake = lambda x: x.new_empty(x.shape)  # noqa: E731
    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 2).t(),), {}


@defect("P8", "aliases.undeclared")
def returns_its_input_if_scale_is_one(p, wrong):
    def kernel(x, s):
        return x if wrong and s == 1 else x * s

    return p.plain("(Tensor x, int s) -> Tensor", kernel, lambda x, s: x * s), (p.x(), 3), {}


@defect("P8", "aliases.undeclared")
def returns_its_input_if_same_dtype(p, wrong):
    def kernel(x):
        y = x.to(p.torch.float64)
        return y if wrong else y.clone()

    def fake(x):
        return p.torch.empty_like(x, dtype=p.torch.float64)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P9", "aliases.undeclared")
def outputs_share_storage(p, wrong):
    def kernel(x):
        y = x * 2
        return y, (y[:1] if wrong else y[:1].clone())

    def fake(x):
        return p.like(x), p.like(x)[:1].clone()

    return p.plain("(Tensor x) -> (Tensor, Tensor)", kernel, fake), (p.x(),), {}


@defect("P9", "aliases.undeclared")
def list_members_share_storage(p, wrong):
    def kernel(x):
        parts = list((x * 2).unbind(0)) if x.ndim else [x * 2]
        return parts if wrong else [t.clone() for t in parts]

    def fake(x):
        return [t.clone() for t in (x.unbind(0) if x.ndim else [x])]

    return p.plain("(Tensor x) -> Tensor[]", kernel, fake), (p.x(),), {}


@defect("P10", "aliases.not made", "fake.aliasing")
def declares_a_view_returns_a_copy(p, wrong):
    def kernel(x):
        y = x.view(x.shape)
        return y.clone() if wrong else y

    op = p.plain("(Tensor(a) x) -> Tensor(a)", kernel, lambda x: x.view(x.shape))
    return op, (p.x(),), {}


@defect("L76", "results.fit", "aliases.returns written", "aliases.undeclared")
def in_place_returns_a_copy(p, wrong):
    def kernel(x):
        x.mul_(2)
        return x.clone() if wrong else x

    return p.plain("(Tensor(a!) x) -> Tensor(a!)", kernel, lambda x: x, name="op_"), (p.x(),), {}


@defect("L27", "results.fit", only="maquette")
def returns_too_few(p, wrong):
    def kernel(x):
        return (x * 2,) if wrong else (x * 2, x * 3)

    op = p.plain("(Tensor x) -> (Tensor, Tensor)", kernel, lambda x: (p.like(x), p.like(x)))
    return op, (p.x(),), {}


@defect("LX8", "writes.requires grad")
def writes_what_requires_grad(p, wrong):
    def kernel(x):
        x.detach().numpy()[...] *= 2

    op = p.plain("(Tensor(a!) x) -> ()", kernel, lambda x: None)
    return op, (p.x(requires_grad=wrong),), {}
