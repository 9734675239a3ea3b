"""`torch._dynamo.eval_frame`: the class of compiled modules, of which there are none."""

from maquette.torch._dynamo.marks import OptimizedModule

__all__ = ["OptimizedModule", "is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """False: nothing here reads bytecode."""
    return False
