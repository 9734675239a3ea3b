"""A denoising diffusion model of points on a spiral: noise is foretold, AdamW, averaged weights."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(6)
STEPS = 50
betas = torch.linspace(1e-4, 0.05, STEPS)
kept = torch.cumprod(1 - betas, 0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(2 + 16, 48)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48), nn.SiLU()) for _ in range(3)
        )
        self.out = nn.Linear(48, 2)

    def forward(self, x, t):
        rates = torch.exp(-math.log(1000.0) * torch.arange(8) / 8)
        angles = t[:, None] * rates
        x = self.into(torch.cat([x, angles.sin(), angles.cos()], 1))
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)


model = Denoiser()
averaged = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
turn = torch.rand(256) * 9
points = torch.stack([turn * turn.cos(), turn * turn.sin()], 1) / 9
for _ in range(20):
    t = torch.randint(0, STEPS, (256,))
    noise = torch.randn_like(points)
    level = kept[t][:, None]
    guess = model(level.sqrt() * points + (1 - level).sqrt() * noise, t.float())
    loss = F.mse_loss(guess, noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
    averaged.update_parameters(model)
    print(f"{loss.item():.6f}")
with torch.no_grad():
    x = torch.randn(32, 2)
    for step in reversed(range(STEPS)):
        guess = averaged(x, torch.full((32,), float(step)))
        x = (x - betas[step] / (1 - kept[step]).sqrt() * guess) / (1 - betas[step]).sqrt()
        x = x + betas[step].sqrt() * torch.randn_like(x) * (step > 0)
    print(f"{x.std().item():.6f}")
