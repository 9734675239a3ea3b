"""Modules of kinds of devices: there is one, and no other."""
