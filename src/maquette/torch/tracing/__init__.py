"""What tracers, functionalization and symbolic shapes are called by."""
