"""The default process group, for modules that ask: filled in by `torch.distributed` while there is
one, as an import of it would run upward.
"""

DEFAULT_GROUP: list[object | None] = [None]
