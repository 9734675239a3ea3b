"""`torch.optim._multi_tensor`: optimizers that go over lists unless told otherwise."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from maquette import optim


def partialclass(cls: type, *args: Any, **kwargs: Any) -> type:
    """A class like ``cls`` whose constructor has these arguments already."""
    init = partialmethod(cls.__init__, *args, **kwargs)  # type: ignore[misc]  # any class
    return type("NewCls", (cls,), {"__init__": init})


Adam = partialclass(optim.Adam, foreach=True)
AdamW = partialclass(optim.AdamW, foreach=True)
NAdam = partialclass(optim.NAdam, foreach=True)
SGD = partialclass(optim.SGD, foreach=True)
RAdam = partialclass(optim.RAdam, foreach=True)
RMSprop = partialclass(optim.RMSprop, foreach=True)
Rprop = partialclass(optim.Rprop, foreach=True)
ASGD = partialclass(optim.ASGD, foreach=True)
Adamax = partialclass(optim.Adamax, foreach=True)
Adadelta = partialclass(optim.Adadelta, foreach=True)
Adagrad = partialclass(optim.Adagrad, foreach=True)
