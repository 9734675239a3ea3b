"""`torch.testing._internal.optests.generate_tests`: its names, which live elsewhere."""

from maquette.opcheck import OpCheckError, opcheck
from maquette.opcheck.checking import DEFAULT_TEST_UTILS
from maquette.opcheck.generated_tests import (
    FailuresDict,
    OpCheckMode,
    dontGenerateOpCheckTests,
    generate_opcheck_tests,
    is_inside_opcheck_mode,
)
from maquette.opcheck.utilities import UTILITIES as ALL_TEST_UTILS

__all__ = [
    "ALL_TEST_UTILS",
    "DEFAULT_TEST_UTILS",
    "FailuresDict",
    "OpCheckError",
    "OpCheckMode",
    "dontGenerateOpCheckTests",
    "generate_opcheck_tests",
    "is_inside_opcheck_mode",
    "opcheck",
]
