"""Names that public libraries import, and what they give without devices or processes."""

import dataclasses
import importlib
from collections import OrderedDict
from unittest import mock

import numpy as np
import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch.multiprocessing import ProcessRaisedException, start_processes


def test_an_absent_name_can_be_imported_and_says_what_to_do():
    made = torch.distributed.DeviceMesh
    assert isinstance(made, type)
    with pytest.raises(NotImplementedError, match=r"DeviceMesh .*one process"):
        made()


def test_the_group_of_all_processes_is_none():
    assert torch.distributed.group.WORLD is None


def test_tensors_are_grouped_by_device_and_dtype():
    lists = [[torch.ones(1), torch.ones(2).double(), torch.zeros(3)], [None, None, torch.ones(3)]]
    grouped = torch.optim.Optimizer._group_tensors_by_device_and_dtype(lists, with_indices=True)
    members, places = grouped[torch.device("cpu"), torch.float32]
    assert places == [0, 2]
    assert [t.shape[0] for t in members[0]] == [1, 3]
    assert members[1][0] is None


def test_a_step_records_gradients_only_if_it_is_to_be_differentiable():
    from maquette.torch.optim.optimizer import _use_grad_for_differentiable

    class Own(torch.optim.Optimizer):
        @_use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    for asked in (True, False):
        own = Own([torch.ones(1, requires_grad=True)], {"differentiable": asked})
        assert own.step() is asked


def _fails(index):
    if index == 1:
        raise ValueError("of process 1")


def test_a_process_that_fails_is_told_with_its_traceback():
    context = start_processes(_fails, nprocs=2, join=False, start_method="fork")
    with pytest.raises(ProcessRaisedException, match="ValueError: of process 1") as raised:
        context.join()
    assert raised.value.error_index == 1


def test_a_dataclass_becomes_a_node():
    @dataclasses.dataclass
    class Point:
        x: object
        y: object = None

    pytree = torch.utils._pytree
    pytree.register_dataclass(Point)
    assert pytree.tree_leaves(Point(1, 2)) == [1, 2]
    assert pytree.tree_map(lambda v: v + 1, Point(1)) == Point(2)


def test_the_arguments_of_to_are_told_apart():
    device, dtype, waits, form = torch._C._nn._parse_to("cpu", torch.float16, True)
    assert (device, dtype, waits, form) == (torch.device("cpu"), torch.float16, True, None)


def test_functions_below_modules_refuse_arguments_as_functions_do():
    with pytest.raises(TypeError, match="element 1"):
        torch._C._nn.flatten_dense_tensors([torch.ones(1), "other"])
    assert torch._C._nn.upsample_nearest1d(torch.ones(1, 1, 3), [2]).shape == (1, 1, 2)


def test_an_onnx_symbol_can_be_registered_though_nothing_is_exported():
    torch.onnx.register_custom_op_symbolic("own::op", lambda g: g, 11)
    with pytest.raises(NotImplementedError, match=r"torch\.onnx\.export"):
        torch.onnx.export()


def test_an_operator_library_of_torchvision_is_ours(tmp_path):
    file = tmp_path / "torchvision" / "_C.so"
    file.parent.mkdir()
    file.touch()
    torch.ops.load_library(file)
    boxes = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1]])
    assert torch.ops.torchvision.nms(boxes, torch.tensor([0.1, 0.2]), 0.5).tolist() == [1]


def test_swapped_tensors_are_each_other_for_whoever_holds_them():
    a, b = torch.nn.Parameter(torch.ones(2)), torch.zeros(3, 1).double()
    held = [a]
    b.note = "b's"
    torch.utils.swap_tensors(a, b)
    assert held[0].shape == (3, 1)
    assert (type(a), type(b)) == (torch.Tensor, torch.nn.Parameter)
    assert a.note == "b's"
    (b * 2).sum().backward()
    assert b.grad.tolist() == [2.0, 2.0]


class _Own:
    pass


def test_the_names_that_a_checkpoint_needs_are_told_without_running_it(tmp_path):
    file = tmp_path / "own.pt"
    torch.save({"t": torch.ones(2), "own": _Own()}, file)
    (refused,) = torch.serialization.get_unsafe_globals_in_checkpoint(file)
    assert refused.endswith("._Own")
    with torch.serialization.safe_globals([_Own]):
        assert torch.serialization.get_unsafe_globals_in_checkpoint(file) == []


def test_a_file_is_mapped_and_written_to_only_if_it_is_shared(tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(bytes(range(8)))
    own = torch.from_file(str(file), size=4, dtype=torch.int16)
    own.fill_(-1)
    assert file.read_bytes() == bytes(range(8))
    shared = torch.from_file(str(file), shared=True, size=12, dtype=torch.uint8)
    shared.fill_(7)
    assert file.read_bytes() == bytes([7] * 12)
    with pytest.raises(RuntimeError, match="smaller than the required"):
        torch.UntypedStorage.from_file(str(file), False, 100)


def test_an_optimizer_that_only_holds_another_steps_without_hooks():
    class Holder(torch.optim.Optimizer):
        def __init__(self, inner):
            self.inner = inner

        def step(self):
            return "stepped"

    assert Holder(None).step() == "stepped"


def test_cuda_in_fake_mode_says_what_it_can():
    with pytest.raises(RuntimeError, match="no CUDA device"):
        torch.cuda.get_device_capability()
    with torch._subclasses.FakeTensorMode():
        assert torch.cuda.get_device_capability() >= (8, 0)


def test_the_module_is_named_torch_while_it_stands_for_it():
    assert torch.__name__ == "maquette.torch"
    torch.install()
    try:
        assert torch.__name__ == "torch"
        assert importlib.import_module("torch.nn.functional") is torch.nn.functional
    finally:
        torch.uninstall()
    assert torch.__name__ == "maquette.torch"


def test_divergences_are_registered_for_any_class():
    class Own:
        pass

    register = torch.distributions.register_kl(Own, torch.distributions.Distribution)
    register(lambda p, q: torch.tensor(7.0))
    assert torch.distributions.kl_divergence(Own(), torch.distributions.Normal(0, 1)).item() == 7


def test_numbers_of_distributions_are_drawn_and_summed():
    from maquette.torch.distributions.utils import _standard_normal, _sum_rightmost

    torch.manual_seed(0)
    drawn = _standard_normal(torch.Size([2, 3]), torch.float64, torch.device("cpu"))
    assert drawn.dtype is torch.float64
    assert _sum_rightmost(drawn, 1).shape == (2,)


@pytest.mark.parametrize(
    ("value", "kind", "answer"),
    [
        ([1, 2], list[int], True),
        ([1, "a"], list[int], False),
        ({"a": 1.0}, dict[str, float], True),
        (None, int | None, True),
        ((1, "a"), tuple[int, str], True),
        ((1, 2), tuple[int, str], False),
        (1.5, (int, float), True),
    ],
)
def test_a_value_is_compared_with_a_type_of_containers(value, kind, answer):
    assert torch.jit.isinstance(value, kind) is answer


def test_settings_of_the_compiler_are_changed_for_a_block():
    config = importlib.import_module("maquette.torch._dynamo.config")
    with config.patch(verbose=True), config.patch("recompile_limit", 2):
        assert config.verbose
        assert config.recompile_limit == 2
    assert not config.verbose
    assert config.recompile_limit == 8


def test_states_of_generators_are_of_devices_beside_the_cpu():
    from maquette.torch.utils.checkpoint import get_device_states, set_device_states

    assert get_device_states(torch.ones(1), [torch.ones(1)]) == ([], [])
    set_device_states([], [])


def test_values_print_alone_for_tensors_of_a_program():
    from maquette.torch._tensor_str import PRINT_OPTS, _add_suffixes, _tensor_str, printoptions

    with printoptions(precision=2):
        assert PRINT_OPTS.precision == 2
        assert _tensor_str(torch.tensor([1.25, 2.0]), 4) == "[1.25, 2.00]"
    assert _add_suffixes("Own([1]", ["size=3"], 4, False) == "Own([1], size=3)"
    assert _add_suffixes("Own([1]", ["size=3"], 4, True) == "Own([1],\n    size=3)"


def test_a_package_of_remote_calls_is_not_initialized():
    assert not hasattr(torch.distributed.rpc, "api")


def test_an_operator_knows_its_packet_by_the_private_name():
    assert torch.ops.aten.add.Tensor._overloadpacket is torch.ops.aten.add


def test_a_subclass_of_tensors_may_have_a_meta_of_its_own():
    class Described(torch.Tensor):
        meta = property(
            lambda self: self.__dict__["_told"],
            lambda self, value: self.__dict__.update(_told=value),
        )

    t = torch.ones(2, 3).as_subclass(Described)
    t.meta = {"spacing": 2.0}
    assert (t.meta, (t + t).shape, t.ndim) == ({"spacing": 2.0}, (2, 3), 2)


def test_handles_remove_hooks_of_dicts_that_a_program_keeps():
    hooks, extra = OrderedDict(), OrderedDict()
    handle = torch.utils.hooks.RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = extra[handle.id] = print
    handle.remove()
    assert (hooks, extra) == ({}, {})


@pytest.mark.parametrize(
    "register",
    [
        lambda: torch.ones(2, requires_grad=True).register_hook(print),
        lambda: torch.ones(2, requires_grad=True).register_post_accumulate_grad_hook(print),
        lambda: torch.ones(2, requires_grad=True).exp().grad_fn.register_prehook(print),
        lambda: torch.nn.Linear(1, 1).register_forward_hook(print),
        lambda: torch.optim.SGD([torch.ones(2)], 0.1).register_step_pre_hook(print),
    ],
    ids=["tensor", "leaf", "node", "module", "optimizer"],
)
def test_handles_are_of_one_class_whatever_they_hook(register):
    with register() as handle:
        assert isinstance(handle, torch.utils.hooks.RemovableHandle)
        assert callable(handle.hooks_dict_ref)


def test_randint_without_a_dtype_gives_whole_numbers():
    assert torch.randint(5, (2,), dtype=None).dtype is torch.int64
    assert torch.randint(0, 5, (2,), dtype=None).dtype is torch.int64
    assert torch.ops.aten.randint(5, [2], dtype=None).dtype is torch.float32


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_arrays_of_numpys_subclasses_are_plain_arrays_to_tensors():
    t = torch.from_numpy(np.matrix([[1.0, 2.0], [3.0, 4.0]]))
    assert (t * t).tolist() == [[1.0, 4.0], [9.0, 16.0]]


@pytest.mark.parametrize("name", ["max", "amax", "min", "amin"])
def test_reductions_of_segments_by_both_names(name):
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    out = torch.segment_reduce(x, name, lengths=torch.tensor([2, 1]))
    out.sum().backward()
    assert out.tolist() == ([3.0, 2.0] if "max" in name else [1.0, 2.0])
    rows = torch.sparse.mm(torch.eye(2).to_sparse_csr(), torch.ones(2, 2), name)
    assert rows.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_draws_of_given_means_are_made_under_a_default_device_too():
    means = torch.zeros(3)
    with torch.device("cpu"):
        drawn = torch.normal(means, torch.ones(3)), torch.normal(mean=means, std=1.0)
    assert [t.shape for t in drawn] == [(3,), (3,)]


def test_futures_are_of_the_class_that_programs_ask_for():
    assert isinstance(torch.futures.Future(), torch.Future)


@pytest.mark.parametrize("name", ["copy", "fill", "zero"])
def test_tensors_have_no_methods_by_which_programs_know_arrays(name):
    assert not hasattr(torch.ones(1), name)


def test_types_of_sparse_tensors_construct_and_are_asked_for():
    rows = torch.tensor([[0, 1], [2, 0]])
    made = torch.sparse.FloatTensor(rows, torch.tensor([3.0, 4.0]), torch.Size([2, 3]))
    assert made.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]
    assert isinstance(made, torch.sparse.FloatTensor)
    assert not isinstance(made, torch.sparse.DoubleTensor)
    assert torch.sparse.LongTensor(2, 3)._nnz() == 0


def test_settings_of_backends_may_be_set_within_a_block_that_allows_it():
    allowing = getattr(torch.backends, "__allow_nonbracketed_mutation")
    with allowing():
        torch.backends.cudnn.benchmark = False
    assert not torch.backends.flags_frozen()


def test_the_settings_of_the_cache_of_fakes_are_those_of_fakes() -> None:
    config = importlib.import_module("maquette.torch._dynamo.config")
    with mock.patch.object(config, "fake_tensor_cache_crosscheck_enabled", True):
        assert mq.fake.config.cache_crosscheck_enabled
    assert not mq.fake.config.cache_crosscheck_enabled
    with config.patch(fake_tensor_cache_enabled=False):
        assert not mq.fake.config.cache_enabled
    assert mq.fake.config.cache_enabled


def test_whether_views_are_replayed_is_a_setting_that_is_kept() -> None:
    with torch.autograd._force_original_view_tracking(True):
        assert torch.autograd._is_view_replay_enabled()
    assert not torch.autograd._is_view_replay_enabled()


def test_readers_of_archives_are_named_at_the_top_too():
    assert torch.PyTorchFileReader is torch._C.PyTorchFileReader
    assert torch.PyTorchFileWriter is torch._C.PyTorchFileWriter


def test_pools_and_queues_of_processes_are_pythons() -> None:
    from multiprocessing.pool import Pool

    from maquette.torch.multiprocessing import pool, queue

    assert pool.Pool is Pool
    assert vars(queue).keys() >= {"Queue", "SimpleQueue"}


def test_the_loaders_type_variables_can_be_imported() -> None:
    from maquette.torch.utils.data.dataloader import _collate_fn_t, _T_co

    assert _T_co.__covariant__
    assert _collate_fn_t is not None
