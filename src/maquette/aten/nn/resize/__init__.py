"""Resizing, sampling and padding of images."""
