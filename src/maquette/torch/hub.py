"""`torch.hub`: where files that programs fetch are kept; nothing is fetched here.

The functions that would fetch raise RuntimeError and say what to do.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn  # list is a function here
from urllib.parse import urlparse
from urllib.request import url2pathname

from maquette.torch.saving import serialization
from maquette.torch.saving.restoring import MapLocation

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of what was fetched: ``$TORCH_HOME/hub``, or what `set_dir` said."""
    return _dir if _dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep what is fetched in this folder."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _no_network(what: str) -> NoReturn:
    raise RuntimeError(
        f"torch.hub.{what}: maquette fetches nothing; fetch the file yourself and give its path to "
        f"torch.load"
    )


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Copy the file of a ``file:`` address; RuntimeError for others, and for another hash."""
    parts = urlparse(url)
    if parts.scheme != "file":
        _no_network(f"download_url_to_file({url!r})")
    source = url2pathname(parts.path)
    if hash_prefix:
        _check_hash(source, hash_prefix)
    shutil.copyfile(source, os.path.expanduser(dst))


def _check_hash(file: str, prefix: str) -> None:
    with open(file, "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if not found.startswith(prefix):
        raise RuntimeError(f'invalid hash value (expected "{prefix}", got "{found}"): {file}')


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: MapLocation = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> object:
    """The weights of a file that lies in ``model_dir`` already, or that a ``file:`` address names.

    check_hash: whether the file's name says the beginning of its SHA-256. weights_only: unlike
    PyTorch's, files run no code unless it is False. RuntimeError for a file that is not there.
    """
    name = file_name or os.path.basename(urlparse(url).path)
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    file = os.path.join(folder, name)
    known = HASH_REGEX.search(name) if check_hash else None
    prefix = None if known is None else known.group(1)
    if os.path.exists(file):
        if prefix:
            _check_hash(file, prefix)
    elif urlparse(url).scheme == "file":
        os.makedirs(folder, exist_ok=True)
        download_url_to_file(url, file, prefix, progress)
    else:
        _no_network(f"load_state_dict_from_url({url!r}): {file} is not there")
    return serialization.load(file, map_location=map_location, weights_only=weights_only)


def load_state_dict(*args: object, **kwargs: object) -> NoReturn:
    """RuntimeError: nothing is fetched."""
    _no_network("load_state_dict")


def tqdm(
    total: int | None = None,
    disable: bool = False,
    unit: str | None = None,
    *args: object,
    **kwargs: object,
) -> _Silent:
    """A bar that shows nothing: nothing is fetched that would take time."""
    return _Silent()


class _Silent:
    """A bar of progress that shows none."""

    def update(self, n: int = 1) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def load(
    repo_or_dir: str,
    model: str,
    *args: object,
    source: str = "github",
    trust_repo: object = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: object,
) -> object:
    """What the entry ``model`` of a folder's hubconf.py gives, with ``source="local"``.

    RuntimeError otherwise: nothing is fetched.
    """
    if source != "local":
        _no_network(f"load({repo_or_dir!r}, {model!r})")
    return _entry(repo_or_dir, model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    verbose: bool = True,
) -> NoReturn:
    """RuntimeError: nothing is fetched."""
    _no_network(f"list({github!r})")


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
) -> NoReturn:
    """RuntimeError: nothing is fetched."""
    _no_network(f"help({github!r}, {model!r})")


def _hubconf(folder: str) -> ModuleType:
    """A folder's hubconf.py, run with the folder on the path; RuntimeError for what it needs."""
    path = os.path.join(os.path.expanduser(folder), "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(path))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(os.path.dirname(path))
    needed = getattr(module, "dependencies", ())
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(folder: str, model: str) -> Callable[..., object]:
    found = getattr(_hubconf(folder), model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found
