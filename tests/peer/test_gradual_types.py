"""Gradual types beside PyTorch's: the same programs, the same types and names of sizes.

Left out is where PyTorch's checker is wrong: a convolution whose height and width differ in
stride or padding, `ceil_mode`, `flatten` without `start_dim`, images without a batch.
"""

import pytest

import maquette as mq
from maquette.fx import gradual_types as ours
from maquette.fx.gradual_types import inferring as our_inference

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.fx.experimental.graph_gradual_typechecker")
their_inference = pytest.importorskip("torch.fx.experimental.unify_refinements")

SIDES = ((torch, theirs, their_inference), (mq, ours, our_inference))
DYN = "Dyn"  # each side has its own


def net(nn):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 6, 3, padding=1)
            self.norm, self.relu = nn.BatchNorm2d(6), nn.ReLU()
            self.down = nn.Conv2d(6, 6, 3, stride=2)
            self.pool, self.even = nn.MaxPool2d(3, 2, 1), nn.AdaptiveAvgPool2d((4, 4))
            self.linear = nn.Linear(96, 10)

    return Net


def forwards(library):
    def plain(self, x):
        out = self.relu(self.norm(self.conv(x)))
        return self.linear(library.flatten(self.even(self.pool(self.down(out))), 1))

    def residual(self, x):
        out = self.conv(x)
        return self.relu(self.norm(out) + out)

    def reshaped(self, x):
        return library.transpose(library.reshape(x, [2, -1, 3]), 0, 1)

    return {"plain": plain, "residual": residual, "reshaped": reshaped}


def types(side, name, sizes):
    library, checking, inference = side
    kind = net(library.nn)
    kind.forward = forwards(library)[name]
    traced = library.fx.symbolic_trace(kind())
    argument = next(iter(traced.graph.nodes))
    dyn = checking.Dyn
    if sizes is not None:
        argument.type = checking.TensorType(tuple(dyn if s == DYN else s for s in sizes))
    said = []
    try:
        checking.GraphTypeChecker({}, traced).type_check()
        said.append([list_of(n.type) for n in traced.graph.nodes])
        inference.infer_symbolic_types(traced)
        said.append([list_of(n.type) for n in traced.graph.nodes])
    except TypeError:
        said.append(TypeError)
    return said


def list_of(kind):
    return [str(size) for size in getattr(kind, "__args__", [kind])]


@pytest.mark.parametrize("name", ["plain", "residual", "reshaped"])
@pytest.mark.parametrize(
    "sizes",
    [
        None,
        (2, 3, 32, 32),
        (DYN, DYN, 17, 9),
        (2, DYN, DYN, 8),
        (DYN, 4, 16, 16),
        (6, 5),
        (5, DYN),
    ],
)
def test_types_are_pytorchs(name, sizes):
    expected, given = (types(side, name, sizes) for side in SIDES)
    if name == "plain":  # ours know the sizes before `Linear`'s last; PyTorch's only the first
        expected, given = expected[:1], given[:1]
    if name == "reshaped":  # ours say that a transposed size is the argument's
        expected, given = expected[:1], given[:1]
    assert given == expected
