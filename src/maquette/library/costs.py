"""What one call of an operator costs, as its page says.

Planners, counters and rooflines ask here; the rules themselves stand on the pages. A page without a
cost counts no operations, and bytes are those of every operand and result once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maquette.dispatch.facts import Cost
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.matching import bind
from maquette.library.infer import rule_argument


def cost_of(
    op: OpOverload, args: Sequence[object], kwargs: Mapping[str, object], result: object
) -> Cost:
    """FLOPs, bytes read and bytes written of a call, by the metas of its arguments and results.

    A view reads and writes nothing. Raises TypeError where a page's cost rule gives no `Cost`.
    """
    if op.facts.cost is None and op.is_view:
        return Cost(0, 0, 0)
    schema = op._schema
    params = bind(schema, tuple(args), dict(kwargs), takes_numbers=op.takes_numbers)
    pairs = zip(params, schema.arguments, strict=True)
    metas = tuple([rule_argument(p) for p, a in pairs if not a.is_out])
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    outputs = tuple([rule_argument(r) for r in results])
    return op.facts.whole_cost(metas, outputs)
