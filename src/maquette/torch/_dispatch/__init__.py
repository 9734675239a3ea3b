"""`torch._dispatch`: contexts of the dispatcher that tracers use."""
