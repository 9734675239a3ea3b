"""Two images through one network, told apart by a triplet loss and by a contrast; Adadelta."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR

torch.manual_seed(3)


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.told = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, a, b):
        one, other = self.features(a), self.features(b)
        return self.told(torch.cat([one, other], 1)).squeeze(1), one, other


model = Siamese()
optimizer = torch.optim.Adadelta(model.parameters(), lr=0.5)
scheduler = StepLR(optimizer, step_size=5, gamma=0.7)
a, b, c = torch.randn(3, 24, 1, 12, 12)
same = (torch.rand(24) > 0.5).float()
for _ in range(20):
    optimizer.zero_grad()
    told, one, other = model(a, b)
    third = model.features(c)
    loss = F.binary_cross_entropy(told, same) + F.triplet_margin_loss(one, other, third)
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"{loss.item():.6f}")
