"""The stacks of modes of a thread, beside what asks them."""
