"""Composites on fakes: a call like one before it is made at once, its nodes as one."""
