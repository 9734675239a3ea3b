"""A word language model: an embedding, two LSTM layers with dropout, clipped gradients, SGD."""

import torch
from torch import nn

torch.manual_seed(0)
text = torch.randint(0, 50, (400,))
batches = text.view(8, -1).t().contiguous()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(50, 32)
        self.rnn = nn.LSTM(32, 32, 2, dropout=0.2)
        self.decoder = nn.Linear(32, 50)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, state):
        out, state = self.rnn(self.drop(self.encoder(tokens)), state)
        return self.decoder(self.drop(out)).view(-1, 50), state


model, criterion = Model(), nn.CrossEntropyLoss()
state = tuple(torch.zeros(2, 8, 32) for _ in range(2))
for step in range(20):
    start = step * 2 % 40
    state = tuple(s.detach() for s in state)
    model.zero_grad()
    output, state = model(batches[start : start + 8], state)
    loss = criterion(output, batches[start + 1 : start + 9].reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(p.grad, alpha=-2.0)
    print(f"{loss.item():.6f}")
