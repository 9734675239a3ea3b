"""Families that are defined when a name is asked for (`maquette.aten.deferred`)."""

import subprocess
import sys

import pytest

NOTED = "loaded = [f for f in FAMILIES if f'maquette.aten.{f}' in sys.modules]\n"
START = "import sys, maquette as mq\nfrom maquette.aten.deferred import FAMILIES\n"


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_loads_none_of_them() -> None:
    run(f"{START}{NOTED}assert not loaded, loaded")


@pytest.mark.parametrize(
    "asked",
    [
        "mq.ops.aten._foreach_add.Scalar",
        "mq.ops.aten.upsample_nearest2d(mq.ones(1, 1, 2, 2), [4, 4])",
        "mq.nn.functional.interpolate(mq.ones(1, 1, 2, 2), scale_factor=2)",
        "hasattr(mq.ops.aten, 'no_such_operator')",
        "[o for o in __import__('maquette').dispatch.registry.all_overloads()]",
    ],
)
def test_asking_for_a_name_loads_them_all(asked: str) -> None:
    run(f"{START}{asked}\n{NOTED}assert len(loaded) == len(FAMILIES)")


def test_defining_an_operator_that_is_among_them_is_refused() -> None:
    define = (
        "mq.library.Library('aten', 'FRAGMENT').define('_foreach_abs(Tensor[] self) -> Tensor[]')"
    )
    run(
        f"{START}try:\n    {define}\nexcept RuntimeError as error:\n"
        f"    assert 'defined already' in str(error)\nelse:\n    raise AssertionError"
    )


def test_threads_that_ask_at_once_all_find_it() -> None:
    run(
        f"{START}import threading\nfound = []\n"
        "work = lambda: found.append(mq.ops.aten._foreach_mul.Scalar)\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "[t.start() for t in threads]\n[t.join() for t in threads]\n"
        "assert len(found) == 8 and len(set(map(id, found))) == 1"
    )


def test_D138_asking_for_a_name_does_not_wait_for_who_loads_while_it_holds_the_lock() -> None:
    run(
        f"""{START}
import os, threading
from maquette.dispatch.packet import LATE
from maquette.dispatch.registry import define_overload, find_packet
started, defined, asked = threading.Event(), threading.Event(), threading.Event()
def load():
    if started.is_set():
        return defined.wait(10)
    started.set()
    asked.wait(10)
    defined.wait(0.1)  # the other thread goes as far as it can
    define_overload('slow::x(Tensor a) -> Tensor', (), 'here')
    defined.set()
    return True
def ask():
    started.wait(10)
    asked.set()
    assert mq.ops.slow.x.default
LATE['slow'] = load
threads = [threading.Thread(target=w, args=a, daemon=True)
           for w, a in ((find_packet, ('slow::x',)), (ask, ()))]
[t.start() for t in threads]
[t.join(5) for t in threads]
os._exit(any(t.is_alive() for t in threads) or 'slow' in LATE)
"""
    )


def test_a_family_that_is_imported_itself_is_found_by_other_threads() -> None:
    run(
        f"{START}import threading\n"
        "work = lambda: mq.ops.aten.lstm\n"
        "t = threading.Thread(target=work)\n"
        "import maquette.aten.nn.recurrent.recurrence\n"
        "t.start(); t.join()\n"
        "assert mq.ops.aten.lstm.input"
    )
