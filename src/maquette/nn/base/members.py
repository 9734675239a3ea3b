"""A module's members: parameters, buffers and submodules, and their registration.

The values are plain instance attributes; three dicts of names beside them say which attributes are
members and in which order. So every value has one owner, and reading `self.weight` is an ordinary
attribute access: 4 ns in a function's code, where PyTorch, which keeps members in dicts of their
own and finds them in `__getattr__`, takes 400 ns (CPython 3.11; a Llama reads a dozen a layer).
That gain needs the absence of `__getattr__` too: with one, CPython does not specialize the access
(20 ns). `python -m timeit -s "from maquette import nn; m = nn.Linear(1, 1)" m.weight` shows it.

`_parameters`, `_buffers` and `_modules` are views that write through to both, for programs that
reach for PyTorch's dicts; `vars(module)` shows them in the place of the members (`attributes.py`).

Programs derive from modules and optimizers, and give their own members whatever private names
PyTorch leaves free (`_hooks`, `_run`). What only maquette's classes have begins with `_mq_`.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from types import CodeType, FunctionType
from typing import Any, Generic, TypeVar

from maquette.api.function_homes import own_module
from maquette.nn.base.attributes import Attributes, read_attribute
from maquette.nn.base.hooks import registered, registration_hooks
from maquette.nn.parameter import Parameter
from maquette.tensor import Tensor

T = TypeVar("T")

# The attributes that hold the names of each kind, in order of registration. A buffer's name maps
# to whether it is persistent, the others' to None.
PARAMETERS = "_mq_parameter_names"
BUFFERS = "_mq_buffer_names"
MODULES = "_mq_module_names"
_KINDS = (PARAMETERS, BUFFERS, MODULES)
# PyTorch's names of its dicts, by kind.
DICTS = {PARAMETERS: "_parameters", BUFFERS: "_buffers", MODULES: "_modules"}


class MemberView(MutableMapping[str, T], Generic[T]):
    """The members of one kind, as a dict that writes through to the module."""

    __slots__ = ("_attributes", "_kind")

    def __new__(cls, *made_of: Any, **named: Any) -> Any:
        """A view; of items alone, as programs rebuild the mappings that they find, a dict."""
        view = len(made_of) == 2  # the arguments of `__init__`
        return super().__new__(cls) if view else dict(*made_of, **named)

    def __init__(self, attributes: dict[str, Any], kind: str) -> None:
        self._attributes = attributes
        self._kind = kind

    def __getitem__(self, name: str) -> T:
        if name not in self._attributes[self._kind]:
            raise KeyError(name)
        return self._attributes[name]

    def __setitem__(self, name: str, value: T) -> None:
        store_member(self._attributes, self._kind, name, value)

    def __delitem__(self, name: str) -> None:
        del self._attributes[self._kind][name]
        del self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._attributes[self._kind])

    def __contains__(self, name: object) -> bool:
        return name in self._attributes[self._kind]

    def __len__(self) -> int:
        return len(self._attributes[self._kind])

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._attributes[self._kind])

    # As of a dict, and unlike of a MutableMapping, the views can be reversed.
    def keys(self) -> KeysView[str]:
        """The names of the members."""
        return self.copy().keys()

    def values(self) -> ValuesView[T]:
        """The members."""
        return self.copy().values()

    def items(self) -> ItemsView[str, T]:
        """The members by name."""
        return self.copy().items()

    def copy(self) -> dict[str, T]:
        """The members, in a dict that is no view."""
        attributes = self._attributes
        return {name: attributes[name] for name in attributes[self._kind]}

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[type, tuple[dict[str, T]]]:
        return dict, (self.copy(),)


def store_member(attributes: dict[str, Any], kind: str, name: str, value: object) -> None:
    """Make the value the attribute and the member of that name, and a member of no other kind."""
    for other in _KINDS:
        if other != kind:
            attributes[other].pop(name, None)
    attributes[kind].setdefault(name, True if kind == BUFFERS else None)
    attributes[name] = value


class MemberLookup:
    """`__getattr__` as PyTorch's modules have it: finds members, and says what is not there.

    A base of only those classes of modules that define or call one; see `Members`.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        attributes = object.__getattribute__(self, "_mq_attributes")
        for kind in _KINDS:
            if name in attributes.get(kind, ()):
                return attributes[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _ask_for_members(self: object, name: str) -> Any:
    """The ``__getattribute__`` of classes whose own `__getattr__` is to be asked for members."""
    attributes = object.__getattribute__(self, "_mq_attributes")
    for kind in _KINDS:
        if name in attributes.get(kind, ()):
            return type(self).__getattr__(self, name)  # type: ignore[attr-defined]  # has one
    return read_attribute(self, name)


def _class_before_child(self: object, name: str) -> Any:
    """The ``__getattribute__`` of classes that have an attribute of a child's name, and keep it.

    PyTorch looks for children last: after ``self.parameters = ParameterList(...)`` the method is
    what ``self.parameters`` finds, and the list is a child all the same.
    """
    if name in object.__getattribute__(self, "_mq_attributes").get(MODULES, ()):
        for cls in type(self).__mro__:
            if name in vars(cls):
                found = vars(cls)[name]
                bind = getattr(type(found), "__get__", None)
                return found if bind is None else bind(found, self, type(self))
    return read_attribute(self, name)


def _codes(cls: type) -> Iterator[CodeType]:
    """The code of the functions of a class, and of the functions in these."""
    left = [m.__code__ for m in vars(cls).values() if isinstance(m, FunctionType)]
    while left:
        code = left.pop()
        yield code
        left += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _names_lookup(cls: type) -> bool:
    """Whether a method of the class calls ``__getattr__`` by its name."""
    return any("__getattr__" in code.co_names for code in _codes(cls))


def _unbind_functions(cls: type) -> None:
    """Let ``conv = torch.conv2d`` in a program's class take the inputs alone.

    Most of PyTorch's functions are builtins, which are no methods of a class that they stand in.
    """
    if cls.__module__.partition(".")[0] in ("maquette", "torch"):
        return
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and own_module(member).partition(".")[0] == "maquette":
            if member.__qualname__ == member.__name__:  # no method of another class
                setattr(cls, name, staticmethod(member))


class Members(Attributes):
    """The base of `Module` that knows which attributes are members.

    Classes with a `__getattr__` of their own were written for members that only it finds: there
    members are asked of it, and ``super().__getattr__`` is there.
    """

    training: bool
    _mq_asks_for_members = True
    """False in a class whose own `__getattr__` is for other names only."""
    call_super_init = False
    """Whether `__init__` goes on to the next class of a cooperative inheritance."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        _unbind_functions(cls)
        super().__init_subclass__(**kwargs)
        own = cls._mq_asks_for_members and any(
            "__getattr__" in vars(c) for c in cls.__mro__ if c is not MemberLookup
        )
        if own and cls.__getattribute__ in (object.__getattribute__, read_attribute):
            cls.__getattribute__ = _ask_for_members  # type: ignore[method-assign]
        if (own or _names_lookup(cls)) and not issubclass(cls, MemberLookup):
            # Not a base of every module: with a `__getattr__` attributes are read much slower.
            cls.__bases__ = (*cls.__bases__, MemberLookup)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                    f"'{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{type(self).__name__}.__init__() takes 1 positional argument but "
                    f"{len(args) + 1} were given"
                )
        attributes = self._mq_attributes
        attributes["training"] = True
        for kind in _KINDS:
            attributes[kind] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self._mq_attributes}
        return sorted(name for name in names if not name[0].isdigit())

    def _mq_kind_of(self, name: str) -> str | None:
        attributes = self._mq_attributes
        return next((kind for kind in _KINDS if name in attributes.get(kind, ())), None)

    def _mq_check_initialized(self, what: str) -> None:
        if PARAMETERS not in self._mq_attributes:
            raise AttributeError(
                f"cannot assign {what} before Module.__init__() call: call super().__init__() "
                f"first in {type(self).__name__}.__init__."
            )

    def _mq_make_free(self, name: str) -> None:
        """Forget what `name` was, so that it can be registered anew."""
        for kind in _KINDS:
            self._mq_attributes[kind].pop(name, None)
        self._mq_attributes.pop(name, None)

    def _mq_keep_class_attributes(self) -> None:
        """Let what the class has of a child's name stay what the name finds."""
        cls = type(self)
        if cls.__getattribute__ in (object.__getattribute__, read_attribute):
            cls.__getattribute__ = _class_before_child  # type: ignore[method-assign]

    def _mq_refuse_kind(self, name: str, value: object, *kinds: str) -> None:
        for kind in kinds:
            if name in self._mq_attributes[kind]:
                self._mq_raise_wrong_kind(name, value, kind)

    def _mq_replace(self, name: str, value: object) -> None:
        """A member by another value: None, or for a buffer another tensor."""
        kind = self._mq_kind_of(name)
        if value is not None and not (kind == BUFFERS and isinstance(value, Tensor)):
            self._mq_raise_wrong_kind(name, value, kind)
        self._mq_attributes[name] = value

    def _mq_raise_wrong_kind(self, name: str, value: object, kind: str | None) -> None:
        what, wanted = {
            PARAMETERS: ("parameter", "torch.nn.Parameter or None"),
            BUFFERS: ("buffer", "torch.Tensor or None"),
            MODULES: ("child module", "torch.nn.Module or None"),
        }[kind or PARAMETERS]
        raise TypeError(
            f"cannot assign '{_type_name(value)}' as {what} '{name}' ({wanted} expected). "
            f"To make it an ordinary attribute, del {type(self).__name__}.{name} first."
        )

    # --- Registration ----------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make `param` a parameter of this module, readable as the attribute `name`.

        None holds the place of an optional parameter. Raises TypeError for another type, KeyError
        for a name that is taken or has a dot, ValueError for a tensor computed from others.
        """
        self._mq_check_initialized("parameter")
        self._mq_check_name("parameter", name, PARAMETERS)
        if param is not None:
            _check_parameter(name, param)
        if registration_hooks["parameter"]:
            param = registered("parameter", self, name, param)
        store_member(self._mq_attributes, PARAMETERS, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make `tensor` a buffer: moved with the module, but not trained.

        persistent: whether it is part of the state dict. Raises as `register_parameter` does.
        """
        self._mq_check_initialized("buffer")
        self._mq_check_name("buffer", name, BUFFERS)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        if registration_hooks["buffer"]:
            tensor = registered("buffer", self, name, tensor)
        store_member(self._mq_attributes, BUFFERS, name, tensor)
        self._mq_attributes[BUFFERS][name] = persistent

    def add_module(self, name: str, module: Members | None) -> None:
        """Make `module` a child of this one, readable as the attribute `name`.

        Raises TypeError if it is no module, KeyError for a name that is taken or has a dot.
        """
        if module is not None and not isinstance(module, Members):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._mq_check_initialized("module")
        self._mq_check_name("module", name, MODULES)
        if registration_hooks["module"]:
            module = registered("module", self, name, module)
        store_member(self._mq_attributes, MODULES, name, module)

    def register_module(self, name: str, module: Members | None) -> None:
        """`add_module` by its other name."""
        self.add_module(name, module)

    def _mq_check_name(self, what: str, name: str, kind: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in self._mq_attributes[kind] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # --- PyTorch's dicts -------------------------------------------------------------

    @property
    def _parameters(self) -> MemberView[Parameter | None]:
        return MemberView(self._mq_attributes, PARAMETERS)

    @_parameters.setter
    def _parameters(self, members: MutableMapping[str, Parameter | None]) -> None:
        self._mq_replace_all(PARAMETERS, members)

    @property
    def _buffers(self) -> MemberView[Tensor | None]:
        return MemberView(self._mq_attributes, BUFFERS)

    @_buffers.setter
    def _buffers(self, members: MutableMapping[str, Tensor | None]) -> None:
        self._mq_replace_all(BUFFERS, members)

    @property
    def _modules(self) -> MemberView[Any]:
        return MemberView(self._mq_attributes, MODULES)

    @_modules.setter
    def _modules(self, members: MutableMapping[str, Any]) -> None:
        self._mq_replace_all(MODULES, members)

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        names: dict[str, bool] = self._mq_attributes[BUFFERS]
        return {name for name, persistent in names.items() if not persistent}

    @_non_persistent_buffers_set.setter
    def _non_persistent_buffers_set(self, names: set[str]) -> None:
        self._mq_show("_non_persistent_buffers_set", names)

    @_non_persistent_buffers_set.deleter
    def _non_persistent_buffers_set(self) -> None:
        names: dict[str, bool] = self._mq_attributes[BUFFERS]
        names.update(dict.fromkeys(names, True))

    def _mq_replace_all(self, kind: str, members: MutableMapping[str, T]) -> None:
        new = dict(members)
        attributes = self._mq_attributes
        before = attributes[kind]
        for name in before:
            attributes.pop(name, None)
        attributes[kind] = {}
        for name, value in new.items():
            store_member(attributes, kind, name, value)
            attributes[kind][name] = before.get(name, attributes[kind][name])


def _check_parameter(name: str, param: object) -> None:
    if not isinstance(param, Parameter):
        raise TypeError(
            f"cannot assign '{_type_name(param)}' object to parameter '{name}' "
            "(torch.nn.Parameter or None required)"
        )
    if param.grad_fn is not None:
        raise ValueError(
            f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
            f"created explicitly. To express '{name}' as a function of another Tensor, compute "
            "the value in the forward() method."
        )


def _type_name(value: object) -> str:
    kind = type(value)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
