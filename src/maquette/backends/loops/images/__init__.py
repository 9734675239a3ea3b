"""Loops over images that are read where points lie."""
