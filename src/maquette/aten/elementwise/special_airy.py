"""The Airy function Ai, as PyTorch computes it.

Left of -2.09 ``Ai(x) = k (f sin t - g cos t)`` with ``z = 1.5 / (-x)^1.5``, ``t = 1/z + pi/4``,
``k = (pi sqrt(-x))^-0.5`` and f, g smooth in z, for which Cephes (Moshier, 1989) has quotients of
polynomials. The denominators are monic, and PyTorch 2.13 leaves their leading terms out: it is off
by 2.9e-6 at -2.09 and 2.3e-7 at -2.5. Here f and g come from the exact Ai and Bi, and the omission
is repeated, so that the values are PyTorch's to 1e-14.
"""

from __future__ import annotations

import math
from functools import partial
from types import ModuleType

from maquette.aten.common.large_arrays import tabulated
from maquette.aten.elementwise.pointwise import WIDE_FLOATS, Array, special, unary
from maquette.library.page import Variant

# Cephes's denominators of f and g as polynomials in z^2, highest powers first, without the leading
# ones: of z^18 and z^20.
_F_DENOMINATOR = (
    1.33560420706553243746e1, 3.26825032795224613948e1, 2.67367040941499554804e1,
    9.18707402907259625840, 1.47529146771666414581, 1.15687173795188044134e-1,
    4.40291641615211203805e-3, 7.54720348287414296618e-5, 4.51850092970580378464e-7,
)  # fmt: skip
_G_DENOMINATOR = (
    9.30892908077441974853, 1.98352928718312140417e1, 1.55646628932864612953e1,
    5.47686069422975497931, 9.54293611618961883998e-1, 8.64580826352392193095e-2,
    4.12656523824222607191e-3, 1.01259085116509135510e-4, 1.17166733214413521882e-6,
    4.91834570062930015649e-9,
)  # fmt: skip
_NEAR = -2.09  # right of it the values are exact
_FAR = -1000.0  # left of it two terms of f and g are exact
_ZERO = 103.892  # right of it the result underflows


def _polynomial(xp: ModuleType, coefficients: tuple[float, ...], x: Array) -> Array:
    total = xp.zeros_like(x)
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def _oscillating(xp: ModuleType, x: Array) -> Array:
    """Ai left of `_NEAR`."""
    zeta = -2 * x * xp.sqrt(-x) / 3
    z = 1 / zeta
    zz = z * z
    angle = zeta + math.pi / 4
    sine, cosine = xp.sin(angle), xp.cos(angle)
    size = 1 / xp.sqrt(math.pi * xp.sqrt(-x))
    ai, _, bi, _ = special(xp).airy(xp.maximum(x, _FAR))
    f = (sine * ai + cosine * bi) / size - 1
    g = (sine * bi - cosine * ai) / size
    f = f * (1 + zz**9 / _polynomial(xp, _F_DENOMINATOR, zz))
    g = g * (1 + zz**10 / _polynomial(xp, _G_DENOMINATOR, zz))
    far = x < _FAR
    f = xp.where(far, -385 / 10368 * zz, f)
    g = xp.where(far, 5 / 72 * z, g)
    return size * (sine * (1 + f) - cosine * g)


def airy_ai_kernel(xp: ModuleType, x: Array) -> Array:
    return tabulated(xp, "airy_ai", partial(_airy_ai, xp), x)


def _airy_ai(xp: ModuleType, x: Array) -> Array:
    single = x.dtype.itemsize < 8
    x = x.astype(xp.float64)
    left = x < _NEAR
    values = xp.where(
        left,
        _oscillating(xp, xp.where(left, x, _NEAR)),
        special(xp).airy(xp.clip(x, _NEAR, _ZERO))[0],
    )
    values = xp.where(x > _ZERO, 0, values)
    values = xp.where(xp.isinf(x), xp.nan, values)
    return values.astype(xp.float32) if single else values


special_airy_ai = unary(
    "special_airy_ai",
    airy_ai_kernel,
    takes=WIDE_FLOATS,
    label="airy_ai",
    argument="x",
    variants=(Variant.OUT,),
)
special_airy_ai.describe("The Airy function Ai.")
special_airy_ai.nondifferentiable()
