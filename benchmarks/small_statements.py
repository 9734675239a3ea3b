"""Statements of `operator_statements.py` about calls of few numbers: draws, small matrices,
recurrent layers and cells, and 16-bit calls of 10⁴ elements."""

from __future__ import annotations

SMALL_SETUP = """
few_numbers, some_numbers = _of(T.rand(10) * 0.8 + 0.1), _of(T.rand(1_000) * 0.9 + 0.05)
page, page_weight, page_matrix = _of(T.randn(40, 256)), _of(T.rand(256)), _of(T.randn(64, 256))
page_labels, shapes = T.randint(0, 256, (40,)), _of(T.full((2_000,), 20.0))
sequence1, sequence8 = _of(T.randn(50, 1, 64)), _of(T.randn(20, 8, 64))
row, state = _of(T.randn(1, 8)), _of(T.randn(1, 32))
if D.is_floating_point and D.itemsize > 2:
    m4 = _of(T.randn(4, 4)) + 4 * T.eye(4, dtype=D)
    m100, m50 = _of(T.randn(100, 4, 4)) + 4 * T.eye(4, dtype=D), _of(T.randn(50, 50))
    s4, s100, s50 = (m @ m.mT + len(m.mT) * T.eye(m.shape[-1], dtype=D) for m in (m4, m100, m50))


def _ten_steps(name):
    cell, given = _module(name, 8, 32), state.detach().requires_grad_()
    two = name == 'LSTMCell'
    h = (given, given) if two else given
    for _ in range(10):
        h = cell(row, h)
    (h[0] if two else h).sum().backward()
    return given.grad
"""

SMALL = """
T.{rand randn empty zeros}({10 100 1000}, dtype=D)
T.{rand_like randn_like bernoulli}({few_numbers some_numbers})
some_numbers.{normal_ uniform_ exponential_ random_}()
few_numbers.clone().{log_normal_ cauchy_ exponential_}()
T.multinomial({few_numbers,3 few_numbers,3,True some_numbers,100 some_numbers,100,True})
F.dropout({few_numbers some_numbers page})
T.normal(few_numbers, few_numbers)
_module('{LSTM GRU RNN}', 64, 64)({sequence1 sequence8})
_train(_module('{LSTM GRU RNN}', 64, 64), {sequence1 sequence8})
_module('{LSTMCell GRUCell RNNCell}', 8, 32)(row)
_ten_steps('{LSTMCell GRUCell RNNCell}')
"""

PAGES = """
F.{layer_norm rms_norm}(page, (256,), page_weight)
_train(F.{layer_norm rms_norm}, page, (256,), page_weight)
F.{cross_entropy nll_loss}(page, page_labels)
_train(F.cross_entropy, page, page_labels)
F.{softmax log_softmax}(page, 1)
_train(F.{softmax log_softmax}, page, 1)
F.{relu gelu silu}(page)
_train(F.{relu gelu silu}, page)
F.linear(page, page_matrix)
_train(F.linear, page, page_matrix)
F.mse_loss(page, page)
F.batch_norm(page, None, None, page_weight, page_weight, True)
F.group_norm(page.view(4, 10, 256), 5)
page.{sum amax argmax topk}(1)
"""

DRAWS = """
T.{poisson _standard_gamma}({few_numbers some_numbers[:400]})
T.binomial(some_numbers[:100] * 0 + {10 100}, some_numbers[:100])
_train(T._standard_gamma, {shapes shapes[:200] some_numbers})
T.lgamma({-20*unit x})
"""

WHOLE_DRAWS = """
T.randint(0, 10, ({10 1000 10000},))
T.randperm({10 100 1000})
"""

SMALL_MATRICES = """
L.{inv det slogdet eig svd svdvals qr lu lu_factor}({m4 m100 m50})
L.{cholesky eigh eigvalsh ldl_factor}({s4 s100 s50})
L.solve({m4,m4 m100,m100 m50,m50})
_train(L.{inv det}, {m4 m100 m50})
_train(L.{cholesky eigvalsh}, {s4 s100 s50})
"""
