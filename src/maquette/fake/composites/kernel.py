"""The kernel of a composite on fakes: what calls of equal metas made before is made again.

A page says of its composite that which operators it calls is a function of metas and plain
arguments (`OperatorPage.by_metas`). The first call with some runs under a mode that sees whether
the cache of shape rules knows all its operators, and is read (`fold.py`); from the second on the
result is made at once, in a third of the time.

Whoever could see the operators has them run: the kernel serves key sets of plain fakes alone, so
modes, transforms, autocast and hooks for saved tensors never meet it; observers of memory and of
nodes, counts of the cache, and who tracks fakes are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import cast

from maquette.autograd.node import next_sequence
from maquette.core.promotion import defaults
from maquette.core.remembered import EPOCH, remember
from maquette.dispatch import keysets as K
from maquette.dispatch.call import NUMBERS
from maquette.dispatch.generated import generate
from maquette.dispatch.keysets import DispatchKey
from maquette.dispatch.operator import OpOverload
from maquette.dispatch.tls import node_observers
from maquette.fake.cache import REMEMBERED_COMPOSITES, watching
from maquette.fake.composites.fold import fold_of
from maquette.fake.derivatives.recipes import version_of
from maquette.fake.derivatives.steps import Family, Listener, may_note, to_learn
from maquette.fake.mode import ACTIVE, FakeTensorMode
from maquette.fake.tensor import tensors_in
from maquette.library.fakes import ON_FAKES
from maquette.library.infer import key_source
from maquette.tensor.keys import ADINPLACE, FAKE
from maquette.tensor.storage import OBSERVERS

Function = Callable[..., object]
_NEEDED = FAKE | ADINPLACE
_PLAIN = (
    K.BACKENDS
    | K.functionality_bits(DispatchKey.Dense)
    | K.key_bits(DispatchKey.BackendSelect)
    | K.AUTOGRAD
    | K.REQUIRES_GRAD
    | _NEEDED
)


def _on_fakes(op: OpOverload, ks: int, composite: Function) -> Function | None:
    """The kernel of a composite at a key set; None where it is to run."""
    kinds = [a.type.written for a in op._schema.arguments]
    lists = any(kind.startswith("Tensor") and "[" in kind for kind in kinds)
    if ks & ~_PLAIN or ks & _NEEDED != _NEEDED or lists or kinds[0] != "Tensor" or watching():
        return None
    names = [f"p{i}" for i in range(len(kinds))]
    conditions = ["_known is not None", "not _observers", "not _nodes_seen"]
    conditions += ["(_active[0] is _m or _active[0] is None)"]
    keys = [key_source(op)[1:-1]]
    for name, kind in zip(names, kinds, strict=True):
        if kind == "Tensor":
            keys += [f"{name}._keys,"]
            conditions += [f"{name}.fake_mode is _m"]
        elif kind == "Tensor?":
            keys += [f"None if {name} is None else {name}._keys,"]
            conditions += [f"({name} is None or {name}.fake_mode is _m)"]
    passed = ", ".join(names)
    source = f"""
def _kernel(_ks, {passed}):
    try:
        _m = p0.fake_mode
        _key = (_number, _epoch[0], {" ".join(keys)})
        _known = _remembered[_key]
    except KeyError:
        _known = _unknown(_key, _m, _learn)
    except (TypeError, AttributeError):  # something symbolic, or no fake
        return _composite({passed})
    if {" and ".join(conditions)}:
        _r = _known[0](_known[1], _m, _key, {passed})
        if _r is not None:
            return _r
    return _composite({passed})
"""
    space: dict[str, object] = {
        "_active": ACTIVE,
        "_composite": composite,
        "_defaults": defaults,
        "_epoch": EPOCH,
        "_learn": (_learn, composite),
        "_nodes_seen": node_observers,
        "_observers": OBSERVERS,
        "_number": Family(),  # of the operator and the key set
        "_remembered": REMEMBERED_COMPOSITES,
        "_unknown": _unknown,
        "_NUMBERS": NUMBERS,
    }
    return generate(source, "_kernel", "composite", space)


def _unknown(
    key: tuple[Hashable, ...], mode: object, then: tuple[Function, Function]
) -> tuple[Function, Function] | None:
    """What is to answer a call not met before; None: the composite is."""
    if not isinstance(mode, FakeTensorMode) or not may_note(key, mode):
        return None
    if to_learn(cast(Family, key[0])):
        return then
    remember(REMEMBERED_COMPOSITES, key, then, EPOCH[0])
    return None


def _learn(composite: Function, mode: FakeTensorMode, key: Hashable, *params: object) -> object:
    """Run a call, and write down what it made if all that is a function of metas."""
    since = EPOCH[0]
    given = list(tensors_in(params))
    versions = [version_of(t) for t in given]
    first = next_sequence()
    listener = Listener(given)
    with listener:
        result = composite(*params)
    fold = None
    if listener.pure and versions == [version_of(t) for t in given]:
        fold = fold_of(mode, params, result, first)
    remember(REMEMBERED_COMPOSITES, key, None if fold is None else (fold.entry, fold), since)
    # Made again, so that its gradients are learnt as those of the calls to come will be asked for.
    again = None if fold is None else fold.entry(fold, mode, key, *params)
    return result if again is None else again


ON_FAKES[0] = _on_fakes
