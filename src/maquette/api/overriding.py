"""What a function written in Python asks before it computes: does a mode or an argument answer?

`torch.overrides` and `torch.nn.functional` both have these names; programs import either's.
"""

from collections.abc import Callable, Iterable

from maquette.dispatch.torch_function import (
    NO_OVERRIDE,
    call_torch_function,
    is_overridden,
    overriding_arguments,
    takes_hop,
)


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """Whether a mode, or the class of an argument, is to be asked about a call."""
    if not isinstance(relevant_args, Iterable):
        raise TypeError(
            f"has_torch_function expected a sequence of arguments, got {relevant_args!r}"
        )
    return not takes_hop() and is_overridden(tuple(relevant_args), {})


def has_torch_function_unary(inp: object) -> bool:
    """`has_torch_function` of one argument."""
    return not takes_hop() and is_overridden((inp,), {})


def has_torch_function_variadic(*relevant_args: object) -> bool:
    """`has_torch_function` of several arguments."""
    return not takes_hop() and is_overridden(relevant_args, {})


def handle_torch_function(
    public_api: Callable[..., object],
    relevant_args: Iterable[object],
    *args: object,
    **kwargs: object,
) -> object:
    """Offer a call to modes and to the arguments' classes.

    Raises TypeError if each declines, or if there is none.
    """
    result = call_torch_function(
        public_api, args, kwargs, overriding_arguments(tuple(relevant_args), {})
    )
    if result is NO_OVERRIDE:
        raise TypeError(f"no implementation found for {public_api}: no argument overrides it")
    return result
