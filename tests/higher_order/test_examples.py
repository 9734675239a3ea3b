"""examples/recurrent_scan.py and examples/document_attention.py."""

import importlib.util
from pathlib import Path

import pytest

import maquette as mq
import maquette.torch as torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example():
    def load(name):
        spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    torch.install()
    yield load
    torch.uninstall()


def test_a_scan_of_100_000_steps_is_planned_by_its_formula(example):
    recurrent = example("recurrent_scan")
    length, size, width = 100_000, 4, 64
    model = recurrent.Recurrent(width)
    planned = mq.plan.plan(model, recurrent.batch(length, size, width))
    formula = recurrent.inference_bytes(length, size, width)
    fixed = 2 * (width * width + width) * 4 + 8 * size * width * 4
    assert formula <= planned.peak_bytes <= formula + fixed


def test_the_scan_is_the_loop(example):
    recurrent = example("recurrent_scan")
    model, (xs,) = recurrent.Recurrent(8), recurrent.batch(7, 2, 8)
    state, states = mq.zeros(2, 8), []
    for x in xs:
        state, _ = model.cell(state, x)
        states.append(state)
    assert torch.allclose(model(xs), mq.stack(states).square().mean())


def test_documents_are_as_if_alone(example):
    packed = example("document_attention")
    model, x = packed.PackedAttention(8, 2), mq.randn(2, 20, 8)
    lengths = [3, 9, 8]
    found = model(x, packed.documents_of(lengths))
    assert torch.allclose(found, packed.alone(model, x, lengths), atol=1e-6)
