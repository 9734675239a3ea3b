"""Rows from a shuffled loader into a bidirectional GRU over packed sequences of many lengths."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, random_split

torch.manual_seed(8)


class Rows(Dataset):
    def __init__(self, count):
        self.lengths = torch.randint(3, 12, (count,)).tolist()
        self.rows = [torch.randint(1, 30, (n,)) for n in self.lengths]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        row = self.rows[at]
        return row, int(row.sum()) % 3


def together(samples):
    rows, kinds = zip(*samples)
    return pad_sequence(rows, batch_first=True), [len(r) for r in rows], torch.tensor(kinds)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16, padding_idx=0)
        self.gru = nn.GRU(16, 16, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 3)

    def forward(self, rows, lengths):
        packed = pack_padded_sequence(
            self.embedding(rows), lengths, batch_first=True, enforce_sorted=False
        )
        _, last = self.gru(packed)
        return self.head(torch.cat([last[0], last[1]], 1))


trained, _ = random_split(Rows(100), [80, 20])
loader = DataLoader(trained, batch_size=8, shuffle=True, collate_fn=together)
model, criterion = Model(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
for _ in range(2):
    for rows, lengths, kinds in loader:
        optimizer.zero_grad()
        loss = criterion(model(rows, lengths), kinds)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.6f}")
