"""Objects that operators take beside tensors: of script classes, and of opaque types."""
