"""Decoders: what becomes of a file's bytes, by the ending of its name.

A handler is a function of an ending and the bytes; None says that the file is not its own.
"""

from __future__ import annotations

import io
import json
import os.path
import pickle
import tempfile
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from maquette.api import functions as mq
from maquette.torch.saving.serialization import load
from maquette.torch.utils.data.datapipes.utils.common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "audiohandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "mathandler",
    "videohandler",
]

Handler = Callable[[str, Any], Any]

_TEXT = frozenset(("txt", "text", "transcript"))
_NUMBERS = frozenset(("cls", "cls2", "class", "count", "index", "inx", "id"))
_JSON = frozenset(("json", "jsn"))
_PICKLES = frozenset(("pyd", "pickle"))
_IMAGES = frozenset(("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"))
_VIDEOS = frozenset(("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv"))
_SOUNDS = frozenset(("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"))


def basichandlers(extension: str, data: Any) -> Any:
    """Text, whole numbers, JSON, pickles and ``pt`` files, from bytes; None for other endings.

    A pickle runs code: decode only files that you trust.
    """
    if extension in _TEXT:
        return data.decode("utf-8")
    if extension in _NUMBERS:
        try:
            return int(data)
        except ValueError:
            return None
    if extension in _JSON:
        return json.loads(data)
    if extension in _PICKLES:
        return pickle.loads(data)
    if extension == "pt":
        return load(io.BytesIO(data))
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> Handler:
    """A handler that calls ``f`` with the bytes of files whose names end so.

    extensions: endings, separated by spaces, of one part or several: ``"jpg seg.jpg"``.
    """
    endings = [ending.split(".") for ending in extensions.lower().split()]

    def handler(key: str, data: Any) -> Any:
        parts = key.lower().split(".")
        fits = any(parts[-len(ending) :] == ending for ending in endings)
        return f(data) if fits else None

    return handler


_KINDS = {"": "numpy", "torch": "torch", "pil": "pil"}
imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{
        f"{kind}{mode}8": (_KINDS[kind], "uint8", mode)
        for kind in ("", "torch")
        for mode in ("l", "rgb", "rgba")
    },
    **{
        f"{kind}{mode}": (_KINDS[kind], None if kind == "pil" else "float", mode)
        for kind in _KINDS
        for mode in ("l", "rgb", "rgba")
    },
    "torch": ("torch", "float", "rgb"),
    "pil": ("pil", None, "rgb"),
}
"""What an image becomes: an array, a tensor (channels first) or an image of PIL; of bytes or of
numbers from 0 to 1; with which channels."""


class ImageHandler:
    """Images by Pillow, as ``imagespec`` says: ``"torchrgb8"`` is uint8[3, height, width]."""

    def __init__(self, imagespec: str) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension.lower() not in _IMAGES:
            return None
        pil = _package("PIL.Image", "Pillow", "default image decoder")
        kind, numbers, mode = imagespecs[self.imagespec]
        with io.BytesIO(data) as stream:
            image = pil.open(stream).convert(mode.upper())
        if kind == "pil":
            return image
        array = np.array(image)
        if kind == "numpy":
            return array if numbers == "uint8" else array.astype(np.float32) / 255.0
        tensor = mq.tensor(array).permute(2, 0, 1).contiguous()
        return tensor if numbers == "uint8" else tensor / 255.0


def imagehandler(imagespec: str) -> ImageHandler:
    """A handler of images; see `imagespecs`."""
    return ImageHandler(imagespec)


def videohandler(extension: str, data: bytes) -> Any:
    """Videos by torchvision."""
    if extension not in _VIDEOS:
        return None
    vision = _package("torchvision.io", "torchvision", "default video file loader")
    return _by_file(extension, data, vision.read_video)


def audiohandler(extension: str, data: bytes) -> Any:
    """Sounds by torchaudio."""
    if extension not in _SOUNDS:
        return None
    audio = _package("torchaudio", "torchaudio", "default audio file loader")
    return _by_file(extension, data, audio.load)


def _by_file(extension: str, data: bytes, read: Callable[[str], Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return read(path)


class MatHandler:
    """Files of MATLAB by SciPy; options as `scipy.io.loadmat`."""

    def __init__(self, **loadmat_kwargs: Any) -> None:
        self.sio = _package("scipy.io", "scipy", "mat file")
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension != "mat":
            return None
        with io.BytesIO(data) as stream:
            return self.sio.loadmat(stream, **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """A handler of files of MATLAB."""
    return MatHandler(**loadmat_kwargs)


def _package(module: str, package: str, use: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Package `{package}` is required to be installed for {use}. Please use "
            f"`pip install {package}` to install the package"
        ) from error


def extension_extract_fn(pathname: str) -> str:
    """The ending of a file's name, without its point."""
    return os.path.splitext(pathname)[1].removeprefix(".")


class Decoder:
    """Decodes files by the first handler that knows them; what nobody knows stays bytes.

    key_fn: what handlers are told of a path. Paths that begin with ``_`` are text.
    """

    def __init__(
        self, *handler: Handler, key_fn: Callable[[str], str] = extension_extract_fn
    ) -> None:
        self.handlers = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler: Handler) -> None:
        """Ask these handlers before the others."""
        self.handlers[:0] = handler

    @staticmethod
    def _is_stream_handle(data: object) -> bool:
        inner = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(inner, io.BufferedIOBase | io.RawIOBase)

    def decode1(self, key: str, data: Any) -> Any:
        """One file, by its key."""
        if not data:
            return data
        if self._is_stream_handle(data):
            stream, data = data, b"".join(data)  # streams read in different ways; all are iterated
            stream.close()
        results = (handler(key, data) for handler in self.handlers)
        return next((result for result in results if result is not None), data)

    def decode(self, data: tuple[str, Any] | Iterable[tuple[str, Any]] | None) -> dict[str, Any]:
        """The decoded files by path, of one path and file or several."""
        pairs = [data] if isinstance(data, tuple) else data or ()
        result: dict[str, Any] = {}
        for path, content in pairs:
            if path[0] == "_" and isinstance(content, bytes):
                result[path] = content.decode("utf-8")
            else:
                result[path] = self.decode1(self.key_fn(path), content)
        return result

    def __call__(self, data: Any) -> dict[str, Any]:
        return self.decode(data)
