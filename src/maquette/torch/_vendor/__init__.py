"""`torch._vendor`: other projects' packages, which are copies in PyTorch and themselves here."""
