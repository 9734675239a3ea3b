"""Libraries put functions of their own in the place of the pieces of `torch._functorch.vmap`."""

import sys

import maquette as mq
import maquette.torch._functorch.vmap as pieces
from maquette import torch


class Held:
    """A container that vmap does not know."""

    def __init__(self, tensor):
        self.tensor = tensor


def test_containers_pass_through_replaced_pieces(monkeypatch):
    monkeypatch.setattr(sys.modules["maquette.transforms.vmap"], "_other", None)
    process, unwrap = pieces._process_batched_inputs, pieces._unwrap_batched

    def opened(in_dims, args, func):
        return process(in_dims, tuple(a.tensor for a in args), func)

    def closed(outputs, *rest):
        return Held(unwrap(outputs.tensor, *rest))

    monkeypatch.setattr(pieces, "_process_batched_inputs", opened)
    monkeypatch.setattr(pieces, "_unwrap_batched", closed)
    found = torch.vmap(lambda t: Held(t.sum()))(Held(mq.ones(2, 3)))
    assert found.tensor.tolist() == [3, 3]
    assert torch.func.vmap(lambda t: Held(t * 2), out_dims=1)(Held(mq.ones(2, 3))).tensor.shape == (
        3,
        2,
    )
