"""Threads, imports and bounds: what is whose, and that nothing grows (D137-D140)."""

import subprocess
import sys
import textwrap
import threading
from collections import deque
from pathlib import Path

import pytest

import maquette as mq
from maquette.core import remembered
from maquette.dispatch import (
    DispatchKey,
    TorchDispatchMode,
    TorchFunctionMode,
    get_current_dispatch_mode,
    get_current_function_mode,
    is_in_torch_dispatch_mode,
    tls_local_exclude_set,
    tls_local_include_set,
)
from maquette.dispatch.kernels import Kernel
from maquette.library import Library

K = DispatchKey


def in_threads(count, function):
    """What `function(number)` gives in each of many threads that start together."""
    barrier = threading.Barrier(count)
    results = [None] * count

    def run(number):
        barrier.wait()
        results[number] = function(number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class PassingFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


# --- per thread ------------------------------------------------------------------------------


def test_D137_a_new_thread_starts_afresh():
    start = tls_local_include_set(), tls_local_exclude_set()

    def state(_):
        return (
            get_current_dispatch_mode(),
            get_current_function_mode(),
            is_in_torch_dispatch_mode(),
            mq.is_grad_enabled(),
            (tls_local_include_set(), tls_local_exclude_set()),
        )

    with Passing(), PassingFunctions(), mq.FakeTensorMode(), mq.no_grad():
        assert in_threads(1, state) == [(None, None, False, True, start)]


def test_D137_a_mode_acts_in_its_thread_only(x):
    entered, done = threading.Event(), threading.Event()

    def hold():
        with mq.FakeTensorMode():
            entered.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    made = mq.ones(2)
    done.set()
    thread.join()
    assert type(made) is mq.Tensor


# --- races -----------------------------------------------------------------------------------


def test_D138_first_accesses_give_one_object(ns):
    library = Library(ns, "FRAGMENT")
    for i in range(20):
        library.define(f"f{i}(Tensor x) -> Tensor")
        found = in_threads(8, lambda _, i=i: getattr(getattr(mq.ops, ns), f"f{i}").default)
        assert len(set(map(id, found))) == 1
    assert sorted(getattr(mq.ops, ns)) == sorted(f"f{i}" for i in range(20))
    library._destroy()


def test_D138_namespaces_are_made_once(ns):
    assert len({id(o) for o in in_threads(8, lambda _: getattr(mq.ops, ns))}) == 1
    assert list(mq.ops).count(ns) == 1


def test_D138_concurrent_first_calls_run_the_right_kernel(define, x):
    for i in range(20):
        op = define(f"f{i}(Tensor x) -> int", CPU=lambda x, i=i: i)
        assert in_threads(8, lambda _, op=op: op(x)) == [i] * 8


def test_D138_a_registration_that_has_returned_is_seen_everywhere(define, x):
    op = define("f(Tensor x) -> int", CPU=lambda x: -1)
    newest = [-1]
    wrong = []

    def work(number):
        for i in range(100):
            if number == 0:
                op.register(K.CPU, Kernel(lambda op, ks, i=i: lambda ks, x: i))
                newest[0] = i
            else:
                before = newest[0]
                if op(x) < before:
                    wrong.append(before)

    in_threads(4, work)
    assert op(x) == 99
    assert wrong == []


def test_D138_overloads_may_be_added_while_a_packet_is_called(lib, ns, x):
    lib.define("f(Tensor x) -> int")
    lib.impl("f", lambda x: 0, "CPU")
    packet = getattr(mq.ops, ns).f

    def work(number):
        if number:
            return {packet(x) for _ in range(100)}
        for i in range(20):
            lib.define(f"f.o{i}(Tensor x, int[{i + 1}] n) -> int")
            lib.impl(f"f.o{i}", lambda x, n: 1, "CPU")
        return {0}

    assert in_threads(4, work) == [{0}] * 4
    assert packet(x, [1]) == 1
    assert len(packet.overloads()) == 21


# --- what is imported ------------------------------------------------------------------------


def test_D139_the_dispatcher_loads_nothing_above_it():
    # The package itself loads the operators; the stand-in is the package without that.
    program = """
        import sys, types
        package = types.ModuleType("maquette")
        package.__path__ = [sys.argv[1]]
        sys.modules["maquette"] = package
        import maquette.dispatch
        packages = {name.split(".")[1] for name in sys.modules if name.startswith("maquette.")}
        print(*sorted(packages))
    """
    source = Path(mq.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(source)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) <= {"core", "symbolic", "dispatch", "ops"}


# --- what grows ------------------------------------------------------------------------------


def test_D140_calls_grow_no_table(x):
    op, packet = mq.ops.aten.add.Tensor, mq.ops.aten.add
    tables = (op._table, op.infer_cache, packet.by_class, packet._by_value)
    packet(x, x), packet(x, 1)
    before = [len(table) for table in tables]
    for _ in range(20_000):
        packet(x, x)
        packet(x, 1)
    assert [len(table) for table in tables] == before


def test_D140_one_bound_holds_for_the_answers_of_all_operators(monkeypatch):
    monkeypatch.setattr(remembered, "LIMIT", 100)
    monkeypatch.setattr(remembered, "_queue", deque())
    aten = mq.ops.aten
    ops = [aten.neg.default, aten.abs.default, aten.sin.default]
    for op in ops:  # what other tests had remembered is in no queue of this one
        op.infer_cache.clear()
    for n in range(1, 200):
        for op in ops:
            op(mq.empty(n, device="meta"))
    assert 0 < sum(len(op.infer_cache) for op in ops) <= 100


def test_D140_a_table_has_an_entry_a_key_set(define, x):
    op = define("f(Tensor x) -> Tensor", CPU=lambda x: x.clone())
    for _ in range(3):
        op(x)
        with mq.no_grad():
            op(x)
        with Passing():
            op(x)
    # Without a mode, grad or not; with one: with the snapshot's key, with Python's, below both.
    assert len(op._table) == 4


@pytest.mark.parametrize("count", [1, 300])
def test_D140_operators_of_one_form_share_code(lib, ns, x, count):
    for i in range(count):
        lib.define(f"shared{i}(Tensor x) -> Tensor")
        lib.impl(f"shared{i}", lambda x: x.clone(), "CPU")
    codes = set()
    for i in range(count):
        op = getattr(getattr(mq.ops, ns), f"shared{i}").default
        op(x)
        codes.add(op._call.__code__)
    assert len(codes) == 1
