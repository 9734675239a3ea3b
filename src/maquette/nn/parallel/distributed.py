"""`DistributedDataParallel` of one process: its gradients are the means over all processes.

So nothing is sent. What is left is what programs see: the module under ``module``, states with that
prefix, `no_sync`, and the error about parameters that a backward pass has not reached.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NoReturn

from maquette.autograd.grad_mode import is_grad_enabled
from maquette.autograd.gradient_edges import get_gradient_edge
from maquette.core.device import device as Device
from maquette.nn.base import Module
from maquette.nn.default_group import DEFAULT_GROUP
from maquette.nn.lazy_parameter import is_lazy
from maquette.nn.parameter import Parameter
from maquette.tensor.tensor import Tensor

_UNUSED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This "
    "error indicates that your module has parameters that were not used in producing loss. You can "
    "enable unused parameter detection by passing the keyword argument "
    "`find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel`, and by making "
    "sure all `forward` function outputs participate in calculating loss. Parameters without a "
    "gradient in the prior iteration: {}"
)


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the processes of a group: of one process.

    Raises ValueError without a process group and for ``device_ids``, RuntimeError for a module
    without parameters to train, and, at the next call, if a backward pass has not reached all
    parameters (unless ``find_unused_parameters``).
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | Device] | None = None,
        output_device: int | Device | None = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: object = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Sequence[tuple[str, Parameter]] | None = None,
        param_to_hook_all_reduce: Parameter | None = None,
        mixed_precision: object = None,
        device_mesh: object = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: list[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        options = {
            "delay_all_reduce_named_params": delay_all_reduce_named_params,
            "param_to_hook_all_reduce": param_to_hook_all_reduce,
            "mixed_precision": mixed_precision,
            "device_mesh": device_mesh,
        }
        super().__init__()
        if process_group is None and DEFAULT_GROUP[0] is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call "
                "init_process_group."
            )
        for name, value in options.items():
            if value:
                raise NotImplementedError(
                    f"DistributedDataParallel({name}=): maquette has process groups of one process "
                    f"only, which send nothing"
                )
        parameters = dict(module.named_parameters())
        if any(is_lazy(p) for p in parameters.values()):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with "
                "`DistributedDataParallel`. Run a dummy forward pass to correctly initialize the "
                "modules"
            )
        if not any(p.requires_grad for p in parameters.values()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter "
                "that requires a gradient."
            )
        devices = {p.device for p in parameters.values()}
        if (device_ids or output_device is not None) and {d.type for d in devices} == {"cpu"}:
            raise ValueError(
                f"DistributedDataParallel device_ids and output_device arguments only work with "
                f"single-device/multiple-device GPU modules or CPU modules, but got device_ids "
                f"{device_ids}, output_device {output_device}, and module parameters {devices}."
            )
        self.module = module
        self.process_group = process_group or DEFAULT_GROUP[0]
        self.device = next(iter(parameters.values())).device
        self.device_type = self.device.type
        self.is_multi_device_module = len(devices) > 1
        self.device_ids = list(device_ids) if device_ids else None
        self.output_device = output_device
        self.dim = dim
        asked = (broadcast_buffers, forward_sync_buffers)
        self.broadcast_buffers = all(each is None or each for each in asked)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.bucket_bytes_cap = int((bucket_cap_mb or 25) * 1024**2)
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self.parameters_to_ignore: set[str] = set()
        self._watch()

    def _watch(self) -> None:
        self._reached = _Reached(
            {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        if is_grad_enabled() and self.require_backward_grad_sync:
            missing = self._reached.missing()
            if missing and not (self.find_unused_parameters or self.static_graph):
                raise RuntimeError(_UNUSED.format(", ".join(missing)))
            self._reached.begin()
        else:
            self._reached.end()
        return self.module(*inputs, **kwargs)

    def _set_static_graph(self) -> None:
        self.static_graph = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose gradients only add up in this process, as all do here."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> contextlib.AbstractContextManager[None]:
        """A block in which processes may run out of inputs at different times: of one process."""
        return contextlib.nullcontext()

    def scatter(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any], device_ids: object
    ) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
        """The inputs of each device, of which there is one."""
        return (inputs,), (kwargs,)

    def to_kwargs(
        self, inputs: tuple[Any, ...], kwargs: dict[str, Any], device_id: object
    ) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
        """The inputs of the one device."""
        return (inputs,), (kwargs,)

    def gather(self, outputs: Any, output_device: object) -> Any:
        """The outputs of the one device."""
        return outputs[0] if isinstance(outputs, list | tuple) and len(outputs) == 1 else outputs

    def will_sync_module_buffers(self) -> bool:
        """Whether buffers would be sent before a forward, if there were processes to send to."""
        wanted = self.require_forward_param_sync and self.broadcast_buffers
        return bool(wanted and next(self.module.buffers(), None) is not None)

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> NoReturn:
        """Not there: NotImplementedError, nothing is sent that a hook could change."""
        raise NotImplementedError(
            "DistributedDataParallel.register_comm_hook is not supported by maquette: with one "
            "process no gradients are sent. Change them by hooks of the parameters"
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("process_group", "_reached")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = DEFAULT_GROUP[0]
        self._watch()


def _find_tensors(obj: object) -> Iterator[Tensor]:
    """The tensors in an output: in tuples, lists, dicts and data classes, however nested."""
    if isinstance(obj, Tensor):
        yield obj
    elif isinstance(obj, list | tuple):
        yield from chain.from_iterable(map(_find_tensors, obj))
    elif isinstance(obj, dict):
        yield from chain.from_iterable(map(_find_tensors, obj.values()))
    elif dataclasses.is_dataclass(obj):
        parts = (getattr(obj, field.name) for field in dataclasses.fields(obj))
        yield from chain.from_iterable(map(_find_tensors, parts))


class _Reached:
    """Which parameters backward passes have reached since the last call that was to be reduced."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        self._names: set[str] = set(parameters)
        self._reached: set[str] = set()
        self._counting = False
        # Nodes are kept: a parameter makes a new one when nobody holds the last.
        self._nodes = [get_gradient_edge(p).node for p in parameters.values()]
        for name, node in zip(parameters, self._nodes, strict=True):
            node.register_hook(functools.partial(self._note, name))

    def _note(self, name: str, *gradients: object) -> None:
        if self._counting:
            self._reached.add(name)
            if self._reached == self._names:
                self._reached.clear()

    def begin(self) -> None:
        """Count from now on."""
        self._counting = True
        self._reached.clear()

    def end(self) -> None:
        """Count no more, until `begin`."""
        self._counting = False

    def missing(self) -> list[str]:
        """The parameters that were not reached by a backward pass that reached others."""
        return sorted(self._names - self._reached) if self._reached else []


DistributedDataParallelCPU = DistributedDataParallel
