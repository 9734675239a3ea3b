"""Devices: where a tensor lives.

Equal devices are one object, so they are compared by identity. `cuda` and `cuda:0` are different
devices; a tensor always carries the index, which `canonical` fills in.
"""

import re
from typing import TYPE_CHECKING, Final, NoReturn, Self

from maquette.core.errors import check, check_type

#: Device types in the order in which PyTorch numbers and lists them.
DEVICE_TYPES: Final = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga",
    "maia", "xla", "lazy", "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip

#: What a bare index means: `device(1)` is `device("cuda", 1)`.
ACCELERATOR: Final = "cuda"

_HAVE_NO_INDEX: Final = frozenset({"cpu", "meta"})
_PATTERN: Final = re.compile(r"([a-zA-Z_]+)(?::(0|[1-9][0-9]*))?")
_LARGEST_INDEX: Final = 127

_interned: dict[tuple[str, int | None], "device"] = {}


class device:
    """A device: a type such as "cuda", and an index or None. Equal devices are one object.

    Raises RuntimeError for an unknown type or a malformed string.
    """

    __slots__ = ("__weakref__", "index", "type")

    type: str
    index: int | None

    def __new__(cls, type: "str | int | device", index: int | None = None) -> "device":
        if isinstance(type, str):
            found = _interned.get((type, index))
            return _parse(type, index) if found is None else found
        check_type(
            isinstance(type, int | device) and type.__class__ is not bool and index is None,
            lambda: (
                f"device() expects a string, with or without an index, or an index, or a "
                f"device; got {type!r} and index {index!r}"
            ),
        )
        return type if isinstance(type, device) else _make(ACCELERATOR, type)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable; cannot set {name!r}")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __reduce__(self) -> tuple[object, ...]:
        return device, (self.type, self.index)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    if TYPE_CHECKING:
        # `with device("cuda"):` is attached where the default device is known (aten's creation).
        def __enter__(self) -> Self: ...
        def __exit__(self, *exc: object) -> None: ...


def _parse(text: str, index: int | None) -> device:
    check_type(
        index is None or (isinstance(index, int) and index.__class__ is not bool),
        lambda: f"device(): argument 'index' must be int, not {type(index).__name__}",
    )
    check(text != "", lambda: "Device string must not be empty")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise RuntimeError(
            f"Invalid device string: '{text}'; expected a type such as 'cpu', or a type and an "
            f"index such as 'cuda:0'"
        )
    kind, written = match.groups()
    check(
        written is None or index is None,
        lambda: (
            f"type (string) must not include an index because index was passed explicitly: {text}"
        ),
    )
    return _make(kind, index if written is None else int(written))


def _make(kind: str, index: int | None) -> device:
    check(
        kind in DEVICE_TYPES,
        lambda: (
            f"Expected one of {', '.join(DEVICE_TYPES)} device type at start of device "
            f"string: {kind}"
        ),
    )
    check(index is None or index >= 0, lambda: f"Device index must not be negative, got {index}")
    check(
        index is None or index <= _LARGEST_INDEX,
        lambda: f"Device index must be at most {_LARGEST_INDEX}, got {index} for {kind}",
    )
    made: device = object.__new__(device)
    object.__setattr__(made, "type", kind)
    object.__setattr__(made, "index", index)
    return _interned.setdefault((kind, index), made)


cpu: Final = device("cpu")
meta: Final = device("meta")


def canonical(where: device) -> device:
    """The device a tensor made on `where` carries.

    Accelerators without an index get index 0; there is one cpu and one meta device, whatever the
    index they are asked for by, so ``cpu:0`` and ``cpu`` hold tensors that meet.
    """
    if where.type in _HAVE_NO_INDEX:
        return where if where.index is None else device(where.type)
    return where if where.index is not None else device(where.type, 0)


def device_of_type(kind: str, where: "str | int | device | None") -> device:
    """The device that ``tensor.cuda(where)`` means: an index, or a device, which is of that type.

    None is the type's own, without an index; RuntimeError for a device of another type.
    """
    if where is None:
        return device(kind)
    found = device(kind, where) if isinstance(where, int) else device(where)
    check(
        found.type == kind,
        lambda: f"Invalid device, must be {kind} device, got {found}; to() takes any device",
    )
    return found
