"""How sizes of converted tensors become symbols: where a tensor is found, and in what context.

`Symbols` is handed along with a tensor; what belongs to the tensor (base, gradient, inner tensors)
gets one of its own. Making the symbols is `maquette.symbolic`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from maquette import symbolic
from maquette.core.dtype import float64, int64
from maquette.core.meta import TensorMeta
from maquette.core.strides import contiguous_strides
from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.fake.dynamic import ITEM
from maquette.symbolic.numbers import SymInt
from maquette.tensor.tensor import Tensor

if TYPE_CHECKING:
    from maquette.fake.tensor import FakeTensor


class Symbols(NamedTuple):
    """How the sizes of a tensor become symbolic: in which environment, found where, which kinds."""

    env: symbolic.ShapeEnv
    source: object = None
    context: object = None

    def of_inner(self, t: Tensor, name: str) -> Symbols:
        """The same for an inner tensor of a wrapper, whose context has one for each (M50).

        Raises AssertionError for a context of another class, or without this attribute.
        """
        context = self.context
        if context is None:
            return self.of_attribute(name, None)
        assert isinstance(context, symbolic.SubclassSymbolicContext), (
            f"the symbolic context of a {type(t).__name__}, a wrapper subclass, must be a "
            f"SubclassSymbolicContext; got a {type(context).__name__}"
        )
        assert name in context.inner_contexts, (
            f"the SubclassSymbolicContext of a {type(t).__name__} has no inner context for its "
            f"attribute {name!r}; it has {sorted(context.inner_contexts)}"
        )
        return self.of_attribute(name, context.inner_contexts[name])

    def ephemeral(self, value: int) -> Any:
        """A number of a view's operator: a symbol that is found nowhere in the program (M43).

        It stays as it is where every size of the tensor does.
        """
        context = self.context
        if isinstance(context, symbolic.StatelessSymbolicContext) and all(
            policy is symbolic.DimDynamic.STATIC for policy in context.dynamic_sizes
        ):
            return value
        source = symbolic.EphemeralSource("symint_visitor_fn")
        made = self.env.create_unspecified_symint_and_symbol(
            value, source, symbolic.DimDynamic.DYNAMIC
        )
        return made

    def of_grad(self, t: Tensor, grad: Tensor) -> Symbols:
        """The same for the gradient of ``t``: its context where it fits, else none (M34)."""
        fits = _fits(self.context, t, grad)
        return self.of_attribute("grad", self.context if fits else _all_dynamic(grad))

    def of_attribute(self, name: str, context: object) -> Symbols:
        """The same for a tensor that belongs to this one."""
        if self.source is None:
            return Symbols(self.env, None, context)
        source = symbolic.AttrSource(symbolic.source_of(self.source), name)
        return Symbols(self.env, source, context)

    def of_base(self) -> Symbols:
        """The same for the base of a view (M45)."""
        context = self.context
        if context is None:
            return self.of_attribute("_base", None)
        assert isinstance(context, symbolic.StatelessSymbolicContext), (
            f"the symbolic context of a view must be a StatelessSymbolicContext, which says how "
            f"its base becomes symbolic; got a {type(context).__name__}"
        )
        return self.of_attribute("_base", context.view_base_context)

    def meta_of(self, t: Tensor) -> TensorMeta:
        """The meta of ``t`` with symbolic sizes; a fake of this environment keeps its own."""
        meta = t.meta
        if meta.is_symbolic and _env_of(meta) is self.env:
            return meta
        if t.fake_mode is not None and self.context is None:
            return translated(meta, self.env)
        shape, strides, offset = self.env.symbolic_geometry(
            meta.shape,
            meta.strides,
            meta.offset,
            self.source,
            symbolic_context=self.context,
            marks=symbolic.marks_of(t),
        )
        return TensorMeta.of(meta.dtype, shape, strides, offset, meta.device, meta.layout)


def _env_of(meta: TensorMeta) -> object:
    for number in (*meta.shape, *meta.strides, meta.offset):
        if isinstance(number, SymInt):
            return number.node.shape_env
    return None


def _fits(context: object, t: Tensor, grad: Tensor) -> bool:
    """Whether the context of a tensor is one for its gradient, too."""
    if context is None:
        return True
    if (t._base is None) is not (grad._base is None) or t.meta.ndim != grad.meta.ndim:
        return False
    if t._base is not None and grad._base is not None and t._base.ndim != grad._base.ndim:
        return False
    if is_traceable_wrapper_subclass(grad) is not isinstance(
        context, symbolic.SubclassSymbolicContext
    ):
        return False
    if isinstance(context, symbolic.SubclassSymbolicContext):
        names: Any = grad.__tensor_flatten__()
        return set(names[0]) == set(context.inner_contexts)
    return True


def _all_dynamic(t: Tensor) -> symbolic.StatelessSymbolicContext:
    """Every size a symbol of its own; so of a view's base, too."""
    base = None if t._base is None else _all_dynamic(t._base)
    return symbolic.StatelessSymbolicContext(
        [symbolic.DimDynamic.DYNAMIC] * t.meta.ndim, view_base_context=base
    )


def translated(meta: TensorMeta, env: symbolic.ShapeEnv) -> TensorMeta:
    """The meta of a fake of another environment in this one (M51).

    Ints stay; what has a hint shares a symbol with equal hints; what only data could tell becomes
    so here, the same number for the same. Strides follow the sizes.
    """
    if not meta.is_symbolic:
        return meta
    unbacked: dict[str, SymInt] = {}

    def number(n: Any) -> Any:
        if not isinstance(n, SymInt):
            return n
        if n.has_hint():
            source = symbolic.ConstantSource(f"__translated_{n}")
            return env.symint(env.poly_of(env.create_symbol(n.node.require_hint(), source)))
        name = str(n)
        if name not in unbacked:
            unbacked[name] = env.create_unbacked_symint()
        return unbacked[name]

    shape = tuple([number(n) for n in meta.shape])
    plain = tuple(meta.strides) == tuple(contiguous_strides(meta.shape))
    steps = contiguous_strides(shape) if plain else tuple([number(n) for n in meta.strides])
    return TensorMeta.of(meta.dtype, shape, steps, number(meta.offset), meta.device, meta.layout)


def remember_value(symbols: Symbols, t: Tensor, fake: FakeTensor) -> None:
    """The item of an input that is one plain number is a symbol with a hint (F48)."""
    mode = fake.fake_mode
    if symbols.source is None or mode.export or t.fake_mode is not None or t._mq_data is None:
        return
    if t.meta.shape or t.meta.device.type != "cpu" or t.meta.dtype not in (int64, float64):
        return
    value = t._mq_data.item()
    if isinstance(value, float) and not math.isfinite(value):
        return
    env, item = symbols.env, symbolic.CallSource(symbolic.source_of(symbols.source), "item")
    made = env.poly_of(env.create_unspecified_symbol(value, item))
    kind = float if isinstance(value, float) else int
    mode.size_memos.put(fake, ITEM, mode.epoch, [env.node(made, kind).number])
