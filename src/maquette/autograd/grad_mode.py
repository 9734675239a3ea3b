"""Grad mode: context managers and decorators over the thread's state (T63)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, ParamSpec, TypeVar, cast

from maquette.autograd.decorating import decorated
from maquette.dispatch import keysets as K
from maquette.dispatch.tls import tls
from maquette.dispatch.torch_function import NO_OVERRIDE, call_torch_function
from maquette.tensor.keys import ADINPLACE

P = ParamSpec("P")
R = TypeVar("R")


def set_recording(enabled: bool) -> None:
    """Switch recording on or off, unless a function mode answers.

    It is `torch._C._set_grad_enabled`, by which modes and traces before dispatch know the call.
    """
    st = tls.st
    if st.function_modes:
        if call_torch_function(set_recording, (enabled,), {}) is not NO_OVERRIDE:
            return
    st.set_grad_enabled(enabled)


set_recording.__name__ = set_recording.__qualname__ = "_set_grad_enabled"
set_recording.__module__ = "torch._C"


class _Mode:
    """A context manager that is also a decorator; each use restores what it found."""

    def __init__(self) -> None:
        self._saved: list[object] = []

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        return decorated(self.clone, function)

    def clone(self) -> _Mode:
        return type(self)()

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        mode = f"mode={self.mode}" if hasattr(self, "mode") else ""
        return f"torch.autograd.grad_mode.{type(self).__name__}({mode})"


class _GradMode(_Mode):
    flag = False

    def __new__(cls, orig_func: Callable[..., object] | None = None) -> _GradMode:
        mode = super().__new__(cls)
        if orig_func is None:
            return mode
        mode.__init__()  # type: ignore[misc]  # `@no_grad` without parentheses decorates at once
        return mode(orig_func)  # type: ignore[return-value]  # the decorated function

    def __init__(self, orig_func: Callable[..., object] | None = None) -> None:
        super().__init__()

    def __enter__(self) -> None:
        self._saved.append(tls.st.grad_enabled)
        set_recording(self.flag)

    def __exit__(self, *exc: object) -> None:
        set_recording(bool(self._saved.pop()))


class no_grad(_GradMode):  # PyTorch's name
    """Record nothing in the block (or decorated function)."""

    flag = False


class enable_grad(_GradMode):  # PyTorch's name
    """Record in the block, inside `no_grad` too."""

    flag = True


class set_grad_enabled(_Mode):  # PyTorch's name
    """Switch recording on or off: at once, and for a ``with`` block until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        if mode.__class__ is not bool:
            found = type(mode).__name__
            raise TypeError(f"set_grad_enabled(): argument 'enabled' must be bool, not {found}")
        self.mode = mode
        self._saved.append(tls.st.grad_enabled)
        set_recording(self.mode)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        set_recording(bool(self._saved[-1]))
        return super().__call__(function)

    def clone(self) -> _Mode:
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        set_recording(self.mode)

    def __exit__(self, *exc: object) -> None:
        set_recording(bool(self._saved.pop()))


class inference_mode(_Mode):  # PyTorch's name
    """No recording and no version counting; tensors made inside stay out of autograd."""

    def __new__(cls, mode: bool | Callable[..., object] = True) -> inference_mode:
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__()  # type: ignore[misc]  # `@inference_mode` decorates at once
        return made(mode)  # type: ignore[return-value]  # the decorated function

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode

    def clone(self) -> _Mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        st = tls.st
        self._saved.append(
            (st.inference, st.grad_enabled, st.include, st.exclude, st.forward_enabled)
        )
        st.inference = self.mode
        st.forward_enabled = not self.mode
        st.set_grad_enabled(not self.mode)
        # Without the autograd keys a composite operator is seen whole by modes (D100).
        if self.mode:
            st.set_include(st.include & ~ADINPLACE | K.INFERENCE)
            st.add_exclude(K.AUTOGRAD)
        else:
            st.set_include(st.include & ~K.INFERENCE | ADINPLACE)
            st.drop_exclude(K.AUTOGRAD)

    def __exit__(self, *exc: object) -> None:
        st = tls.st
        saved = cast(tuple[bool, bool, int, int, bool], self._saved.pop())
        inference, grad, include, exclude, st.forward_enabled = saved
        st.inference = inference
        st.set_grad_enabled(grad)
        st.set_include(include)
        st.set_exclude(exclude)


class _KeptFlag(_Mode):
    """A setting of PyTorch's that is kept for programs that ask for it, and changes nothing here.

    It is set at once, and until the end of a block.
    """

    value: ClassVar[list[bool]]

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._saved.append(self.value[0])
        self.value[0] = self.mode

    def clone(self) -> _Mode:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.value[0] = bool(self._saved.pop())


class set_multithreading_enabled(_KeptFlag):  # PyTorch's name
    """Whether backward may use threads, one a device; it runs in the thread that calls it."""

    value: ClassVar[list[bool]] = [True]


class _force_original_view_tracking(_KeptFlag):  # PyTorch's name
    """Whether a view of what was mutated is made again call by call; its history is in any case."""

    value: ClassVar[list[bool]] = [False]


class enforce_grad_layout_policy(_KeptFlag):  # PyTorch's name
    """Whether gradients get their parameter's layout: kept; a gradient is laid out as it comes."""

    value: ClassVar[list[bool]] = [True]

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was told last."""
    return set_multithreading_enabled.value[0]


def _is_view_replay_enabled() -> bool:
    """What `_force_original_view_tracking` was told last."""
    return _force_original_view_tracking.value[0]


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require grad are recorded in this thread."""
    return tls.st.grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread."""
    return tls.st.inference


__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
