"""Layers without weights that change sizes: flatten, fold, pad, shuffle, resample."""
