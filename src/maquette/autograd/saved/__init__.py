"""What nodes of the graph save for the way back: its values, hooks on them, and writes to them."""
