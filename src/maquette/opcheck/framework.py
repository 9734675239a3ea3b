"""The tensor library that a checked operator belongs to: maquette, or PyTorch itself.

Properties are written once, in the names that both share; what has another place in each is an
attribute here. PyTorch is imported by name, and only by `torch_framework`, when somebody asks for
its operators: maquette stands alone.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maquette.tensor.copying import is_own

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Framework:
    """Where a library keeps what properties need; ``torch`` has its functions and dtypes.

    told_device: the default device that was set or entered; None: nothing was said.
    """

    name: str
    torch: Any
    vmap: Callable[..., Any]
    jvp: Callable[..., Any]
    functionalize: Callable[..., Any]
    autocast: Callable[..., Any]
    make_fx: Callable[..., Any]
    told_device: Callable[[], Any]
    FakeTensorMode: Callable[..., Any]
    FakeTensor: type
    ShapeEnv: Callable[..., Any]
    op_overload: type
    packet: type
    opdef: type
    mode_type: type
    data_errors: tuple[type[BaseException], ...]
    unsupported: tuple[type[BaseException], ...]
    mismatch: type[BaseException]

    def is_tensor(self, value: object) -> bool:
        """Whether ``value`` is a tensor of this library."""
        return isinstance(value, self.torch.Tensor)

    def is_fake(self, value: object) -> bool:
        """Whether ``value`` is a tensor without data: a fake one, or on the device meta."""
        if not self.is_tensor(value):
            return False
        return isinstance(value, self.FakeTensor) or value.device.type == "meta"  # type: ignore[attr-defined]

    def dtype(self, name: str) -> Any:
        """The dtype called ``name``, such as "float32"."""
        return getattr(self.torch, name)

    def array(self, t: Any) -> Array:
        """A tensor's values, copied; narrow floats are widened to float32."""
        plain = t.detach().resolve_conj().resolve_neg()
        if dtype_name(plain) in NARROW:
            plain = plain.to(self.torch.float32)
        # numpy() of the tensor itself would forbid the operator to grow its storage.
        return np.asarray(plain.cpu().clone().numpy())

    def from_array(self, values: Array, dtype: str) -> Any:
        """A new tensor of a dtype."""
        return self.torch.tensor(values).to(self.dtype(dtype))


NARROW = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32")


def dtype_name(t: Any) -> str:
    """The name of a tensor's dtype, "float32"."""
    return str(t.dtype).rpartition(".")[2]


@functools.cache
def maquette_framework() -> Framework:
    """maquette's own parts."""
    from maquette import amp, api, fake, fx, transforms  # noqa: F401, PLC0415
    from maquette.api.from_schema import default_device  # noqa: PLC0415
    from maquette.dispatch.modes import TorchDispatchMode  # noqa: PLC0415
    from maquette.dispatch.operator import OpOverload  # noqa: PLC0415
    from maquette.dispatch.packet import OpOverloadPacket  # noqa: PLC0415
    from maquette.library.custom_op import CustomOpDef  # noqa: PLC0415
    from maquette.symbolic import ShapeEnv  # noqa: PLC0415
    from maquette.symbolic.errors import GuardOnDataDependentSymNode  # noqa: PLC0415

    return Framework(
        name="maquette",
        torch=importlib.import_module("maquette"),
        vmap=transforms.vmap,
        jvp=transforms.jvp,
        functionalize=transforms.functionalize,
        autocast=amp.autocast,
        make_fx=fx.make_fx,
        told_device=default_device,
        FakeTensorMode=fake.FakeTensorMode,
        FakeTensor=fake.FakeTensor,
        ShapeEnv=ShapeEnv,
        op_overload=OpOverload,
        packet=OpOverloadPacket,
        opdef=CustomOpDef,
        mode_type=TorchDispatchMode,
        data_errors=(
            fake.DataDependentOutputException,
            fake.DynamicOutputShapeException,
            GuardOnDataDependentSymNode,
        ),
        unsupported=(fake.UnsupportedOperatorException,),
        mismatch=fake.MetadataMismatchError,
    )


@functools.cache
def torch_framework() -> Framework:
    """PyTorch's parts; ImportError where it is not installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "checking PyTorch's operators needs PyTorch: install it (pip install torch) in the "
            "environment that maquette runs in"
        ) from error
    if torch.Tensor is maquette_framework().torch.Tensor:
        raise ImportError("`torch` is maquette here (maquette.torch.install()), not PyTorch")
    fake = importlib.import_module("torch._subclasses.fake_tensor")
    shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    ops = importlib.import_module("torch._ops")
    custom = importlib.import_module("torch._library.custom_ops")
    utils = importlib.import_module("torch._subclasses.fake_utils")
    return Framework(
        name="torch",
        torch=torch,
        vmap=torch.func.vmap,
        jvp=torch.func.jvp,
        functionalize=torch.func.functionalize,
        autocast=torch.autocast,
        make_fx=importlib.import_module("torch.fx.experimental.proxy_tensor").make_fx,
        told_device=_told_device_of_torch,
        FakeTensorMode=fake.FakeTensorMode,
        FakeTensor=fake.FakeTensor,
        ShapeEnv=shapes.ShapeEnv,
        op_overload=ops.OpOverload,
        packet=ops.OpOverloadPacket,
        opdef=custom.CustomOpDef,
        mode_type=importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode,
        data_errors=(
            fake.DataDependentOutputException,
            fake.DynamicOutputShapeException,
            shapes.GuardOnDataDependentSymNode,
        ),
        unsupported=(fake.UnsupportedOperatorException,),
        mismatch=getattr(utils, "MetadataMismatchError", fake.MetadataMismatchError),
    )


def _told_device_of_torch() -> Any:
    """The device of the innermost mode of a default device."""
    modes = importlib.import_module("torch.overrides")._get_current_function_mode_stack()
    context = importlib.import_module("torch.utils._device").DeviceContext
    return next((m.device for m in reversed(modes) if isinstance(m, context)), None)


def framework_of(op: object) -> Framework:
    """The library that an operator belongs to, told by its class alone."""
    if type(op).__module__.partition(".")[0] == "torch" and not is_own(type(op)):
        return torch_framework()
    return maquette_framework()
