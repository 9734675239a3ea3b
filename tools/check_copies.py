"""Compare the repository's copies of the conformance data and the specification with originals.

`conformance/` and `docs/spec/` are copies of files kept elsewhere and are never edited here. Given
the folder that holds the originals (as `conformance/` and `spec/`), this says which copies differ,
are missing, or have no original:

    python tools/check_copies.py ORIGINALS
"""

from __future__ import annotations

import argparse
import filecmp
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The copy's folder in the repository, and the original's in the folder given.
COPIES = {"conformance": "conformance", "docs/spec": "spec"}


def file_names(folder: Path) -> set[str]:
    """The names of a folder's files, without what Python leaves there."""
    return {path.name for path in folder.iterdir() if path.is_file()}


def differences(copy: Path, original: Path) -> list[str]:
    """What tells a folder of copies from the originals, one line each."""
    ours, theirs = file_names(copy), file_names(original)
    lines = [f"{copy / name}: missing" for name in sorted(theirs - ours)]
    lines += [f"{copy / name}: has no original" for name in sorted(ours - theirs)]
    lines += [
        f"{copy / name}: differs from {original / name}"
        for name in sorted(ours & theirs)
        if not filecmp.cmp(copy / name, original / name, shallow=False)
    ]
    return lines


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Compare every folder of copies; the exit status is 1 if any file differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("originals", type=Path, help="the folder with conformance/ and spec/")
    originals = parser.parse_args(argv).originals
    absent = [name for name in COPIES.values() if not (originals / name).is_dir()]
    if absent:
        parser.error(f"{originals} has no folder {' and no folder '.join(absent)}")
    lines = [
        line
        for copy, original in COPIES.items()
        for line in differences(root / copy, originals / original)
    ]
    print("\n".join(lines) or "every copy is byte for byte its original")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
