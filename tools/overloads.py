"""Compare the overloads of aten that PyTorch has with those that maquette has.

    .venv-peer/bin/python tools/overloads.py

Needs both in one environment (`make peer` makes it). Prints, for each reason, how many of
PyTorch's overloads are left out for it, and every overload that is absent without one; the exit
status is 1 if there are such. `tests/peer/test_overloads.py` holds the same table.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from typing import Any

from maquette.dispatch.registry import all_overloads

torch: Any = importlib.import_module("torch")  # the peer

IN_TORCHSCRIPT = "runs TorchScript's own values; the dispatcher does not know it"

# What overloads are left out, by name, and why: the first that matches an overload is its reason.
LEFT_OUT = {
    r"_test_|_foobar|_propagate_xla": "PyTorch's own tests call it, or another package",
    r".*(quantize|quant_|qparams|q_per_channel|q_scale|q_zero|qscheme|int_repr|_fq_)|"
    r"fbgemm|_wrapped_|_dyn_quant|_weight_int|_convert_weight_to_int|_choose_qparams|"
    r"choose_qparams|_mixed_dtypes|_empty_per_channel|_empty_affine|.*_fake_quant$": (
        "computes with quantized tensors"
    ),
    r".*(mkldnn|cudnn|miopen|cufft|mps|cslt|semi_structured|triton|vulkan|philox)": (
        "asks for one library or device"
    ),
    r"_flash_attention|_efficient_attention|_fill_mem_eff|_scaled_dot_product|_fused_rms_norm|"
    r"_thnn_|_fused_dropout|_masked_scale|batch_norm_(stats|elemt|gather|backward_|update_stats)|"
    r"_conv_depthwise2d|conv_depthwise3d|_scaled_grouped_mm|_scaled_mm_v2|_spsolve|"
    r".*_overrideable|matmul_backward|linear_backward|max_pool2d_backward|"
    r"_batch_norm_impl_index_backward|record_stream|_nnpack_spatial": "has no kernel on cpu",
    r"_nested_|nested_to_padded|to_padded_tensor": (
        "works on the parts of nested tensors, which are rows here"
    ),
    r"_transformer_encoder|_ncf_|_lstm_|lstm_": (
        "is a kernel of one pass over memory (finding 49); the modules compute the same"
    ),
    r"_make_dual|_fw_primal|_unpack_dual|_add_batch_dim|_remove_batch_dim|_backward$|"
    r"requires_grad_|retain_grad|set_data|_autocast_to|get_gradients|_resize_output|"
    r"_new_zeros_with_same|_has_compatible|_copy_from|slice_inverse|pin_memory|"
    r"_make_dep_token|_sobol|_sparse_mm|_sparse_compressed_tensor_with|_sparse_csr_|"
    r"_sparse_broadcast|native_norm|_spdiags|_validate_compressed|from_file|"
    r"_pad_packed_sequence": "has a function, method or transform in its place",
    r"cumprod_backward|matrix_exp_backward|_weight_norm_differentiable|_embedding_bag_dense": (
        "is part of a derivative that is a formula here"
    ),
}


def jit_schemas() -> dict[str, Any]:
    """Every overload of aten that PyTorch knows, by ``name.overload``."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            overload = f".{schema.overload_name}" if schema.overload_name else ""
            found[schema.name[6:] + overload] = schema
    return found


def here() -> dict[str, Any]:
    """Every overload of aten that maquette has, by ``name.overload``."""
    found = {}
    for op in all_overloads():
        if op.namespace == "aten":
            overload = "" if op._overloadname == "default" else f".{op._overloadname}"
            found[op._opname + overload] = op
    return found


def reason(name: str) -> str:
    """Why an overload is left out; empty where nothing says so."""
    if f"aten::{name}" not in torch._C._dispatch_get_all_op_names():
        return IN_TORCHSCRIPT
    return next((why for pattern, why in LEFT_OUT.items() if re.match(pattern, name)), "")


def main() -> int:
    """Print the comparison."""
    theirs, ours = jit_schemas(), here()
    absent = [name for name in theirs if name not in ours]
    print(f"{len(theirs)} overloads in PyTorch, {len(theirs) - len(absent)} of them here")
    reasons = Counter(map(reason, absent))
    for why, count in reasons.most_common():
        print(f"  {count:4} absent: {why or 'for no reason that is written down'}")
    unsaid = sorted(name for name in absent if not reason(name))
    print("\n".join(unsaid))
    return 1 if unsaid else 0


if __name__ == "__main__":
    sys.exit(main())
