"""All overloads that PyTorch's recordings call, held to opcheck's properties, on every core.

python tools/verify/operators.py [options of tools/check_operators.py]

Each core takes every Nth overload. About an hour of the processor in all; `--log FILE` keeps what
is done, so that a run that was stopped goes on.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS))

import check_operators  # noqa: E402


def main() -> int:
    """Check slices in processes of their own, then tell of all their reports; 1 for findings."""
    parser = argparse.ArgumentParser(description="every overload, on every core")
    parser.add_argument("--log", type=Path, metavar="FILE", help="one log a core: FILE.0, FILE.1")
    given, rest = parser.parse_known_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        base = given.log or Path(folder) / "reports"
        logs = [base.with_name(f"{base.name}.{k}") for k in range(cores)]
        options = ["--inputs=60", "--deadline=2", "--show=0", *rest, f"--every={cores}"]
        runs = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", str(TOOLS / "check_operators.py"), *options]
                + [f"--start={k}", f"--log={log}"],
                stdout=subprocess.DEVNULL,
                stderr=None if k == 0 else subprocess.DEVNULL,  # one core's progress tells of all
            )
            for k, log in enumerate(logs)
        ]
        codes = [run.wait() for run in runs]
        reports = [r for log in logs for r in check_operators.logged(log).values()]
        found = check_operators.summary(reports, shown=100)
    broken = [k for k, code in enumerate(codes) if code not in (0, 1)]
    if broken:
        print(f"slices {broken} did not end: exit codes {codes}")
    return int(bool(found or broken))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
