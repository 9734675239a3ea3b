"""A variational autoencoder: samples by reparameterization, Adam."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(1)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 40)
        self.mean, self.spread = nn.Linear(40, 8), nn.Linear(40, 8)
        self.third, self.last = nn.Linear(8, 40), nn.Linear(40, 64)

    def forward(self, x):
        hidden = F.relu(self.first(x.view(-1, 64)))
        mean, logvar = self.mean(hidden), self.spread(hidden)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.last(F.relu(self.third(z)))), mean, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
images = torch.rand(32, 1, 8, 8)
for _ in range(20):
    optimizer.zero_grad()
    made, mean, logvar = model(images)
    loss = F.binary_cross_entropy(made, images.view(-1, 64), reduction="sum")
    loss = loss - 0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
    loss.backward()
    optimizer.step()
    print(f"{loss.item() / len(images):.6f}")
