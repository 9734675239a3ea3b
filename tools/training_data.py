"""Small data in the forms that public training scripts read: text, pictures of digits, photographs.

Each function fills a folder and gives the same bytes every time, so that two runs read equal data.
"""

from __future__ import annotations

import pickle
import random
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

SYLLABLES = "ba co di fu ge ho ki la me no pu ra si to va we xi yo zu qua jar".split()
SIDE = 28


def words(count: int) -> list[str]:
    """Words of a few syllables each, some more frequent than others, as in a language."""
    chance = random.Random(0)
    known = ["".join(chance.choices(SYLLABLES, k=chance.randint(1, 4))) for _ in range(400)]
    weights = [1 / (rank + 1) for rank in range(len(known))]
    return chance.choices(known, weights, k=count)


def text(file: Path, count: int = 6000) -> None:
    """Sentences of nine words, below a line that minGPT's script begins its samples with."""
    all_words = words(count)
    lines = [" ".join(all_words[i : i + 9]).capitalize() + "." for i in range(0, count, 9)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("O God, O God!\n" + "\n".join(lines) + "\n", "utf-8")


def words_by_line(file: Path) -> None:
    """A word a line, each once: names."""
    file.write_text("\n".join(sorted(set(words(4000)))) + "\n", "utf-8")


def three_texts(folder: Path) -> None:
    """``train.txt``, ``valid.txt`` and ``test.txt``."""
    for name, count in (("train", 30_000), ("valid", 1500), ("test", 1500)):
        text(folder / f"{name}.txt", count)


def characters(folder: Path) -> None:
    """Numbers of characters, as 16-bit integers, for training and validation; ``meta.pkl``."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "input.txt"
    text(source)
    letters = source.read_text("utf-8")
    numbers = {letter: n for n, letter in enumerate(sorted(set(letters)))}
    codes = np.array([numbers[letter] for letter in letters], np.uint16)
    cut = len(codes) * 9 // 10
    codes[:cut].tofile(folder / "train.bin")
    codes[cut:].tofile(folder / "val.bin")
    names = {"vocab_size": len(numbers), "stoi": numbers, "itos": dict(enumerate(numbers))}
    (folder / "meta.pkl").write_bytes(pickle.dumps(names))


def digits(folder: Path) -> None:
    """MNIST's files: each of ten classes is bright at places of its own, with noise."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(0)
    shapes = chance.random((10, SIDE, SIDE)) > 0.7
    for name, count in (("train", 6000), ("t10k", 1000)):
        classes = chance.integers(0, 10, count).astype(np.uint8)
        noise = chance.integers(0, 80, (count, SIDE, SIDE))
        pictures = np.clip(shapes[classes] * 170 + noise, 0, 255).astype(np.uint8)
        _write_idx(raw / f"{name}-images-idx3-ubyte", pictures)
        _write_idx(raw / f"{name}-labels-idx1-ubyte", classes)


def _write_idx(file: Path, array: npt.NDArray[np.uint8]) -> None:
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    file.write_bytes(header + array.tobytes())


def photographs(folder: Path) -> None:
    """Pictures of smooth colours in the folders ``train`` and ``test``."""
    from PIL import Image  # noqa: PLC0415  # only this needs it

    chance = np.random.default_rng(0)
    places = np.arange(300) / 300
    for name, count in (("train", 24), ("test", 4)):
        part = folder / name
        part.mkdir(parents=True, exist_ok=True)
        for n in range(count):
            waves = chance.uniform(2, 40, (3, 2))
            colours = [np.sin(a * places[:, None]) * np.cos(b * places) for a, b in waves]
            pixels = (np.stack(colours, -1) * 127 + 128).astype(np.uint8)
            Image.fromarray(pixels).save(part / f"{n:03}.png")
