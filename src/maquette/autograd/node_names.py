"""Names of nodes as PyTorch prints them: ``MulBackward0``, ``SumBackward1``.

An operator's page says the name where it does not follow from the operator's
(`OperatorPage.node_name`). Nothing but printing depends on a name.
"""

from __future__ import annotations

import re

from maquette.dispatch.operator import OpOverload


def node_name(op: OpOverload) -> str:
    """The name of the nodes that ``op`` leaves behind."""
    known = op.own_node_name
    if known is None and op._schema.is_mutable:
        twin = op.functional
        known = None if twin is None else twin.own_node_name
    return known or f"{_camel(op._opname)}Backward0"


def _camel(name: str) -> str:
    name = name.strip("_").removesuffix("_functional")
    raised = "".join([word[:1].upper() + word[1:] for word in name.split("_")])
    if raised.isalpha():  # most are, and to make a pattern takes as long as a class of nodes
        return raised
    return re.sub(r"(?<=\d)[a-z]", lambda match: match.group().upper(), raised)
