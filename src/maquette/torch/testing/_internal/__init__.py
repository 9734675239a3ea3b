"""`torch.testing._internal`: the parts that authors of operators use in their tests."""
