"""Channels dealt out anew."""

from maquette.nn import functional as F
from maquette.nn.base import Module
from maquette.nn.modules._construct import described
from maquette.tensor import Tensor


class ChannelShuffle(Module):
    """Channels of several groups, dealt out one of each in turn."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """See `functional.channel_shuffle`."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return described(self, "groups")
