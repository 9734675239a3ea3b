"""What PyTorch calls Python's operators on bits: ``__and__``, ``__ilshift__`` and the like.

Those of ``&``, ``|`` and ``^`` are the bitwise operators by another name; shifts are operators of
their own, which compute what ``bitwise_left_shift`` and ``bitwise_right_shift`` do. ``//`` by a
number has a form that nothing but its name leads to.
"""

from __future__ import annotations

from maquette.aten.common.operators import aten
from maquette.aten.elementwise.comparison import INTS_ONLY, left_shift_kernel, right_shift_kernel
from maquette.aten.elementwise.division import floor_divide
from maquette.aten.elementwise.pointwise import Kernel, binary
from maquette.library.page import define, describe


def _second_name(name: str, target: str) -> None:
    """``__and__`` and ``__iand__``, of tensors and of numbers, as calls of ``bitwise_and``."""
    function, in_place = getattr(aten, target), getattr(aten, f"{target}_")
    for kind in ("Tensor", "Scalar"):
        page = define(f"aten::__{name}__.{kind}(Tensor self, {kind} other) -> Tensor")
        page.composite(getattr(function, kind))
        page.describe(f"`{target}`, as Python's operator is called.")
        written = f"aten::__i{name}__.{kind}(Tensor(a!) self, {kind} other) -> Tensor(a!)"
        form = define(written)
        form.composite(getattr(in_place, kind))
        form.functional_form(page)


def _shift(name: str, label: str, kernel: Kernel) -> None:
    for kind in ("Tensor", "Scalar"):
        binary(
            f"__{name}__",
            kernel,
            takes=INTS_ONLY,
            label=label,
            overload=kind,
            arguments=f"Tensor self, {kind} other",
            tags=(),
            variants=(f"__i{name}__.{kind}",),
        )
    describe(f"__{name}__", f"The bits moved, as `bitwise_{label.replace('shift', '')}` does.")


_second_name("and", "bitwise_and")
_second_name("or", "bitwise_or")
_second_name("xor", "bitwise_xor")
_shift("lshift", "lshift", left_shift_kernel)
_shift("rshift", "rshift", right_shift_kernel)

floor_divide_by_number = define(
    "aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
    variants=("floor_divide_.Scalar",),
    like=floor_divide,
)
floor_divide_by_number.op.seldom = True
