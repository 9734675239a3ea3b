"""`torch.compiler`: nothing is compiled, so every mark on a function leaves it as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.torch.face.forwarding import forward
from maquette.torch.settings import compile

F = TypeVar("F", bound=Callable[..., object])


def is_compiling() -> bool:
    """False."""
    return False


def is_dynamo_compiling() -> bool:
    """False."""
    return False


def is_exporting() -> bool:
    """False."""
    return False


def disable(fn: F | None = None, recursive: bool = True, *, reason: str | None = None) -> object:
    """``fn`` itself, or a decorator that changes nothing."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: F) -> F:
    """``fn`` itself."""
    return fn


def assume_constant_result(fn: F) -> F:
    """``fn`` itself."""
    return fn


class set_stance:  # PyTorch's name
    """How compiled functions are to run: kept for a block or a function, and without effect.

    stance: default, force_eager, eager_on_recompile, fail_on_recompile or
    eager_then_compile; ValueError for another.
    """

    _STANCES = (
        "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
    )  # fmt: skip

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: object = None,
    ) -> None:
        if stance not in self._STANCES:
            raise ValueError(f"stance must be one of {', '.join(self._STANCES)}, got {stance!r}")
        self.stance = stance

    def __call__(self, fn: F) -> F:
        return fn

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def cudagraph_mark_step_begin() -> None:
    """Nothing."""


def reset() -> None:
    """Nothing: there is nothing compiled."""


def list_backends(exclude_tags: object = ("debug", "experimental")) -> list[str]:
    """The backends that `torch.compile` takes by name here: eager."""
    return ["eager"]


def get_default_backend() -> str:
    """ "eager": Python runs what is compiled."""
    return "eager"


def set_default_backend(backend: object) -> None:
    """ "eager" alone can be the default; ValueError for another."""
    if backend not in ("eager", None):
        raise ValueError(f"the backend {backend!r} is not here; there is 'eager'")


def set_enable_guard_collectives(enabled: bool) -> bool:
    """False: there are no guards."""
    return False


def _all_kept(guard_entries: list[object]) -> list[bool]:
    return [True] * len(guard_entries)


def keep_tensor_guards_unsafe(
    guard_entries: list[object], keep_parameters: bool = False
) -> list[bool]:
    """Which guards a compiler is to keep; there are none."""
    return _all_kept(guard_entries)


def nested_compile_region(
    fn: F | None = None,
    *,
    options: object = None,
    max_reuse_entries: int = 8,
    reuse_hash_fn: object = None,
) -> object:
    """``fn`` itself, or a decorator that changes nothing."""
    return (lambda function: function) if fn is None else fn


def substitute_in_graph(
    original_fn: Callable[..., object],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[F], F]:
    """A decorator that changes nothing: the function works by itself."""
    return lambda function: function


# Which guards a compiler is to keep; there are none.
keep_portable_guards_unsafe = skip_all_guards_unsafe = _all_kept
skip_guard_on_all_nn_modules_unsafe = skip_guard_on_inbuilt_nn_modules_unsafe = _all_kept
skip_guard_on_globals_unsafe = _all_kept

__all__ = ["compile"]
__getattr__ = forward(__name__)
