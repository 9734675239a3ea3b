"""What `torch.profiler` and `torch.autograd.profiler` are made of: events and recorders."""
