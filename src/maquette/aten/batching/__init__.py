"""The batching rules of the operators, a file a family; read when vmap first asks for one.

Most operators need none: pointwise ones broadcast, composite ones are made of others, forms that
write go through their functional twin. A line here serves a whole family (`forms.py`).
"""

from maquette.aten.batching import (  # noqa: F401
    creation,
    indexing,
    linalg,
    losses,
    norms,
    products,
    reductions,
    spatial,
    views,
)
