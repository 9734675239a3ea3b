"""What is kept from one process to the next: compiled code, and what says that it still holds."""
