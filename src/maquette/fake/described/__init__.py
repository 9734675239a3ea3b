"""Tensors as descriptions of plain values, what is made from them, and how two compare (spec F, M).

Imported when first asked for: fake modes convert without describing.
"""
