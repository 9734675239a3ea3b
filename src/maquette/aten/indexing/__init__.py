"""Elements read from and written to positions; sorting and searching."""
