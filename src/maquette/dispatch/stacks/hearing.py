"""Whether anybody in a thread sees the calls of operators: a mode, a transform, an observer."""

from maquette.dispatch.keysets import INFERENCE, DispatchKeySet
from maquette.dispatch.tls import tls

# The keys of a thread in which nothing is active; inference mode adds a bit that sees no calls.
_ALWAYS = DispatchKeySet("BackendSelect", "ADInplaceOrView").raw_repr() | INFERENCE


def nobody_sees_calls() -> bool:
    """Whether no mode, transform or observer of this thread sees the calls of operators."""
    return not tls.st.include & ~_ALWAYS
