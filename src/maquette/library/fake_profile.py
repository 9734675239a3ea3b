"""Fake implementations from what was seen of an operator: ranks, dtypes, devices, layouts (F96).

An `OpProfile` says what results an operator had for what arguments. Where a call matches one, its
results are fakes of that kind whose sizes only data would tell. Profiles are kept in files that
PyTorch 2.13 reads and writes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import IO, Any, NoReturn, cast

from maquette.core import layout as layouts
from maquette.core import scalar_types
from maquette.core.device import device as device_of
from maquette.core.dtype import dtype as dtype_of
from maquette.core.strides import packed_strides
from maquette.library import block_yaml
from maquette.library.fakes import get_ctx, register_fake
from maquette.library.library import Library
from maquette.library.registrations import find_overload
from maquette.tensor.tensor import Tensor
from maquette.transforms.rules import operators

VERSION = "2.13"
"""The PyTorch whose files these are."""
Names = str | os.PathLike[str] | IO[bytes]


class MissingOpProfile(RuntimeError):
    """No profile of the operator matches the arguments."""


@dataclass(frozen=True)
class TensorMetadata:
    """What is known of a tensor: all but its sizes."""

    rank: int
    dtype: dtype_of
    device: device_of
    layout: layouts.layout

    @staticmethod
    def maybe_from_tensor(t: object) -> TensorMetadata | None:
        """That of a tensor; None for anything else."""
        if not isinstance(t, Tensor):
            return None
        meta = t.meta
        return TensorMetadata(meta.ndim, meta.dtype, meta.device, meta.layout)


@dataclass(frozen=True)
class OpProfile:
    """Results that an operator had for arguments like these; None stands for what is no tensor."""

    args_profile: tuple[TensorMetadata | None, ...]
    out_profile: TensorMetadata | tuple[TensorMetadata | None, ...]


Profiles = Mapping[str, Set[OpProfile]]


@contextlib.contextmanager
def unsafe_generate_fake_kernels(op_profiles: Profiles) -> Iterator[None]:
    """In the block, let operators, as ``ns.op.overload``, have fakes by their profiles.

    Earlier fakes come back after it. RuntimeError for an operator that does not exist. *Unsafe*
    because nothing says that other arguments of these kinds give such results.
    """
    libraries = []
    try:
        for name, profiles in op_profiles.items():
            libraries.append(_installed(name, profiles))
        yield
    finally:
        for library in reversed(libraries):
            library._destroy()


def _installed(name: str, profiles: Set[OpProfile]) -> Library:
    namespace, _, rest = name.partition(".")
    qualname = f"{namespace}::{rest.removesuffix('.default')}"
    if find_overload(qualname) is None:
        raise RuntimeError(f"operator {qualname} does not exist; define it before its profiles")
    library = Library(namespace, "FRAGMENT")
    register_fake(library, qualname, _fake(qualname, profiles), __name__, allow_override=True)
    return library


def _fake(qualname: str, profiles: Set[OpProfile]) -> Callable[..., object]:
    def fake(*args: object, **kwargs: object) -> object:
        seen = tuple([TensorMetadata.maybe_from_tensor(a) for a in args])
        for profile in profiles:
            if profile.args_profile == seen:
                return _results(profile.out_profile)
        raise MissingOpProfile(
            f"No fake kernel was found for {qualname}, and although we have previously registered "
            f"some profiles to generate a fake kernel, no profiles match the given inputs: "
            f"{args, kwargs}. Add a profile for them, or give the operator a fake with "
            f"torch.library.register_fake"
        )

    return fake


def _results(profile: TensorMetadata | tuple[TensorMetadata | None, ...]) -> object:
    if isinstance(profile, tuple):
        return tuple([None if p is None else _result(p) for p in profile])
    return _result(profile)


def _result(profile: TensorMetadata) -> object:
    if profile.layout is not layouts.strided:
        raise NotImplementedError(f"profiles make strided results, not {profile.layout} ones")
    context = get_ctx()
    assert context is not None, "a fake implementation runs in a context"
    shape: Any = tuple([context.new_dynamic_size() for _ in range(profile.rank)])
    strides = packed_strides(shape, range(profile.rank - 1, -1, -1))
    return operators.empty_strided(shape, strides, dtype=profile.dtype, device=profile.device)


# --- files ----------------------------------------------------------------------------------

# Numbers that PyTorch's files have for dtypes and layouts.
_DTYPES = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7,
    "float64": 8, "complex32": 9, "complex64": 10, "complex128": 11, "bool": 12, "bfloat16": 13,
    "uint16": 28, "float8_e4m3fn": 29, "float8_e5m2": 30, "float8_e4m3fnuz": 31,
    "float8_e5m2fnuz": 32, "float8_e8m0fnu": 33, "uint32": 34, "uint64": 35,
}  # fmt: skip
_LAYOUTS = {
    "sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 3, "sparse_bsr": 4, "sparse_bsc": 5,
    "_mkldnn": 6, "strided": 7,
}  # fmt: skip


def generate_yaml_from_profiles(op_profiles: Profiles) -> str:
    """The text of a file of profiles."""
    operators = {
        name: [_plain_profile(p) for p in sorted(profiles, key=repr)]
        for name, profiles in op_profiles.items()
    }
    return block_yaml.dump({"torch_version": VERSION, "operators": operators})


def _plain_profile(profile: OpProfile) -> dict[str, Any]:
    out = profile.out_profile
    return {
        "args_profile": [_plain(p) for p in profile.args_profile],
        "out_profile": [_plain(p) for p in out] if isinstance(out, tuple) else _plain(out),
    }


def _plain(profile: TensorMetadata | None) -> dict[str, Any] | None:
    if profile is None:
        return None
    return {
        "rank": profile.rank,
        "dtype": _DTYPES[str(profile.dtype).removeprefix("torch.")],
        "device": str(profile.device),
        "layout": _LAYOUTS[str(profile.layout).removeprefix("torch.")],
    }


def read_profiles_from_yaml(yaml_str: str) -> dict[str, set[OpProfile]]:
    """The profiles of a file's text.

    RuntimeError for a file of another version; ValueError for what is no file of profiles.
    """
    found = block_yaml.load(yaml_str)
    if not isinstance(found, dict) or "torch_version" not in found:
        _odd("it has no torch_version")
    if found["torch_version"] != VERSION:
        raise RuntimeError(
            f"Unable to load outdated profile. It was saved with torch version: "
            f"{found['torch_version']} but the current torch version is: {VERSION}; save it anew"
        )
    listed = found.get("operators")
    if not isinstance(listed, dict):
        _odd("it lists no operators")
    return {name: {_profile(p) for p in profiles or ()} for name, profiles in listed.items()}


def _odd(why: str) -> NoReturn:
    raise ValueError(f"this is no file of operator profiles: {why}")


def _profile(plain: Any) -> OpProfile:
    try:
        args = tuple([_metadata(p) for p in plain["args_profile"] or ()])
        out = plain["out_profile"]
        if isinstance(out, list):
            return OpProfile(args, tuple([_metadata(p) for p in out]))
        return OpProfile(args, cast(TensorMetadata, _metadata(out)))
    except (KeyError, TypeError) as error:
        _odd(f"{plain!r} is no profile ({error!r})")


def _metadata(plain: Any) -> TensorMetadata | None:
    if plain is None:
        return None
    kind = next(n for n, number in _DTYPES.items() if number == plain["dtype"])
    kept = next(n for n, number in _LAYOUTS.items() if number == plain["layout"])
    where = device_of(plain["device"])
    return TensorMetadata(
        int(plain["rank"]), getattr(scalar_types, kind), where, getattr(layouts, kept.strip("_"))
    )


def save_op_profiles(op_profiles: Profiles, f: Names) -> None:
    """Write profiles to a file: a path, which gets the ending .yaml if it has none, or an object.

    ValueError for a path with another ending.
    """
    text = generate_yaml_from_profiles(op_profiles).encode()
    if isinstance(f, (str, os.PathLike)):
        with open(_checked_path(f), "wb") as file:
            file.write(text)
    else:
        f.write(text)


def load_op_profiles(f: Names) -> dict[str, set[OpProfile]]:
    """The profiles of a file: a path, or an object that is read from its beginning."""
    if isinstance(f, (str, os.PathLike)):
        with open(_checked_path(f), "rb") as file:
            return read_profiles_from_yaml(file.read().decode())
    f.seek(0)
    return read_profiles_from_yaml(f.read().decode())


def _checked_path(f: str | os.PathLike[str]) -> str:
    path = os.fspath(f)
    if not path.endswith((".yaml", ".yml")):
        raise ValueError(f"expected a file of profiles, whose name ends in .yaml; got {path!r}")
    return path
