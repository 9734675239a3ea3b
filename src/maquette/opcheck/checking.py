"""`opcheck`: PyTorch's test utilities on one call, or our properties on what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maquette.opcheck.operators import CheckedOperator, checked
from maquette.opcheck.utilities import UTILITIES, quietly, without_data

if TYPE_CHECKING:
    from maquette.opcheck.deriving import Where
    from maquette.opcheck.report import OpReport

DEFAULT_TEST_UTILS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)
_WITH_TOLERANCE = ("test_aot_dispatch_static", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A check that an operator did not pass; the text names it, the cause is chained."""


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT_TEST_UTILS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
    properties: str | Sequence[str] | None = None,
    where: Where | None = None,
    report: bool = False,
    seed: int = 0,
    max_inputs: int = 200,
    deadline: float = 5.0,
) -> dict[str, Any] | OpReport:
    """Check that an operator is registered rightly, by a call of it.

    op: an OpOverload, a packet of one overload, or the result of `custom_op`; of PyTorch's too,
    where PyTorch is installed. args, kwargs: a call that works, on real data. test_utils: names of
    PyTorch's utilities, or "ALL". Gives a dict of name to "SUCCESS" or the exception; the first
    failure raises OpCheckError unless ``raise_exception`` is false. atol and rtol, only together,
    are the tolerance of results and gradients of the traced graph.

    Beyond PyTorch: properties, "ALL" or names, checks them on up to ``max_inputs`` inputs that are
    derived from the call, for ``deadline`` seconds; ``where(args, kwargs)`` says which inputs are
    meant to work. The dict then has the properties too; with ``report`` an `OpReport` is given,
    and nothing raised. ``seed`` chooses among the inputs: equal seeds, equal reports.

    That a derivative is mathematically right is no matter of the utilities: pass
    ``properties="ALL"``, or run `gradcheck` too.
    """
    kwargs = kwargs or {}
    if (atol is None) != (rtol is None):
        raise ValueError(f"opcheck: give both atol and rtol or neither, got {atol=} and {rtol=}")
    names = check_names(test_utils)
    target = checked(op)
    if properties is not None or report:
        from maquette.opcheck.running import Limits, examine  # noqa: PLC0415

        made = examine(
            target,
            args,
            kwargs,
            properties="ALL" if properties is None else properties,
            where=where,
            limits=Limits(max_inputs, deadline, seed),
        )
        if report:
            return made
        outcome = _run_utilities(target, args, kwargs, names, raise_exception, atol, rtol)
        outcome.update(made.outcomes())
        if raise_exception and made.findings:
            raise OpCheckError(f"opcheck({target.name}, ...):\n{made}")
        return outcome
    return _run_utilities(target, args, kwargs, names, raise_exception, atol, rtol)


def _run_utilities(
    op: CheckedOperator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Sequence[str],
    raise_exception: bool,
    atol: float | None,
    rtol: float | None,
) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    for name in names:
        try:
            if not without_data(op, args, kwargs):
                _run(op, args, kwargs, name, atol, rtol)
            outcome[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck({op.name}, ...): {name} failed with "
                    f"{type(error).__name__}: {error} (the cause is above; args={_shown(args)}, "
                    f"kwargs={_shown(kwargs)})"
                ) from error
            outcome[name] = error
    return outcome


def _run(
    op: CheckedOperator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    name: str,
    atol: float | None,
    rtol: float | None,
) -> None:
    with quietly():
        if name in _WITH_TOLERANCE:
            UTILITIES[name](op, args, kwargs, atol=atol, rtol=rtol)
        else:
            UTILITIES[name](op, args, kwargs)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 500 else text[:500] + "..."


def check_names(test_utils: str | Sequence[str]) -> list[str]:
    """The utilities named, in their order of running; ValueError, listing them, for others."""
    if test_utils == "ALL":
        return list(UTILITIES)
    listed = [test_utils] if isinstance(test_utils, str) else test_utils
    if not isinstance(listed, (list, tuple)) or not set(listed) <= UTILITIES.keys():
        raise ValueError(
            f'opcheck: expected test_utils to be subset of {", ".join(UTILITIES)}, or "ALL", got '
            f"{test_utils!r}"
        )
    return [name for name in UTILITIES if name in listed]
