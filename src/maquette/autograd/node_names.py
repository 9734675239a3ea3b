"""Names of nodes as PyTorch prints them: ``MulBackward0``, ``SumBackward1``.

The number says which of an operator's overloads made the node. PyTorch counts them in the order
of a file of its own, so the numbers follow from nothing that a page says; those that are not 0
stand here. The forms of one overload (in place, ``out=``) share its number unless they differ here
too. Nothing but printing depends on a name.
"""

from __future__ import annotations

import re

from maquette.dispatch.operator import OpOverload

_NUMBERS = {
    1: "acosh_ add.Scalar as_strided_ asinh_ atanh_ bernoulli.Tensor bernoulli_.Tensor celu_ clamp "
    "clamp_max.Tensor clamp_min.Tensor conj_physical_ copysign.Scalar _ctc_loss.Tensor div.Scalar "
    "elu_ eq_.Tensor fill.Tensor fmod.Tensor ge_.Tensor gt_.Tensor index_fill.int_Tensor "
    "le_.Tensor leaky_relu_ lerp.Tensor lt_.Tensor masked_fill.Tensor max mean.dim median.dim min "
    "mul.Scalar nanmedian.dim _native_batch_norm_legit.no_stats ne_.Tensor norm.ScalarOpt_dim "
    "normal.Tensor_float polygamma_ pow.Tensor_Tensor prod.dim_int random.to random_.to "
    "remainder.Tensor round.decimals rrelu_with_noise_ rsub.Scalar scatter.value sort.stable "
    "special_xlog1py.self_scalar special_zeta.self_scalar squeeze.dim sub.Scalar sum.dim_IntList "
    "t_ threshold_ transpose_ unsqueeze_ xlogy.Scalar_Self",
    2: "bernoulli_.float div.Tensor_mode fill_.Scalar norm.ScalarOpt_dtype normal.float_Tensor "
    "pow.Scalar random random_ special_xlog1py.other_scalar special_zeta.other_scalar squeeze.dims "
    "xlogy.Scalar_Other",
    3: "div.Scalar_mode fill_.Tensor norm.ScalarOpt_dim_dtype normal.Tensor_Tensor squeeze_",
    4: "squeeze_.dim",
    5: "squeeze_.dims",
}
_NUMBER_OF = {name: number for number, names in _NUMBERS.items() for name in names.split()}
_NAMES = {"copy_": "torch::autograd::CopyBackwards"}
# What a step is called whose gradient is that of the function it is the first half of.
_HALVES = re.compile(
    r"(cdist|pdist|multilabel_margin_loss|nll_loss|nll_loss2d|log_sigmoid)_forward"
)


def node_name(op: OpOverload) -> str:
    """The name of the nodes that ``op`` leaves behind."""
    known = _NAMES.get(op._opname)
    if known is not None and op.namespace == "aten":
        return known
    return f"{_camel(op._opname)}Backward{_number(op)}"


def _camel(name: str) -> str:
    name = name.strip("_")
    half = _HALVES.fullmatch(name)
    name = half.group(1) if half else name.removesuffix("_functional")
    raised = re.sub(r"(?:^|_|(?<=\d))([a-z])", lambda match: match.group(1).upper(), name)
    return raised.replace("_", "")


def _number(op: OpOverload) -> int:
    if op.namespace != "aten":
        return 0
    known = _NUMBER_OF.get(_key(op))
    if known is None and op._schema.is_mutable:
        twin = op.functional
        known = None if twin is None else _NUMBER_OF.get(_key(twin))
    return known or 0


def _key(op: OpOverload) -> str:
    overload = op._overloadname
    return op._opname if overload in ("", "default") else f"{op._opname}.{overload}"
