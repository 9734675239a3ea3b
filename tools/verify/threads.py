"""One fake mode from sixteen threads: right metas, consistent counts (FX10).

    python tools/verify/threads.py [OPERATORS_A_THREAD]

Every thread runs its own program on shapes that it shares with some of the others, forward and
backward, static and symbolic, registers and takes away operators of its own, and checks each
result. Fails if a thread sees a wrong shape or another thread's mode, if the cache's counts do not
add up, or if the environment names a symbol twice.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable

import maquette as mq
from maquette.symbolic import DimDynamic, ShapeEnv, StatelessSymbolicContext

THREADS = 16
ROUND = 10  # operators of a round


def work(number: int, rounds: int, mode: mq.FakeTensorMode, failed: Callable[[str], None]) -> None:
    """The program of one thread."""
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    s = mode.from_tensor(mq.ones(3 + number, 4), symbolic_context=dynamic)
    with mode:
        w = mq.empty(8, 8, requires_grad=True)
        for n in range(rounds):
            rows = (n * 7 + number % 4) % 61 + 1
            y = (mq.empty(rows, 8) @ w).relu()
            y.sum().backward()
            z = mq.cat([s, s]).t()
            if y.shape != (rows, 8) or w.grad is None or w.grad.shape != (8, 8):
                failed(f"thread {number}: {y.meta} for {rows} rows")
            if y.fake_mode is not mode or z.shape[0] != 4:
                failed(f"thread {number}: {z.meta} in {y.fake_mode}")
            if n % 200 == number:
                registered(number, y, rows, failed)
            w.grad = None


def registered(number: int, x: mq.Tensor, rows: int, failed: Callable[[str], None]) -> None:
    """Define an operator, call it, and take it away."""
    library = mq.library.Library(f"thread{number}", "DEF")
    library.define("half(Tensor x) -> Tensor")
    mq.library.register_fake(
        f"thread{number}::half", lambda x: x.new_empty(x.shape[0] // 2), lib=library
    )
    made = getattr(mq.ops, f"thread{number}").half(x)
    if made.shape != (rows // 2,):
        failed(f"thread {number}: its operator gave {made.meta} for {rows} rows")
    library._destroy()


def main(operators: int) -> int:
    """Print what went wrong; 1 where anything did."""
    mode = mq.FakeTensorMode(shape_env=ShapeEnv())
    failures: list[str] = []
    mq.FakeTensorMode.cache_clear()
    rounds = operators // ROUND

    def guarded(number: int) -> None:
        try:
            work(number, rounds, mode, failures.append)
        except Exception as error:  # noqa: BLE001 — any error of a thread is a failure
            failures.append(f"thread {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = mq.FakeTensorMode.cache_info()
    counted = info.hits + info.misses + sum(info.bypasses.values())
    least = THREADS * rounds * 5
    if counted < least:
        failures.append(f"{counted} calls were counted, at least {least} were made")
    assert mode.shape_env is not None
    twice = [n for n, c in Counter(map(str, mode.shape_env.var_to_range)).items() if c > 1]
    failures += [f"{name} names two symbols" for name in twice]
    print(f"{THREADS} threads, {THREADS * rounds * ROUND:,} operators; {info}")
    print("\n".join(failures[:10]) or "no thread saw anything wrong")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
