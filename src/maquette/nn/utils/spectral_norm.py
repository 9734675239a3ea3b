"""The older spectral normalization: a hook computes the weight before each forward.

New programs take `parametrizations.spectral_norm`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from maquette.api import functions as mq
from maquette.autograd import no_grad
from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.lazy_parameter import is_lazy
from maquette.nn.parameter import Parameter
from maquette.nn.utils.norms import matrix_of
from maquette.tensor import Tensor

T = TypeVar("T", bound=Module)


class SpectralNorm:
    """The hook: ``<name>`` from ``<name>_orig`` and the vectors ``<name>_u``, ``<name>_v``."""

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got n_power_iterations="
                f"{n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def __call__(self, module: Module, inputs: object) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Norm a weight of the module: RuntimeError if it is already; the hook that does it."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Run forward once before you apply it"
            )
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            rows, columns = matrix_of(weight, dim).shape
            u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.detach())
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with ``dim`` as rows and all others as columns."""
        return matrix_of(weight, self.dim)

    def remove(self, module: Module) -> None:
        """Make the weight a parameter of its present value; the hook stays registered."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for end in ("u", "v", "orig"):
            delattr(module, f"{self.name}_{end}")
        module.register_parameter(self.name, Parameter(weight.detach()))

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value, which is followed first if wanted."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    F.normalize(mq.mv(matrix.t(), u), dim=0, eps=self.eps, out=v)
                    F.normalize(mq.mv(matrix, v), dim=0, eps=self.eps, out=u)
                # Copies: another forward before backward would change what is saved.
                u, v = u.clone(), v.clone()
        result: Tensor = weight / mq.dot(u, mq.mv(matrix, v))
        return result


class SpectralNormStateDictHook:
    """Notes in a state dict that a weight was normed in this way: PyTorch asks when it loads."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: object, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        local_metadata.setdefault("spectral_norm", {})[f"{self.fn.name}.version"] = 1


class SpectralNormLoadStateDictPreHook:
    """Makes `weight_v` for a state dict of before there was one, from what it holds instead."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        *rest: object,
    ) -> None:
        version = local_metadata.get("spectral_norm", {}).get(f"{self.fn.name}.version")
        key = f"{prefix}{self.fn.name}"
        if version is not None and version >= 1:
            return
        parts = [f"{key}_orig", f"{key}_u", f"{key}_v"]
        if version is None and key not in state_dict and all(p in state_dict for p in parts):
            return  # only the version was lost
        missing = [k for k in (f"{key}_orig", key, f"{key}_u") if k not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with no_grad():
            original, u = state_dict[f"{key}_orig"], state_dict[f"{key}_u"]
            length = (original / state_dict.pop(key)).mean()
            state_dict[f"{key}_v"] = _solved(matrix_of(original, self.fn.dim), u, length)


def _solved(matrix: Tensor, u: Tensor, length: Tensor) -> Tensor:
    """The v with ``u = matrix @ v`` as nearly as can be, and ``u @ matrix @ v`` the length."""
    v = mq.linalg_pinv(matrix.t() @ matrix) @ (matrix.t() @ u)
    return v * (length / mq.dot(u, mq.mv(matrix, v)))


def spectral_norm(
    module: T,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> T:
    """Divide a weight by its largest singular value before each forward; returns the module."""
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: T, name: str = "weight") -> T:
    """Make the weight a parameter again, of its present value; ValueError if it is normed not."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            module._mq_hook_table().remove(key)
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")
