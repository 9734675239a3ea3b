"""What `torch.cpu.amp` and `torch.cuda.amp` say of themselves: `torch.amp` is in their place."""

from __future__ import annotations

import warnings


def warn_of_old_place(device: str, name: str) -> None:
    """A FutureWarning at the line that called what calls this."""
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('{device}', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )
