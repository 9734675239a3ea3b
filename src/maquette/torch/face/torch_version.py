"""`torch.torch_version`: a version that is a string and compares as a version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from maquette.torch.version import __version__ as internal_version

# Where a release stands among its kin: dev, then pre-releases, then itself, then what came after.
_STAGES = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "pre": 3, "preview": 3, "rc": 3}
_FINAL, _POST = 4, 5
_VERSION = re.compile(
    r"\s*v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_n>\d*))?"
    r"(?:(?:[-_.]?(?:post|rev|r)[-_.]?(?P<post>\d*))|-(?P<post_n>\d+))?"
    r"(?:[-_.]?dev[-_.]?(?P<dev>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*",
    re.IGNORECASE,
)

_Key = tuple[Any, ...]


def _key(text: str) -> _Key | None:
    """What two versions are ordered by (PEP 440); None if the text is no version."""
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    release = [int(part) for part in found["release"].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    post = found["post"] if found["post"] is not None else found["post_n"]
    dev = found["dev"]
    if found["pre"] is not None:
        stage = (_STAGES[found["pre"].lower()], int(found["pre_n"] or 0))
    else:
        stage = (_FINAL if post is not None or dev is None else _STAGES["dev"], 0)
    local = [(1, int(p), "") if p.isdigit() else (0, 0, p.lower()) for p in _local(found["local"])]
    return (
        int(found["epoch"] or 0),
        tuple(release),
        stage,
        -1 if post is None else int(post or 0),
        float("inf") if dev is None else int(dev or 0),
        tuple(local),
    )


def _local(text: str | None) -> list[str]:
    return re.split(r"[-_.]", text) if text else []


class TorchVersion(str):
    """A version: a string that compares with strings and tuples ``(2, 13)`` as versions do.

    What is no version compares as a string. (In place of PyTorch's use of `packaging`.)
    """

    __slots__ = ()

    def _compare(self, other: object, method: str) -> bool:
        if isinstance(other, str):
            text = str(other)
        elif isinstance(other, Iterable):
            text = ".".join(map(str, other))
        else:
            return NotImplemented
        mine, theirs = _key(str(self)), _key(text)
        if mine is None or theirs is None:
            compared: bool = getattr(str(self), method)(other)
            return compared
        return bool(getattr(mine, method)(theirs))

    def __gt__(self, other: object) -> bool:
        return self._compare(other, "__gt__")

    def __lt__(self, other: object) -> bool:
        return self._compare(other, "__lt__")

    def __eq__(self, other: object) -> bool:
        return self._compare(other, "__eq__")

    def __ge__(self, other: object) -> bool:
        return self._compare(other, "__ge__")

    def __le__(self, other: object) -> bool:
        return self._compare(other, "__le__")

    # Not __ne__: in PyTorch, too, that compares strings.
    __hash__ = str.__hash__


TorchVersion.__module__ = "torch.torch_version"
__version__ = TorchVersion(internal_version)
__all__ = ["TorchVersion"]
