"""Random factories, fills and samples."""
