"""What authors of operators put in their own tests, and sample operators to try tests on."""

from maquette.testing.opchecks import OpCheck, opchecks

__all__ = ["OpCheck", "opchecks"]
