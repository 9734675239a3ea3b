"""How a program names symbols: where its inputs are found, what its results bind, its guards."""
