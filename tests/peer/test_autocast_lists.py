"""Autocast: the operators that a region casts, and the types of their results, are PyTorch's.

On ``cuda`` both sides compute with fakes, so that no device is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

import maquette as mq
import maquette.torch as mt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

DEVICES = ("cpu", "cuda")

# What the calls name; LOW is the region's type.
SETUP = {
    "a": "T.ones(4, 4, device=D)",
    "b": "T.ones(2, 4, 4, device=D)",
    "v": "T.ones(4, device=D)",
    "p": "T.ones(4, 4, device=D) * 0.5",
    "image": "T.ones(2, 4, 8, 8, device=D)",
    "line": "T.ones(2, 4, 8, device=D)",
    "space": "T.ones(2, 4, 4, 4, 4, device=D)",
    "kernel": "T.ones(4, 4, 3, 3, device=D)",
    "h": "T.ones(4, 4, device=D, dtype=LOW)",
    "half3": "T.ones(2, 4, 4, device=D, dtype=LOW)",
    "double": "T.ones(4, 4, device=D, dtype=T.float64)",
    "whole": "T.zeros(4, device=D, dtype=T.int64)",
    "grid": "T.zeros(2, 8, 8, 2, device=D)",
}

CALLS = (
    """
T.mm(a, a)|T.mm(h, a)|T.mm(double, double)|T.addmm(a, a, a)|T.bmm(b, b)|T.baddbmm(b, b, b)
T.matmul(a, b)|a @ v|T.mv(a, v)|T.addmv(v, a, v)|T.addr(a, v, v)|T.addbmm(a, b, b)|T.dot(v, v)
T.linalg.multi_dot([a, a, a])|T.chain_matmul(a, a)|F.linear(a, a, v)|T.einsum('ij,jk', a, a)
F.conv2d(image, kernel)|F.conv_transpose2d(image, kernel)|F.conv1d(line, kernel[..., 0])
F.conv3d(space, kernel[:, :, None])|F.prelu(a, v[:1])|F.scaled_dot_product_attention(b, b, b)
T.exp(h)|T.log(h)|T.log10(h)|T.log1p(h)|T.log2(h)|T.expm1(h)|T.rsqrt(h)|T.reciprocal(h)|T.acos(h)
T.asin(h)|T.cosh(h)|T.sinh(h)|T.tan(h)|T.erfinv(h)|T.pow(h, 2)|h ** h|2 ** h|T.sqrt(h)|T.sin(h)
T.erf(h)|T.tanh(h)|T.sigmoid(h)|T.relu(h)|F.gelu(h)|F.silu(h)|F.softplus(h)|F.softmax(h, 0)
F.log_softmax(h, 0)|F.softmin(h, 0)|F.softmax(h, 0, dtype=LOW)|T.cumsum(h, 0)|T.cumprod(h, 0)
T.sum(h)|h.sum(0)|h.sum(0, dtype=LOW)|T.prod(h)|h.prod(0)|T.mean(h)|T.std(h)|T.var(h)|T.norm(h)
T.norm(h, 2, 0)|T.renorm(h, 2, 0, 1.0)|T.logsumexp(h, 0)|T.dist(h, h)|T.cdist(b, b)
T.cdist(half3, half3)|F.pdist(a)|F.cosine_similarity(h, a)|F.cosine_similarity(h, h)
F.layer_norm(h, (4,))|F.layer_norm(a, (4,))|F.group_norm(half3, 2)|F.instance_norm(half3)
F.batch_norm(half3, v, v, training=True)|F.rms_norm(h, (4,))|F.local_response_norm(half3, 2)
F.l1_loss(h, h)|F.smooth_l1_loss(h, h)|F.mse_loss(h, h)|F.huber_loss(h, h)|F.kl_div(h, h)
F.nll_loss(h, whole)|F.cross_entropy(h, whole)|F.soft_margin_loss(h, h)
F.margin_ranking_loss(h, h, h)|F.hinge_embedding_loss(h, h)|F.multilabel_margin_loss(h, h.long())
F.cosine_embedding_loss(h, h, v)|F.triplet_margin_loss(h, h, h)|F.poisson_nll_loss(h, h)
F.binary_cross_entropy(p, p)|F.binary_cross_entropy_with_logits(h, h)|F.multi_margin_loss(h, whole)
T.addcdiv(a, h, h)|T.addcmul(h, a, h)|T.atan2(h, a)|T.bilinear(a, a, b, v[:2])|T.cross(h[:3], a[:3])
T.dot(h[0], v)|T.vdot(h[0], v)|T.tensordot(h, a)|T.scatter_add(a, 0, whole[None], h)
T.cat([h, a])|T.stack([h, a])|T.index_put(a, (whole,), h)|F.grid_sample(image.to(LOW), grid)
F.grid_sample(image, grid)|h + a|h * a|h + h|T.add(h, 1.5)|T.where(a > 0, h, a)|T.equal(h, h)
F.interpolate(image.to(LOW), scale_factor=2)|F.interpolate(image.to(LOW), size=3, mode='bilinear')
F.interpolate(image.to(LOW), size=3, mode='bicubic')|F.interpolate(line.to(LOW), size=3)
F.interpolate(space.to(LOW), size=3, mode="trilinear")|F.avg_pool2d(image.to(LOW), 2)
F.avg_pool3d(space.to(LOW), 2)|F.max_pool2d(image.to(LOW), 2)
F.adaptive_avg_pool2d(image.to(LOW), 2)
F.adaptive_avg_pool3d(space.to(LOW), 2)|F.adaptive_max_pool3d(space.to(LOW), 2)
F.fractional_max_pool2d(image.to(LOW), 2, 4)|F.pad(half3, (1, 1), mode='reflect')
T.linalg.vector_norm(h)|T.linalg.matrix_norm(h)|T.linalg.svdvals(a)|T.linalg.det(a)|T.linalg.inv(a)
1 / h|F.normalize(h)|F.conv_transpose1d(line, kernel[..., 0])|T.rnn_tanh_cell(a, a, a, a)
F.conv_transpose3d(space, kernel[:, :, None])|T.rnn_relu_cell(a, a, a, a)
T.lstm_cell(a, [a, a], a.repeat(4, 1), a.repeat(4, 1), v.repeat(4), v.repeat(4))[1]
T.linalg.qr(a)[0]|T.trace(h)|T.fft.fft(a)|T.quantile(a, 0.5)|T.nanquantile(a, 0.5)|T.diff(h)
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


def _overloads(device: str) -> tuple[set[str], set[str]]:
    """The overloads that a region acts on: PyTorch's, and ours of those that are here."""
    key = f"Autocast{device.upper()}"
    theirs, ours = set(), set()
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        try:
            op = getattr(getattr(getattr(mq.ops, namespace), packet), overload or "default")
        except AttributeError:
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
            theirs.add(name)
        if device in op.autocast_policies:
            ours.add(name)
    return theirs, ours


@pytest.mark.parametrize("device", DEVICES)
def test_regions_act_on_pytorchs_overloads(device):
    theirs, ours = _overloads(device)
    assert len(theirs) > 100
    assert ours == theirs


@contextmanager
def _region(T, device: str, low: str) -> Iterator[None]:
    """A region, which PyTorch opens for cuda only where there is such a device."""
    T.set_autocast_dtype(device, getattr(T, low))
    T.set_autocast_enabled(device, True)
    try:
        yield
    finally:
        T.set_autocast_enabled(device, False)


def _result(T, fakes: AbstractContextManager[object], device: str, low: str, call: str) -> str:
    """The type of a call's result within a region, or that it is refused."""
    space = {"T": T, "F": T.nn.functional, "D": device, "LOW": getattr(T, low)}
    with ExitStack() as stack:
        if device == "cuda":
            stack.enter_context(fakes)
        space |= {name: eval(text, space) for name, text in SETUP.items()}
        stack.enter_context(_region(T, device, low))
        try:
            found = eval(call, space)
        except (RuntimeError, NotImplementedError) as error:
            if "not linked with support for cuda" in str(error):
                pytest.skip("this build of PyTorch has no fake of it on cuda")
            return "refused"
    return str(found.dtype) if hasattr(found, "dtype") else type(found).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("call", CALLS)
def test_results_in_a_region_have_pytorchs_types(call, device, low):
    from torch._subclasses import FakeTensorMode

    theirs = _result(torch, FakeTensorMode(), device, low, call)
    ours = _result(mt, mq.FakeTensorMode(), device, low, call)
    assert ours == theirs
