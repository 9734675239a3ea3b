"""``maquette plan --script``: a script's own loop, with nothing changed in it."""

import json
import pathlib
import subprocess
import sys

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
data = TensorDataset(torch.randn(512, 256), torch.randint(0, 10, (512,)))
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
optimizer = torch.optim.AdamW(net.parameters(), fused=device == "cuda")
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
for epoch in range(1000):
    for x, y in DataLoader(data, batch_size=int(sys.argv[1]), shuffle=True):
        with torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"):
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(f"{device} {loss.item():.3f}")
    torch.save(net.state_dict(), "net.pt")
"""


def planned(folder: pathlib.Path, *options: str) -> tuple[dict[str, object], str]:
    (folder / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "maquette.cli.main", "plan", "--json", "-", *options]
    done = subprocess.run(
        [*command, "--script", "train.py", "64"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not (folder / "net.pt").exists()
    found: dict[str, object] = json.loads(done.stdout)
    return found, done.stderr


def test_script_is_planned_on_the_device_that_is_named(tmp_path: pathlib.Path) -> None:
    made, _ = planned(tmp_path, "--device", "cuda")
    assert made["parameters"] == 256 * 512 + 512 + 512 * 10 + 10
    assert any("aten._fused_adamw_" in o["name"] for o in made["operators"])  # type: ignore[attr-defined]
    *_, before, last = made["by_step"]  # type: ignore[misc]
    assert before == last


def test_script_finds_no_device_where_none_is_named(tmp_path: pathlib.Path) -> None:
    made, _ = planned(tmp_path)
    assert not any("_fused_" in o["name"] for o in made["operators"])  # type: ignore[attr-defined]
