"""Single names of PyTorch's modules that are not here, as classes that say so when called.

`absences.py` has whole modules; here are names within modules that otherwise work. Programs import
them, derive from them or name them in annotations; what they would do is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from maquette.torch.face.absences import Absent

T = TypeVar("T")

_ONE_PROCESS = (
    "there is one process; ask torch.distributed.is_initialized() first, and run the program "
    "without a launcher"
)
_PLAN = (
    "count operators, FLOPs and bytes with `maquette plan` or maquette.plan.plan, and time with "
    "Python's cProfile"
)
_SCRIPT = "there is no script compiler; call the Python function, or trace with torch.fx"
_NO_DEVICE = "there is no such device here; ask is_available() first"
_QUANTIZED = "there are no quantized tensors; compute with floats, or do this with PyTorch itself"
_SETTING = "this setting of PyTorch's own kernels has no counterpart"

_NAMES = {
    "": {
        _SCRIPT: "CompilationUnit ScriptObject JITException ErrorReport ScriptMethod ScriptDict "
        "ScriptList import_ir_module import_ir_module_from_buffer parse_ir AggregationType AliasDb "
        "ArgumentSpec AwaitType Block BufferDict CallStack Capsule ClassType Code "
        "CompleteArgumentSpec ConcreteModuleType ConcreteModuleTypeBuilder "
        "DeepCopyMemoTable EnumType ExecutionPlan FatalError FileCheck "
        "FutureType Gradient Graph GraphExecutorState IODescriptor InferredType "
        "InterfaceType LiteScriptModule LockingLogger ModuleDict Node NoopLogger "
        "OperatorInfo ParameterDict PyObjectType RRefType ScriptClass "
        "ScriptClassFunction ScriptDictIterator ScriptDictKeyIterator ScriptListIterator "
        "ScriptModuleSerializer ScriptObjectProperty SerializationStorageContext StaticModule "
        "TracingState Use Value DeserializationStorageContext AVG SUM merge_type_from_type_comment "
        "parse_type_comment unify_type_list",
        _QUANTIZED: "_make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor "
        "choose_qparams_optimized QInt8Storage QUInt8Storage QInt32Storage QUInt4x2Storage "
        "QUInt2x4Storage fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation "
        "fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation "
        "fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix",
        "call torch.norm": "native_norm",
        "call torch.library and torch.ops": "ExcludeDispatchKeyGuard",
        "use cProfile": "ThroughputBenchmark BenchmarkConfig BenchmarkExecutionStats",
        "call the function itself": "fork wait",
        _SETTING: "get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled "
        "is_autocast_xla_enabled set_autocast_ipu_dtype set_autocast_ipu_enabled "
        "set_autocast_xla_dtype set_autocast_xla_enabled init_num_threads",
        "call torch.nn.functional, which serves every device": "cudnn_affine_grid_generator "
        "cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu "
        "cudnn_convolution_transpose cudnn_grid_sampler miopen_batch_norm "
        "miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_ctc_loss "
        "miopen_convolution_transpose miopen_depthwise_convolution miopen_rnn "
        "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights "
        "mkldnn_max_pool2d mkldnn_max_pool3d batch_norm_backward_elemt batch_norm_backward_reduce "
        "batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts "
        "batch_norm_stats batch_norm_update_stats",
    },
    "_C": {
        _SCRIPT: "Value Graph Node Block CompilationUnit "
        "ScriptObject JITException ScriptModule ScriptFunction ErrorReport FutureType",
    },
    "_C._autograd": {_PLAN: "_KinetoEvent"},
    "accelerator": {_NO_DEVICE: "Graph memory_stats reset_accumulated_memory_stats"},
    "utils.hooks": {"register a hook by Module.register_full_backward_hook": "BackwardHook"},
    "distributed.checkpoint": {
        "there is one process, which saves and loads all of the state in a folder": (
            "LoadPlan LoadPlanner QuantizedHuggingFaceStorageReader ReadItem SavePlan SavePlanner "
            "StorageReader StorageWriter WriteItem load_sharded_optimizer_state_dict"
        )
    },
    "autograd": {
        "write a torch.autograd.Function of tensors": "NestedIOFunction",
        _PLAN: "_enable_profiler _KinetoEvent ProfilerConfig",
    },
    "autograd.profiler": {
        _PLAN: "emit_itt emit_nvtx load_nvprof parse_nvprof_trace "
        "EnforceUnique KinetoStepTracker MemRecordsAcc"
    },
    "autograd.function": {"write a torch.autograd.Function of tensors": "NestedIOFunction"},
    "autograd.gradcheck": {
        "call torch.autograd.functional.jacobian, or torch.autograd.gradcheck": (
            "get_analytical_jacobian get_numerical_jacobian "
            "get_numerical_jacobian_wrt_specific_input"
        )
    },
    "autograd.variable": {"use torch.Tensor": "VariableMeta"},
    "cuda": {
        "use torch.UntypedStorage": "BFloat16Storage BoolStorage ByteStorage CharStorage "
        "ComplexDoubleStorage ComplexFloatStorage DoubleStorage FloatStorage HalfStorage "
        "IntStorage LongStorage ShortStorage",
        _NO_DEVICE: "CUDAPluggableAllocator ExternalStream GreenContext MemPool cudart cudaStatus "
        "change_current_allocator caching_allocator_alloc caching_allocator_delete "
        "current_blas_handle current_solver_handle temperature power_draw clock_rate utilization "
        "memory_usage device_memory_used list_gpu_processes memory_snapshot use_mem_pool "
        "can_device_access_peer get_per_process_memory_fraction set_per_process_memory_fraction "
        "CudaError DeferredCudaCallError caching_allocator_disabled get_stream_from_external "
        "get_allocator_backend caching_allocator_enable reset_peak_host_memory_stats "
        "reset_accumulated_host_memory_stats "
        "check_error _snapshot _record_memory_history _dump_snapshot make_graphed_callables",
    },
    "backends.cuda": {
        _NO_DEVICE: "cufft_plan_cache cuBLASModule cuFFTPlanCache "
        "cuFFTPlanCacheAttrContextProp cuFFTPlanCacheManager"
    },
    "backends.mkl": {_SETTING: "verbose"},
    "compiler": {
        "nothing is compiled here": "load_cache_artifacts load_compiled_function "
        "save_cache_artifacts wrap_numpy"
    },
    "distributed": {
        _ONE_PROCESS: "BackendConfig DeviceMesh GradBucket Logger ProcessGroupGloo Reducer "
        "split_group shrink_group AllreduceOptions BroadcastOptions "
        "BarrierOptions GatherOptions ReduceOptions ScatterOptions AllToAllOptions "
        "ReduceScatterOptions"
    },
    "jit": {
        _SCRIPT: "export_opnames CompilationUnit Error Future "
        "RecursiveScriptModule TopLevelTracedModule "
        "TracedModule ONNXTracedModule strict_fusion set_fusion_strategy "
        "optimized_execution enable_onednn_fusion last_executed_optimized_graph"
    },
    "mps": {_NO_DEVICE: "seed set_per_process_memory_fraction compile_shader load_metallib"},
    "mtia": {
        _NO_DEVICE: "init memory_stats seed seed_all DeferredMtiaCallError MTIAGraph "
        "attach_out_of_memory_observer snapshot "
        "record_memory_history"
    },
    "multiprocessing.reductions": {
        "tensors are pickled with their bytes": "SharedCache fd_id "
        "init_reductions rebuild_cuda_tensor rebuild_event rebuild_meta_tensor "
        "rebuild_nested_tensor rebuild_sparse_compressed_tensor rebuild_sparse_coo_tensor "
        "rebuild_storage_empty rebuild_storage_fd rebuild_storage_filename rebuild_tensor "
        "rebuild_typed_storage rebuild_typed_storage_child reduce_event reduce_nested_tensor "
        "reduce_sparse_tensor reduce_storage reduce_tensor reduce_typed_storage "
        "reduce_typed_storage_child shared_cache storage_from_cache"
    },
    "library": {
        "write the operator with maquette.library.custom_op": "triton_op wrap_triton "
        "register_torch_dispatch"
    },
    "nn": {"use torch.nn.CrossEntropyLoss": "LinearCrossEntropyLoss CrossMapLRN2d"},
    "profiler": {_PLAN: "DeviceType ExecutionTraceObserver"},
    "sparse": {
        "use a dense or a COO tensor": "SparseSemiStructuredTensor as_sparse_gradcheck "
        "SparseSemiStructuredTensorCUSPARSELT SparseSemiStructuredTensorCUTLASS "
        "to_sparse_semi_structured"
    },
    "utils": {"use cProfile": "ThroughputBenchmark"},
    "xpu": {
        _NO_DEVICE: "init memory_stats memory_stats_as_nested_dict seed seed_all "
        "reset_accumulated_memory_stats MemPool XPUGraph XPUPluggableAllocator "
        "can_device_access_peer "
        "change_current_allocator clock_rate device_memory_used device_of memory_snapshot "
        "get_per_process_memory_fraction get_stream_from_external memory_usage power_draw "
        "set_per_process_memory_fraction temperature use_mem_pool utilization"
    },
}
_ADVICE = {
    (path, name): advice
    for path, by_advice in _NAMES.items()
    for advice, names in by_advice.items()
    for name in names.split()
}


def _as_it_is(marked: T) -> T:
    """What is marked, without the mark."""
    return marked


# Decorators that programs put on their classes and functions when they are imported: what is marked
# works by itself, and what reads the mark is absent.
_DECORATORS: dict[tuple[str, str], Callable[..., object]] = {
    ("jit", "interface"): _as_it_is,
    ("jit", "script_method"): _as_it_is,
}


def stand_in(path: str, name: str) -> type | Callable[..., object] | None:
    """What stands for ``torch.<path>.<name>``: a class, or a decorator; None if nothing does."""
    if (path, name) in _DECORATORS:
        return _DECORATORS[path, name]
    advice = _ADVICE.get((path, name))
    if advice is None:
        return None
    place = f"torch.{path}" if path else "torch"
    return Absent.named(place, name, advice)


def names_of(path: str) -> list[str]:
    """The names that the module ``torch.<path>`` lacks and has stand-ins for."""
    return [name for place, name in (*_ADVICE, *_DECORATORS) if place == path]
