"""Texts of generated functions are known by what they are written from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import maquette as mq
from maquette.autograd.compiled_formulas import DerivativePlan, _Maker
from maquette.dispatch import call, generated
from maquette.dispatch import keysets as K
from maquette.dispatch.generated import Text
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload, resolve_anew
from maquette.fake.kernel import fake_kernel
from maquette.fake.mode import FAKE

CODE = compile("def _kernel(): pass", "<maquette test>", "exec").co_consts[0]
BELOW_AUTOGRAD = K.key_bits(DispatchKey.CPU) | FAKE
WITH_GRAD = (
    BELOW_AUTOGRAD
    | K.key_bits(DispatchKey.ADInplaceOrView)
    | K.key_bits(DispatchKey.AutogradCPU)
    | K.REQUIRES_GRAD
)


def _write_all(op: OpOverload) -> None:
    """Have all be generated that a call on fakes, and its derivative, would need of an operator."""
    call._generated(call.new_entry(op, "f"), op)
    for more in (0, K.SYMBOLIC, K.INFERENCE):
        fake_kernel(op, BELOW_AUTOGRAD | more)
    op._find(WITH_GRAD)
    if op.derivatives is None:
        return
    for watched in (False, True):
        plan = DerivativePlan(op, watched=watched)
        for mask in range(1, 1 << min(len(plan.wrt), 4)):
            maker = _Maker(plan, mask)
            maker._step()
            for name in ("_open_saved", "_save"):
                maker._function(name, getattr(maker, f"{name}_source"))
            for part in range(1, mask + 1):
                if part & mask == part:
                    formulas = partial(maker._formulas_source, part)
                    maker._function("_formulas", formulas, part=part)


def test_D138_texts_of_equal_facts_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: dict[tuple[str, str], str] = {}

    def made(cls: type[Text], facts: tuple[object, ...], write: Callable[[], str]) -> Text:
        source = write()
        known = texts.setdefault((write.__qualname__, repr(facts)), source)
        assert known == source, facts
        return tuple.__new__(cls, (facts, write))

    monkeypatch.setattr(Text, "__new__", made)
    monkeypatch.setattr(generated, "_CODE", {})
    monkeypatch.setattr(generated, "_of_facts", lambda text, kind: ("", CODE))
    try:
        for name in dir(mq.ops.aten):
            packet = getattr(mq.ops.aten, name)
            for op in getattr(packet, "usual_overloads", list)():
                _write_all(op)
    finally:
        monkeypatch.undo()
        resolve_anew()  # what was made here does nothing
    assert len(texts) > 3000
