"""The kernel at Fake: an operator's shape rule, remembered, and a new fake tensor.

The key Fake stands just above the backends, so whatever wants to see the real program has seen it
before. For each operator one function is generated: look up the outcome by the interned metas,
check that the arguments are fakes of one mode, build the result. A hit touches no shape, stride or
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from maquette.core.device import canonical, device
from maquette.core.device_rules import DeviceMismatchError, common_device
from maquette.core.errors import StridedOnly
from maquette.core.meta import TensorMeta
from maquette.core.promotion import defaults
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.forms import Return, returns_of
from maquette.dispatch.generated import Text, generate_later, indented
from maquette.dispatch.guards import AutoDispatchBelowAutograd
from maquette.dispatch.kernels import Kernel
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, set_fallback
from maquette.dispatch.tags import Tag
from maquette.dispatch.tls import tls
from maquette.fake.cache import bypassing, bypassing_if_sparse, layout_of, watched
from maquette.fake.call_sites import explain
from maquette.fake.constants import constant_kernel, run_on_real_constants
from maquette.fake.dynamic import result_with_unbacked
from maquette.fake.exceptions import (
    DataDependentOutputException,
    DynamicOutputShapeException,
)
from maquette.fake.fallback import without_rule
from maquette.fake.mode import (
    ACTIVE,
    FAKE,
    FakeTensorMode,
    arguments_in_one_mode,
    is_elsewhere,
    make_constant,
    on_preferred_device,
)
from maquette.fake.profiled import with_profiles
from maquette.fake.real.propagation import with_real_data
from maquette.fake.tensor import (
    INFERENCE_MASK,
    FakeTensor,
    fake_view,
    fresh_fake,
    maker,
    tensors_in,
)
from maquette.library.arrays import build, resize_outputs
from maquette.library.fakes import FAKE_RUNNER, running_fake
from maquette.library.infer import (
    DependsOnData,
    Outcome,
    hashable,
    infer,
    key_source,
    lookup,
    metas_in,
    rule_argument,
)
from maquette.library.sparse_kernels import specifying_nothing
from maquette.symbolic.expr import MAX_INT
from maquette.tensor.aliasing import family_of_layout
from maquette.tensor.keys import NOT_INHERITED, keys_for_device
from maquette.tensor.storage import OBSERVERS, UntypedStorage, announce
from maquette.tensor.tensor import Tensor

_new = object.__new__


def fake_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    """The callable that serves Fake for ``op`` at the key set ``ks``."""
    return with_profiles(op, with_real_data(op, _kernel_for(op, ks), by_parts=_parts(op, ks)))


def _kernel_for(op: OpOverload, ks: int) -> Callable[..., object]:
    if ks & _SPARSE:
        return _on_parts(op, ks)
    plain = _plain_kernel(op, ks)
    if op.shape_rule is not None and Tag.dynamic_output_shape in op.tags:
        plain = _or_unbacked(op, plain)
    if ks & K.CONSTANT:
        return bypassing(constant_kernel(op, plain, make_constant), "constant attribute")
    return plain


def _of_layout(op: OpOverload, params: Sequence[object], layout: object) -> object:
    """What a factory makes of a sparse layout; None where that layout has no kernel for it."""
    names = [a.name for a in op._schema.arguments]
    given = params[names.index("device")]
    where = given or next((t.meta.device for t in tensors_in(params)), _CPU)
    keys = keys_for_device(canonical(cast(device, where))) | family_of_layout(layout)
    if op.kernel_at(K.highest(keys)) is None:
        return None
    return _on_parts(op, keys)(keys, *params)


_CPU = device("cpu")


_SPARSE = K.functionality_bits(DispatchKey.Sparse) | K.functionality_bits(DispatchKey.SparseCsr)


def _on_parts(op: OpOverload, ks: int) -> Callable[..., object]:
    """The kernel for sparse tensors: it speaks operators, so it runs on fake parts as it is."""
    low = ks & ~FAKE
    below = op.resolved(low)

    def kernel(ks: int, *params: object) -> object:
        mode, given = arguments_in_one_mode(op, params)
        with mode, AutoDispatchBelowAutograd():
            return below(low, *specifying_nothing(op, given))

    return bypassing(kernel, layout_of)


def _plain_kernel(op: OpOverload, ks: int) -> Callable[..., object]:
    if Tag.data_dependent_output in op.tags:
        return bypassing(_unbacked(op), "data dependent output", op)
    at_meta = _at_meta(op)
    if at_meta is not None:
        return bypassing(_by_meta_kernel(op, at_meta, ks), "non-builtin", op)
    if op.shape_rule is None:
        if Tag.dynamic_output_shape in op.tags:
            return bypassing(_raising(op, DynamicOutputShapeException), "dynamic output shape", op)
        return _decomposed(op, ks)
    kinds = returns_of(op)
    inference = bool(ks & K.INFERENCE)
    tail = _tail(op, kinds, inference)
    kernel = _general(op, kinds, lookup)
    if tail is not None:
        kernel = _generated(op, kinds, tail, inference, symbolic=bool(ks & K.SYMBOLIC))
    return watched(op, kernel, _general(op, kinds, infer))


def _or_unbacked(op: OpOverload, plain: Callable[..., object]) -> Callable[..., object]:
    """A kernel whose shape rule has an answer for some arguments only (``index`` without masks)."""

    def by_data(ks: int, *params: object) -> object:
        return result_with_unbacked(op, *arguments_in_one_mode(op, params))

    depending = bypassing(by_data, "dynamic output shape", op)

    def kernel(ks: int, *params: object) -> object:
        try:
            return plain(ks, *params)
        except DependsOnData:
            result = depending(ks, *params)
            if result is not NotImplemented:
                return result
            error = DynamicOutputShapeException(op)
            explain(error, op, params)
            raise error from None

    text = text_of(plain)
    if text is not None:  # an outcome that is known does not depend on data
        setattr(kernel, _TEXT, text)
    return kernel


def _unbacked(op: OpOverload) -> Callable[..., object]:
    """The kernel of an operator whose result is a number that only data could tell."""

    def kernel(ks: int, *params: object) -> object:
        result = result_with_unbacked(op, *arguments_in_one_mode(op, params))
        if result is not NotImplemented:
            return result
        error = DataDependentOutputException(op)
        explain(error, op, params)
        raise error

    return kernel


def _raising(op: OpOverload, error: type[RuntimeError]) -> Callable[..., object]:
    def kernel(ks: int, *params: object) -> object:
        refusal = error(op)
        explain(refusal, op, params)
        raise refusal

    return kernel


def _decomposed(op: OpOverload, ks: int) -> Callable[..., object]:
    """No shape rule: a definition by other operators, run on fakes; else a clear refusal."""
    parts = _parts(op, ks)
    if parts is not None:
        return bypassing_if_sparse(op, _under_mode(op, parts))
    return bypassing(without_rule(op), "non-builtin", op)


def _parts(op: OpOverload, ks: int) -> Callable[..., object] | None:
    """The definition of an operator by other operators, where that is what serves Fake."""
    if op.shape_rule is not None or ks & _SPARSE or _UNKNOWN.intersection(op.tags) or _at_meta(op):
        return None
    for alias in (
        DispatchKey.CompositeExplicitAutograd,
        DispatchKey.CompositeImplicitAutograd,
    ):
        stack = op._kernels.get(alias)
        if stack and stack[-1].speaks_operators:
            inner = stack[-1].factory(op, ks)
            assert inner is not None
            return inner
    return None


_UNKNOWN = frozenset({Tag.data_dependent_output, Tag.dynamic_output_shape})


def _at_meta(op: OpOverload) -> Kernel | None:
    """The kernel at Meta, if it speaks operators."""
    stack = op._kernels.get(DispatchKey.Meta)
    return stack[-1] if stack and stack[-1].speaks_operators else None


def _under_mode(op: OpOverload, inner: Callable[..., object]) -> Callable[..., object]:
    def kernel(ks: int, *params: object) -> object:
        mode, params = arguments_in_one_mode(op, params)
        with mode, AutoDispatchBelowAutograd():
            return inner(ks, *params)

    return kernel


def _by_meta_kernel(op: OpOverload, chosen: Kernel, ks: int) -> Callable[..., object]:
    """A user's kernel for Meta, run on fakes: what it makes on ``meta`` is on theirs (L79)."""
    inner = chosen.factory(op, ks)
    assert inner is not None
    under_mode = _under_mode(op, inner)

    def kernel(ks: int, *params: object) -> object:
        result = under_mode(ks, *params)
        metas = metas_in([rule_argument(p) for p in params])
        return _moved(result, common_device(op.name(), metas)) if metas else result

    return kernel


def _moved(result: object, to: device) -> object:
    if isinstance(result, FakeTensor) and result.meta.device.type == "meta":
        return fresh_fake(result.fake_mode, result.meta.with_device(to))
    if isinstance(result, (tuple, list)):
        return type(result)([_moved(r, to) for r in result])
    return result


def run_users_fake(
    op: OpOverload, inner: Callable[..., object], place: str, ks: int
) -> Callable[..., object]:
    """The kernel at Fake of a registered fake implementation; its results must be fakes (L85)."""

    def kernel(ks: int, *params: object) -> object:
        mode, given = arguments_in_one_mode(op, params)

        def size(least: int, largest: int | None) -> object:
            env = mode.shape_env
            if env is None or not env.settings.allow_dynamic_output_shape_ops:
                raise DynamicOutputShapeException(op)
            return env.new_size(least, MAX_INT if largest is None else largest)

        with mode, AutoDispatchBelowAutograd(), running_fake(size):
            result = inner(ks, *given)
        _check_fake(op, result, place)
        return result

    if ks & K.CONSTANT:
        served = bypassing(constant_kernel(op, kernel, make_constant), "constant attribute")
    else:
        served = bypassing(kernel, "non-builtin", op)
    return with_profiles(op, with_real_data(op, served))


def _check_fake(op: OpOverload, result: object, place: str) -> None:
    if isinstance(result, Tensor) and result.fake_mode is None:
        raise RuntimeError(
            f"{op}: the fake implementation from {place} returned the real tensor {result.meta}; "
            f"it must make its results by operators on its arguments, such as x.new_empty(...)"
        )
    if isinstance(result, (tuple, list)):
        for r in result:
            _check_fake(op, r, place)


def _general(
    op: OpOverload,
    kinds: list[Return],
    ask: Callable[[OpOverload, Sequence[object]], Outcome],
) -> Callable[..., object]:
    """Any number and kind of results; also the oracle of the generated kernels.

    ask: `lookup`, which remembers what the shape rule says, or `infer`, which does not.
    """

    def kernel(ks: int, *params: object) -> object:
        try:
            known = run_on_real_constants(op, params, make_constant)
            if known is not None:
                return known
            mode, given = arguments_in_one_mode(op, params)
            try:
                outcome = ask(op, given)
            except DeviceMismatchError:
                moved = on_preferred_device(op, mode, given)
                if moved is None:
                    raise
                outcome = ask(op, moved)
            return from_outcome(op, kinds, outcome, given, mode)
        except DependsOnData:
            raise  # an answer, not yet an error
        except StridedOnly as error:
            made = _of_layout(op, params, error.layout)
            if made is None:
                raise
            return made
        except Exception as error:
            explain(error, op, params)
            raise

    return kernel


def from_outcome(
    op: OpOverload,
    kinds: list[Return],
    outcome: Outcome,
    params: Sequence[object],
    mode: FakeTensorMode,
) -> object:
    """Fake results of an outcome."""
    value = outcome.value
    if len(kinds) == 1 and isinstance(value, TensorMeta):  # `build`, written out for most results
        kind, source = kinds[0]
        if kind == "fresh":
            return fresh_fake(mode, value)
        if kind == "view" and source >= 0:
            return fake_view(cast(Tensor, params[source]), value)
    resize_outputs(op, kinds, outcome, params)

    def fresh(op: OpOverload, meta: TensorMeta, value: object) -> FakeTensor:
        return fresh_fake(mode, meta)

    return build(op, kinds, outcome, params, None, fresh, fake_view)


def _tail(op: OpOverload, kinds: list[Return], inference: bool) -> str | None:
    """Source that builds the results of an outcome ``_e`` in mode ``_m``; None: too unusual."""
    types = [r.type.written for r in op._schema.returns]
    names = {kind for kind, _ in kinds}
    if len(kinds) > 1:
        fresh = names == {"fresh"} and set(types) == {"Tensor"}
        # A rule says None (or a number) for a result that is no tensor this time.
        each = "_fresh(_m, _v) if isinstance(_v, _Meta) else _v"
        return f"return tuple([{each} for _v in _e.value])" if fresh else None
    if len(kinds) != 1 or not types[0].startswith("Tensor"):
        return None
    kind, source = kinds[0]
    if "[]" in types[0]:
        return f"return [_view(p{source}, _v) for _v in _e.value]" if kind == "view" else None
    if kind == "written":
        return f"return p{source} if p{source}.meta is _e.meta else _slow(_ks, _PARAMS_)"
    parts = [_storage_lines(kinds[0], inference), "_t._mq_data = None", "_t._vc = None"]
    parts += ["_t._base = _t._ag = None", "_t.fake_mode = _m", "_t.constant = None", "return _t"]
    return "\n    ".join(["_t = _made(_Fake)", "_t.meta = _e.meta", *parts])


def _generated(
    op: OpOverload, kinds: list[Return], tail: str, inference: bool, *, symbolic: bool
) -> Callable[..., object]:
    """The common kinds of results, from a generated function that touches no shape on a hit.

    symbolic: outcomes are remembered by the shape environment, so that they end with it.
    """
    text = _KernelSource(op, tail, symbolic)
    slow = _general(op, kinds, lookup)
    # Parts are set inline, without __init__: 0.35 us of 1.3 us a hit (make bench, CPython 3.11).
    space: dict[str, object] = {
        **_SPACE,
        "_cache": op.infer_cache,
        "_op": op,
        "_rule": op.shape_rule,
        "_slow": slow,
        "_made": maker(),
    }
    written = Text((op.form_facts, inference, symbolic), text.whole)
    kernel = generate_later(written, "_kernel", "fake", space, slow)
    if not (inference or symbolic):
        setattr(kernel, _TEXT, KernelText(tuple(kinds), op.form_facts, text.known_lines, space))
    return kernel


class _KernelSource:
    """The text of a kernel at Fake, put together when it is asked for."""

    def __init__(self, op: OpOverload, tail: str, symbolic: bool) -> None:
        self.op = op
        self.tail = tail
        self.symbolic = symbolic

    def known_lines(self, otherwise: str) -> list[str]:
        """`KernelText.known_lines`."""
        op = self.op
        plain, others = _tensor_parameters(op)
        checks = [
            f"(({n}.__class__ is _Fake or {n}.__class__ not in _NUMBERS)"
            f" and {n}.fake_mode is not _m)"
            if op.takes_numbers
            else f"{n}.fake_mode is not _m"
            for n in plain[1:]
        ]
        checks += [f"({n} is not None and _mixed({n}, _m))" for n in others]
        first = f"{plain[0]}.fake_mode" if plain else "_tls.st.fake_mode"
        if not plain and others:
            first = f"{others[0]}[0].fake_mode"
        refuse = "".join(f" or {c}" for c in checks)
        known = f"_cache[{key_source(op, usual='_Fake')}]"
        if self.symbolic:
            known = f"_m.shape_env.fake_tensor_cache[_rule, _op, {key_source(op, symbolic=True)}]"
        return [
            "try:",
            f"    _m = {first}",
            f"    _e = {known}",
            "except (KeyError, TypeError, AttributeError, IndexError):",
            f"    return {otherwise}",
            "_a = _active[0]",
            f"if _m is None or (_a is not _m and _a is not None and _is_elsewhere(_m)){refuse}:",
            f"    return {otherwise}",
        ]

    def whole(self) -> str:
        """Of the kernel."""
        params = ", ".join(f"p{i}" for i in range(len(self.op._schema.arguments)))
        lines = [
            *self.known_lines(f"_slow(_ks, {params})"),
            *self.tail.replace("_PARAMS_", params).split("\n    "),
        ]
        return "\n".join([f"def _kernel(_ks, {params}):", *indented(lines), ""])


class KernelText(NamedTuple):
    """What a kernel that records writes out of the one at Fake below it.

    results: what each is; of several, all are new tensors. facts: what ``known_lines`` depend on.
    known_lines: finds ``_e``, the outcome of parameters ``p0, p1, ...``, and ``_m``, their mode, or
    returns what is given as source; it is over ``space``.
    """

    results: tuple[Return, ...]
    facts: tuple[object, ...]
    known_lines: Callable[[str], list[str]]
    space: dict[str, object]


# An attribute of the kernel, as its globals lead back to it: a weak table would keep it, too.
_TEXT: Final = "_mq_text"


def text_of(kernel: Callable[..., object]) -> KernelText | None:
    """Of kernels at Fake that are generated and have no part in symbols and inference mode."""
    text: KernelText | None = getattr(kernel, _TEXT, None)
    return text


def _storage_lines(kind: Return, inference: bool) -> str:
    if kind[0] == "view":
        origin = f"p{kind[1]}"
        return f"""_k = {origin}._keys
    _o = {origin}.meta
    if _k is _o.fake_keys or _k is _o.fake_grad_keys:
        _t._keys = _e.fake_keys
    else:
        _t._keys = _k & _inherit | _e.fake_keys & _symbolic
    _t._storage = {origin}._storage"""
    keys = "_e.fake_keys & _mask" if inference else "_e.fake_keys"
    return f"""_t._keys = {keys}
    _s = _new(_Storage)
    _s._nbytes = _e.nbytes
    _s.device = _e.device
    _s.data = None
    _s.foreign = False
    _s._id = 0
    if _observers:
        _announce(_s)
    _t._storage = _s"""


def _tensor_parameters(op: OpOverload) -> tuple[list[str], list[str]]:
    """Names of plain tensor parameters, and of those that may be None or are lists."""
    plain: list[str] = []
    other: list[str] = []
    for i, a in enumerate(op._schema.arguments):
        text = a.type.written
        if text == "Tensor":
            plain.append(f"p{i}")
        elif text.startswith("Tensor"):
            other.append(f"p{i}")
    return plain, other


def _mixed(value: object, mode: FakeTensorMode) -> bool:
    """Whether an optional tensor or list of tensors has one that is not of ``mode``."""
    if value.__class__ is tuple:
        for t in value:  # 0.3 us less than `any` of two
            if t is not None and t.fake_mode is not mode:
                return True
        return False
    return value.fake_mode is not mode  # type: ignore[attr-defined]  # a tensor


# What the text of every kernel at Fake names, beside what is its operator's own.
_SPACE: dict[str, object] = {
    "_hashable": hashable,
    "_fresh": fresh_fake,
    "_view": fake_view,
    "_Meta": TensorMeta,
    "_tls": tls,
    "_active": ACTIVE,
    "_is_elsewhere": is_elsewhere,
    "_Fake": FakeTensor,
    "_new": _new,
    "_Storage": UntypedStorage,
    "_observers": OBSERVERS,
    "_announce": announce,
    "_defaults": defaults,
    "_NUMBERS": NUMBERS,
    "_mixed": _mixed,
    "_inherit": NOT_INHERITED & ~K.SYMBOLIC,
    "_symbolic": K.SYMBOLIC,
    "_mask": INFERENCE_MASK,
}

set_fallback(DispatchKey.Fake, fake_kernel)
FAKE_RUNNER[0] = run_users_fake
