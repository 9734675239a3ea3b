"""`torch.backends.miopen`: settings of a library that maquette does not use, kept."""

immediate = False
