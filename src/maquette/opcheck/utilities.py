"""PyTorch's five test utilities, as functions of an operator and one call of it.

Each raises an error that says what is wrong, or returns. They see one sample; what many inputs
derived from it show is `properties`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from maquette.opcheck.closeness import how_they_differ
from maquette.opcheck.copies import (
    copied_arguments,
    map_tensors,
    named_tensors,
    same_storage,
    snapshot,
    tensors_in,
    what_changed,
)
from maquette.opcheck.metadata import differences
from maquette.opcheck.operators import CheckedOperator, bound
from maquette.opcheck.tracing import traced_runs

Args = Sequence[Any]
Kwargs = Mapping[str, Any]


def without_data(op: CheckedOperator, args: Args, kwargs: Kwargs) -> bool:
    """Whether an argument is fake or meta: there is nothing to run, and checks pass."""
    return any(op.on.is_fake(t) for t in tensors_in((list(args), dict(kwargs)), op.on))


# --- schema -----------------------------------------------------------------------------------


def test_schema(op: CheckedOperator, args: Args, kwargs: Kwargs) -> None:
    """Writes and aliases are those that the schema declares (L116); RuntimeError otherwise."""
    args, kwargs = copied_arguments(op.on, args, kwargs)
    given = bound(op, args, kwargs)
    before = [(name, t, snapshot(t, op.on)) for name, t in named_tensors(given, op.on)]
    with op.on.torch.no_grad():
        result = op(*args, **kwargs)
    for name, t, old in before:
        new = snapshot(t, op.on)
        if old is None or new is None or may_be_written(op, given, t):
            continue
        seen = [c for c in what_changed(old, new) if not c[0].startswith("bytes (")]
        if seen:
            fact, was, now = seen[0]
            raise RuntimeError(
                f"Argument {name} is not defined as mutable but was mutated: its {fact} was {was} "
                f"and is {now} after {op.name}. Declare it written ((a!), mutates_args), or write "
                f"to a copy"
            )
    for problem in undeclared_aliases(op, given, result):
        raise RuntimeError(problem)


def may_be_written(op: CheckedOperator, given: Sequence[tuple[Any, Any]], t: Any) -> bool:
    """Whether a tensor shares memory with an argument that the schema says is written."""
    written = [(a, v) for a, v in given if a.is_write]
    return any(t is w or same_storage(t, w) for _, w in named_tensors(written, op.on))


def undeclared_aliases(
    op: CheckedOperator, given: Sequence[tuple[Any, Any]], result: Any
) -> Iterator[str]:
    """Every sharing of memory of a result that the schema does not declare, in words."""
    outputs = list(_outputs(op, result))
    anything = any(a.alias_info is not None and a.alias_info.is_wildcard_after for a, _ in given)
    for i, (where, t, alias) in enumerate(outputs):
        for argument, value in given:
            for name, other in named_tensors([(argument, value)], op.on):
                declared = _meet(alias, argument.alias_info) or (
                    argument.alias_info is not None and argument.alias_info.is_wildcard_after
                )
                if not same_storage(t, other) or (declared and t is not other):
                    continue
                if t is other and declared and (argument.is_write or op.builtin):
                    continue
                if t is other:
                    yield (
                        f"Argument {name} is not defined to alias output but was returned: {where} "
                        f"of {op.name} is the argument itself; return a copy of it"
                    )
                else:
                    yield (
                        f"Argument {name} is not defined to alias output but was aliasing: "
                        f"{where} of {op.name} shares its memory; return a copy, or declare a view"
                    )
        for earlier, u, its_alias in outputs[:i]:
            if same_storage(t, u) and not (anything or _meet(alias, its_alias)):
                yield (
                    f"Outputs alias unexpectedly: {earlier} and {where} of {op.name} share memory; "
                    f"return tensors of their own"
                )


def _outputs(op: CheckedOperator, result: Any) -> Iterator[tuple[str, Any, Any]]:
    returns = op.returns
    values = [result] if len(returns) == 1 else list(result or ())
    for i, (value, returned) in enumerate(zip(values, returns)):
        if op.on.is_tensor(value):
            yield f"output {i}", value, returned.alias_info
        elif isinstance(value, (list, tuple)):
            for k, t in enumerate(value):
                if op.on.is_tensor(t):
                    yield f"output {i}[{k}]", t, returned.alias_info


def _meet(a: Any, b: Any) -> bool:
    """Whether two annotations name one alias set."""
    first, second = _sets(a), _sets(b)
    return bool(first & second) or ("*" in first | second and bool(first) and bool(second))


def _sets(info: Any) -> frozenset[str]:
    """The alias sets of a value, and of what it contains."""
    if info is None:
        return frozenset()
    inner = frozenset().union(*[_sets(c) for c in info.contained])
    found: frozenset[str] = info.before_set | info.after_set | inner
    return found


# --- registration of autograd -----------------------------------------------------------------


def test_autograd_registration(op: CheckedOperator, args: Args, kwargs: Kwargs) -> None:
    """The derivative is registered at an autograd key (L117); AssertionError otherwise."""
    inputs = [t for t in tensors_in((list(args), dict(kwargs)), op.on) if t.requires_grad]
    if not inputs:
        return
    backends = {t.device.type for t in inputs}
    if len(backends) > 1:
        raise NotImplementedError(
            f"test_autograd_registration: inputs that require grad are on several devices: "
            f"{', '.join(sorted(backends))}"
        )
    key = {"cpu": "AutogradCPU", "cuda": "AutogradCUDA"}.get(next(iter(backends)), "AutogradCPU")
    if any(op.has_kernel(k) for k in ("Autograd", key, "CompositeImplicitAutograd")):
        return
    if op.on.name == "maquette" and op.overload.derivatives is not None:
        return  # the kernel at Autograd is made of the page's formulas
    for output in _differentiable_without_kernel(op, args, kwargs):
        raise AssertionError(
            f"test_autograd_registration: {op.name} gives {output} that requires grad, but it has "
            f"no kernel at an autograd key: expected one at Autograd, {key} or "
            f"CompositeImplicitAutograd. An operator whose kernel is differentiable itself or "
            f"calls an autograd.Function must not stand at a backend key: register the kernel for "
            f"the backend without it, and the derivative by register_autograd"
        )


def _differentiable_without_kernel(op: CheckedOperator, args: Args, kwargs: Kwargs) -> list[str]:
    args, kwargs = copied_arguments(op.on, args, kwargs)
    given = tensors_in((list(args), kwargs), op.on)
    with _no_fallback_nodes(op):
        result = op(*args, **kwargs)
    return [
        f"output {i}"
        for i, t in enumerate(tensors_in(result, op.on))
        if t.requires_grad and not any(t is g for g in given)
    ]


@contextlib.contextmanager
def _no_fallback_nodes(op: CheckedOperator) -> Iterator[None]:
    """Without nodes for operators that have no derivative (L30)."""
    if op.on.name == "torch":
        C = op.on.torch._C
        before = C._get_autograd_fallback_mode()
        C._set_autograd_fallback_mode("nothing")
        try:
            yield
        finally:
            C._set_autograd_fallback_mode(before)
        return
    from maquette.autograd.undifferentiated import autograd_fallback_mode  # noqa: PLC0415

    with autograd_fallback_mode("nothing"):
        yield


# --- fake -------------------------------------------------------------------------------------


def test_faketensor(op: CheckedOperator, args: Args, kwargs: Kwargs) -> None:
    """The fake gives the metadata of the real call (L118); MetadataMismatchError otherwise."""
    if op.builtin or op.tags & {"dynamic_output_shape", "data_dependent_output", "inplace_view"}:
        return
    args, kwargs = copied_arguments(op.on, args, kwargs)
    mode = op.on.FakeTensorMode(shape_env=op.on.ShapeEnv())

    def as_fake(t: Any) -> Any:
        return mode.from_tensor(t, static_shapes=True)

    fake_args = map_tensors(as_fake, args, op.on)
    fake_kwargs = map_tensors(as_fake, kwargs, op.on)
    with mode:
        fake = op(*fake_args, **fake_kwargs)
    real = op(*args, **kwargs)
    real_inputs = tensors_in((args, kwargs), op.on)
    fake_inputs = tensors_in((fake_args, fake_kwargs), op.on)
    for problem in differences(op.on, real, fake, real_inputs, fake_inputs):
        raise op.on.mismatch(f"{op.name}: the fake does not match the real call: {problem}")


# --- traced forward and backward --------------------------------------------------------------


def aot_dispatch(
    op: CheckedOperator,
    args: Args,
    kwargs: Kwargs,
    *,
    dynamic: bool,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """The functionalized graph of forward and backward computes what eager does (L119)."""
    eager, graph = traced_runs(op, args, kwargs, dynamic=dynamic)
    for what, expected, got in (
        ("outputs", eager.outputs, graph.outputs),
        ("inputs after the call", eager.inputs, graph.inputs),
        ("gradients", eager.gradients, graph.gradients),
    ):
        if len(expected) != len(got):
            raise AssertionError(
                f"{op.name}: eager gives {len(expected)} {what}, the traced graph {len(got)}"
            )
        for i, (e, g) in enumerate(zip(expected, got)):
            problem = how_they_differ(op.on, e, g, rtol, atol)
            if problem:
                raise AssertionError(
                    f"{what} of {op.name} differ between eager and the traced, functionalized "
                    f"graph: number {i}: {problem}. Is there state that is kept between calls, or "
                    f"a random generator of its own?"
                )


def test_aot_dispatch_static(op: CheckedOperator, args: Args, kwargs: Kwargs, **t: Any) -> None:
    """`aot_dispatch` over fakes of static sizes."""
    aot_dispatch(op, args, kwargs, dynamic=False, **t)


def test_aot_dispatch_dynamic(op: CheckedOperator, args: Args, kwargs: Kwargs, **t: Any) -> None:
    """`aot_dispatch` over fakes whose sizes are symbols."""
    aot_dispatch(op, args, kwargs, dynamic=True, **t)


UTILITIES: dict[str, Callable[..., None]] = {
    "test_schema": test_schema,
    "test_autograd_registration": test_autograd_registration,
    "test_faketensor": test_faketensor,
    "test_aot_dispatch_static": test_aot_dispatch_static,
    "test_aot_dispatch_dynamic": test_aot_dispatch_dynamic,
}


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without warnings: that a formula is absent is no finding here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
