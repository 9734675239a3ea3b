"""The functions of `maquette.library` that need no `Library`: they name the operator instead.

Each finds the operator and either hands over to its `CustomOpDef` or registers through a library:
the one given, or one per namespace that is kept for ever. What is registered is explained in
`library.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

from maquette.autograd.formulas import formula_rule
from maquette.autograd.registered import Formula, formula_kernel
from maquette.core.dtype import dtype
from maquette.dispatch import keysets as K
from maquette.dispatch.kernels import Kernel, caller_place
from maquette.dispatch.keysets import DispatchKey, KeyLike
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tags import Tag
from maquette.library.array_functions import array_factory, on_arrays, with_namespace
from maquette.library.custom_op import (
    CustomOpDef,
    Devices,
    check_differentiable,
    find_opdef,
)
from maquette.library.fakes import register_fake as register_fake_with
from maquette.library.kernel_handle import KernelHandle, kernel_handle
from maquette.library.library import Library
from maquette.library.page import add_formula, register_rule
from maquette.library.registrations import (
    canonical_name,
    check_text,
    find_overload,
    set_fact,
    warn_at,
)
from maquette.library.special_kernels.dispatch_rules import autocast_kernel
from maquette.tensor.backend import backend_of

Function = Callable[..., object]
F = TypeVar("F", bound=Function)
Operator = str | OpOverload | CustomOpDef
# The libraries of registrations without a library, by namespace.
_keep_alive: dict[str, Library] = {}


# --- define and impl -------------------------------------------------------------------------


def define(
    qualname: str | Library,
    schema: str,
    alias_analysis: str = "",
    *,
    lib: Library | None = None,
    tags: Tag | Sequence[Tag] = (),
) -> Callable[[F], F] | None:
    """Define the operator ``qualname`` (``ns::name``) by a nameless schema.

    The old form ``define(lib, schema, alias_analysis="")``, with a name in the schema, decorates:
    it defines, registers the function at the default key and returns it.
    """
    if isinstance(qualname, Library):
        return _define_decorator(qualname, schema, alias_analysis)
    if not isinstance(qualname, str):
        raise ValueError(
            f"define: expected a qualname, a str such as 'ns::name', got {type(qualname).__name__}"
        )
    namespace = _namespace(qualname)
    check_text(schema)
    text = schema.strip()
    if not text.startswith("(") or "->" not in text:
        raise ValueError(
            f"define: expected schema to look like '(Tensor x) -> Tensor', nameless, got {schema!r}"
        )
    _library(namespace, lib).define(f"{qualname}{text}", alias_analysis, tags=tags)
    return None


def _define_decorator(lib: Library, schema: str, alias_analysis: str) -> Callable[[F], F]:
    check_text(schema)

    def register(function: F) -> F:
        lib.define(schema, alias_analysis)
        lib.impl(schema.partition("(")[0].strip(), function)
        return function

    return register


def impl(
    qualname: str | Library,
    types: str | Sequence[str],
    func: Function | str | None = None,
    *,
    lib: Library | None = None,
) -> Callable[[F], F] | None:
    """Register a function as the kernel of ``qualname`` for device types or dispatch keys.

    types: one or several of device types ("cpu"), names of dispatch keys, "default"
    (CompositeExplicitAutograd). Without ``func`` it decorates. The old form
    ``impl(lib, name, dispatch_key="")`` decorates too.
    """
    if isinstance(qualname, Library):
        return _impl_decorator(qualname, types, func)
    namespace = _namespace(qualname)
    listed = [types] if isinstance(types, str) else types
    keys = list(dict.fromkeys(map(_key_of, listed)))

    def register(function: F) -> F:
        library = _library(namespace, lib)
        for key in keys:
            library.impl(qualname, function, key)
        return function

    if func is None:
        return register
    register(func)  # type: ignore[type-var]  # no str beside a qualname
    return None


def _impl_decorator(lib: Library, name: object, dispatch_key: object) -> Callable[[F], F]:
    def register(function: F) -> F:
        lib.impl(name, function, dispatch_key or "")  # type: ignore[arg-type]  # checked there
        return function

    return register


def _key_of(name: str) -> DispatchKey:
    if name == "default":
        return DispatchKey.CompositeExplicitAutograd
    return K.parse_dispatch_key(name) or K.as_key(K.key_for_device(name))


# --- kernels, fakes, derivatives --------------------------------------------------------------


def register_kernel(
    op: Operator,
    device_types: Devices,
    func: F | None = None,
    /,
    *,
    lib: Library | None = None,
    arrays: bool = False,
) -> F | Callable[[F], F]:
    """Let a function serve an operator on device types (None: all without their own); returns it.

    arrays: the function takes and returns arrays, where PyTorch knows only functions of tensors.
    With a first parameter ``xp`` it is given the array namespace, as a page's kernel is; results
    are laid out by the shape rule where the operator has one.
    """
    _check_operator("register_kernel", op)
    opdef = find_opdef(op)

    def register(function: F) -> F:
        if opdef is not None:
            kernel = _on_cpu_arrays(function) if arrays else function
            opdef.register_kernel(device_types, kernel)
        elif arrays:
            _register_array_kernel(op, device_types, function, lib)
        else:
            impl(_name(op), "default" if device_types is None else device_types, function, lib=lib)
        return function

    return register if func is None else register(func)


def _on_cpu_arrays(function: Function) -> Function:
    on_namespace = with_namespace(function)
    bound = on_arrays(lambda *args, **kw: on_namespace(backend_of("cpu").namespace, *args, **kw))
    bound.__module__ = getattr(function, "__module__", bound.__module__)
    return bound


def _register_array_kernel(
    op: Operator, device_types: Devices, function: Function, lib: Library | None
) -> None:
    """Make a function of arrays the page's kernel, or that of some devices."""
    name = _name(op)
    library = _library(_namespace(name), lib)
    overload = _find(op)
    if device_types is None and overload is not None and overload.shape_rule is not None:
        library.on_destroy(set_fact(overload, "kernel", with_namespace(function)))
        return
    listed = [device_types] if isinstance(device_types, str) else device_types or ["cpu"]
    for device_type in listed:
        factory = array_factory(function, device_type)
        kernel = Kernel(factory, python=function, place=caller_place(), of_arrays=True)
        library.register(name, K.as_key(K.key_for_device(device_type)), kernel)


def register_fake(
    op: Operator,
    func: F | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> F | Callable[[F], F]:
    """Register the function that serves an operator on fake and meta tensors; returns it.

    It makes its results by operators. _stacklevel: whose place messages name. Raises RuntimeError
    for an unknown operator, or one that has a fake unless ``allow_override``.
    """
    _check_operator("register_fake", op)
    place = caller_place(_stacklevel)
    opdef = find_opdef(op)

    def register(function: F) -> F:
        if opdef is not None:
            return opdef.register_fake(function)
        name = _name(op)
        library = _library(_namespace(name), lib)
        register_fake_with(library, name, function, place, allow_override=allow_override)
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: str, func: F | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> F | Callable[[F], F]:
    """The former name of `register_fake`, which says so in a FutureWarning."""
    said = "impl_abstract is now called register_fake; the old name will go"
    warnings.warn(said, FutureWarning, stacklevel=2)
    return register_fake(qualname, func, lib=lib, _stacklevel=_stacklevel)


def register_autograd(
    op: Operator,
    backward: Function,
    /,
    *,
    setup_context: Function | None = None,
    lib: Library | None = None,
) -> None:
    """Register the derivative of an operator: ``backward(ctx, *grads)`` and what prepares it.

    backward: one gradient (or None) for each positional argument, a list for a list of tensors.
    setup_context: called by keywords ``ctx``, ``inputs``, ``output`` after the forward, to save
    what backward needs. Raises RuntimeError for operators that write, return nothing or return
    views.
    """
    opdef = _opdef_or_none("register_autograd", op)
    if opdef is not None:
        opdef.register_autograd(backward, setup_context=setup_context)
        return
    overload = _existing("register_autograd", op)
    check_differentiable(overload, views=False)
    place = caller_place()
    _warn_unreached(overload, place)
    kernel = Kernel(
        formula_kernel(Formula(backward, setup_context)),
        python=backward,
        only_with_grad=True,
        place=place,
    )
    library = _library(overload.namespace, lib)
    library.register(overload.name(), DispatchKey.Autograd, kernel)


def register_derivative(
    op: Operator, /, *joint: str, lib: Library | None = None, **formulas: Function
) -> Callable[[F], F]:
    """Register derivatives as a page states them: formulas that name what they need.

    One formula an argument by keyword (``self=lambda grad, other: grad * other``), or a decorator
    for several arguments together. Parameters: ``grad``, arguments of the operator, ``result``;
    what is named is saved. PyTorch keeps such formulas in a file of its own, ``derivatives.yaml``.
    """
    overload = _existing("register_derivative", op)
    check_differentiable(overload, views=True)
    library = _library(overload.namespace, lib)

    def add(wrt: tuple[str, ...], formula: Function, *, joint: bool) -> None:
        _check_arguments(overload, wrt)
        library.on_destroy(add_formula(overload, formula_rule(wrt, formula, joint=joint)))

    for name, formula in formulas.items():
        add((name,), formula, joint=False)

    def decorate(function: F) -> F:
        add(joint, function, joint=True)
        return function

    return decorate


def _check_arguments(op: OpOverload, wrt: Sequence[str]) -> None:
    known = [a.name for a in op._schema.arguments]
    for name in wrt:
        if name not in known:
            raise ValueError(
                f"register_derivative: {op} has no argument '{name}'; it has {', '.join(known)}"
            )


def register_tangent(
    op: Operator, func: F | None = None, /, *, lib: Library | None = None
) -> F | Callable[[F], F]:
    """Register the tangent rule of forward mode; its parameters are those of `page.tangent`."""
    return _register_fact("register_tangent", op, "tangent", func, lib)


def register_sharding(
    op: Operator, func: F | None = None, /, *, lib: Library | None = None
) -> F | Callable[[F], F]:
    """Register the sharding rule: how shards of the arguments make shards of the results."""
    return _register_fact("register_sharding", op, "sharding", func, lib)


def _warn_unreached(op: OpOverload, place: str) -> None:
    if op.find_key(DispatchKey.AutogradCPU) is DispatchKey.CompositeImplicitAutograd:
        warn_at(
            place,
            f"{op} has a CompositeImplicitAutograd kernel and no other: it is differentiated "
            f"through its parts, so this formula is not reached",
        )


def register_vmap(
    op: Operator, func: F | None = None, /, *, lib: Library | None = None
) -> F | Callable[[F], F]:
    """Register the batching rule ``(info, in_dims, *args) -> (output, out_dims)``; returns it."""
    opdef = _opdef_or_none("register_vmap", op)
    if opdef is not None:
        return opdef.register_vmap(func)
    return _register_fact("register_vmap", op, "batching", func, lib)


def register_torch_dispatch(
    op: Operator,
    torch_dispatch_class: type,
    func: F | None = None,
    /,
    *,
    lib: Library | None = None,
) -> F | Callable[[F], F]:
    """Have a function answer an operator under a mode, or for a tensor class; returns it.

    ``func(mode_or_class, op, types, args, kwargs)`` stands in the place of the
    ``__torch_dispatch__`` of exactly this class; NotImplemented leaves the call to the next.
    RuntimeError for a second function of a class (one of `custom_op` is replaced).
    """
    opdef = _opdef_or_none("register_torch_dispatch", op)
    if opdef is not None:
        return opdef.register_torch_dispatch(torch_dispatch_class, func)
    overload = _existing("register_torch_dispatch", op)

    def register(function: F) -> F:
        library = _library(overload.namespace, lib)
        library._register_torch_dispatch_rule(overload, torch_dispatch_class, function)
        return function

    return register if func is None else register(func)


def register_autocast(
    op: Operator, device_type: str, cast_inputs: dtype, /, *, lib: Library | None = None
) -> None:
    """In autocast regions of a device, run an operator on its tensors cast to ``cast_inputs``.

    Floating tensors of the device are cast, in lists too, but float64 ones, whatever dtype the
    region has; the operator runs outside of the region. The last registration counts. ValueError
    for a device that has no regions. Unlike in PyTorch 2.13, keyword arguments work.
    """
    opdef = _opdef_or_none("register_autocast", op)
    if opdef is not None:
        opdef.register_autocast(device_type, cast_inputs)
        return
    overload = _existing("register_autocast", op)
    key, kernel = autocast_kernel(device_type, cast_inputs)
    _library(overload.namespace, lib).register(overload.name(), key, kernel)


def register_cost(
    op: Operator, func: F | None = None, /, *, lib: Library | None = None
) -> F | Callable[[F], F]:
    """Register what a call costs: metas of the arguments, then of the result, to a `page.Cost`.

    PyTorch has no such registration. Returns the function.
    """
    return _register_fact("register_cost", op, "cost", func, lib)


def _register_fact(
    what: str, op: Operator, name: str, func: F | None, lib: Library | None
) -> F | Callable[[F], F]:
    overload = _existing(what, op)

    def register(function: F) -> F:
        library = _library(overload.namespace, lib)
        library.on_destroy(set_fact(overload, name, function))
        return function

    return register if func is None else register(func)


def register_shape(
    op: Operator, func: F | None = None, /, *, lib: Library | None = None
) -> F | Callable[[F], F]:
    """Register the shape rule: metas and plain arguments, all positional, to metas; returns it.

    From it the operator has its answer on meta and fake tensors, remembered by metas, where
    `register_fake` runs its function at every call. PyTorch has no such registration.
    """
    overload = _existing("register_shape", op)

    def register(function: F) -> F:
        library = _library(overload.namespace, lib)
        library.on_destroy(register_rule(overload, function))
        return function

    return register if func is None else register(func)


def get_kernel(op: Operator, dispatch_key: KeyLike) -> KernelHandle:
    """What serves ``op`` at a dispatch key now, immune to later overrides.

    Raises ValueError for an unknown key or a packet, RuntimeError where there is no operator or
    kernel.
    """
    _check_operator("get_kernel", op)
    overload = _find(op)
    if overload is None:
        raise RuntimeError(f"get_kernel: the operator {_name(op)} does not exist")
    return kernel_handle(overload, dispatch_key)


# --- finding operators and libraries -----------------------------------------------------------


def _check_operator(what: str, op: object) -> None:
    if not isinstance(op, (str, OpOverload, CustomOpDef)):
        raise ValueError(
            f"{what}({op}): expected an operator as a qualname, an OpOverload or the result of "
            f"custom_op, got {type(op).__name__}"
        )


def _opdef_or_none(what: str, op: object) -> CustomOpDef | None:
    _check_operator(what, op)
    return find_opdef(op)


def _name(op: Operator) -> str:
    if isinstance(op, CustomOpDef):
        return op._qualname
    return op.name() if isinstance(op, OpOverload) else canonical_name(op)


def _find(op: Operator) -> OpOverload | None:
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverload):
        return op
    _namespace(op)
    return find_overload(op)


def _existing(what: str, op: Operator) -> OpOverload:
    _check_operator(what, op)
    found = _find(op)
    if found is None:
        raise AttributeError(f"{what}: the operator {_name(op)} does not exist; define it first")
    return found


def _namespace(qualname: str) -> str:
    parts = qualname.split("::")
    if len(parts) != 2 or not all(parts):
        raise ValueError(
            f"expected a qualname of the form 'namespace::name' or 'namespace::name.overload', got "
            f"{qualname!r}"
        )
    return parts[0]


def _library(namespace: str, lib: Library | None) -> Library:
    """The library to register in: the given one, of this namespace, or a lasting one."""
    if lib is None:
        kept = _keep_alive.get(namespace)
        if kept is None or not kept.alive:
            kept = _keep_alive[namespace] = Library(namespace, "FRAGMENT")
        return kept
    if lib.ns != namespace:
        raise RuntimeError(
            f"the operator is in the namespace {namespace}, the library made at {lib.place} of "
            f"{lib.ns}"
        )
    lib._check_alive()
    return lib
