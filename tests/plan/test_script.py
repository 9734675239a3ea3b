"""A training script as it is, watched until its steps repeat (docs/plan.md)."""

import pytest

import maquette as mq
from maquette import nn, optim
from maquette.plan.recorder import _short
from maquette.plan.script import ScriptRecorder, Steady, plan_script
from maquette.torch.saving.serialization import save, saves_discarded


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rates = [rate.item() for rate in mq.linspace(0.0, 0.1, 2)]
        self.body = nn.Linear(128, 256)
        self.drop = nn.Dropout(rates[1])
        self.head = nn.Linear(256, 8)

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        return self.head(self.drop(self.body(x).relu()))


def train(steps: int = 50, said: list[str] | None = None) -> None:
    net, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = optim.AdamW(net.parameters())
    right = 0
    for step in range(steps):
        x, y = mq.randn(64, 128), mq.randint(0, 8, (64,))
        optimizer.zero_grad()
        out = net(x)
        loss = loss_of(out, y)
        loss.backward()
        optimizer.step()
        right += (out.argmax(1) == y).sum().item()
        if said is not None:
            said.append(f"{step} {loss:.2f} {loss.item():.2f} {right}")


def test_script_stops_at_a_step_that_repeats_the_one_before() -> None:
    made = plan_script(train)
    rows = made.by_step()
    assert len(rows) < 6
    assert rows[-1] == rows[-2]
    assert any("repeats" in note for note in made.notes)


def test_script_plan_holds_the_bytes_of_a_real_run() -> None:
    made = plan_script(lambda: train(4))
    real = ScriptRecorder()
    with pytest.raises(Steady), real.watching_script():
        train(4)
    assert made.peak_bytes == real.peak_bytes


def test_script_tensors_are_named_by_module_and_optimizer() -> None:
    names = {held.name for held in plan_script(train).held}
    assert "Net.body.weight" in names
    assert "exp_avg of Net.body.weight" in names
    assert "gradient of Net.head.weight" in names


def test_script_phases_are_seen() -> None:
    assert list(plan_script(train).flops_by_phase) == ["forward", "backward", "step"]


def test_script_numbers_that_data_tells_are_taken_as_one() -> None:
    said: list[str] = []
    made = plan_script(lambda: train(said=said))
    assert said[0] == "0 1.00 1.00 1"
    assert any("a number that data tells is 1" in note for note in made.notes)


def test_script_that_ends_is_told_of_whole() -> None:
    made = plan_script(lambda: train(1))
    assert "for 1 optimizer steps; it ran to its end" in made.notes[-1]


def test_script_of_unequal_steps_is_stopped_at_the_limit() -> None:
    def run() -> None:
        net = nn.Linear(64, 1)
        optimizer = optim.SGD(net.parameters(), lr=0.1)
        for step in range(100):
            net(mq.randn(64 + step, 64)).sum().backward()
            optimizer.step()

    made = plan_script(run, steps=7)
    assert len(made.by_step()) == 7
    assert "still differ" in made.notes[-1]


def test_script_with_two_optimizers_steps_where_the_first_does() -> None:
    def run() -> None:
        one, two = nn.Linear(128, 128), nn.Linear(128, 128)
        first, second = (optim.Adam(net.parameters()) for net in (one, two))
        for _ in range(20):
            x = mq.randn(32, 128)
            for net, optimizer in ((one, first), (two, second)):
                optimizer.zero_grad()
                net(x).sum().backward()
                optimizer.step()

    made = plan_script(run)
    assert {m.path for m in made.by_module()} == {"", "Linear", "Linear_2"}
    assert made.by_step()[-1].operators == made.by_step()[-2].operators


def test_script_error_is_its_own() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        plan_script(lambda: nn.Linear(3, 3)(mq.randn(5000, 4)))


def test_saves_are_discarded_while_a_script_is_planned(tmp_path) -> None:
    with saves_discarded():
        save({"a": mq.ones(2)}, tmp_path / "model.pt")
    assert not (tmp_path / "model.pt").exists()


def test_line_of_an_installed_library_is_told_from_its_package_on() -> None:
    assert _short("/usr/lib/python3/site-packages/zoo/net.py", "/home") == "zoo/net.py"
