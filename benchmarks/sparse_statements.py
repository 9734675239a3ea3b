"""Statements on sparse tensors, for `operators.py`: each on matrices of a few sizes.

``at(n, f)`` calls ``f`` with what `SPARSE_SETUP` makes for ``n`` rows and columns: one matrix in
every layout (``coo``, ``csr``, ``csc``, ``bsr``, ``bsc``, ``dense``), ``other`` of another pattern,
a strided ``factor`` of 64 columns and a ``vector``.
"""

SPARSE_SETUP = """

class _Matrices:
    def __init__(self, n, part):
        def filled():
            keep = T.rand(n, n) < part
            return T.where(keep, T.randn(n, n), T.zeros(())).to(D)

        self.n, self.dense, self.other_dense = n, filled(), filled()
        self.coo, self.other = self.dense.to_sparse(), self.other_dense.to_sparse()
        self.csr, self.csc = self.dense.to_sparse_csr(), self.dense.to_sparse_csc()
        self.bsr, self.bsc = self.dense.to_sparse_bsr((4, 4)), self.dense.to_sparse_bsc((4, 4))
        self.other_csr = self.other_dense.to_sparse_csr()
        self.indices, self.values = self.coo.indices(), self.coo.values()
        self.order = T.randperm(self.values.numel())
        self.shuffled = self.indices[:, self.order]
        self.crow, self.col = self.csr.crow_indices(), self.csr.col_indices()
        self.factor, self.vector = T.randn(n, 64).to(D), T.randn(n).to(D)
        self.turned, self.some = T.randn(64, n).to(D), T.randperm(n)[: n // 4]
        self.diagonals = T.randn(9, n).to(D)
        self.offsets = T.arange(-4, 5)
        self.rows = T.randint(0, n, (n,))
        self.looked_up = T.nn.Embedding(n, 64, sparse=True).to(D)
        self.bags = T.nn.EmbeddingBag(n, 64, sparse=True, mode="sum").to(D)
        self.adam = T.optim.SparseAdam(self.looked_up.parameters())
        self.sgd = T.optim.SGD(self.looked_up.parameters(), 1e-3)
        self.looked_up(self.rows).sum().backward()

    def loose(self):
        return T.sparse_coo_tensor(self.shuffled, self.values, (self.n, self.n))


_sparse = {}


def at(n, f):
    if n not in _sparse:
        T.manual_seed(n)
        _sparse[n] = _Matrices(n, 0.1 if n < 1_000 else 0.01)
    return f(_sparse[n])


def _backward(module, rows):
    module.weight.grad = None
    module(rows).sum().backward()
    return module.weight.grad


def _slope(f, x):
    leaf = x.detach().requires_grad_()
    out = f(leaf)
    (out if out.layout is T.strided else T.sparse.sum(out) if out.layout is T.sparse_coo else
        out.values()).sum().backward()
    return leaf.grad
"""

_SIZES = "{100 300 1_000}"

SPARSE = """
s.dense.to_sparse()
s.dense.to_sparse(1)
s.dense.to_sparse_{csr csc}()
s.dense.to_sparse_{bsr bsc}((4,4))
s.{coo csr csc bsr bsc}.to_dense()
s.coo.to_sparse_{csr csc}()
s.coo.to_sparse_{bsr bsc}((4,4))
s.{csr csc bsr bsc}.to_sparse()
s.csr.to_sparse_csc()
s.csc.to_sparse_csr()
s.{csr csc}.to_sparse_bsr((4,4))
s.bsr.to_sparse_bsc((4,4))
s.loose()
s.loose().coalesce()
T.sparse_csr_tensor(s.crow,s.col,s.values,(s.n,s.n))
s.dense.sparse_mask(s.{coo csr})
s.{coo csr csc bsr} @ s.factor
s.{coo csr csc bsr} @ s.vector
s.turned @ s.{coo csr csc}
T.sparse.mm(s.{coo csr},s.factor)
T.sparse.mm(s.coo,s.other)
s.csr @ s.other_csr
s.csc @ s.csc
T.addmm(s.dense[:,:64],s.{coo csr},s.factor)
T.sparse.addmm(s.dense[:,:64],s.coo,s.factor)
T.addmv(s.vector,s.csr,s.vector)
T.hspmm(s.coo,s.factor)
T.sparse.sampled_addmm(s.csr,s.factor,s.turned)
T.sparse.sampled_addmm(s.csr,s.factor,s.turned,beta=0.5,alpha=2.0)
s.coo + s.{coo other}
s.csr + s.{csr other_csr}
s.loose() + s.other
s.dense + s.{coo csr}
s.coo - s.other
s.coo * s.{coo other dense}
s.csr * s.{csr other_csr dense}
s.{coo csr} * 2.5
s.coo / 2.5
s.{coo csr}.{neg sin abs sqrt relu}()
s.coo ** 2
T.sparse.sum(s.coo)
T.sparse.sum(s.coo,{0 1 (0,1)})
s.csr.sum({0 1},keepdim=True)
s.coo.norm()
T.sparse.{softmax log_softmax}(s.coo,{0 1})
T.sparse.spdiags(s.diagonals,s.offsets,(s.n,s.n))
T.sparse.spdiags(s.diagonals,s.offsets,(s.n,s.n),layout=T.sparse_csr)
s.{coo csr}.t()
s.coo.transpose(0,1).coalesce()
s.coo.permute(1,0)
s.coo.index_select({0 1},s.some)
s.coo[3]
s.coo.{narrow_copy}(0,3,20)
s.coo.unsqueeze(0)
T.cat([s.coo,s.other],{0 1})
T.stack([s.coo,s.other])
s.{coo csr}.clone()
s.{coo csr}.to(T.float16)
T.zeros_like(s.{coo csr})
T.ones_like(s.csr)
s.loose().{sin to_dense}()
_slope(lambda t:T.sparse.mm(t,s.factor),s.{coo csr})
_slope(lambda t:T.sparse.mm(s.{coo csr},t),s.factor)
_slope(lambda t:T.sparse.mm(t,s.other),s.coo)
_slope(lambda t:t.to_dense(),s.{coo csr})
_slope(lambda t:t.to_sparse(),s.dense)
_slope(lambda t:t.sparse_mask(s.coo),s.dense)
_slope(lambda t:T.sparse.sum(t,1),s.coo)
_slope(lambda t:T.sparse.softmax(t,1),s.coo)
_slope(lambda t:T.sparse_coo_tensor(s.indices,t,(s.n,s.n)).to_dense(),s.values)
_slope(lambda t:T.sparse_csr_tensor(s.crow,s.col,t,(s.n,s.n)) @ s.factor,s.values)
_backward(s.looked_up,s.rows)
_backward(s.looked_up,s.rows).coalesce()
_backward(s.bags,s.rows.reshape(-1,4))
s.adam.step()
s.sgd.step()
"""

SPARSE = "".join(f"at({_SIZES}, lambda s: {line})\n" for line in SPARSE.strip().splitlines())
