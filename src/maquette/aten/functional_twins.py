"""Functional twins of operators that only mutate: ``uniform`` of ``uniform_``, and so on.

PyTorch makes them for functionalization; nobody calls them by hand. Each clones what its operator
mutates, runs it on the clones and returns them after the operator's own results. Schemas are those
of the operators without the alias annotations.
"""

from __future__ import annotations

from maquette.dispatch.forms import functional_text
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import find_packet
from maquette.dispatch.tags import Tag
from maquette.library.page import OperatorPage, define
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import BROADCASTS

_NOT_OF_TWINS = (Tag.inplace, Tag.inplace_view, Tag.core, Tag.out, Tag.pt2_compliant_tag)


def _twins(mutating: str, name: str = "") -> None:
    """Define a twin of each overload of an operator, named as it is without ``_`` or ``name``."""
    packet = find_packet(f"aten::{mutating}")
    assert packet is not None, f"aten::{mutating} is defined before its functional twin"
    for op in packet.op_overloads():
        if not any(a.is_out for a in op._schema.arguments):
            twin = _twin(op, name or mutating.removesuffix("_"))
            if twin is not None:
                op.functional_link = twin.op


def _twin(op: OpOverload, name: str) -> OperatorPage | None:
    known = find_packet(f"aten::{name}")
    if known is not None and op._overloadname in known.overloads():
        return None
    tags = [Tag.generated, *(tag for tag in op.tags if tag not in _NOT_OF_TWINS)]
    page = define(functional_text(op, f"aten::{name}"), tags=tags)
    arguments = op._schema.arguments
    mutated = [i for i, a in enumerate(arguments) if a.is_write]
    returned = [i for i in mutated if not _is_returned(op, i)]

    def twin(*params: object) -> object:
        given = list(params)
        for i in mutated:
            given[i] = _cloned(given[i])
        pairs = list(zip(given, arguments, strict=True))
        positional = [p for p, a in pairs if not a.kwarg_only]
        result = op(*positional, **{a.name: p for p, a in pairs if a.kwarg_only})
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        results = (*results, *[given[i] for i in returned])
        return results[0] if len(results) == 1 else results

    twin.__name__ = f"{name}_explicit"
    page.explicit(twin)
    page.op.own_node_name = op.own_node_name
    page.op.mutating_link = op
    if Tag.nondeterministic_seeded in tags:
        page.batching(BROADCASTS)  # they draw for each element on its own
    return page


def _is_returned(op: OpOverload, position: int) -> bool:
    info = op._schema.arguments[position].alias_info
    return any(r.alias_info == info for r in op._schema.returns)


def _cloned(value: object) -> object:
    if isinstance(value, Tensor):
        return value.clone()
    return [_cloned(v) for v in value] if isinstance(value, (tuple, list)) else value


for _name in (
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "random_", "uniform_",
    "resize_", "resize_as_", "set_",
    "_coalesced_", "copy_sparse_to_sparse_", "resize_as_sparse_", "sparse_resize_",
    "sparse_resize_and_clear_",
    "embedding_renorm_", "_index_put_impl_", "_foreach_zero_", "_foreach_copy_",
    "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_",
    "_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_",
):  # fmt: skip
    _twins(_name)
_twins("normal_", "normal_functional")
_twins("_batch_norm_with_update", "_batch_norm_with_update_functional")
_twins("rrelu_with_noise", "rrelu_with_noise_functional")
