"""A generator and a discriminator of convolutions (DCGAN), with two optimizers."""

import torch
from torch import nn

torch.manual_seed(2)


def initialized(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


generator = nn.Sequential(
    nn.ConvTranspose2d(10, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
    nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
    nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
)  # fmt: skip
discriminator = nn.Sequential(
    nn.Conv2d(1, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0),
)  # fmt: skip
generator.apply(initialized)
discriminator.apply(initialized)
criterion = nn.BCELoss()
on_real = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
on_made = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
images = torch.rand(16, 1, 16, 16) * 2 - 1
for _ in range(20):
    discriminator.zero_grad()
    real = criterion(discriminator(images), torch.full((16,), 0.9))
    real.backward()
    made = generator(torch.randn(16, 10, 1, 1))
    fake = criterion(discriminator(made.detach()), torch.zeros(16))
    fake.backward()
    on_real.step()
    generator.zero_grad()
    fooled = criterion(discriminator(made), torch.ones(16))
    fooled.backward()
    on_made.step()
    print(f"{real.item() + fake.item():.6f} {fooled.item():.6f}")
