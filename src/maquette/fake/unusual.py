"""Converting what is more than a dense plain tensor: both converters do it in the same way.

Sparse tensors specify nothing (M54, M55); wrapper subclasses are converted inside and rebuilt
(M64); tensors of function transforms, and functional ones, are converted inside and wrapped again
(M66, M67). What lies inside is converted by the converter that asks (`Converter`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, cast

from maquette.autograd.grad_mode import enable_grad, set_grad_enabled
from maquette.autograd.node import RaisingNode, set_history
from maquette.core.layout import jagged, mkldnn, sparse_coo, strided
from maquette.core.meta import TensorMeta
from maquette.core.symbols import expect_alike
from maquette.dispatch import keysets as K
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.subclasses import is_traceable_wrapper_subclass
from maquette.dispatch.tls import tls
from maquette.fake.exceptions import UnsupportedFakeTensorException
from maquette.fake.kinds import counts_as_inference, safe_is_leaf
from maquette.fake.layouts import pattern_of, specifying_nothing
from maquette.fake.memo import Memo
from maquette.fake.symbols import Symbols
from maquette.tensor.history import VersionCounter
from maquette.tensor.keys import ADINPLACE, FAKE
from maquette.tensor.sparse import SPARSE_LAYOUTS, coo_parts, set_parts
from maquette.tensor.tensor import Tensor
from maquette.transforms.functional.level import KEY, mirror_autograd_meta_to
from maquette.transforms.functional.mode import FunctionalTensor
from maquette.transforms.functional.wrapper import FunctionalWrapper, wrap
from maquette.transforms.interpreter import temporarily_clear_interpreter_stack
from maquette.transforms.wrappers import (
    BatchedTensor,
    DualTensor,
    GradTrackingTensor,
    Wrapper,
    batched,
    dual,
    tracked,
)

_BACKWARD = (
    "Backward of an example input: this fake stands for a tensor in the middle of a graph whose "
    "history was not converted; call backward on results of leaves"
)
_FUNCTIONALIZE = K.functionality_bits(DispatchKey.Functionalize)
INFERENCE_MASK = ~(ADINPLACE | K.AUTOGRAD)


class Converter(Protocol):
    """What the conversions here ask of the converter that they are for."""

    def convert(self, t: Tensor, symbols: Symbols | None = None) -> Tensor:
        """The result for another tensor."""

    def fresh(self, meta: TensorMeta) -> Tensor:
        """A new tensor of this kind of results."""

    def plain(self, t: Tensor, symbols: Symbols | None) -> Tensor:
        """The result for a dense tensor, whatever its class says."""

    def running(self) -> Any:
        """A block in which operators give this kind of results."""


def carry_grad_dtype(t: Any, made: Any) -> None:
    """Let a converted leaf have the gradient's dtype that was set on the original."""
    made.grad_dtype = t.grad_dtype


def carry_grad(made: Tensor, *, leaf: bool) -> None:
    """Let a converted tensor require grad: a leaf, or one whose backward says that it cannot be."""
    if leaf:
        made._autograd().requires_grad = True
        made._keys |= K.REQUIRES_GRAD
    elif made._base is None or not made._base._keys & K.REQUIRES_GRAD:
        set_history(made, RaisingNode((), (), "ExampleInputBackward", _BACKWARD), 0)
    else:
        made._autograd().view_version = -2
        made._keys |= K.REQUIRES_GRAD


def check_dispatch() -> None:
    """AssertionError where the thread excludes the key Fake, so that nothing can be converted."""
    assert not tls.st.exclude & FAKE, (
        "a tensor is converted while dispatch to Fake is disabled in this thread (its key is "
        "excluded); leave that block first"
    )


@contextmanager
def outside_transforms() -> Iterator[None]:
    """For a block: no functionalization and no function transform (M26)."""
    st = tls.st
    include = st.include
    with temporarily_clear_interpreter_stack():
        st.drop_include(_FUNCTIONALIZE)
        try:
            yield
        finally:
            st.add_include(include & _FUNCTIONALIZE)


def is_unusual(t: Tensor) -> bool:
    """Whether a tensor is more than a dense tensor of a plain class, or a view of such a one."""
    base = t._base
    return (
        t.meta.layout is not strided
        or t.is_nested
        or isinstance(t, (Wrapper, FunctionalTensor))
        or is_traceable_wrapper_subclass(t)
        or (base is not None and is_unusual(base))
    )


def convert_unusual(by: Converter, t: Tensor, symbols: Symbols | None) -> Tensor:
    """The result for such a tensor, all of it but its gradient."""
    if isinstance(t, FunctionalWrapper):
        return _functional(by, t, symbols)
    if isinstance(t, Wrapper):
        return _of_transform(by, t)
    if isinstance(t, FunctionalTensor):
        return by.convert(t.from_functional(), symbols)
    if is_traceable_wrapper_subclass(t):
        return _subclass(by, t, symbols)
    if t.is_nested:
        _refuse(
            "strided nested tensors: make it with layout=torch.jagged, or convert the rows of "
            "unbind() one by one"
        )
    if t.meta.layout in SPARSE_LAYOUTS:
        return _sparse(by, t, symbols)
    if t.meta.layout is mkldnn:
        return by.fresh(TensorMeta.of(t.meta.dtype, t.meta.shape, None, 0, t.meta.device))
    if t.meta.layout is not strided:
        _refuse(f"tensors of layout {t.meta.layout}, here {t.meta}")
    base = t._base
    if base is not None and base.meta.layout in SPARSE_LAYOUTS:
        return _values(by, t, base, symbols)
    if base is not None and is_traceable_wrapper_subclass(base) and base.meta.layout is jagged:
        return _values_of_jagged(by, t, base, symbols)
    return by.plain(t, symbols)


def _refuse(what: str) -> NoReturn:
    raise UnsupportedFakeTensorException(what)


# --- sparse tensors -----------------------------------------------------------------------------


def _sparse(by: Converter, t: Tensor, symbols: Symbols | None) -> Tensor:
    meta = t.meta
    shape = meta.shape
    # Sizes become symbols only where that is asked for, or where they are symbols already.
    if symbols is not None and (symbols.context is not None or meta.is_symbolic):
        shape = symbols.meta_of(t).shape
    made = specifying_nothing(pattern_of(t), shape, by.fresh)
    if counts_as_inference(t):
        made._keys &= INFERENCE_MASK
    if t._is_param:
        made._is_param = True
    if t._keys & K.REQUIRES_GRAD:
        if t.is_leaf or meta.layout is not sparse_coo:
            carry_grad(made, leaf=safe_is_leaf(t))
        else:
            made = _cloned(by, made)
    return made


def _cloned(by: Converter, leaf: Tensor) -> Tensor:
    """A tensor with a history, which PyTorch gives a COO tensor by a clone; its flag stays."""
    coalesced = coo_parts(leaf).coalesced
    leaf._require_grad()
    with enable_grad(), by.running():
        made: Tensor = leaf.clone()
    set_parts(made, coo_parts(made)._replace(coalesced=coalesced))
    return made


def _values(by: Converter, t: Tensor, base: Tensor, symbols: Symbols | None) -> Tensor:
    """The result for a view of a sparse tensor, of which there is one: its values (M22)."""
    if base.meta.layout is sparse_coo:
        _refuse(f"a view of a sparse_coo tensor: {t.meta}")
    to = by.convert(base, None if symbols is None else symbols.of_base())
    with set_grad_enabled(t.requires_grad and not t.is_leaf), by.running():
        found: Tensor = to.values()
    return found


def _values_of_jagged(by: Converter, t: Tensor, base: Tensor, symbols: Symbols | None) -> Tensor:
    """The values of a jagged tensor, which are a view of it (M62)."""
    to: Any = by.convert(base, None if symbols is None else symbols.of_base())
    found: Tensor = to._values
    made = found._alias()
    made._base = to
    made._vc = to._version_counter()
    return made


# --- wrapper subclasses ---------------------------------------------------------------------------


class _Flattens(Protocol):
    def __tensor_flatten__(self) -> tuple[list[str], object]: ...


def _subclass(by: Converter, t: Tensor, symbols: Symbols | None) -> Tensor:
    """A wrapper of converted inner tensors, of the geometry that the outer context gives (M64)."""
    names, context = cast(_Flattens, t).__tensor_flatten__()
    outer = None if t._base is None else by.convert(t._base, _of_base(symbols))
    if outer is not None and symbols is not None:
        replayed = _selected_again(by, t, outer, symbols)
        if replayed is not None:
            return replayed
    inner = {name: by.convert(getattr(t, name), _of_inner(symbols, t, name)) for name in names}
    meta = t.meta
    if meta.layout is jagged:
        size, stride = jagged_geometry(t, inner, symbols)
    else:
        meta = meta if symbols is None else symbols.meta_of(t)
        size, stride = meta.shape, meta.strides
    with by.running(), set_grad_enabled(False):
        cls: Any = type(t)
        made: Tensor = cls.__tensor_unflatten__(inner, context, size, stride)
    _check_geometry(t, made, size, stride)
    if outer is not None:
        made._base = outer
        made._vc = outer._version_counter()
    if t._is_param:
        made._is_param = True
    if t.requires_grad and not (made.requires_grad and t.is_leaf):
        carry_grad(made, leaf=safe_is_leaf(t))
    return made


def _selected_again(by: Converter, t: Tensor, outer: Tensor, symbols: Symbols) -> Tensor | None:
    """A view that ``select`` made, made again of the converted base (M42, M43); None for others.

    Its index is a symbol that only the conversion knows of: sizes, strides and the offset are then
    required to equal those that the context gives, which tells it.
    """
    base, mine = cast(Tensor, t._base).meta, t.meta
    if mine.ndim != base.ndim - 1 or not all(
        n.__class__ is int for n in (*base.shape, *mine.shape)
    ):
        return None  # of a fake with symbols the geometry is taken as it is
    for dim, (size, stride) in enumerate(zip(base.shape, base.strides, strict=True)):
        rest = [d for d in range(base.ndim) if d != dim]
        index, odd = divmod(mine.offset - base.offset, stride or 1)
        if (
            [base.shape[d] for d in rest] == list(mine.shape)
            and [base.strides[d] for d in rest] == list(mine.strides)
            and not odd
            and 0 <= index < size
        ):
            break
    else:
        return None
    number = symbols.ephemeral(index)
    wanted = symbols.meta_of(t)
    with by.running(), set_grad_enabled(False):
        made: Tensor = outer.select(dim, number)
    expect_alike(made.meta.shape, wanted.shape)
    expect_alike(made.meta.strides, wanted.strides)
    expect_alike((made.meta.offset,), (wanted.offset,))
    if t.requires_grad:
        carry_grad(made, leaf=safe_is_leaf(t))
    return made


def _of_base(symbols: Symbols | None) -> Symbols | None:
    return None if symbols is None else symbols.of_base()


def _of_inner(symbols: Symbols | None, t: Tensor, name: str) -> Symbols | None:
    return None if symbols is None else symbols.of_inner(t, name)


def _check_geometry(t: Tensor, made: Tensor, size: Any, stride: Any) -> None:
    for what, expected, got in (
        ("size", size, made.meta.shape),
        ("stride", stride, made.meta.strides),
    ):
        assert list(got) == list(expected), (
            f"{type(t).__name__}.__tensor_unflatten__ was asked for {what} {list(expected)} and "
            f"made a tensor of {what} {list(got)}"
        )


def jagged_geometry(
    t: Tensor, inner: dict[str, Tensor], symbols: Symbols | None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The sizes and strides of a jagged tensor around converted parts (M57)."""
    nested: Any = t
    return cast("tuple[tuple[Any, ...], tuple[Any, ...]]", nested.geometry_around(inner, symbols))


# --- tensors of function transforms, and functional ones ------------------------------------------


def _of_transform(by: Converter, t: Wrapper) -> Tensor:
    if t._base is not None:
        _refuse(f"a view of a tensor of a function transform: {t.meta}")
    level = t._interpreter
    inner = by.convert(t._value)  # its sizes are never symbolic
    if isinstance(t, BatchedTensor):
        return batched(inner, t._bdim, level)
    if not level.live:
        return inner
    if isinstance(t, DualTensor):
        tangent = None if t._tangent is None else by.convert(t._tangent)
        return dual(inner, tangent, level)
    assert isinstance(t, GradTrackingTensor)
    made = tracked(inner, level)
    if t.requires_grad:
        carry_grad(made, leaf=safe_is_leaf(t))
    return made


def _functional(by: Converter, t: FunctionalWrapper, symbols: Symbols | None) -> Tensor:
    if t._steps:
        raise RuntimeError(f"a functional tensor that is a view cannot be converted: {t.meta}")
    inner = by.convert(t.sync(), symbols)
    made = wrap(inner, t.owner())
    if t.owner() is KEY:
        mirror_autograd_meta_to(t, made)
    return made


Counters = Memo[VersionCounter, VersionCounter]
"""The version counters of converted tensors, by those of the originals."""


def keep_counter(counters: Counters, t: Tensor, made: Tensor, *, alone: bool = False) -> None:
    """Let results share a version where their originals do: a tensor and what detach() gave.

    PyTorch's do not. alone: nothing of ``t``'s storage was converted before.
    """
    counter = t._vc
    if counter is None or not made._keys & ADINPLACE:
        return
    known = None if alone else counters.get(counter)
    if known is None:
        counters.remember(counter, made._version_counter())
    else:
        made._vc = known


def keep_kind(t: Tensor, made: Tensor) -> None:
    """Let the result for a buffer be one, persistent or not (M33)."""
    marks = t.__dict__
    if "_is_buffer" in marks:
        made.__dict__.update({k: marks[k] for k in ("_is_buffer", "persistent") if k in marks})


__all__ = [
    "carry_grad",
    "carry_grad_dtype",
    "check_dispatch",
    "convert_unusual",
    "Counters",
    "is_unusual",
    "keep_counter",
    "keep_kind",
    "outside_transforms",
]
