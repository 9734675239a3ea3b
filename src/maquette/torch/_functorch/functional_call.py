"""`torch._functorch.functional_call`."""

from maquette.torch.func import functional_call, stack_module_state

__all__ = ["functional_call", "stack_module_state"]
