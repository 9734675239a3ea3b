"""`torch._custom_op` and `torch._custom_ops`: PyTorch's first interface to operators in Python.

`maquette.library` has what replaced it. A `CustomOp` (`impl.py`) is a library with one functional
operator and the functions registered for it; `by_name.py` has the functions that find it by name,
`autograd.py` its gradients, `checks.py` what is refused.
"""
