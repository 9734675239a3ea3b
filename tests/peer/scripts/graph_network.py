"""A graph convolution network over a sparse adjacency matrix, with dropout and weight decay."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(9)
NODES = 60
edges = torch.randint(0, NODES, (2, 200))
edges = torch.cat([edges, edges.flip(0), torch.arange(NODES).repeat(2, 1)], 1)
adjacency = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1]), (NODES, NODES)).coalesce()
degree = torch.sparse.sum(adjacency, 1).to_dense()
weights = (degree[adjacency.indices()[0]] * degree[adjacency.indices()[1]]).rsqrt()
adjacency = torch.sparse_coo_tensor(adjacency.indices(), weights, (NODES, NODES))


class Convolution(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.kernel = nn.Parameter(nn.init.xavier_normal_(torch.empty(into, out)))
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x):
        return torch.sparse.mm(adjacency, x @ self.kernel) + self.bias


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Convolution(20, 16), Convolution(16, 4)

    def forward(self, x):
        x = F.dropout(F.relu(self.first(x)), 0.5, self.training)
        return F.log_softmax(self.second(x), 1)


model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
features, kinds = torch.randn(NODES, 20), torch.randint(0, 4, (NODES,))
for _ in range(20):
    optimizer.zero_grad()
    loss = F.nll_loss(model(features)[:40], kinds[:40])
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
