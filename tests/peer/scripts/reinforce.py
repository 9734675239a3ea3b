"""REINFORCE with a baseline: a walker on a line learns to go right; actions are sampled."""

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

torch.manual_seed(5)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.common = nn.Linear(2, 16)
        self.drop = nn.Dropout(0.1)
        self.action, self.value = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x):
        hidden = F.relu(self.drop(self.common(x)))
        return F.softmax(self.action(hidden), -1), self.value(hidden)


policy = Policy()
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-2)
for _ in range(20):
    place, chosen, values, rewards = 0.0, [], [], []
    for moment in range(12):
        odds, value = policy(torch.tensor([[place, moment / 12]]))
        drawn = Categorical(odds)
        action = drawn.sample()
        chosen.append(drawn.log_prob(action))
        values.append(value.squeeze())
        place += (action.item() - 1) * 0.2
        rewards.append(place)
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.95 * total
        returns.insert(0, total)
    wanted = torch.tensor(returns)
    wanted = (wanted - wanted.mean()) / (wanted.std() + 1e-6)
    found = torch.stack(values)
    gain = (wanted - found.detach()) * torch.cat(chosen)
    loss = -gain.sum() + F.smooth_l1_loss(found, wanted, reduction="sum")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
