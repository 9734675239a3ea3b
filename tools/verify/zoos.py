"""Every architecture of transformers and timm beside PyTorch: 99 % of the aspects, each rest named.

    python tools/verify/zoos.py [--peer PYTHON] [--keep FOLDER] [LIBRARY ...]

Runs ``tools/architectures.py`` for each library that is installed beside maquette; PYTHON has
PyTorch and the libraries, without it the architectures have to run here. Fails where one differs
that is not explained below, where one that is no longer does, and below 99 %. ``make zoos`` makes
both environments and calls this.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

LEAST = 0.99
_BRANCH = "on cuda data decides a branch, and PyTorch without CUDA cannot be asked"
_BATCH_NORM = "PyTorch's gradients are not its loss's difference quotients (batch_norm's bias)"
EXPLAINED: dict[str, dict[str, str]] = {
    "transformers": {
        "encodec": "a padding is a buffer, whose value is not known on cuda",
        "mimi_encoder": _BRANCH,
        "pocket_tts_audio_tokenizer_encoder": _BRANCH,
    },
    "timm": {
        "efficientformer_l1": _BATCH_NORM,
        "xcit_nano_12_p8_224": _BATCH_NORM,
    },
}
_COUNTS = re.compile(r"; (\d+) of (\d+) aspects")


def main() -> int:
    """Run each library that is there; 1 where one of them fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", metavar="PYTHON", help="has PyTorch and the libraries")
    parser.add_argument("--keep", metavar="FOLDER", help="keep answers there, and use those kept")
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY")
    given = parser.parse_args()
    failed = False
    for library in given.libraries or EXPLAINED:
        if importlib.util.find_spec(library) is None:
            print(f"zoos: {library} is not installed beside maquette, nothing was run (make zoos)")
            continue
        failed |= not _passes(library, given.peer, given.keep)
    return failed


def _passes(library: str, peer: str | None, keep: str | None) -> bool:
    command = [sys.executable, str(Path(__file__).parents[1] / "architectures.py")]
    command += ["--library", library]
    command += ["--peer", peer] if peer else []
    command += ["--keep", keep] if keep else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(f"{library}:\n{done.stdout}", flush=True)
    return judged(library, done.stdout, compared=peer is not None)


def judged(library: str, said: str, *, compared: bool) -> bool:
    """Whether what ``architectures.py`` printed is as it should be; prints what is not."""
    *lines, last = said.splitlines() or [""]
    explained = EXPLAINED.get(library, {})
    differing = {line.split()[0] for line in lines if line.strip()}
    counts = _COUNTS.search(last)
    if counts is None:
        print(f"zoos: {library} gave no counts")
        return False
    agreeing, aspects = map(int, counts.groups())
    unexplained = sorted(differing - explained.keys())
    mended = sorted(explained.keys() - differing) if compared else []
    for name in unexplained:
        print(f"zoos: {library}'s {name} differs, which nothing explains")
    for name in mended:
        print(f"zoos: {library}'s {name} agrees now: take its explanation away")
    return not unexplained and not mended and agreeing >= LEAST * aspects


if __name__ == "__main__":
    sys.exit(main())
