"""What passes are made of: `PassBase`, `PassManager`, partitioners."""
