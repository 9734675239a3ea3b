"""What `operators.py` measures: statements by dtype, over arrays that are made for each dtype.

``{sin cos}`` stands for each of its words in turn, so that a line may be many statements. ``D`` is
the dtype; `SETUP` makes equal arrays of it on both sides, from the same seed.
Layers, losses, optimizers and linear algebra are in `layer_statements.py`, sparse tensors in
`sparse_statements.py`.
"""

from __future__ import annotations

from image_statements import IMAGE_SETUP, IMAGES
from layer_statements import LAYERS, MATRICES
from small_statements import DRAWS, PAGES, SMALL, SMALL_MATRICES, SMALL_SETUP, WHOLE_DRAWS
from sparse_statements import SPARSE, SPARSE_SETUP

SETUP = """
F, L, S = T.nn.functional, T.linalg, T.special


def _of(t):
    if D.is_floating_point:
        return t.to(D)
    if D.is_complex:
        return T.complex(t, t.flip(0)).to(D)
    return t > 0 if D is T.bool else (t * 300).to(D)


T.manual_seed(0)
normal, normal2, uniform = T.randn(1_000, 1_000), T.randn(1_000, 1_000), T.rand(1_000, 1_000)
index, few = T.randint(0, 1_000, (1_000, 1_000)), T.randint(0, 8, (1_000, 1_000))
places, rows = T.randint(0, 1_000, (1_000,)), T.randint(0, 1_000, (4_096,))
counts, bags = T.randint(0, 3, (1_000,)), T.arange(0, 4_096, 8)
mask, mask2 = normal > 0, normal2 > 0
x, y, flat = _of(normal), _of(normal2), _of(normal.reshape(-1))
unit, positive = _of(uniform * 0.98 + 0.01), _of(normal.abs() + 0.1)
above, signs = _of(normal.abs() + 1.1), _of(normal2.sign())
spaced = _of(T.arange(-3.0, 3.0, 0.1))
image, volume = _of(T.randn(16, 16, 64, 64)), _of(T.randn(2, 8, 32, 32, 32))
line = _of(T.randn(32, 32, 1_024))
grid, grid3 = _of(T.rand(16, 64, 64, 2) * 2 - 1), _of(T.rand(2, 32, 32, 32, 3) * 2 - 1)
theta = _of(T.randn(4, 2, 3))
kernel1, kernel2, kernel3 = (_of(T.randn(32, *s)) for s in ((32, 3), (16, 3, 3), (8, 3, 3, 3)))
back1, back2, back3 = (_of(T.randn(*s)) for s in ((32, 16, 3), (16, 8, 3, 3), (8, 4, 3, 3, 3)))
many, rhs = _of(T.randn(500, 8, 8)), _of(T.randn(500, 8, 3))
matrix, column = _of(T.randn(128, 128)), _of(T.randn(128, 8))
points, table = _of(T.randn(400, 32)), _of(T.randn(1_000, 256))
sequence = _of(T.randn(64, 32, 128))
query, weight, bias = _of(T.randn(4, 8, 128, 64)), _of(T.randn(128)), _of(T.randn(128))
if D.is_floating_point and D.itemsize > 2:
    squares = many @ many.mT + 8 * T.eye(8, dtype=D)
    square = matrix @ matrix.T + 128 * T.eye(128, dtype=D)
    logs = x.reshape(100, 10, 1_000).log_softmax(2)
    labels = places[:200].reshape(10, 20).clamp_min(1)
    frames, labelled = T.full((10,), 100), T.full((10,), 20)


def _train(function, x, *rest, **options):
    leaf = x.detach().requires_grad_()
    out = function(leaf, *rest, **options)
    out = out[0] if isinstance(out, (tuple, list)) else out
    out.sum().backward()
    return leaf.grad


def _gradients(function, x, weight, *rest, **options):
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    function(x, weight, *rest, **options).sum().backward()
    return x.grad, weight.grad


_made = {}


def _module(name, *given, **options):
    key = repr((name, given, options))
    if key not in _made:
        T.manual_seed(1)
        _made[key] = getattr(T.nn, name)(*given, **options).to(D)
    return _made[key]


def _step(name, **options):
    key = repr((name, options))
    if key not in _made:
        parameters = [T.nn.Parameter(x[100 * i : 100 * i + 100].clone()) for i in range(10)]
        for p in parameters:
            p.grad = y[: len(p)].clone()
        _made[key] = getattr(T.optim, name)(parameters, lr=1e-3, **options)
    _made[key].step()
"""
SETUP += SPARSE_SETUP + IMAGE_SETUP + SMALL_SETUP

FLOATS = """
T.{abs neg sign sgn signbit floor ceil round trunc frac exp exp2 expm1 sin cos tan atan sinh cosh
    tanh asinh}(x)
T.{sigmoid sinc erf erfc angle isnan isinf isfinite isposinf isneginf isreal positive deg2rad
    rad2deg}(x)
T.{nan_to_num i0 logical_not relu square reciprocal frexp}(x)
T.{asin acos atanh erfinv logit}(unit)
T.{log log2 log10 log1p sqrt rsqrt lgamma digamma}(positive)
T.{round}(x, decimals=2)
T.acosh(above)
T.mvlgamma(above + 2, 3)
T.polygamma({1 2 3}, positive)
S.{erfcx i0e i1 i1e log_ndtr ndtr bessel_j0 bessel_j1 modified_bessel_i0 modified_bessel_i1}(x)
S.{spherical_bessel_j0 airy_ai expit}(x)
S.{ndtri entr}(unit)
S.{bessel_y0 bessel_y1 psi gammaln modified_bessel_k0 modified_bessel_k1
    scaled_modified_bessel_k0}(positive)
S.{scaled_modified_bessel_k1}(positive)
S.{zeta}(positive + 1.5, above)
S.{gammainc gammaincc}(positive, above)
S.{chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
    chebyshev_polynomial_w}(unit, 5)
S.{shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v}(unit, 5)
S.{hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p}(unit, 5)
{T.xlogy S.xlog1py T.pow T.float_power T.fmod T.remainder T.floor_divide}(positive, unit)
T.{add sub mul div atan2 copysign fmod remainder floor_divide maximum minimum fmax fmin hypot}(x, y)
T.{logaddexp logaddexp2 nextafter ldexp heaviside eq ne lt le gt ge logical_and logical_or
    logical_xor}(x, y)
T.{dist isclose}(x, y)
T.div(x, positive, rounding_mode={'floor' 'trunc'})
positive ** {2 3 0.5 -1 -2 2.5}
2.0 ** x
x {% // / * + - <} 0.3
1 / positive
1 - x
T.fmod(x, 0.3)
T.add(x, y, alpha=2.5)
T.{addcmul addcdiv}(x, y, positive, value=0.5)
T.lerp(x, y, {0.3 unit})
T.where(mask, x, {y 0.0})
x.clamp({-1,1 -positive,positive min=0.0 max=y})
x + {y[0] y[:,:1] y.t() y[0,0]}
x[:, ::2] * y[:, ::2]
x.clone().{add_ mul_ copy_ sub_ div_}(y)
x.clone().{exp_ sqrt_ sigmoid_ relu_ zero_ neg_ tanh_}()

F.{relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink logsigmoid hardswish
    hardsigmoid}(x)
F.{hardtanh hardshrink softshrink leaky_relu glu rrelu normalize}(x)
F.gelu(x, approximate='tanh')
F.threshold(x, 0.1, 0.0)
F.rrelu(x, training=True)
F.prelu(x, weight[:1])
F.{softmax log_softmax softmin}(x, {0 1})
F.gumbel_softmax(x, dim=1)
F.{cosine_similarity pairwise_distance}(x, y)
_train(F.{relu6 elu selu celu gelu silu mish softplus softsign tanhshrink logsigmoid hardswish
    hardsigmoid}, x)
_train(F.{relu hardtanh hardshrink softshrink leaky_relu glu rrelu normalize}, x)
_train(F.{softmax log_softmax}, x, 1)
_train(F.prelu, x, weight[:1])
_train(T.{exp expm1 sin cos tan atan tanh sinh cosh asinh sigmoid erf square abs reciprocal sinc},
    x)
_train(T.{log log1p sqrt rsqrt lgamma digamma}, positive)
_train(T.{asin acos atanh erfinv logit}, unit)
_train(T.{mul div atan2 hypot maximum logaddexp pow}, positive, y)
_train(lambda t: T.where(mask, t, y), x)
_train(lambda t: {t**2.5 t.clamp(.5,1) t+y[0] t*y[:,:1] T.lerp(t,y,0.3) T.addcmul(t,y,x)}, positive)

T.{sum mean std var prod amax amin argmax argmin max min median nanmedian nansum nanmean}(x)
T.{count_nonzero aminmax all any norm std_mean var_mean}(x)
T.{sum mean std var prod amax amin argmax max min median nanmedian mode logsumexp nansum nanmean}(x,
    {0 1})
T.{count_nonzero all any std_mean var_mean cumsum cumprod cummax cummin logcumsumexp sort
    argsort}(x, {0 1})
x.aminmax(dim={0 1})
x.norm({0 1 2 3 float('inf')}, {0 1})
L.{vector_norm matrix_norm}(x)
L.vector_norm(x, {1 2.5 float('inf')}, 1)
x.{quantile nanquantile}(0.3, {0 1})
x.kthvalue(300, {0 1})
x.topk({10 100 400}, 1)
x.{msort diff}()
x.sort(dim=1, descending=True, stable=True)
x.renorm(2, {0 1}, 1.0)
T.trapezoid(x)
T.{cumulative_trapezoid gradient}(x)
T.{equal allclose}(x, x)
T.isin(x, x[0])
T.histc(x, 100)
T.histogram(x, {100 spaced})
T.histogramdd(x.reshape(-1, 2)[:100_000], (10, 10))
T.bincount(index.reshape(-1), flat)
T.bucketize(x, spaced)
T.searchsorted({spaced x.sort(1)[0]}, y)
T.unique(x.round(decimals=1), return_inverse=True, return_counts=True)
T.unique(x[:, :4].round(), dim=0)
T.unique_consecutive(x.round(), return_inverse=True)
T.{corrcoef cov}(x[:200])
T.segment_reduce(x, {'sum' 'mean' 'max' 'min' 'prod'}, lengths=T.full((100,), 10))
_train(T.sum, x, 1)
_train(T.{mean prod amax max min median mode logsumexp cumsum cumprod cummax logcumsumexp std var
    sort}, x, 1)
_train(T.{norm mean std var amax prod}, x)
_train(lambda t: {t.norm(dim=1) t.topk(10,1)[0] t.kthvalue(300,1)[0] t.quantile(0.3,1)
    t.renorm(2,0,1.0)}, x)

T.unflatten(x, 0, (10, 100)).{clone contiguous}()
F.channel_shuffle(x.reshape(10, 100, 10, 100), 10)
F.pixel_shuffle(x.reshape(10, 100, 10, 100), 2)
F.pixel_unshuffle(x.reshape(10, 10, 100, 100), 2)
T.cartesian_prod(x[0], y[0])
T.combinations(x[0, :300])
T.vander(x[0], 10)
T.trace(x)
T.cross(x[:, :999].reshape(-1, 3), y[:, :999].reshape(-1, 3))
F.one_hot(places, 1_000).to(D)
T.arange({0,1_000_000 0.0,1e5,0.1}, dtype=D)
T.{linspace logspace}(0, 1, 1_000_000, dtype=D)
T.signal.windows.{hann hamming blackman bartlett cosine nuttall}(1_000_000, dtype=D)
T.signal.windows.{gaussian exponential kaiser general_hamming}(1_000_000, dtype=D)
T.{hann_window hamming_window blackman_window bartlett_window kaiser_window}({1_000 1_000_000},
    dtype=D)
_train(lambda t: {t.gather(1,index) t[places] t[:,places] t[places[:,None],places] t[mask]
    t.take(index)}, x)
_train(lambda t: {t.index_select(0,places) t.index_select(1,places) t.take_along_dim(index,1)}, x)
_train(lambda t: {t.masked_fill(mask,0.0) t.masked_select(mask) t.index_add(0,places,y) t.roll(3,1)
    t.flip(1)}, x)
_train(lambda t: {t.scatter(1,index,y) t.scatter_add(1,index,y)
    T.zeros(1_000,1_000,dtype=D).scatter_add(1,index,t)}, x)
_train(lambda t: {t.scatter_reduce(1,index,y,'amax') t.scatter_reduce(1,index,y,'mean')
    t.index_reduce(0,places,y,'amax')}, x)
_train(lambda t: {t.index_put((places,),y) t.masked_scatter(mask,y) t.repeat_interleave(2,1)
    t.tile(2,1)}, x)
_train(lambda t: {T.cat([t,y],1) T.stack([t,y],2) t.tril() t.unfold(1,5,2) t.diff()
    t.sort(1)[0]}, x)

T.{rand randn}(1_000_000, dtype=D)
T.empty(1_000_000, dtype=D).{normal_(1,2) uniform_(-1,2) exponential_() cauchy_() log_normal_()
    geometric_(0.3)}
T.empty(1_000_000, dtype=D).{random_(0,10) bernoulli_(0.3) random_()}
T.{normal}(x, positive)
T.{bernoulli}(unit)
T.poisson({positive positive*50})
T.binomial(T.full((1_000, 1_000), {5.0 20.0}, dtype=D), unit)
T._standard_gamma({positive above})
T._sample_dirichlet(positive[:, :10])
positive.multinomial(10, {True False})
F.{dropout alpha_dropout feature_alpha_dropout}(x, 0.3, True)
F.dropout2d(image, 0.3)
F.feature_alpha_dropout(image, 0.3, True)
F.dropout3d(volume, 0.3)
F.dropout1d(line, 0.3)
_train(F.{dropout alpha_dropout}, x, 0.3, True)
T.nn.init.{kaiming_normal_ kaiming_uniform_ xavier_normal_ xavier_uniform_ orthogonal_
    trunc_normal_}(x[:300, :300].clone())
"""

# What moves elements, of every dtype.
MOVED = """
T.cat([x, y], {0 1})
T.stack([x, y], {0 2})
T.{hstack vstack dstack}([x, y])
x.{t().contiguous clone fliplr flipud}()
x.flip({0 1 0,1})
T.rot90(x)
x.roll({10,1 10 (3,5),(0,1)})
x[:300, :300].{tile repeat}(3, 3)
x[:300].repeat_interleave(3, {0 1})
x.repeat_interleave(counts, 0)
x.{tril triu}(1)
x.diagonal().clone()
T.diag_embed(x[:100, :100])
T.{kron}(x[:30, :30], y[:30, :30])
T.block_diag(x[:300, :300], y[:300, :300])
[t.clone() for t in T.meshgrid(x[0], x[1], indexing='ij')]
x.unfold(1, 5, 2).clone()
image.permute(0, 2, 3, 1).contiguous()
T.narrow_copy(x, 1, 10, 500)
x.masked_scatter(mask, y)
x.masked_fill(mask, 1)
x.masked_select(mask)
x[{mask places places,places index,index -1-places}]
x[:, places]
x[places[:, None], places]
x.take(index)
x.take_along_dim(index, {0 1})
x.gather({0 1}, index)
x.index_select({0 1}, places)
x.index_fill({0 1}, places[:300], 1)
x.index_copy(0, places[:300], y[:300])
x.index_copy(1, places[:300], y[:, :300])
x.index_add(0, places[:300], y[:300])
x.index_add(1, places[:300], y[:, :300])
x.index_put((places,), y)
x.index_put((places,), y, accumulate=True)
x.index_put((index, index), y, accumulate={True False})
x.put(index, y, {True False})
x.scatter({0 1}, index, y)
x.scatter(1, index, 1)
x.scatter_add({0 1}, index, y)
T.select_scatter(x, y[0], 0, 3)
T.slice_scatter(x, y[:, :500], 1, 0, 1_000, 2)
T.diagonal_scatter(x, y[0])
x.clone().__setitem__((slice(None), slice(None, None, 2)), 1)
x.clone().__setitem__(mask, 1)
x.nonzero()
T.count_nonzero(x, 1)
T.argwhere(x)
T.where(mask, x, y)
x.to(T.{float32 float64 int64 int32 int16 int8 uint8 bool float16 bfloat16})
T.full((1_000, 1_000), 1, dtype=D)
T.{zeros ones}(1_000, 1_000, dtype=D)
T.{zeros_like ones_like empty_like}(x)
T.eye(1_000, dtype=D)
x.{eq ne logical_and logical_or logical_xor}(y)
x.{logical_not isnan isfinite}()
T.{equal}(x, x)
F.pad(image, (2, 2, 2, 2))
F.pixel_shuffle(x.reshape(10, 100, 10, 100), 2)
"""

# Numbers with an order: all but complex.
ORDERED = """
x.{max min argmax argmin amax amin cummax cummin sort argsort}({0 1})
x.{any all}({0 1})
x.{sum cumsum}({0 1})
x.{sum any all argmax max min}()
x.{kthvalue}(300, 1)
x.topk(10, 1)
x.{msort aminmax}()
T.isin(x, x[0])
x.unique(return_inverse=True)
x.unique_consecutive()
T.{maximum minimum lt le gt ge}(x, y)
T.bucketize(x, spaced.sort()[0])
x.scatter_reduce({0 1}, index, y, {'amax' 'amin' 'sum' 'prod'})
x.index_reduce({0 1}, places, y, {'amax' 'prod'})
"""

INTEGERS = """
T.{abs neg sign signbit bitwise_not square positive}(x)
T.{exp sqrt sin tanh log1p reciprocal sigmoid erf}(x)
T.{add sub mul fmod remainder bitwise_and bitwise_or bitwise_xor gcd lcm floor_divide div}(x,
    y.clamp_min(1))
T.bitwise_left_shift(x, few.to(D))
T.bitwise_right_shift(x, few.to(D))
T.pow(x, few.to(D))
T.div(x, y.clamp_min(1), rounding_mode={'floor' 'trunc'})
x {** // % * + - & < ==} 3
x.clamp({-5,5 min=0})
x.{sum prod cumsum cumprod median mode}(1)
x.{prod median}()
x[:200, :200] @ y[:200, :200]
(x.abs().reshape(-1) % 1_000).bincount()
T.arange(0, 1_000_000, dtype=D)
T.randint(0, 10, (1_000_000,), dtype=D)
T.empty(1_000_000, dtype=D).random_()
T.tril_indices(1_000, 1_000, dtype=D)
T.{randperm}(1_000_000, dtype=D)
T.combinations(x[0, :300])
"""

BOOLS = """
T.{bitwise_not logical_not}(x)
T.{bitwise_and bitwise_or bitwise_xor}(x, y)
x {& | ^} y
x.{sum mode}(1)
"""

COMPLEX = """
T.{abs angle neg sgn square reciprocal sqrt rsqrt exp log log2 log10 log1p expm1 sin cos tan sinh
    cosh tanh}(x)
T.{asin acos atan asinh acosh atanh sigmoid isreal isinf conj_physical positive}(x)
T.{add sub mul div pow}(x, y)
x {** * + - /} 2.5
x.conj().resolve_conj()
T.view_as_real(x).clone()
{x.real x.imag}.clone()
T.polar(normal.abs(), normal)
T.complex(normal, normal2)
x.{sum mean prod cumsum cumprod std var}({0 1})
x.{sum mean prod norm}()
x.norm(dim=1)
x[:200, :200] @ y[:200, :200]
many @ many
T.{addcmul addcdiv}(x, y, y, value=0.5)
T.lerp(x, y, 0.3)
T.{dot vdot}(x[0], y[0])
T.{outer}(x[0], y[0])
L.{inv det qr eigvals cholesky_ex}(many[:100])
L.{inv det svdvals eigvals}(matrix)
L.solve(many, rhs)
T.fft.{fft ifft irfft fftshift}(line)
_train(lambda t: (t * y).abs(), x)
_train(lambda t: t.{exp sin tanh sqrt abs}().abs(), x)
F.conv1d(line, kernel1)
"""

HALVES = """
T.{abs neg sign floor ceil round trunc exp expm1 sin cos tan tanh sigmoid erf isnan square
    reciprocal atan}(x)
T.{log log2 log10 log1p sqrt rsqrt}(positive)
T.{add sub mul div maximum minimum atan2 fmod remainder eq lt hypot}(x, y)
positive ** {2 0.5 2.5 -1}
x {+ * / <} 0.3
T.where(mask, x, {y 0.0})
T.{addcmul addcdiv}(x, y, positive)
T.lerp(x, y, 0.3)
x.clamp(-1, 1)
F.{relu elu gelu silu softplus mish leaky_relu hardswish hardtanh logsigmoid glu}(x)
F.{softmax log_softmax}(x, {0 1})
F.{layer_norm rms_norm}(x, (1_000,))
x.norm(dim=1)
T.{sum mean std var prod amax argmax max min cumsum cumprod sort logsumexp median}(x, {0 1})
T.{sum mean std var amax prod norm}(x)
x.topk(10, 1)
{matrix@matrix many@many x@y}
F.linear(sequence, matrix, bias)
F.{mse_loss l1_loss smooth_l1_loss}(x, y)
F.cross_entropy(x, places)
F.conv2d(image, kernel2)
F.max_pool2d(image, 2)
F.avg_pool2d(image, 2)
F.{batch_norm}(image, None, None, training=True)
F.group_norm(image, 4)
F.interpolate(image, scale_factor=2, mode={'nearest' 'bilinear'})
F.scaled_dot_product_attention(query, query, query)
F.embedding(rows, table)
F.dropout(x, 0.3)
T.{rand randn}(1_000_000, dtype=D)
T.empty(1_000_000, dtype=D).{normal_() uniform_() bernoulli_(0.3)}
T.arange(0, 60_000, dtype=D)
_train(F.{relu gelu silu}, x)
_train(F.{softmax log_softmax}, x, 1)
_train(F.layer_norm, x, (1_000,))
_train(T.{exp tanh sum mean}, x)
_step({'Adam' 'SGD'}, foreach=False)
"""

BY_DTYPE = {
    "float32": (
        FLOATS,
        LAYERS,
        IMAGES,
        MATRICES,
        MOVED,
        ORDERED,
        SPARSE,
        SMALL,
        DRAWS,
        PAGES,
        SMALL_MATRICES,
    ),
    "float64": (
        FLOATS,
        LAYERS,
        IMAGES,
        MATRICES,
        MOVED,
        ORDERED,
        SPARSE,
        SMALL,
        SMALL_MATRICES,
    ),
    "int64": (INTEGERS, MOVED, ORDERED, WHOLE_DRAWS),
    "int32": (INTEGERS, MOVED, ORDERED),
    "uint8": (INTEGERS, MOVED, ORDERED),
    "bool": (BOOLS, MOVED, ORDERED),
    "complex64": (COMPLEX, MOVED),
    "float16": (HALVES, MOVED, ORDERED, SMALL, PAGES),
    "bfloat16": (HALVES, MOVED, ORDERED, SMALL, PAGES),
}
