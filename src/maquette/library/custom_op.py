"""`custom_op`: a Python function as an operator; the rest is registered on what it returns.

A `CustomOpDef` owns a library with one operator. Its kernels are put in place once, when it is
defined; each asks the definition at resolution which function serves it, so that registering again,
or switching a kernel off, only makes the operator resolve anew and costs a call nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, overload

from maquette.autograd.registered import (
    Formula,
    formula_kernel,
    no_formula_kernel,
    requires_grad,
)
from maquette.core.dtype import dtype
from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Kernel, caller_place
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.schemas.parser import parse_schema
from maquette.dispatch.schemas.schema import Argument, FunctionSchema
from maquette.dispatch.tags import Tag
from maquette.library.effects import EffectType, register_effectful_op
from maquette.library.fakes import fake_kernels
from maquette.library.infer_schema import infer_schema
from maquette.library.library import Library
from maquette.library.python_kernels import python_kernel
from maquette.library.registrations import check_tags, check_text, find_overload, set_fact, warn_at
from maquette.library.special_kernels.dispatch_rules import add_dispatch_rule, autocast_kernel

Function = Callable[..., object]
F = TypeVar("F", bound=Function)
Devices = str | Sequence[str] | None
# The live definitions by qualified name.
OPDEFS: dict[str, CustomOpDef] = {}
_DEFAULT = ""  # stands for every device type without a kernel of its own


@overload
def custom_op(
    name: str,
    fn: None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: Tag | Sequence[Tag] | None = None,
) -> Callable[[Function], CustomOpDef]: ...


@overload
def custom_op(
    name: str,
    fn: Function,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: Tag | Sequence[Tag] | None = None,
) -> CustomOpDef: ...


def custom_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: Devices = None,
    schema: str | None = None,
    tags: Tag | Sequence[Tag] | None = None,
) -> CustomOpDef | Callable[[Function], CustomOpDef]:
    """Define the operator ``name`` by a function; without ``fn``, decorates it.

    name: ``ns::name``, or ``ns::name.overload`` for one overload of several.

    mutates_args: names of the tensors that the function writes to, or "unknown" for all of them.
    device_types: the devices that it serves; None for all. schema: nameless, inferred from the
    annotations if absent. Unlike in PyTorch 2.13, a failure leaves nothing defined.
    """

    def define(function: Function) -> CustomOpDef:
        _check_name(name)
        listed = _tags(tags)
        written = mutates_args if isinstance(mutates_args, str) else tuple(mutates_args)
        text = schema
        if text is None:
            text = infer_schema(function, mutates_args=written, tags=listed)
        check_text(text)
        parsed = parse_schema(f"{name}{text}", allow_typevars=False)
        if schema is not None:
            _check_written(parsed, written)
        _check_keyword_tensors(parsed, listed)
        check_tags(parsed, listed)
        devices = _devices(device_types)
        _check_selectable(parsed, devices)
        earlier = OPDEFS.pop(name, None)
        if earlier is not None:
            earlier._lib._destroy()
        made = CustomOpDef(name, text, function, listed)
        made.register_kernel(device_types, function)
        OPDEFS[name] = made
        return made

    return define if fn is None else define(fn)


def _check_name(name: str) -> None:
    namespace, separator, rest = name.partition("::")
    words = (namespace, *rest.split(".", 1))
    if not separator or not all(word.isidentifier() for word in words):
        raise ValueError(
            f"custom_op: expected a name of the form 'namespace::name' or "
            f"'namespace::name.overload', got {name!r}"
        )


def _tags(tags: Tag | Sequence[Tag] | None) -> list[Tag]:
    given = [] if tags is None else [tags] if isinstance(tags, Tag) else list(tags)
    return list(dict.fromkeys([Tag.pt2_compliant_tag, *given]))


def _check_written(schema: FunctionSchema, mutates_args: str | Sequence[str]) -> None:
    declared = {a.name for a in schema.arguments if a.is_write}
    given = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    if declared != given:
        raise ValueError(
            f"custom_op: by the schema {schema} the op mutates {declared or '{}'}, by mutates_args "
            f"{given or '{}'}; the two must agree"
        )


def _check_keyword_tensors(schema: FunctionSchema, tags: Sequence[Tag]) -> None:
    if Tag.out in tags:
        return
    for a in schema.arguments:
        if a.kwarg_only and _is_tensor(a):
            raise NotImplementedError(
                f"custom_op: kwarg-only Tensor args, here '{a.name}', are for operators tagged "
                f"Tag.out: {schema}"
            )


def _is_tensor(argument: Argument) -> bool:
    return argument.type.base.kind == "tensor"


def _devices(device_types: Devices) -> dict[str, DispatchKey]:
    """The key of each device type; RuntimeError for an unknown one."""
    if device_types is None:
        return {_DEFAULT: DispatchKey.CompositeExplicitAutograd}
    listed = [device_types] if isinstance(device_types, str) else device_types
    return {d: K.as_key(K.key_for_device(d)) for d in listed}


def _check_selectable(schema: FunctionSchema, devices: Iterable[str]) -> None:
    if _DEFAULT in devices or any(map(_is_tensor, schema.arguments)):
        return
    if not any(a.name == "device" and a.type.base.kind == "device" for a in schema.arguments):
        raise ValueError(
            f"custom_op: {schema} has no tensor to tell the device by; for kernels of single "
            f"devices add a parameter 'device: torch.device'"
        )


class CustomOpDef:
    """A custom operator: call it, and register what more is known of it. Made by `custom_op`."""

    def __init__(self, name: str, schema: str, fn: Function, tags: Sequence[Tag]) -> None:
        self._namespace, _, self._name = name.partition("::")
        self._qualname = name
        self._schema = schema
        self._init_fn = fn
        self._lib = Library(self._namespace, "FRAGMENT")
        self._opoverload = self._lib._define(f"{name}{schema}", "", tags)
        self._functions: dict[str, Function] = {}
        self._disabled: set[str] = set()
        self._fake: tuple[Function, str] | None = None
        self._formula: Formula | None = None
        self._written = [i for i, a in enumerate(self._opoverload._schema.arguments) if a.is_write]
        self._declares_view = any(
            a.alias_info is not None and not a.is_write for a in self._opoverload._schema.arguments
        )
        self._install()

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, /, *args: object, **kwargs: object) -> object:
        return self._opoverload(*args, **kwargs)

    @property
    def _tag(self) -> Tag | None:
        """`Tag.out` or `Tag.inplace`, where the operator returns what it writes (L76)."""
        return next((t for t in self._opoverload.tags if t in (Tag.out, Tag.inplace)), None)

    # --- kernels ---------------------------------------------------------------------

    @overload
    def register_kernel(self, device_types: Devices, fn: None = None, /) -> Callable[[F], F]: ...

    @overload
    def register_kernel(self, device_types: Devices, fn: F, /) -> F: ...

    def register_kernel(
        self, device_types: Devices, fn: F | None = None, /
    ) -> F | Callable[[F], F]:
        """Let a function serve these device types (None: all without their own); returns it."""

        def register(function: F) -> F:
            devices = _devices(device_types)
            _check_selectable(self._opoverload._schema, devices)
            for device, key in devices.items():
                known = device in self._functions
                # First of all: as soon as the kernel is there, other threads may call it.
                self._functions[device] = function
                if not known:
                    kernel = Kernel(self._kernel_of(device), python=function, place=caller_place())
                    self._lib.register(self._qualname, key, kernel)
            self._opoverload.invalidate()
            return function

        return register if fn is None else register(fn)

    def _kernel_of(self, device: str) -> Callable[[OpOverload, int], Function]:
        def factory(op: OpOverload, ks: int) -> Function:
            function = self._init_fn if device in self._disabled else self._functions[device]
            if self._tag is not None:
                return _returning_written(
                    op, python_kernel(function)(op, ks), self._written, self._tag
                )
            place = "" if self._declares_view else getattr(function, "__module__", "no module")
            return python_kernel(function, own_results=place)(op, ks)

        return factory

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Switch a device's kernel on or off for the block; off, the original function runs."""
        was_disabled = device_type in self._disabled
        if device_type not in self._functions:
            _log("%s has no kernel for %s to switch", self, device_type)
        elif was_disabled is not enabled:
            _log("%s: its kernel for %s is %s already", self, device_type, _state(enabled))
        self._switch(device_type, disabled=not enabled)
        try:
            yield
        finally:
            self._switch(device_type, disabled=was_disabled)

    def _switch(self, device_type: str, *, disabled: bool) -> None:
        if disabled:
            self._disabled.add(device_type)
        else:
            self._disabled.discard(device_type)
        self._opoverload.invalidate()

    # --- fakes -----------------------------------------------------------------------

    def register_fake(self, fn: F, /) -> F:
        """Register the function that runs on fake and meta tensors; returns it."""
        place = caller_place()
        if self._tag is not None:
            warn_at(
                place, f"{self} is tagged {self._tag!r}, so its fake is known; this one replaces it"
            )
        self._fake = (fn, place)
        self._opoverload.invalidate()
        return fn

    def _fake_kernel_at(self, at: DispatchKey) -> Callable[[OpOverload, int], Function]:
        def factory(op: OpOverload, ks: int) -> Function | None:
            function, place = self._fake or (self._without_fake(), self._opoverload.place)
            kernel = dict(fake_kernels(function, place))[at]
            return kernel.factory(op, ks)

        return factory  # type: ignore[return-value]  # a fake's factory never falls through

    def _without_fake(self) -> Function:
        """What runs on fake tensors as long as no fake is registered (L78)."""
        schema = self._opoverload._schema
        names = [a.name for a in schema.arguments]
        written = self._written

        def returns_written(*args: object, **kwargs: object) -> object:
            found = [args[i] if i < len(args) else kwargs[names[i]] for i in written]
            return found[0] if len(found) == 1 else tuple(found)

        def returns_nothing(*args: object, **kwargs: object) -> None:
            return None

        def missing(*args: object, **kwargs: object) -> object:
            raise RuntimeError(
                f"There was no fake impl registered for {self}. This is necessary for "
                f"torch.compile/export/fx tracing to work. Please use "
                f"`{self._name}.register_fake` to add an fake impl."
            )

        if self._tag is not None:
            return returns_written
        return returns_nothing if written and not schema.returns else missing

    # --- derivatives -----------------------------------------------------------------

    def register_autograd(
        self, backward: Function, /, *, setup_context: Function | None = None
    ) -> None:
        """Register the derivative: ``backward(ctx, *grads)``, prepared by ``setup_context``.

        ``setup_context(ctx, inputs, output)`` is called by keywords after the forward; with
        keyword-only arguments in the schema it also takes ``keyword_only_inputs``.
        """
        check_differentiable(self._opoverload, views=True)
        self._formula = Formula(backward, setup_context)
        self._opoverload.invalidate()

    def _autograd_kernel(self, op: OpOverload, ks: int) -> Function | None:
        if self._tag is Tag.out:
            return _refusing_grad(op)
        if self._formula is not None:
            return formula_kernel(self._formula)(op, ks)
        return no_formula_kernel(
            f"Trying to backward through {op} but no autograd formula was registered for {self}; "
            f"register one with {self._name}.register_autograd(backward)"
        )(op, ks)

    # --- the rest of the page --------------------------------------------------------

    def register_vmap(self, func: F | None = None, /) -> F | Callable[[F], F]:
        """Register the batching rule ``(info, in_dims, *args) -> (output, out_dims)``."""

        def register(function: F) -> F:
            _check_no_keyword_tensors(self._opoverload)
            self._lib.on_destroy(set_fact(self._opoverload, "batching", function))
            return function

        return register if func is None else register(func)

    def register_torch_dispatch(self, cls: type, fn: F | None = None, /) -> F | Callable[[F], F]:
        """Have ``fn(mode_or_class, op, types, args, kwargs)`` answer under a mode or for a class.

        cls: the very class, no subclass of it. Again for one class, it replaces.
        """

        def register(function: F) -> F:
            self._lib.on_destroy(add_dispatch_rule(self._opoverload, cls, function, replace=True))
            return function

        return register if fn is None else register(fn)

    def register_autocast(self, device_type: str, cast_inputs: dtype) -> None:
        """In autocast regions of a device, run on floating tensors cast to ``cast_inputs``."""
        key, kernel = autocast_kernel(device_type, cast_inputs)
        self._lib.register(self._qualname, key, kernel)

    def register_effect(self, effect: EffectType | None) -> None:
        """Say which effect the operator has; None for none (`register_effectful_op`)."""
        handle = register_effectful_op(self._opoverload, effect)
        self._lib.on_destroy(handle.destroy)

    def _install(self) -> None:
        place = self._opoverload.place
        for key in (DispatchKey.Fake, DispatchKey.Meta):
            self._lib.register(self._qualname, key, Kernel(self._fake_kernel_at(key), place=place))
        autograd = Kernel(self._autograd_kernel, only_with_grad=True, place=place)
        self._lib.register(self._qualname, DispatchKey.Autograd, autograd)


def _log(message: str, *values: object) -> None:
    import logging  # noqa: PLC0415  # when first needed: importing stays quick

    logging.getLogger(__name__).warning(message, *values)


def _state(enabled: bool) -> str:
    return "enabled" if enabled else "disabled"


def _returning_written(
    op: OpOverload, inner: Function, written: Sequence[int], tag: Tag
) -> Function:
    """A kernel whose function must return the arguments that it wrote, in order (L76)."""

    def kernel(ks: int, *params: object) -> object:
        result = inner(ks, *params)
        results = result if isinstance(result, tuple) else (result,)
        for got, i in zip(results, written, strict=True):
            if got is not params[i]:
                raise RuntimeError(
                    f"{op} is tagged {tag!r}: its kernel must return the written argument "
                    f"'{op._schema.arguments[i].name}' itself, but returned another tensor"
                )
        return result

    return kernel


def _refusing_grad(op: OpOverload) -> Function:
    def kernel(ks: int, *params: object) -> object:
        assert requires_grad(params)
        raise RuntimeError(
            f"{op}: functions with out=... arguments don't support automatic differentiation, but "
            f"one of the arguments requires grad"
        )

    return kernel


def check_differentiable(op: OpOverload, *, views: bool) -> None:
    """Refuse a formula for an operator that has nothing to differentiate or writes (L87).

    views: whether a view of one tensor may have a formula.
    """
    schema = op._schema
    aliased = [a for a in (*schema.arguments, *schema.returns) if a.alias_info is not None]
    one_view = (
        views
        and op.is_view
        and len(schema.returns) == 1
        and all(a.type.kind == "tensor" for a in aliased)
        and len(aliased) == 2
    )
    if schema.is_mutable or not schema.returns or (aliased and not one_view):
        raise RuntimeError(
            f"cannot register an autograd formula for {op}, which is not functional: it must "
            f"return something, write no argument and return no view. Schema: {schema}"
        )
    _check_no_keyword_tensors(op)


def _check_no_keyword_tensors(op: OpOverload) -> None:
    for a in op._schema.arguments:
        if a.kwarg_only and _is_tensor(a):
            raise NotImplementedError(
                f"{op}: formulas and batching rules know no kwarg-only Tensor args, here "
                f"'{a.name}'. Schema: {op._schema}"
            )


def find_opdef(op: object) -> CustomOpDef | None:
    """The live definition that an operator, however named, belongs to."""
    if isinstance(op, CustomOpDef):
        return op
    name = op.name() if isinstance(op, OpOverload) else op
    made = OPDEFS.get(name) if isinstance(name, str) else None
    if made is None or find_overload(made._qualname) is not made._opoverload:
        return None
    return made
