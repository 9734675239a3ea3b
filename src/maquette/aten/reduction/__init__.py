"""Operators that reduce or accumulate along dimensions."""
