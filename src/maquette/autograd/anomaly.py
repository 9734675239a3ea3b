"""Where a NaN in a gradient came from: `detect_anomaly` (T66).

Nodes that are made in the mode remember the stack of their call; the engine then checks what each
node gives, and tells of that stack before it raises.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence

from maquette.autograd.node import Grad, Node
from maquette.autograd.saved.hooks import watch


class set_detect_anomaly:
    """Switch the search for NaN on or off: at once, and for a ``with`` block until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (watch.anomaly, watch.check_nan)
        _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(*self._before)


class detect_anomaly:
    """In the block, remember where nodes are made and refuse gradients that are NaN.

    check_nan: whether backward looks for NaN; else errors alone name the call that led to them.
    Raises RuntimeError naming the node and its output, after a warning with the call's stack.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. It keeps the stack of every call and reads every "
            "gradient, so it is slow: use it to look for an error, not to train.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before = (watch.anomaly, watch.check_nan)
        _switch(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        _switch(*self._before)


def is_anomaly_enabled() -> bool:
    """Whether `detect_anomaly` is on in this thread."""
    return watch.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether backward looks for NaN while `detect_anomaly` is on."""
    return watch.check_nan


_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def _switch(mode: bool, check_nan: bool) -> None:
    watch.anomaly = mode
    watch.check_nan = check_nan
    watch.update()


def apply_checked(
    node: Node, apply: Callable[[list[Grad]], Sequence[Grad]], grads: list[Grad]
) -> Sequence[Grad]:
    """``apply``, a node's, telling where the node was made if it fails or gives NaN."""
    try:
        answers = apply(grads)
    except Exception:
        _tell_origin(node)
        raise
    if watch.check_nan:
        for i, grad in enumerate(answers):
            if grad is not None and _has_nan(grad):
                _tell_origin(node)
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output."
                )
    return answers


def _has_nan(grad: Grad) -> bool:
    # Fake and meta tensors have no values to look at.
    return grad is not None and grad._mq_data is not None and bool(grad.isnan().any())


def _tell_origin(node: Node) -> None:
    stack = getattr(node, "_trace", None)
    if stack is None:
        where = "It was recorded outside of detect_anomaly, so where is not known."
    else:
        where = f"Traceback of the forward call that led to it:\n{''.join(stack)}"
    warnings.warn(f"Error detected in {node.name()}. {where}", stacklevel=2)


def remember_call(node: Node) -> None:
    """Note on a new node, while anomalies are looked for, where the program is."""
    if watch.anomaly:
        import traceback  # noqa: PLC0415  # when first needed: importing stays quick

        stack = traceback.extract_stack()
        while stack and stack[-1].filename.startswith((_PACKAGE, "<maquette")):
            stack.pop()  # the last line is then the program's
        node._trace = stack.format()


__all__ = [
    "detect_anomaly",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "set_detect_anomaly",
]
