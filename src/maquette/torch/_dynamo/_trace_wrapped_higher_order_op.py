"""How masks are indexed by positions that `vmap` hides: by tensors, never by numbers."""

from __future__ import annotations

from contextlib import nullcontext


class TransformGetItemToIndex(nullcontext[None]):
    """In this block ``t[i]`` gathers by positions that `vmap` hides. It does so anyhow here."""
