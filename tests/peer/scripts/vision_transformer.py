"""A vision transformer: patches by a convolution, a class token, attention, label smoothing."""

import torch
from torch import nn

torch.manual_seed(7)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        seen = self.first(x)
        x = x + self.attention(seen, seen, seen, need_weights=False)[0]
        return x + self.mlp(self.second(x))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.token = nn.Parameter(torch.zeros(1, 1, 32))
        self.places = nn.Parameter(torch.empty(1, 17, 32))
        nn.init.trunc_normal_(self.places, std=0.02)
        self.blocks = nn.Sequential(*[Block(32, 4) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


model, criterion = ViT(), nn.CrossEntropyLoss(label_smoothing=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=20)
images, kinds = torch.randn(16, 3, 16, 16), torch.randint(0, 10, (16,))
for _ in range(20):
    optimizer.zero_grad()
    loss = criterion(model(images), kinds)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    print(f"{loss.item():.6f}")
