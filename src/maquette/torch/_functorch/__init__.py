"""`torch._functorch`: where programs find the pieces of function transforms under torch's paths."""
