"""`torch._dynamo.config`: settings are kept and not used."""

cache_size_limit = 8
recompile_limit = 8
accumulated_cache_size_limit = 256
suppress_errors = False
verbose = False
dynamic_shapes = True
assume_static_by_default = True
automatic_dynamic_shapes = True
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
optimize_ddp = False
inline_inbuilt_nn_modules = True
skip_fwd_side_effects_in_bwd_under_checkpoint = False
