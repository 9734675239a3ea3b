"""Sine waves foretold by two LSTM cells in double precision, trained by L-BFGS."""

import torch
from torch import nn

torch.manual_seed(4)


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LSTMCell(1, 12), nn.LSTMCell(12, 12)
        self.linear = nn.Linear(12, 1)

    def forward(self, x):
        h, c, g, d = (torch.zeros(x.size(0), 12, dtype=torch.double) for _ in range(4))
        outputs = []
        for value in x.split(1, dim=1):
            h, c = self.first(value, (h, c))
            g, d = self.second(h, (g, d))
            outputs.append(self.linear(g))
        return torch.cat(outputs, dim=1)


phase = torch.rand(6, 1, dtype=torch.double) * 6
waves = torch.sin(torch.arange(21, dtype=torch.double) / 3 + phase)
model, criterion = Sequence().double(), nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = criterion(model(waves[:, :-1]), waves[:, 1:])
    loss.backward()
    return loss


for _ in range(20):
    print(f"{optimizer.step(closure).item():.6f}")
