"""Registration under threads: eight define, redefine and withdraw while eight call.

    python tools/verify/registrations.py [SECONDS] [THREADS]

A caller may see the kernel that is newest, one that is being replaced, or that there is none; never
a kernel that was withdrawn before the call began, never another error. At the end every thread's
registrations are there, and nothing hangs. Prints counts; the exit status is 1 where one failed.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter

import maquette as mq
from maquette.library import Library, custom_op

NS = "registration_stress"


class Stress:
    """One run: a base operator, threads that override it, threads that call it."""

    def __init__(self, seconds: float, threads: int) -> None:
        self.end = time.monotonic() + seconds
        self.threads = threads
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.base = Library(NS, "FRAGMENT")
        self.base.define("op(Tensor x) -> Tensor")
        self.base.impl("op", lambda x: x + 0, "CPU")
        # The values that kernels give; a withdrawn one is moved to the dead before it may be seen.
        self.ended: dict[int, int] = {}
        self.clock = 0

    def tick(self) -> int:
        """A moment later than all before."""
        with self.lock:
            self.clock += 1
            return self.clock

    def count(self, what: str) -> None:
        with self.lock:
            self.counts[what] += 1

    def overrides(self, number: int) -> None:
        """Override the operator's kernel, withdraw it, and again."""
        turn = 0
        while time.monotonic() < self.end:
            turn += 1
            value = number * 1_000_000 + turn
            lib = Library(NS, "IMPL")
            lib.impl("op", lambda x, v=value: x + v, "CPU")
            lib._destroy()
            self.ended[value] = self.tick()
            self.count("overridden and withdrawn")

    def redefines(self, number: int) -> None:
        """Define a custom operator again and again; the last definition is what is called."""
        turn = 0
        while time.monotonic() < self.end:
            turn += 1
            made = custom_op(
                f"{NS}::own_{number}", lambda x, v=turn: x + v, mutates_args=(),
                schema="(Tensor x) -> Tensor",
            )  # fmt: skip
            made.register_fake(mq.empty_like)
            got = getattr(mq.ops, NS)
            if getattr(got, f"own_{number}")(mq.zeros(1)).item() != turn:
                self.problem(f"own_{number} is not its definition number {turn}")
            self.count("redefined")

    def adds(self, number: int) -> None:
        """Define operators that stay: none may be lost."""
        turn = 0
        while time.monotonic() < self.end:
            turn += 1
            name = f"kept_{number}_{turn}"
            self.base.define(f"{name}(Tensor x) -> Tensor")
            self.base.impl(name, lambda x, v=turn: x + v, "CPU")
            self.count("defined")
        self.kept[number] = turn

    kept: dict[int, int]

    def calls(self, number: int) -> None:
        """Call what others override and redefine."""
        x = mq.zeros(1)
        op = getattr(mq.ops, NS).op
        while time.monotonic() < self.end:
            began = self.tick()
            try:
                value = int(op(x).item())
            except Exception as error:  # noqa: BLE001  # every error is one too many
                self.problem(f"a call raised {type(error).__name__}: {error}")
                return
            if value and self.ended.get(value, began + 1) < began:
                self.problem(f"a kernel ran that was withdrawn before the call: {value}")
            self._calls_custom(number, x)
            self.count("called")

    def _calls_custom(self, number: int, x: mq.Tensor) -> None:
        try:
            getattr(getattr(mq.ops, NS), f"own_{number % self.threads}")(x)
        except Exception as error:  # noqa: BLE001  # every other error is one too many
            # Between withdrawing and defining there is none, and old handles say that they are old.
            expected = isinstance(error, AttributeError | RuntimeError) and any(
                w in str(error)
                for w in ("no attribute", "withdrawn", "stale", "removed", "destroyed")
                + ("no longer", "does not exist", "has no", "there is no operator")
            )
            if not expected:
                self.problem(f"calling a redefined operator: {type(error).__name__}: {error}")

    def problem(self, text: str) -> None:
        with self.lock:
            self.problems.append(text)

    def run(self) -> int:
        """Start all, wait, look; 1 where something failed."""
        self.kept = {}
        works = [self.overrides, self.redefines, self.adds]
        workers = [
            threading.Thread(target=works[i % 3], args=(i,), daemon=True)
            for i in range(self.threads)
        ]
        workers += [
            threading.Thread(target=self.calls, args=(i,), daemon=True) for i in range(self.threads)
        ]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for w in workers:
                w.start()
            for w in workers:
                w.join(max(0.0, self.end - time.monotonic()) + 60)
        finally:
            sys.setswitchinterval(interval)
        if any(w.is_alive() for w in workers):
            self.problem("a thread hangs: a deadlock")
            return self.report()
        self._look()
        return self.report()

    def _look(self) -> None:
        space = getattr(mq.ops, NS)
        for number, turns in self.kept.items():
            for turn in range(1, turns + 1):
                name = f"kept_{number}_{turn}"
                try:
                    got = getattr(space, name)(mq.zeros(1)).item()
                except Exception as error:  # noqa: BLE001  # it is lost
                    self.problem(f"{name} is lost: {error}")
                    continue
                if got != turn:
                    self.problem(f"{name} has another's kernel: {got}")
        if space.op(mq.zeros(1)).item() != 0:
            self.problem("the first kernel is not back after all others were withdrawn")
        self.base._destroy()

    def report(self) -> int:
        for text in list(dict.fromkeys(self.problems))[:20]:
            print(text)
        shown = ", ".join(f"{n:,} {what}" for what, n in sorted(self.counts.items()))
        print(f"{2 * self.threads} threads: {shown}; {len(self.problems)} problems")
        return int(bool(self.problems))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    given = [float(a) for a in sys.argv[1:]]
    seconds, threads = [*given, *(20.0, 8.0)[len(given) :]]
    sys.exit(Stress(seconds, int(threads)).run())
