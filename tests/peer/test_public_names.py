"""Names that PyTorch's public modules list in ``__all__``: each is here, or left out by name."""

from __future__ import annotations

import importlib

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

MODULES = """
torch torch.accelerator torch.amp torch.amp.autocast_mode torch.amp.grad_scaler torch.autograd
torch.autograd.anomaly_mode torch.autograd.forward_ad torch.autograd.function
torch.autograd.functional torch.autograd.grad_mode torch.autograd.gradcheck torch.autograd.graph
torch.autograd.profiler torch.backends.cpu torch.backends.cuda torch.backends.cudnn
torch.backends.mkldnn torch.backends.mps torch.backends.opt_einsum torch.compiler torch.cpu
torch.cuda torch.cuda.amp torch.distributions torch.distributions.constraints
torch.distributions.kl torch.distributions.transforms torch.fft torch.func torch.functional
torch.futures torch.hub torch.library torch.linalg torch.masked torch.mps torch.mtia
torch.multiprocessing torch.nested torch.nn torch.nn.attention torch.nn.functional torch.nn.init
torch.nn.modules torch.nn.modules.module torch.nn.parallel torch.nn.parameter torch.nn.utils
torch.nn.utils.fusion torch.nn.utils.parametrizations torch.nn.utils.parametrize
torch.nn.utils.rnn torch.nn.utils.stateless torch.optim torch.optim.lr_scheduler
torch.optim.optimizer torch.optim.swa_utils torch.overrides torch.profiler torch.quasirandom
torch.random torch.serialization torch.signal.windows torch.sparse torch.special torch.storage
torch.testing torch.types torch.utils torch.utils.benchmark torch.utils.checkpoint
torch.utils.data torch.utils.data.dataset torch.utils.data.distributed torch.utils.data.sampler
torch.utils.deterministic torch.utils.dlpack torch.utils.flop_counter torch.utils.hooks
torch.utils.module_tracker torch.utils.weak torch.xpu
""".split()

LEFT_OUT: dict[str, set[str]] = {
    "torch": {"cpp", "thread_safe_generator"},  # of C++; of workers that are threads
    "torch.autograd.function": {"NestedIOFunction"},  # of tracing
    "torch.backends.cuda": {
        "blas_workspace_size", "cublas_workspace_size", "cublaslt_workspace_size",
    },
    "torch.fft": {"Tensor"},  # listed by mistake
    "torch.serialization": {
        "mkdtemp", "storage_to_tensor_type", "validate_hpu_device",
    },
    "torch.utils.checkpoint": {"GraphExecGroup"},  # a block is run again for each backward
}  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_here(module: str) -> None:
    theirs = importlib.import_module(module)
    ours = importlib.import_module(module.replace("torch", "maquette.torch", 1))
    listed = {n for n in getattr(theirs, "__all__", ()) if not n.startswith("_")}
    missing = {n for n in listed if hasattr(theirs, n) and not hasattr(ours, n)}
    assert missing == LEFT_OUT.get(module, set())
