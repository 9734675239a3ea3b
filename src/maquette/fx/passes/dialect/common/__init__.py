"""Passes for graphs of certain operators."""
