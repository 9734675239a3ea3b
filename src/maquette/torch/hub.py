"""`torch.hub`: where files that programs fetch are kept; nothing is fetched here.

The functions that would fetch raise RuntimeError and say what to do.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn  # list is a function here
from urllib.parse import urlparse

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


def download_url_to_file(url: str, dst: str, *args: object, **kwargs: object) -> NoReturn:
    """RuntimeError: nothing is fetched."""
    _no_network(f"download_url_to_file({url!r})")


def load_state_dict_from_url(url: str, *args: object, **kwargs: object) -> object:
    """The weights of a file that lies in `get_dir` already; RuntimeError if it does not."""
    from maquette.torch.saving.serialization import load  # noqa: PLC0415  # when first needed

    name = str(kwargs.get("file_name") or os.path.basename(urlparse(url).path))
    file = os.path.join(
        str(kwargs.get("model_dir") or os.path.join(get_dir(), "checkpoints")), name
    )
    if not os.path.exists(file):
        _no_network(f"load_state_dict_from_url({url!r}): {file} is not there")
    return load(file, map_location=kwargs.get("map_location"))  # type: ignore[arg-type]  # load says


def load_state_dict(*args: object, **kwargs: object) -> NoReturn:
    """RuntimeError: nothing is fetched."""
    _no_network("load_state_dict")


def tqdm(iterable: object = None, **options: object) -> object:
    """What is looped over, or a bar that shows nothing: nothing is fetched that would take time."""
    return _Silent() if iterable is None else iterable


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
    trust_repo: object = None,
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


def list(github: str, *args: object, **options: object) -> NoReturn:
    """RuntimeError: nothing is fetched."""
    _no_network(f"list({github!r})")


def help(github: str, model: str, *args: object, **options: object) -> NoReturn:
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
