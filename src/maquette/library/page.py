"""The operator page: one operator's schema, shape rule, kernel, derivative, batching rule, cost.

`define` opens a page; its methods are decorators that fill it in. Each is the public registration
call bound to one operator, so a user's page looks as a built-in one does. In-place and ``out=``
variants are derived from the page, never written again.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from maquette.autograd.formulas import Derivatives, Kind, Rule, formula_rule, parameter_names
from maquette.core.meta import TensorMeta
from maquette.dispatch.facts import AutocastPolicy, Cost, OperatorFacts
from maquette.dispatch.forms import Form
from maquette.dispatch.generated import called_with
from maquette.dispatch.kernels import Kernel, caller_place
from maquette.dispatch.keysets import BACKEND_OF_DEVICE, DispatchKey, key_parse
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.packet import PACKETS
from maquette.dispatch.registry import define_overload, ops, remove_overload
from maquette.dispatch.tags import Tag
from maquette.library.arrays import backend_kernel
from maquette.library.data_dependent import (
    Checks,
    Layout,
    refused_on_meta,
    refusing_rule,
    self_describing,
    translating,
)
from maquette.library.fakes import ON_FAKES
from maquette.library.python_kernels import python_kernel
from maquette.library.registrations import Undo, set_fact
from maquette.library.variants import (
    check_same_dtype,
    inplace_schema,
    inplace_shape,
    out_schema,
    out_shape,
    writing,
    writing_out,
)
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import Batching, Decomposition

if TYPE_CHECKING:
    from maquette.library.library import Library

F = TypeVar("F", bound=Callable[..., object])
B = TypeVar("B", bound=Batching)


class Variant(enum.Enum):
    """Forms of an operator that are derived from its functional page."""

    INPLACE = "inplace"
    OUT = "out"


class NewNumbers(Protocol):
    """Makes the numbers that only data could tell."""

    def size(self, least: int = 0, largest: int | None = None) -> int:
        """A size in a range."""

    def integer(self) -> int:
        """An int of any size."""

    def real(self) -> float:
        """A float."""

    def truth(self) -> bool:
        """A bool."""


class OperatorPage(functools.partial[Any]):
    """The page of one overload; calling it calls the operator.

    It is a `functools.partial` of the operator's entry function and binds nothing: CPython passes
    such a call on in C, so that operators which call others pay 0.08 us for it, where a
    ``__call__`` in Python costs 0.29 us (timeit, CPython 3.11).
    """

    op: OpOverload
    variants: list[OpOverload]

    def __new__(cls, op: OpOverload) -> OperatorPage:
        """Make a page of an operator that is defined already."""
        page = super().__new__(cls, op._call)
        page.op = op
        page.variants = []
        return page

    def __repr__(self) -> str:
        return f"<OperatorPage({self.op})>"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return OperatorPage, (self.op,)

    @property
    def __name__(self) -> str:
        """The operator's name, as a function has one: pages are methods and properties too."""
        return self.op._opname

    @property
    def entry(self) -> Callable[..., Any]:
        """The operator's entry function, for pages that are called often.

        0.05 us less than calling the page, 0.23 us with keywords (timeit, CPython 3.11).
        """
        return self.op._call

    @property
    def facts(self) -> OperatorFacts:
        """What is known of the operator, shared by all its forms."""
        return self.op.facts

    def withdraw(self) -> None:
        """Undo the definition: the operator and its derived forms are gone, with all facts."""
        for op in (*self.variants, self.op):
            if op.alive:
                remove_overload(op)

    # --- what it computes ------------------------------------------------------------

    def describe(self, summary: str) -> OperatorPage:
        """Say in a sentence what the operator computes.

        Functions, methods and `maquette ops` show it; what the schema tells, as broadcasting,
        ``out=`` and errors of dimensions, is added there.
        """
        self.facts.summary = summary
        return self

    def shape(self, rule: F) -> F:
        """Register the shape rule: metas and plain arguments, all positional, to metas.

        It runs every check of the operator; eager, meta and fake calls all run it.
        """
        set_shape_rule(self.op, rule)
        return rule

    def unbacked(self, rule: F) -> F:
        """The shape rule for what only data tells: ``rule(new, *arguments)``.

        ``new.size(least, largest)``, ``new.integer()``, ``new.real()``, ``new.truth()`` make the
        numbers that stand for it in a `FakeTensorMode` with a shape environment.
        """
        self.facts.unbacked = rule
        return rule

    def memoised(self) -> OperatorPage:
        """The same tensor, not written to since, has the same unbacked numbers."""
        self.facts.memoised = True
        return self

    def through_others(self, function: F) -> F:
        """The operator by others, on tensors, where its shape rule says that data decides."""
        self.facts.through_others = function
        return function

    def kernel(self, function: F) -> F:
        """Register the kernel ``function(xp, *parameters)``, on arrays of the namespace ``xp``."""
        self.facts.kernel = function
        self.facts.changed()
        return function

    def ufunc(self, name: str) -> OperatorPage:
        """Say that the kernel is the namespace's function of this name where nothing is promoted.

        That is on arrays of one type, float32 or float64, and numbers; parameters after those
        that the function takes have their defaults. Loops call it without what stands around it.
        """
        assert self.facts.kernel is not None, f"{self.op}: ufunc() comes after kernel()"
        self.facts.ufunc = self.facts.kernel, name
        return self

    def kernel_on(self, device_type: str) -> Callable[[F], F]:
        """Register ``function(*parameters)``, on tensors, as the answer of one device type.

        For what an operator answers by metas alone and devices answer differently.
        """
        key = key_parse(BACKEND_OF_DEVICE[device_type])

        def register(function: F) -> F:
            kernel = Kernel(_positional(function), python=function, speaks_operators=True)
            self.op.register_for_good((key,), kernel)
            return function

        return register

    def data_dependent(
        self, checks: Checks | None = None, *, layout: Layout | None = None
    ) -> Callable[[F], F]:
        """Register the kernel of an operator whose result has a size that only data tells.

        The kernel's arrays say their own shapes. checks: called with metas and plain arguments in
        the place of a shape rule; raises for what is refused, and gives the result's meta where
        the arguments alone tell it. layout: called with the array's shape (a list of shapes, for
        several results), then metas and plain arguments; gives the metas of the results, where they
        are not dense in the order that the arrays have. On fake tensors a call raises
        `DynamicOutputShapeException` where the operator is tagged ``dynamic_output_shape``.
        """
        self.facts.shape = refusing_rule(self.op, checks)

        def register(function: F) -> F:
            kernel = self_describing(function, checks, layout)
            self.op.register_for_good((DispatchKey.CPU, DispatchKey.CUDA), kernel)
            self.op.register(DispatchKey.Meta, Kernel(refused_on_meta))
            return function

        return register

    def translated(self, name: str, *, when: Callable[..., bool]) -> Callable[[F], F]:
        """Register how data turns a list of tensors into one that the shape rule understands.

        ``function(xp, arrays)`` gives the arrays that take the place of argument ``name``, as masks
        become positions; the operator's shape rule and kernel then run on those. when: asked with
        metas and plain arguments whether it must be done.
        """

        def register(function: F) -> F:
            kernel = translating(name, when, function)  # type: ignore[arg-type]  # it gives a list
            self.op.register_for_good((DispatchKey.CPU, DispatchKey.CUDA), kernel)
            return function

        return register

    def composite(self, function: F) -> F:
        """Register a definition by other operators (CompositeImplicitAutograd)."""
        key = DispatchKey.CompositeImplicitAutograd
        factory = _composite(function)
        self.op.register(key, Kernel(factory, python=function, speaks_operators=True))
        return function

    def in_transforms(self, function: Callable[..., object]) -> None:
        """Register what a composite calls instead while a function transform is in force."""
        kernel = Kernel(_positional(function), python=function, speaks_operators=True)
        self.op.register_for_good((DispatchKey.FuncTorchDynamicLayerFrontMode,), kernel)

    def by_metas(self) -> OperatorPage:
        """Say of a composite that which operators it calls, metas and plain arguments decide.

        Beside them only which tensors require grad: no setting, no data, no other state. Fakes
        then remember what its calls made.
        """
        self.facts.by_metas = True
        return self

    def explicit(self, function: F) -> F:
        """Register a definition by other operators, differentiated by the page's own formula."""
        key = DispatchKey.CompositeExplicitAutograd
        self.op.register(key, Kernel(_positional(function), python=function, speaks_operators=True))
        return function

    # --- derivatives -----------------------------------------------------------------

    def derivative(self, /, *joint: str, **formulas: Callable[..., object]) -> Callable[[F], F]:
        """Register derivatives: one formula an argument by keyword, or a decorator for several."""
        return self._add_formulas(Kind.FORMULA, joint, formulas)

    def slope(self, /, **slopes: Callable[..., Tensor | complex]) -> None:
        """Register elementwise derivatives d result / d argument.

        A slope's parameters name arguments or ``result``. One line serves both modes: the gradient
        is ``grad * conj(slope)``, the tangent ``tangent * slope``.
        """
        for name, slope in slopes.items():
            needs = ("grad", *parameter_names(slope))
            rule = Rule((name,), _diagonal(slope), needs, False, Kind.SLOPE, slope)
            derivatives_of(self.op).add(rule)

    def holomorphic(self, /, **formulas: Callable[..., object]) -> None:
        """Register gradients of an elementwise operator that serve forward mode as well.

        As for `derivative`; the operator has a complex derivative wherever its numbers are complex.
        """
        self._add_formulas(Kind.HOLOMORPHIC, (), formulas)

    def linear(
        self, /, *joint: str, **transposes: Callable[..., object] | None
    ) -> Callable[[F], F]:
        """Say that the operator is linear in these arguments together, the others held fixed.

        Each comes with its transpose, the formula of its gradient as for `derivative`; None marks a
        number that is added, as ``value`` of `constant_pad_nd`. The tangent is the operator itself
        on the tangents.
        """
        derivatives_of(self.op).constants += tuple(n for n, f in transposes.items() if f is None)
        formulas = {name: f for name, f in transposes.items() if f is not None}
        return self._add_formulas(Kind.LINEAR, joint, formulas)

    def flat(self, /, *names: str, **zeros: Callable[..., object]) -> None:
        """Say that the result does not change with these arguments, or by jumps only.

        Their gradients are zeros; their tangents add nothing. zeros: for arguments of another shape
        than the result's, what makes the zeros.
        """
        for name in names:
            derivatives_of(self.op).add(formula_rule((name,), _zeros, kind=Kind.FLAT))
        self._add_formulas(Kind.FLAT, (), zeros)

    def bilinear(self, /, *joint: str, **transposes: Callable[..., object]) -> Callable[[F], F]:
        """Say that the operator is linear in each of these arguments alone, as a product is.

        Each comes with its transpose, as for `linear`. The tangent is a sum of calls, with one
        argument after the other replaced by its tangent.
        """
        return self._add_formulas(Kind.BILINEAR, joint, transposes)

    def _add_formulas(
        self, kind: Kind, joint: tuple[str, ...], formulas: dict[str, Callable[..., object]]
    ) -> Callable[[F], F]:
        derivatives = derivatives_of(self.op)
        for name, formula in formulas.items():
            derivatives.add(formula_rule((name,), formula, kind=kind))

        def decorate(function: F) -> F:
            derivatives.add(formula_rule(joint, function, joint=True, kind=kind))
            return function

        return decorate

    def tangent(self, rule: F) -> F:
        """Register the tangent rule of forward mode, where slopes and linearity do not give it.

        Its parameters name what it needs: arguments, ``<argument>_t`` for the tangent of an
        argument (zeros where it has none), ``result`` or ``result0``, ``result1``... It gives the
        tangent of the result, or a tuple with one for each result, None where there is none.
        """
        self.facts.tangent = rule
        return rule

    def nondifferentiable(self, *outputs: int) -> None:
        """Say that outputs (all, if none is given) never require grad."""
        derivatives_of(self.op).nondifferentiable = outputs or tuple(range(16))

    def real_derivative(self) -> None:
        """Say that the derivative is that of real numbers: no complex result may require grad."""
        derivatives_of(self.op).of_reals = True

    # --- transforms and plans --------------------------------------------------------

    def batching(self, rule: B) -> B:
        """Register the batching rule ``(info, in_dims, *args) -> (output, out_dims)``.

        Or a form that makes one from the schema, or `BROADCASTS` (`transforms.rules`).
        """
        self.facts.batching = rule
        return rule

    def batching_decomposition(self, function: F) -> F:
        """Register a definition by other operators that vmap takes for the batching rule.

        It gets all parameters, positionally, its tensors with their hidden batches.
        """
        self.facts.batching = Decomposition(function)
        return function

    def inverse(self, rule: F) -> F:
        """Register how new values of a view are put into what is viewed (functionalization).

        ``rule(views, value, new, part, *parameters)`` gives ``value`` with ``new`` where the view
        looks, and mutates nothing. views: aten's operators, where views may have to be copies;
        part: which of several views it is, else -1; parameters: those of the call after the tensor.
        """
        self.facts.inverse = rule
        return rule

    def sharding(self, rule: F) -> F:
        """Register the sharding rule: how shards of the arguments make shards of the results."""
        self.facts.sharding = rule
        return rule

    def autocast(
        self,
        both: AutocastPolicy | None = None,
        *,
        cpu: AutocastPolicy | None = None,
        cuda: AutocastPolicy | None = None,
    ) -> None:
        """Say what an autocast region does to the floating point arguments of this overload.

        "lower": they are cast to the region's dtype; "float32": to float32; "float32 dtype": the
        result is asked for in float32 where no dtype is given; "promote": to the widest of theirs;
        "refused": an error. Nothing said: the region leaves them alone. float64 always stays.
        """
        said = {"cpu": cpu or both, "cuda": cuda or both}
        self.op.autocast_policies = {d: policy for d, policy in said.items() if policy is not None}
        self.facts.changed()

    def cost(self, rule: F) -> F:
        """Register the cost: metas of arguments, then of the result, to a `Cost`."""
        self.facts.cost = rule  # type: ignore[assignment]  # it gives a Cost
        return rule

    # --- forms, devices and memory ---------------------------------------------------

    def functional_form(self, twin: OperatorPage | str) -> None:
        """Name the functional twin of this form, where its name does not tell; or why none is.

        twin: its page, or the reason in words.
        """
        if isinstance(twin, str):
            self.facts.without_functional = twin
        else:
            self.op.functional_link = twin.op

    def late_variant(self, variant: Variant | str) -> OpOverload:
        """Derive one more form of the operator, as `define(variants=...)` does."""
        self.variants.append(_derive(self.op, variant, list(self.op.tags), caller_place()))
        return self.variants[-1]

    def exact_out(self) -> OperatorPage:
        """Let the ``out=`` forms refuse outputs of another dtype than the result's."""
        for variant in self.variants:
            count = 0
            if Tag.out in variant.tags:
                count = variant._schema_text.rpartition("->")[2].count("!")
            if count:
                set_shape_rule(variant, out_shape(self.op, count, check_same_dtype))
        return self

    def node_name(self, own: str = "", *, in_place: str = "") -> OperatorPage:
        """Say what the nodes are called that the operator leaves, as ``SumBackward1``.

        Needed where it is not the operator's name and ``Backward0``: PyTorch numbers overloads in
        an order of its own. Forms that write share the name unless ``in_place`` says another.
        """
        if own:
            self.op.own_node_name = own
        for op in self.variants if in_place else ():
            if op.form is Form.IN_PLACE:
                op.own_node_name = in_place
        return self

    def any_device(self, *, when: Callable[..., bool] | None = None) -> OperatorPage:
        """Let operands be on different devices; the shape rule checks them itself.

        when: asked with the shape rule's arguments whether they may be this time; it may refuse
        them in its own words. Results are then where the shape rule says.
        """
        self.facts.free_devices = when or True
        return self

    def shows_other_values(self, *, turns: int = 0) -> OperatorPage:
        """Say that the view shows other values than its base's elements: conjugates, or parts.

        turns: the hidden bit of lazy values that it turns.
        """
        self.facts.other_values, self.facts.turned_bit = True, turns
        return self

    def scatters_into(self, view: OperatorPage) -> OperatorPage:
        """Say that the operator gives a tensor new values where ``view`` looks.

        Its parameters are the tensor, the values, and those of the view.
        """
        self.facts.scatters_into = view.op
        return self

    def writes_undeclared(
        self, *arguments: str, declared: Callable[..., OperatorPage | None] | None = None
    ) -> OperatorPage:
        """Name arguments that are mutated though the schema, PyTorch's, does not say so.

        ``declared(*parameters)`` gives the page of the form with the same parameters whose schema
        does, None for a call that mutates nothing: functionalization goes by that form.
        """
        self.facts.undeclared_writes = arguments
        if declared is not None:

            def declared_form(*params: object) -> OpOverload | None:
                page = declared(*params)
                return None if page is None else page.op

            self.facts.declared_form = declared_form
        return self

    def without_mutation(self, function: F) -> F:
        """Register a composite's definition that mutates nothing, of the same parameters.

        Functionalization takes it where the composite mutates without grad mode what has a
        history: the new value would have none, where the mutated tensor keeps it.
        """
        self.facts.without_mutation = function
        return function

    def hides_aliases(self) -> OperatorPage:
        """Let results share memory with arguments though the schema, PyTorch's, does not say so."""
        self.facts.hides_aliases = True
        return self

    def functionalization(self, handler: Callable[..., object]) -> OperatorPage:
        """Have functionalization call ``handler(op, owner, parameters)`` in the operator's place.

        For what gives a tensor other memory, which neither schema nor functional twin says.
        """
        self.facts.functionalization = handler
        self.facts.changed()
        return self

    def bits_for_handlers(self) -> OperatorPage:
        """Let Python handlers, as tracers, see calls with the lazy bits of their arguments.

        For what computes and stores values, which a tensor without the bit would hide from them.
        """
        self.facts.bits_for_handlers = True
        return self

    def without_base(self) -> OperatorPage:
        """Let the alias that it gives be no view: it shares storage and version, and has no base.

        So do `detach` and ``view.dtype`` in PyTorch (T18).
        """
        self.facts.links_views = False
        return self

    def overlap_allowed(self) -> OperatorPage:
        """Let it write into memory that another argument reads in part, as `set_` may (T41)."""
        self.facts.allows_overlap = True
        return self

    def side_effect(self) -> OperatorPage:
        """Have graphs keep its calls though nothing uses the results.

        An operator without results, or that mutates or draws, needs no saying.
        """
        self.facts.side_effect = True
        return self

    def refuse_conjugates(self, message: str) -> OperatorPage:
        """Refuse arguments that are conjugated lazily, with ``message``."""
        self.facts.conjugate_refusal = message
        return self

    def refuse_negatives(self, message: str) -> OperatorPage:
        """Refuse arguments that are negated lazily, with ``message``."""
        self.facts.negative_refusal = message
        return self


def define(
    schema: str,
    *,
    tags: Iterable[Tag] = (),
    variants: Iterable[Variant | str] = (),
    like: OperatorPage | None = None,
    takes_numbers: bool = False,
    lib: Library | None = None,
) -> OperatorPage:
    """Open the page of a new operator.

    variants: `Variant.INPLACE`, or ``pow_.Scalar`` where its overload has another name;
    `Variant.OUT`, or the name of the out= overload where it is not the overload's own name followed
    by ``_out``, or its whole schema where it has several outputs. like: a page that says all there
    is to say of this operator too, such as that of ``mul.Tensor`` for ``mul.Scalar``: both share
    their facts. takes_numbers: Python numbers pass for tensors (D47). lib: a library that the
    operator ends with. Defining again what a page outside of maquette defined replaces it, as
    running a notebook's cell again does.
    """
    place = caller_place()
    if not _is_own(place):
        _make_room(schema)
    facts = OperatorFacts(takes_numbers=takes_numbers) if like is None else like.facts
    page = OperatorPage(define_overload(schema, tags, place, facts=facts))
    if like is not None:
        _serve_backends(page.op)
    for variant in variants:
        page.variants.append(_derive(page.op, variant, list(tags), place))
    if not _is_own(place):
        _USERS_PAGES[page.op.name()] = page
    if lib is not None:
        lib.on_destroy(page.withdraw)
    return page


def describe(name: str, summary: str) -> None:
    """`OperatorPage.describe` of ``aten::name``, which a function for a family defined."""
    for op in PACKETS[f"aten::{name}"]._overloads.values():
        op.facts.summary = summary


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_USERS_PAGES: dict[str, OperatorPage] = {}


def _is_own(place: str) -> bool:
    """Whether a place in a program is in this package."""
    return place.startswith(_PACKAGE)


def _make_room(schema: str) -> None:
    """Withdraw the page that defined this operator before, if there is one."""
    earlier = _USERS_PAGES.pop(schema.partition("(")[0].strip(), None)
    if earlier is not None:
        earlier.withdraw()


def set_shape_rule(op: OpOverload, rule: Callable[..., object]) -> None:
    """Give ``op`` its shape rule and, by it, kernels for data, meta and fake tensors.

    A page's own overload gives the rule to all that share its facts; another form has it for
    itself.
    """
    if op.facts.overloads[0] is op:
        op.facts.shape = rule
        op.facts.changed()
    else:
        op.own_shape = rule
    _serve_backends(op)


def register_rule(op: OpOverload, rule: Callable[..., object]) -> Undo:
    """`set_shape_rule` of an operator, undone by the returned call."""
    undo = [set_fact(op, "shape", rule)]
    if not op.has_kernel_for_dispatch_key(DispatchKey.Meta):
        undo += [op.register(key, _BY_BACKEND) for key in _backends(op)]

    def undo_all() -> None:
        for each in undo:
            each()

    return undo_all


def add_formula(op: OpOverload, rule: Rule) -> Undo:
    """Add a derivative to an operator's facts, taken away by the returned call."""
    had = op.facts.derivatives
    known = derivatives_of(op)
    remove = known.add(rule)
    op.facts.changed()

    def undo() -> None:
        remove()
        if had is None and not known.rules and op.facts.derivatives is known:
            op.facts.derivatives = None
        op.facts.changed()

    return undo


def _serve_backends(op: OpOverload) -> None:
    if op.has_kernel_for_dispatch_key(DispatchKey.Meta):
        op.invalidate()
    else:
        op.register_for_good(_backends(op), _BY_BACKEND)


def _backends(op: OpOverload) -> tuple[DispatchKey, ...]:
    """The keys at which an operator with a shape rule is served by `backend_kernel`."""
    return _BACKENDS_OR_NONE if op.takes_numbers else BACKENDS


_BY_BACKEND = Kernel(backend_kernel)
BACKENDS = (DispatchKey.CPU, DispatchKey.CUDA, DispatchKey.Meta)
# Numbers alone, as in add(1, 2): no argument names a backend, the result is on cpu.
_BACKENDS_OR_NONE = (*BACKENDS, DispatchKey.Undefined)


def derivatives_of(op: OpOverload) -> Derivatives:
    """The operator's derivatives, made when first asked for."""
    known = op.facts.derivatives
    if known is None:
        known = op.facts.derivatives = Derivatives()
        op.facts.changed()
    return known


def _derive(base: OpOverload, variant: Variant | str, tags: list[Tag], place: str) -> OpOverload:
    tags = [tag for tag in tags if tag is not Tag.core]
    if variant is Variant.INPLACE or _names_in_place(variant):
        schema = inplace_schema(base._schema_text, variant if isinstance(variant, str) else None)
        op = define_overload(schema, [*tags, Tag.inplace], place, facts=base.facts)
        op.own_shape, op.own_kernel = inplace_shape(base), writing(base)
    else:
        schema = _out_schema(base, variant)
        op = define_overload(schema, [*tags, Tag.out], place, facts=base.facts)
        # By the text: parsing all schemas here would be a tenth of `import maquette`.
        count = schema.rpartition("->")[2].count("!")
        op.own_shape, op.own_kernel = out_shape(base, count), writing_out(base, count)
    if "!" not in base._schema_text:
        op.functional_link = base
    _serve_backends(op)
    return op


def _names_in_place(variant: Variant | str) -> bool:
    """Whether a variant is named as in-place forms are: ``pow_.Scalar``, ``ldexp_``."""
    return isinstance(variant, str) and variant.partition(".")[0].endswith("_")


def _out_schema(base: OpOverload, variant: Variant | str) -> str:
    if isinstance(variant, str) and "(" in variant:
        return variant
    return out_schema(base._schema_text, variant if isinstance(variant, str) else None)


def _positional(function: Callable[..., object]) -> Callable[..., Callable[..., object]]:
    """The factory of a kernel that leaves out the key set: spelled out, it packs no tuple."""

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        names = [f"p{i}" for i in range(len(op._schema.arguments))]
        return called_with(names, names, "composite", function)

    return factory


def _composite(function: Callable[..., object]) -> Callable[..., Callable[..., object]]:
    """The factory of a composite's kernel: fakes may know what it makes."""
    plain = _positional(function)

    def factory(op: OpOverload, ks: int) -> Callable[..., object]:
        make = ON_FAKES[0] if op.facts.by_metas else None
        return (None if make is None else make(op, ks, function)) or plain(op, ks)

    return factory


def _diagonal(slope: Callable[..., Tensor | complex]) -> Callable[..., Tensor]:
    """The reverse formula ``grad * conj(slope)`` of what the slope asks for."""

    def formula(grad: Tensor, *values: object) -> Tensor:
        return _times(grad, slope(*values))

    return formula


def _zeros(grad: Tensor) -> object:
    return ops.aten.zeros_like(grad)


def _times(grad: Tensor, slope: Tensor | complex) -> Tensor:
    if slope.__class__ is int and slope == 1:
        return grad
    if isinstance(slope, Tensor) and slope.is_complex():
        slope = slope.conj()
    return grad * slope


__all__ = [
    "Cost",
    "OperatorPage",
    "TensorMeta",
    "Variant",
    "define",
    "derivatives_of",
    "describe",
    "python_kernel",
    "set_shape_rule",
]
