"""`torch.utils._sympy`: SymPy's side of symbolic sizes (`maquette.symbolic.sympy_forms`)."""
