"""The rules of the operators that gradual types know, one section for an operator.

An inference rule returns what the arguments' types say of the result; the checker joins it with
what is annotated. A refinement rule lists equal sizes, the argument's on the left. An algebraic
rule gives a result's sizes as formulas.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from maquette.api import functions
from maquette.aten.nn.pool.pool_windows import pooled_size
from maquette.fx.gradual_types.lattice import (
    NUMBERS,
    broadcast_types,
    expand_to_tensor_dim,
    get_greatest_upper_bound,
    type_of_sum,
)
from maquette.fx.gradual_types.registry import (
    register_algebraic_expressions_inference_rule,
    register_inference_rule,
    register_refinement_rule,
)
from maquette.fx.gradual_types.unification import Equality
from maquette.fx.node import Node
from maquette.fx.tensor_type import Dyn, TensorType, is_consistent
from maquette.nn.modules._construct import repeated
from maquette.nn.modules.activation import ReLU
from maquette.nn.modules.batchnorm import BatchNorm2d
from maquette.nn.modules.conv import Conv2d
from maquette.nn.modules.linear import Linear
from maquette.nn.modules.pooling import AdaptiveAvgPool2d, MaxPool2d

# --- what rules are made of ----------------------------------------------------------


def _arguments(node: Node, *names: str, **defaults: Any) -> list[Any]:
    """The node's arguments under these names, given by position, by name or by default."""
    given = {**defaults, **dict(zip((*names, *defaults), node.args)), **node.kwargs}
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"{node.target}: expected the arguments {names}, got none for {missing}")
    return [given[name] for name in (*names, *defaults)]


def _type_of(argument: Any) -> Any:
    """An argument's type; of a constant, its class."""
    return argument.type if isinstance(argument, Node) else type(argument)


def _ranked_like_result(argument: Node, node: Node) -> Any:
    """The argument's type; unknown, it has as many dimensions as the result is annotated with."""
    if argument.type == Dyn and isinstance(node.type, TensorType):
        argument.type = expand_to_tensor_dim(Dyn, len(node.type.__args__))
    return argument.type


def _sizes(node: Any) -> Sequence[Any]:
    """The sizes of a node's type; none if the type has none."""
    kind = _type_of(node)
    return kind.__args__ if isinstance(kind, TensorType) else ()


def _equalities(left: Sequence[Any], right: Sequence[Any]) -> list[Equality]:
    return [Equality(a, b) for a, b in zip(left, right)]


def _check_size(what: str, expected: int, size: Any) -> None:
    if not is_consistent(size, expected):
        raise TypeError(f"{what}: expected {expected}, got a size of {size}")


def _dimension(dim: int, rank: int) -> int:
    if not -rank <= dim < rank:
        raise TypeError(f"expected a dimension in [{-rank}, {rank}), got {dim}")
    return dim % rank


# --- add -----------------------------------------------------------------------------


@register_inference_rule(operator.add)
@register_inference_rule(operator.iadd)
@register_inference_rule(functions.add)
def add_inference(node: Node) -> Any:
    """The broadcast type; ``node.meta["broadcast"]`` says whether an operand was expanded."""
    left, right = (_type_of(argument) for argument in _operands(node))
    if left not in NUMBERS and right not in NUMBERS:
        node.meta["broadcast"] = broadcast_types(left, right) != (left, right)
    return type_of_sum(left, right)


@register_refinement_rule(operator.add)
@register_refinement_rule(operator.iadd)
@register_refinement_rule(functions.add)
def add_refinement(node: Node) -> list[Equality]:
    """Where the operands agree after broadcasting, the result's size is theirs."""
    left, right = (_type_of(argument) for argument in _operands(node))
    if not (isinstance(left, TensorType) and isinstance(right, TensorType)):
        return []
    first, second = broadcast_types(left, right)
    each = zip(first.__args__, second.__args__, _sizes(node))
    return [Equality(a, result) for a, b, result in each if a == b]


def _operands(node: Node) -> list[Any]:
    return _arguments(node, "input", "other")[:2]


# --- getattr -------------------------------------------------------------------------


@register_inference_rule(getattr)
def getattr_inference(node: Node) -> Any:
    """``x.shape`` is some tuple of sizes, of which the type says nothing."""
    attribute = node.args[1]
    if attribute != "shape":
        raise TypeError(f"getattr: expected the attribute 'shape', got {attribute!r}")
    return Dyn


# --- reshape -------------------------------------------------------------------------


@register_inference_rule(functions.reshape)
def reshape_inference(node: Node) -> Any:
    """The sizes asked for, where numbers of elements allow it.

    With sizes unknown on both sides, the known ones must divide those of the other side, as
    PyTorch's checker wants it, though other numbers could fit, too.
    """
    argument, shape = _arguments(node, "input", "shape")
    wanted = [size if isinstance(size, int) and size != -1 else Dyn for size in shape]
    if argument.type != Dyn and not isinstance(argument.type, TensorType):
        raise TypeError(f"reshape: expected a tensor, got the type {argument.type}")
    if isinstance(argument.type, TensorType) and not _may_hold(argument.type.__args__, wanted):
        raise TypeError(f"reshape: expected sizes for {argument.type}, got {list(shape)}")
    return TensorType(tuple(wanted))


def _may_hold(given: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether tensors of these two types can have the same number of elements."""
    known, asked = (math.prod([s for s in sizes if s != Dyn]) for sizes in (given, wanted))
    open_given, open_wanted = Dyn in given, Dyn in wanted
    if not open_given and not open_wanted:
        return bool(known == asked)
    into = [asked % known == 0 if known else asked == 0] if open_given else []
    outof = [known % asked == 0 if asked else known == 0] if open_wanted else []
    return any(into + outof)


# --- transpose -----------------------------------------------------------------------


@register_inference_rule(functions.transpose)
def transpose_inference(node: Node) -> Any:
    """The type with two sizes swapped."""
    argument, dim0, dim1 = _arguments(node, "input", "dim0", "dim1")
    if argument.type == Dyn:
        return Dyn
    if not isinstance(argument.type, TensorType):
        raise TypeError(f"transpose: expected a tensor, got the type {argument.type}")
    return TensorType(_swapped(argument.type.__args__, dim0, dim1))


@register_refinement_rule(functions.transpose)
def transpose_refinement(node: Node) -> list[Equality]:
    """All sizes stay, two in swapped places."""
    argument, dim0, dim1 = _arguments(node, "input", "dim0", "dim1")
    sizes = _sizes(argument)
    return _equalities(_swapped(sizes, dim0, dim1), _sizes(node)) if sizes else []


def _swapped(sizes: Sequence[Any], dim0: int, dim1: int) -> tuple[Any, ...]:
    found = list(sizes)
    i, j = _dimension(dim0, len(found)), _dimension(dim1, len(found))
    found[i], found[j] = found[j], found[i]
    return tuple(found)


# --- flatten -------------------------------------------------------------------------


@register_inference_rule(functions.flatten)
def flatten_inference(node: Node) -> Any:
    """One size in place of several: their product, if all are known."""
    argument, start, end = _flattened(node)
    if not isinstance(argument.type, TensorType):
        return Dyn
    sizes = argument.type.__args__
    if not sizes:
        return TensorType((1,))
    first, last = _dimension(start, len(sizes)), _dimension(end, len(sizes))
    if first > last:
        raise TypeError(f"flatten: expected start_dim <= end_dim, got {start} and {end}")
    inner = sizes[first : last + 1]
    product = Dyn if Dyn in inner else math.prod(inner)
    return TensorType((*sizes[:first], product, *sizes[last + 1 :]))


@register_refinement_rule(functions.flatten)
def flatten_refinement(node: Node) -> list[Equality]:
    """The sizes before the flattened ones stay, and those after them."""
    argument, start, end = _flattened(node)
    sizes, result = _sizes(argument), _sizes(node)
    if not sizes or not result:
        return []
    before, after = _dimension(start, len(sizes)), len(sizes) - 1 - _dimension(end, len(sizes))
    kept = _equalities(sizes[:before], result[:before])
    return kept + (_equalities(sizes[-after:], result[-after:]) if after else [])


def _flattened(node: Node) -> list[Any]:
    return _arguments(node, "input", start_dim=0, end_dim=-1)


# --- modules that keep all sizes -----------------------------------------------------


@register_inference_rule(BatchNorm2d)
def batch_norm_inference(node: Node, module: BatchNorm2d) -> Any:
    """The argument's type, of four dimensions, the second of which counts the features."""
    (argument,) = _arguments(node, "input")
    argument.type = expand_to_tensor_dim(argument.type, 4)
    result = get_greatest_upper_bound(node.type, argument.type)
    _check_size("BatchNorm2d's features", module.num_features, result.__args__[1])
    return result


@register_inference_rule(ReLU)
def relu_inference(node: Node, module: ReLU) -> Any:
    """The argument's type."""
    (argument,) = _arguments(node, "input")
    kind = _ranked_like_result(argument, node)
    return kind if isinstance(kind, TensorType) else Dyn


@register_refinement_rule(BatchNorm2d)
@register_refinement_rule(ReLU)
def all_eq(n: Node) -> list[Equality]:
    """All sizes of the argument are the result's."""
    return _equalities(_sizes(_arguments(n, "input")[0]), _sizes(n))


# --- linear --------------------------------------------------------------------------


@register_inference_rule(Linear)
def linear_inference(node: Node, module: Linear) -> Any:
    """The last size counts the features."""
    (argument,) = _arguments(node, "input")
    kind = _ranked_like_result(argument, node)
    if not isinstance(kind, TensorType):
        return Dyn
    if not kind.__args__:
        raise TypeError(f"Linear: expected a tensor of at least one dimension, got {kind}")
    _check_size("Linear's input features", module.in_features, kind.__args__[-1])
    return TensorType((*kind.__args__[:-1], module.out_features))


@register_refinement_rule(Linear)
def linear_refinement(node: Node) -> list[Equality]:
    """All sizes but the last stay."""
    return _equalities(_sizes(_arguments(node, "input")[0])[:-1], _sizes(node)[:-1])


# --- convolution and pooling ---------------------------------------------------------


def calculate_out_dimension(d_in: Any, module_instance: Conv2d | MaxPool2d, index: int) -> Any:
    """How many windows fit along a dimension of size ``d_in``; index: 0 for height, 1 for width.

    `Dyn` of `Dyn`, a formula of a SymPy expression. TypeError if not one window fits.
    """
    if d_in == Dyn:
        return Dyn
    kernel, stride, dilation = (
        repeated(value, 2)[index]
        for value in (module_instance.kernel_size, module_instance.stride, module_instance.dilation)
    )
    padding = module_instance.padding
    span = dilation * (kernel - 1)
    around = 0 if isinstance(padding, str) else repeated(padding, 2)[index]
    d_in = d_in + span if padding == "same" else d_in
    if not isinstance(d_in, int):
        import sympy

        return sympy.floor((d_in + 2 * around - span - 1) / sympy.Integer(stride)) + 1
    ceil = getattr(module_instance, "ceil_mode", False)
    count = pooled_size(d_in, kernel, stride, around, dilation, ceil)
    if count <= 0:
        raise TypeError(f"{module_instance}: expected an image that holds a window, got {d_in}")
    return count


def _image(kind: TensorType) -> tuple[Sequence[Any], Any, list[Any]]:
    """A type's batch, channels, and height and width."""
    if len(kind.__args__) not in (3, 4):
        raise TypeError(f"expected a tensor of 3 or 4 dimensions, got {kind}")
    *batch, channels, height, width = kind.__args__
    return batch, channels, [height, width]


@register_inference_rule(Conv2d)
def conv2d_inference(node: Node, module: Conv2d) -> Any:
    """The module's channels, and as many windows as fit."""
    (argument,) = _arguments(node, "input")
    if argument.type == Dyn or not isinstance(argument.type, TensorType):
        argument.type = expand_to_tensor_dim(argument.type, 4)
    batch, channels, image = _image(argument.type)
    _check_size("Conv2d's input channels", module.in_channels, channels)
    windows = [calculate_out_dimension(size, module, i) for i, size in enumerate(image)]
    return TensorType((*batch, module.out_channels, *windows))


@register_refinement_rule(Conv2d)
def conv2d_refinement(node: Node) -> list[Equality]:
    """The batch stays."""
    return _equalities(_sizes(_arguments(node, "input")[0])[:-3], _sizes(node)[:-3])


@register_algebraic_expressions_inference_rule(Conv2d)
def conv2d_relation(node: Node, module: Conv2d) -> Any:
    """Height and width as formulas of the argument's."""
    kind = _arguments(node, "input")[0].type
    if not (isinstance(kind, TensorType) and isinstance(node.type, TensorType)):
        return None
    image = _image(kind)[2]
    windows = [calculate_out_dimension(size, module, i) for i, size in enumerate(image)]
    return TensorType((*node.type.__args__[:-2], *windows))


@register_inference_rule(MaxPool2d)
def max_pool2d_inference(node: Node, module: MaxPool2d) -> Any:
    """As many windows as fit; of a result with indices the type says nothing."""
    (argument,) = _arguments(node, "input")
    kind = _ranked_like_result(argument, node)
    if module.return_indices or not isinstance(kind, TensorType):
        return Dyn
    batch, channels, image = _image(kind)
    windows = [calculate_out_dimension(size, module, i) for i, size in enumerate(image)]
    return TensorType((*batch, channels, *windows))


@register_inference_rule(AdaptiveAvgPool2d)
def adaptive_avg_pool2d_inference(node: Node, module: AdaptiveAvgPool2d) -> Any:
    """The sizes that the module is told; None keeps the argument's."""
    (argument,) = _arguments(node, "input")
    kind = _ranked_like_result(argument, node)
    if not isinstance(kind, TensorType):
        return Dyn
    batch, channels, image = _image(kind)
    told = module.output_size
    wanted = told if isinstance(told, list | tuple) else (told, told)
    sizes = [old if new is None else new for old, new in zip(image, wanted)]
    return TensorType((*batch, channels, *sizes))


@register_refinement_rule(MaxPool2d)
@register_refinement_rule(AdaptiveAvgPool2d)
def pool_refinement(node: Node) -> list[Equality]:
    """Batch and channels stay."""
    return _equalities(_sizes(_arguments(node, "input")[0])[:-2], _sizes(node)[:-2])
