"""Derivatives of fakes without formulas: what they made of equal metas is made again."""
