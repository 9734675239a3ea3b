"""Operators under a second name: NumPy's (``arccos``, ``absolute``) and those of ``torch.special``.

`_alias` is one line an alias: it has every form of the operator that it names (in place, ``out=``,
for numbers), and each is a call of that form. So there is nothing to say of an alias but its names;
methods and functions come of them as of any operator.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from maquette.aten.common.operators import aten
from maquette.aten.elementwise.pointwise import POINTWISE
from maquette.dispatch.facts import OperatorFacts
from maquette.dispatch.generated import called_with
from maquette.dispatch.kernels import Boxed, Factory, Kernel, caller_place
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.registry import define_overload, find_packet
from maquette.dispatch.tags import Tag
from maquette.library.page import define

_COMPOSITE = (DispatchKey.CompositeImplicitAutograd,)


def _alias(
    name: str,
    target: str,
    *,
    without: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    tags: tuple[Tag, ...] = (),
) -> None:
    """Define ``name``, and ``name_`` where there is a ``target_``, as calls of the target.

    The functions of `torch.special` have no in-place forms.
    without: overloads of the target that PyTorch has under its first name only; renamed: those of
    another name; tags: of the forms that write nothing.
    """
    place = caller_place()
    for form in ("",) if name.startswith("special_") else ("", "_"):
        packet = find_packet(f"aten::{target}{form}")
        if packet is None:
            continue
        for overload, op in packet._overloads.items():
            if overload not in without:
                own = (renamed or {}).get(overload, overload)
                _define(f"aten::{name}{form}", own, op, tags, place)


def _define(
    name: str, overload: str, target: OpOverload, tags: tuple[Tag, ...], place: str
) -> None:
    arguments = target._schema_text.partition("(")[2]
    text = f"{name}({arguments}" if overload == "default" else f"{name}.{overload}({arguments}"
    written = [tag for tag in target.tags if tag is Tag.out or tag is Tag.inplace]
    facts = OperatorFacts(takes_numbers=target.takes_numbers)
    op = define_overload(text, written or tags, place, facts=facts)
    # No `define`: a page to fill in would cost 5 us of 12 (CPython 3.11), and stay empty.
    kernel = Kernel(_calling(target), python=target, speaks_operators=True)
    op.register_for_good(_COMPOSITE, kernel)


def _calling(target: OpOverload) -> Factory:
    """The factory of a kernel that calls ``target`` with the same arguments."""

    def factory(op: OpOverload, ks: int) -> Boxed:
        arguments = op._schema.arguments
        names = [f"p{i}" for i in range(len(arguments))]
        pairs = zip(names, arguments, strict=True)
        passed = [f"{a.name}={p}" if a.kwarg_only else p for p, a in pairs]
        return called_with(names, passed, "alias", target._call)

    return factory


# --- NumPy's names --------------------------------------------------------------------

_alias("absolute", "abs")
_alias("negative", "neg")
_alias("fix", "trunc")
_alias("clip", "clamp", tags=POINTWISE)
_alias("arccos", "acos")
_alias("arccosh", "acosh")
_alias("arcsin", "asin")
_alias("arcsinh", "asinh")
_alias("arctan", "atan")
_alias("arctanh", "atanh")
_alias("arctan2", "atan2")
_alias("greater", "gt")
_alias("greater_equal", "ge")
_alias("less", "lt")
_alias("less_equal", "le")
_alias("not_equal", "ne")
_alias("multiply", "mul", without=("Scalar_out",))
_alias("subtract", "sub", without=("Scalar_out",))
_alias("divide", "div", without=("Scalar_out", "Scalar_mode_out"))
_alias(
    "true_divide",
    "div",
    without=("Scalar_out", "Tensor_mode", "Scalar_mode", "out_mode", "Scalar_mode_out"),
    tags=POINTWISE,
)
_alias("matrix_power", "linalg_matrix_power")
_alias("native_channel_shuffle", "channel_shuffle", without=("out",))

# --- torch.special --------------------------------------------------------------------

_alias("special_digamma", "digamma")
_alias("special_erf", "erf")
_alias("special_erfc", "erfc")
_alias("special_erfinv", "erfinv")
_alias("special_exp2", "exp2")
_alias("special_expit", "sigmoid")
_alias("special_expm1", "expm1")
_alias("special_gammainc", "igamma")
_alias("special_gammaincc", "igammac")
_alias("special_gammaln", "lgamma")
_alias("special_i0", "i0")
_alias("special_log1p", "log1p")
_alias("special_logit", "logit")
_alias("special_multigammaln", "mvlgamma")
_alias("special_psi", "digamma")
_alias("special_sinc", "sinc")
_alias(
    "special_xlogy",
    "xlogy",
    renamed={
        "Tensor": "default",
        "Scalar_Other": "other_scalar",
        "Scalar_Self": "self_scalar",
        "OutTensor": "out",
        "OutScalar_Self": "self_scalar_out",
        "OutScalar_Other": "other_scalar_out",
    },
)

# `round` has no default for its decimals.
special_round = define("aten::special_round(Tensor self, *, int decimals=0) -> Tensor")
special_round.describe("Each element rounded to `decimals` digits, halves to the even neighbour.")
special_round.composite(lambda self, decimals: aten.round(self, decimals=decimals))
special_round_out = define(
    "aten::special_round.out(Tensor self, *, int decimals=0, Tensor(a!) out) -> Tensor(a!)",
    tags=[Tag.out],
)
special_round_out.composite(
    lambda self, decimals, out: aten.round(self, decimals=decimals, out=out)
)
