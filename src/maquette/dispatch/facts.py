"""What is known of an operator: one object that all its forms share.

An operator's page fills an `OperatorFacts`: shape rule, array kernel, derivatives, tangent rule,
batching rule, sharding rule, cost, and what it does with numbers, devices and memory. The
functional overload, its in-place and ``out=`` forms and those for numbers hold the same object, so
that a fact is stated once and a transform finds it whichever form was called. How a form relates to
its functional twin is in `forms.py`; rules take the parameters of the page's own overload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from maquette.core.meta import TensorMeta
from maquette.core.remembered import forget

if TYPE_CHECKING:
    from maquette.autograd.formulas import Derivatives
    from maquette.dispatch.operator import OpOverload
    from maquette.transforms.rules import Batching

Rule = Callable[..., object]
HalfStep = tuple[str, tuple[Any, ...], tuple[float, ...]]
AutocastPolicy = Literal["lower", "float32", "float32 dtype", "promote", "refused"]
"""What an autocast region does to the arguments of an overload (`OperatorPage.autocast`)."""


class Cost(NamedTuple):
    """What one call costs: floating point operations, and bytes of memory read and written.

    None for bytes stands for every operand once, and every result once.
    """

    flops: int = 0
    bytes_read: int | None = None
    bytes_written: int | None = None


class OperatorFacts:
    """The facts that the overloads of one operator share. None: nothing was said.

    ``shape(*parameters)``: metas and plain arguments to metas of the results, with all checks.
    ``unbacked(new, *parameters)``: the same where only data could tell, with numbers that ``new``
    makes: `size`, `integer`, `real`, `truth`. ``memoised``: whether the same tensor gives the same.
    ``body(*arguments)``: what functionalization and traces run in the place of the operator.
    ``functionalization(op, owner, parameters)``: what functionalization does with a call, where
    schema and functional twin do not tell.
    ``through_others(*arguments)``: the operator by others, where only data could tell.
    ``kernel(xp, *parameters)``: arrays of the namespace ``xp`` to arrays of the results.
    ``ufunc``: a kernel, and the namespace's function that it is on arrays of one type, float32 or
    float64, where all parameters after the operands have their defaults.
    ``derivatives``: formulas, slopes, and which arguments it is linear in (`autograd.formulas`).
    ``tangent``: the rule for forward mode, where derivatives do not say it.
    ``batching(info, in_dims, *arguments)``: to outputs and their batch dimensions, or a form that
    makes such a rule, or a definition by other operators.
    ``sharding``: the rule for distributed tensors.
    ``cost(*parameters, *results)``: metas to a `Cost`.
    ``by_element``: whether its kernel gives each element from the operands' elements there.
    ``on_halves(*parameters)``: the compiled step that its kernel is on large arrays of one type of
    16-bit floats: its name, its operands among the arrays, two numbers at most. Or None.
    ``by_bits``: whether its kernel takes 16-bit floats as bits: it is given large arrays whole.
    ``takes_numbers``: whether Python numbers pass for tensor arguments (D47).
    ``free_devices``: True, or a rule of the shape rule's arguments that says whether operands may
    be on different devices.
    ``inverse(views, value, new, part, *parameters)``: of a view operator, ``value`` with ``new``
    where the view (number ``part`` of several, else -1) looks, made without mutation. ``views``
    has aten's operators, of which views may be copies.
    ``links_views``: whether an alias that it gives has the argument as its base (T18).
    ``other_values``: of a view, whether it shows other values than its base's elements.
    ``turned_bit``: of a view, the hidden bit of lazy values that it turns on or off.
    ``scatters_into``: of an operator that gives a tensor new values in a part, the part's view.
    ``bits_for_handlers``: whether Python handlers see it with the lazy bits of its arguments.
    ``undeclared_writes``: the arguments that it mutates though its schema does not say so.
    ``declared_form(*parameters)``: the overload whose schema says what a call mutates, or None.
    ``without_mutation(*parameters)``: a composite's definition that mutates nothing, or None.
    ``hides_aliases``: whether results may share memory with arguments though no schema says so.
    ``allows_overlap``: whether it may write into memory that another argument reads (T41).
    ``by_metas``: whether the operators that a composite calls are a function of metas.
    ``side_effect``: whether it does more than compute its results, though it mutates nothing.
    ``conjugate_refusal``: why it refuses lazily conjugated arguments; "" where it takes them.
    ``negative_refusal``: why it refuses lazily negated arguments; "" where it takes them.
    ``without_functional``: why its forms that write have no functional twin; "" where they have.
    ``summary``: a sentence that says what it computes; documentation is made of it.
    """

    # Defaults stand on the class: most facts of most operators are never said, and a thousand
    # objects that name each cost 1 % of `import maquette`.
    shape: Callable[..., object] | None = None
    unbacked: Callable[..., object] | None = None
    memoised = False
    body: Callable[..., object] | None = None
    functionalization: Callable[..., object] | None = None
    through_others: Callable[..., object] | None = None
    kernel: Callable[..., object] | None = None
    ufunc: tuple[Callable[..., object], str] | None = None
    derivatives: Derivatives | None = None
    tangent: Rule | None = None
    batching: Batching | None = None
    inverse: Rule | None = None
    sharding: Rule | None = None
    cost: Callable[..., Cost] | None = None
    takes_numbers = False
    by_element = False
    by_bits = False
    on_halves: Callable[..., HalfStep | None] | None = None
    free_devices: bool | Callable[..., bool] = False
    links_views = True
    other_values = False
    turned_bit = 0
    scatters_into: OpOverload | None = None
    bits_for_handlers = False
    undeclared_writes: tuple[str, ...] = ()
    declared_form: Callable[..., OpOverload | None] | None = None
    without_mutation: Callable[..., object] | None = None
    hides_aliases = False
    allows_overlap = False
    by_metas = False
    side_effect = False
    conjugate_refusal = ""
    negative_refusal = ""
    without_functional = ""
    summary = ""

    def __init__(self, *, takes_numbers: bool = False) -> None:
        self.overloads: list[OpOverload] = []
        if takes_numbers:
            self.takes_numbers = True

    def changed(self) -> None:
        """Have every overload forget what it remembers: a fact is another now."""
        forget()  # what is being computed by the former fact
        for op in self.overloads:
            if op._table or op.infer_cache:  # else it has nothing to forget, as while importing
                op.invalidate()

    def whole_cost(self, metas: tuple[object, ...], results: tuple[object, ...]) -> Cost:
        """The cost of a call with bytes filled in: by default every operand and result once.

        metas, results: metas where the call has tensors, tuples of them for lists.
        """
        said = Cost() if self.cost is None else self.cost(*metas, *results)
        if not isinstance(said, Cost):
            raise TypeError(f"{self.overloads[0]}: its cost rule gave {said!r}, expected a Cost")
        read, written = said.bytes_read, said.bytes_written
        return Cost(
            said.flops,
            _bytes_of(metas) if read is None else read,
            _bytes_of(results) if written is None else written,
        )


def _bytes_of(values: tuple[object, ...]) -> int:
    total = 0
    for value in values:
        if isinstance(value, TensorMeta):
            total += value.numel * value.itemsize
        elif isinstance(value, (tuple, list)):
            total += _bytes_of(tuple(value))
    return total
