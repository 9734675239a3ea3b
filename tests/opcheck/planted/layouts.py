"""Memory formats, narrow dtypes, partial writes: kernels that are right for plain tensors only."""

from planted.planting import defect


@defect("P16", "fake.strides")
def fake_ignores_the_memory_format(p, wrong):
    def kernel(x, memory_format=None):
        kind = p.torch.preserve_format if memory_format is None else memory_format
        return x.clone(memory_format=kind)

    def fake(x, memory_format=None):
        return x.clone() if wrong else kernel(x, memory_format)

    schema = "(Tensor x, *, MemoryFormat? memory_format=None) -> Tensor"
    return p.plain(schema, kernel, fake), (p.x(2, 3, 2, 2),), {}


@defect("P16", "fake.strides")
def integers_take_another_path(p, wrong):
    def kernel(x):
        if x.is_floating_point() or x.is_complex():
            return x * 2
        return (x * 2).contiguous()

    def fake(x):
        return p.like(x) if wrong else kernel(x)

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(2, 3),), {}


@defect("P16", "fake.strides")
def fake_of_a_transposed_result(p, wrong):
    def kernel(a, b):
        p.check(a.ndim == b.ndim == 2 and a.dtype == b.dtype, lambda: "matrices")
        p.check(a.shape[1] == b.shape[0], lambda: "inner sizes")
        return (b.t() @ a.t()).contiguous().t().clone()

    def fake(a, b):
        p.check(a.ndim == b.ndim == 2 and a.dtype == b.dtype, lambda: "matrices")
        p.check(a.shape[1] == b.shape[0], lambda: "inner sizes")
        if wrong:
            return a.new_empty(a.shape[0], b.shape[1])
        return a.new_empty(b.shape[1], a.shape[0]).t()

    return p.custom("(Tensor a, Tensor b) -> Tensor", kernel, fake), (p.x(2, 3), p.x(3, 4)), {}


@defect("LX3", "calls.narrow")
def bfloat16_is_read_as_integers(p, wrong):
    def kernel(x):
        if x.dtype != p.torch.bfloat16:
            return (x * 2).contiguous()
        if wrong:
            whole = x.contiguous().view(p.torch.int16)
            return whole.to(p.torch.float32).mul(2).to(p.torch.bfloat16)
        return (x.to(p.torch.float32) * 2).to(p.torch.bfloat16).contiguous()

    return p.custom("(Tensor x) -> Tensor", kernel, lambda x: x.new_empty(x.shape)), (p.x(),), {}


@defect("LX3", "calls.narrow")
def sums_half_in_half(p, wrong):
    def kernel(x):
        total = p.torch.zeros((), dtype=x.dtype if wrong else p.torch.float64)
        if x.is_complex():
            return x.sum()
        for value in x.reshape(-1).unbind():
            total = total + value.to(total.dtype) * 256
        return (total / 256).to(x.dtype)

    def fake(x):
        return x.new_empty(())

    return p.custom("(Tensor x) -> Tensor", kernel, fake), (p.x(900) + 2,), {}


@defect("P4", "calls.narrow", "writes.never made")
def write_is_lost_for_bfloat16(p, wrong):
    def kernel(x):
        if x.dtype == p.torch.bfloat16:
            wide = x.to(p.torch.float32)
            wide.mul_(2)
            if not wrong:
                x.copy_(wide)
        else:
            x.mul_(2)

    op = p.custom("(Tensor(a!) x) -> ()", kernel, lambda x: None, writes={"x"})
    return op, (p.x(),), {}


@defect("P3", "writes.undeclared")
def writes_before_it_refuses(p, wrong):
    def kernel(x, n):
        if wrong and not n > 0:
            x.add_(1)
        p.check(n > 0, lambda: "n above 0")
        return x * n

    def fake(x, n):
        p.check(n > 0, lambda: "n above 0")
        return x * n

    return p.plain("(Tensor x, int n) -> Tensor", kernel, fake), (p.x(), 2), {}


@defect("P1", "writes.undeclared")
def writes_through_a_view(p, wrong):
    def kernel(x):
        turned = x.t() if x.ndim == 2 else x
        if wrong:
            turned.mul_(2)
            return turned.t().clone() if x.ndim == 2 else turned.clone()
        return x * 2

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("P5", "writes.undeclared")
def turns_its_input_for_good(p, wrong):
    def kernel(x):
        if x.ndim < 2:
            return x * 1
        if wrong:
            return x.transpose_(0, 1).sum(0).clone()
        return x.transpose(0, 1).sum(0).clone()

    def fake(x):
        return x * 1 if x.ndim < 2 else x.transpose(0, 1).sum(0).clone()

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(3, 3),), {}


@defect("P10", "aliases.not made", "fake.aliasing")
def view_of_what_is_contiguous_only(p, wrong):
    def kernel(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        return x.reshape(-1) if wrong else x.transpose(0, 1)

    return p.plain("(Tensor(a) x) -> Tensor(a)", kernel, kernel,
                   key="CompositeExplicitAutograd"), (p.x(),), {}  # fmt: skip


@defect("L76", "aliases.returns written", "aliases.undeclared", "results.fit")
def out_form_returns_another_tensor(p, wrong):
    def kernel(x, *, out):
        out.resize_(x.shape)
        out.copy_(x * 2)
        return out.clone() if wrong else out

    schema = "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
    return p.plain(schema, kernel, kernel), (p.x(),), {"out": p.x()}


@defect("L76", "writes.out read")
def out_form_adds_to_what_was_there(p, wrong):
    def kernel(x, *, out):
        p.check(out.shape == x.shape and out.dtype == x.dtype, lambda: "out as x")
        if not wrong:
            out.zero_()
        return out.add_(x)

    schema = "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
    return p.plain(schema, kernel, kernel), (p.x(),), {"out": p.x() * 0}


@defect("P9", "calls.results kept")
def returns_a_table_that_it_keeps(p, wrong):
    tables = {}

    def kernel(x):
        n = x.shape[-1] if x.ndim else 1
        if n not in tables:
            tables[n] = p.torch.arange(n)
        return tables[n] if wrong else tables[n].clone()

    def fake(x):
        return x.new_empty(x.shape[-1] if x.ndim else 1, dtype=p.torch.int64)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P46", "calls.keeps inputs")
def keeps_its_inputs_alive(p, wrong):
    seen = []

    def kernel(x):
        if wrong:
            seen.append(x)
        return x * 2

    return p.plain("(Tensor x) -> Tensor", kernel, p.like), (p.x(),), {}


@defect("LX3", "calls.layout", "calls.deterministic")
def depends_on_where_memory_lies(p, wrong):
    def kernel(x):
        odd = x.data_ptr() % (2 * x.element_size()) if wrong and x.numel() else 0
        return x * 2 + (1 if odd else 0)

    return p.plain("(Tensor x) -> Tensor", kernel, lambda x: x * 2), (p.x(),), {}


@defect("LX3", "calls.layout")
def copies_rows_by_their_first_stride(p, wrong):
    def kernel(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        if wrong and x.numel():
            rows = [x.as_strided((x.shape[1],), (1,), x.storage_offset() + i * x.stride(0))
                    for i in range(x.shape[0])
                    if x.stride(1) == 1 or x.is_contiguous()]  # fmt: skip
            return p.torch.stack(rows) if rows else x * 0
        return (x * 1).contiguous()

    def fake(x):
        p.check(x.ndim == 2, lambda: "a matrix")
        return x.new_empty(x.shape)

    return p.plain("(Tensor x) -> Tensor", kernel, fake), (p.x(),), {}


@defect("P17", "fake.offset", "fake.strides")
def fake_of_a_view_counts_steps_otherwise(p, wrong):
    def kernel(x, step):
        p.check(x.ndim == 1 and 0 < step < 100, lambda: "a row, a step above 0")
        return x[::step]

    def fake(x, step):
        p.check(x.ndim == 1 and 0 < step < 100, lambda: "a row, a step above 0")
        n = (x.shape[0] + step - 1) // step
        return x[:n] if wrong else x[::step]

    op = p.plain("(Tensor(a) x, int step) -> Tensor(a)", kernel, fake,
                 key="CompositeExplicitAutograd")  # fmt: skip
    return op, (p.x(6), 1), {}


@defect("P1", "writes.undeclared", "calls.deterministic")
def normalizes_its_weights_in_place(p, wrong):
    def kernel(x, weight):
        p.check(weight.ndim == 1 and x.shape[-1:] == weight.shape, lambda: "a weight a column")
        p.check(weight.is_floating_point() and x.dtype == weight.dtype, lambda: "floats")
        w = weight if wrong else weight.clone()
        w.div_(w.abs().sum() + 1)
        return x * w

    def fake(x, weight):
        p.check(weight.ndim == 1 and x.shape[-1:] == weight.shape, lambda: "a weight a column")
        p.check(weight.is_floating_point() and x.dtype == weight.dtype, lambda: "floats")
        return x * weight

    return p.plain("(Tensor x, Tensor weight) -> Tensor", kernel, fake), (p.x(2, 3), p.x(3)), {}
