"""`torch.testing._internal.optests`: `opcheck` and generated tests, by PyTorch's names."""

from maquette.opcheck import OpCheckError
from maquette.opcheck.generated_tests import (
    dontGenerateOpCheckTests,
    generate_opcheck_tests,
    is_inside_opcheck_mode,
)
from maquette.torch.testing._internal.optests.checks import (
    aot_autograd_check,
    autograd_registration_check,
    fake_check,
    make_fx_check,
    opcheck,
)

__all__ = [
    "OpCheckError",
    "aot_autograd_check",
    "autograd_registration_check",
    "dontGenerateOpCheckTests",
    "fake_check",
    "generate_opcheck_tests",
    "is_inside_opcheck_mode",
    "make_fx_check",
    "opcheck",
]
