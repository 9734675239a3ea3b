"""What families of operators share: dimensions, promotion, options, pieces of formulas."""
