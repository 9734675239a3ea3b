"""Names that libraries of quantization, sharding and training import beside PyTorch's main ones."""

import copy
import importlib
import pickle
import typing
import warnings

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn

ops = torch.ops


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("sparse._triton_ops_meta", "get_meta"),
        ("sparse._triton_ops", "tile_to_blocksize"),
        ("distributed._shard.sharded_tensor", "ShardedTensor"),
        ("distributed._symmetric_memory", "rendezvous"),
        ("_higher_order_ops.inline_asm_elementwise", "inline_asm_elementwise"),
        ("_export.utils", "_is_cia_op"),
    ],
)
def test_absent_modules_that_libraries_import_say_what_to_do(module: str, name: str) -> None:
    found = getattr(importlib.import_module(f"maquette.torch.{module}"), name)
    with pytest.raises(NotImplementedError, match=name):
        found()


def test_a_warning_of_the_compiler_comes_once() -> None:
    from maquette.torch._dynamo.utils import counters, warn_once

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            warn_once("of a test, once")
    assert len(seen) == 1
    assert not counters["stats"]


def test_rules_for_a_compiler_go_to_a_table_of_their_own() -> None:
    from maquette.torch._decomp import decomposition_table

    decomposition = importlib.import_module("maquette.torch._inductor.decomposition")
    assert importlib.import_module("maquette.torch._inductor").decomposition is decomposition

    op = ops.aten.sin.default
    before = decomposition_table.get(op)
    try:
        rule = decomposition.register_decomposition([op])(lambda x: x.cos())
        assert decomposition.decompositions[op] is rule
        assert decomposition_table.get(op) is before
    finally:
        decomposition.decompositions.pop(op, None)


def test_operators_of_collectives_copy_in_a_group_of_one() -> None:
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        name = torch.distributed.group.WORLD.group_name
        x = mq.arange(4.0)
        gathered = ops._c10d_functional.all_gather_into_tensor(x, 1, name)
        assert gathered is not x
        assert ops._c10d_functional.wait_tensor(gathered).tolist() == x.tolist()
        assert ops._c10d_functional.all_reduce_(x, "sum", name) is x
        assert ops.c10d_functional.all_reduce(x, "sum", "", [0], 1).tolist() == x.tolist()
        with pytest.raises(RuntimeError, match="one process"):
            ops._c10d_functional.broadcast(x, 1, name)
        with pytest.raises(RuntimeError, match="registered under the name nobody"):
            ops._c10d_functional.all_reduce(x, "sum", "nobody")
    finally:
        torch.distributed.destroy_process_group()


def test_collectives_with_groups_have_pytorchs_schema() -> None:
    schema = str(ops.c10d.scatter_.default._schema)
    assert schema.startswith("c10d::scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, ")
    assert "__torch__.torch.classes.c10d.ProcessGroup process_group" in schema


def test_a_handler_decides_whether_a_parameter_takes_over_data() -> None:
    asked = []

    class Own(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch._has_compatible_shallow_copy_type:
                asked.append(len(args))
                return False
            return super().__torch_function__(func, types, args, kwargs or {})

    module = nn.Linear(2, 2)
    module.weight = nn.Parameter(mq.ones(2, 2).as_subclass(Own))
    before = module.weight
    module.double()
    assert asked == [2]
    assert module.weight is not before
    assert torch._has_compatible_shallow_copy_type(mq.ones(1), mq.ones(2).double())
    assert not torch._has_compatible_shallow_copy_type(mq.ones(1), mq.ones(1, device="meta"))


def test_the_module_has_its_dtypes_from_the_start() -> None:
    found = {n: v for n, v in vars(torch).items() if isinstance(v, torch.dtype)}
    assert found["float32"] is mq.float32
    assert found["half"] is mq.float16
    assert "qint8" in found
    assert "bool_" not in found


def test_schemes_of_quantization_are_values() -> None:
    scheme = torch.per_channel_symmetric
    assert str(scheme) == "torch.per_channel_symmetric"
    assert isinstance(scheme, torch.qscheme)
    assert pickle.loads(pickle.dumps(scheme)) is copy.deepcopy(scheme) is scheme


def test_kinds_of_operators_follow_their_schemas() -> None:
    from maquette.torch.testing._internal import composite_compliance as kinds

    aten = ops.aten
    views = [aten.view.default, aten.t_.default, aten.split.Tensor, aten.detach.default]
    assert [kinds.is_view_fn(op) for op in views] == [True] * 4
    assert not kinds.is_view_fn(aten.relu.default)
    assert [kinds.is_inplace_view_fn(op) for op in views] == [False, True, False, False]
    in_place = [aten.add_.Tensor, aten.__iand__.Tensor, aten.__and__.Tensor, aten.add.out]
    assert [kinds.is_inplace(op) for op in in_place] == [True, True, False, False]


def test_scaled_products_of_groups_have_no_kernel_on_cpu() -> None:
    one = mq.ones(1)
    with pytest.raises(NotImplementedError, match="scaled_grouped_mm"):
        nn.functional.scaled_grouped_mm(one, one, one, 0, one, 0)


def test_lists_are_grouped_alike_wherever_libraries_ask() -> None:
    from maquette.torch.optim.swa_utils import _group_tensors_by_device_and_dtype as swa
    from maquette.torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as lists

    assert swa is lists
    groups = lists([[mq.ones(1), None, mq.ones(2)], []], with_indices=True)
    assert groups[mq.device("cpu"), mq.float32][1] == [0, 2]
    assert groups[None, None] == ([[None], []], [1])


def test_small_private_names_do_what_they_say() -> None:
    from maquette.torch.distributions.transforms import _clipped_sigmoid
    from maquette.torch.nn.parameter import _ParameterMeta
    from maquette.torch.optim.optimizer import StateDict
    from maquette.torch.utils.data import ConcatDataset

    assert type(nn.Parameter) is _ParameterMeta
    assert torch.autograd.variable.Variable is torch.autograd.Variable
    assert 0 < _clipped_sigmoid(mq.tensor(-1e4)).item() < 1e-30
    assert ConcatDataset.cumsum([[1, 2], [3]]) == [2, 3]
    assert torch.ByteStorage._from_buffer(b"ab").tolist() == [97, 98]
    assert torch.jit._unwrap_optional(3) == 3
    assert torch.backends.nnpack.set_flags(False) == (True,)
    assert torch.backends.nnpack.set_flags(True) == (False,)
    assert not torch.backends.kleidiai.is_available()
    assert not torch.backends.cusparselt.is_available()
    assert not torch._C._has_xpu
    assert typing.get_origin(StateDict) is dict
    assert torch.distributed.Backend.default_device_backend_map["cpu"] == "gloo"


def test_names_of_old_and_large_trainers() -> None:
    dist = torch.distributed
    assert dist.reduce_op.SUM is dist.ReduceOp.SUM
    assert not dist.distributed_c10d._rank_not_in_group(None)
    assert torch._C._jit_set_autocast_mode(False) is False
    assert torch.backends.cuda.matmul.fp32_precision == "none"
    assert torch.backends.cudnn.fp32_precision == "none"
    assert not torch.backends.xnnpack.enabled
    assert torch.functional.F is nn.functional
    assert torch.nn.attention._backend_names["math"] == "MATH"


def test_a_script_module_runs_as_python() -> None:
    class Scaled(torch.jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.scale = 3

        @torch.jit.script_method
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return self.linear(x) * self.scale

    module = Scaled()
    assert list(module.state_dict()) == ["linear.weight", "linear.bias"]
    assert mq.equal(module(mq.ones(1, 2)), module.linear(mq.ones(1, 2)) * 3)
