"""Random numbers: the streams of seeds, and the generators that go along them."""
