"""The surface of torch as programs meet it: relations of classes, parameters, defaults."""

import inspect
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

import maquette.torch as torch
from maquette.torch.autograd.profiler_util import EventList
from maquette.torch.distributed.checkpoint.metadata import TensorProperties
from maquette.torch.nn.attention.flex_attention import create_block_mask, noop_mask
from maquette.torch.nn.modules import padding, pooling


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (torch.nn.ZeroPad2d, torch.nn.ConstantPad2d),
        (torch.nn.ReflectionPad1d, padding._ReflectionPadNd),
        (torch.nn.ReplicationPad3d, padding._ReplicationPadNd),
        (torch.nn.AvgPool1d, pooling._AvgPoolNd),
        (torch.nn.AvgPool3d, pooling._AvgPoolNd),
        (torch.nn.utils.rnn.PackedSequence, torch.nn.utils.rnn.PackedSequence_),
        (torch.utils.data.IterableDataset, Iterable),
    ],
)
def test_classes_derive_from_what_pytorchs_do(kind: type, base: type) -> None:
    """Programs tell layers apart by `isinstance`."""
    assert issubclass(kind, base)
    assert base in kind.__mro__ or base is Iterable


def test_a_data_set_without_samples_cannot_be_made() -> None:
    class Empty(torch.utils.data.IterableDataset[int]):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Empty()


def names(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (torch.nn.Sequential.extend, ["self", "sequential"]),
        (EventList.key_averages, ["self", "group_by_input_shapes"]),
        (torch.autograd.backward, ["tensors", "grad_tensors", "retain_graph", "create_graph"]),
        (torch.cuda.amp.GradScaler, ["init_scale", "growth_factor", "backoff_factor"]),
        (torch.cuda.amp.custom_fwd, ["fwd", "cast_inputs"]),
        (torch.autograd.gradgradcheck, ["func", "inputs", "grad_outputs", "eps", "atol"]),
        (torch.random.fork_rng, ["devices", "enabled", "_caller", "_devices_kw", "device_type"]),
        (torch.utils.collect_env.get_pip_packages, ["run_lambda", "patterns"]),
    ],
)
def test_parameters_have_pytorchs_names(function: object, expected: list[str]) -> None:
    assert names(function)[: len(expected)] == expected


def test_T63_backward_takes_gradients_by_their_former_name() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_tensors"):
        torch.autograd.backward(x * 2, None, None, False, torch.ones(2))
    assert x.grad.tolist() == [2.0, 2.0]


def test_blocks_that_are_seen_whole_have_no_list_of_their_own_unless_asked() -> None:
    made = create_block_mask(
        lambda b, h, q, kv: q >= kv, None, None, 256, 256, separate_full_blocks=False
    )
    assert made.full_kv_indices is None
    assert made.kv_num_blocks.tolist() == [[[1, 2]]]
    with pytest.raises(NotImplementedError, match="compute_dq_write_order"):
        create_block_mask(noop_mask, 1, 1, 2, 2, compute_dq_write_order=True)


def test_a_placeholder_is_given_no_default_by_inspects_word_for_none() -> None:
    graph = torch.fx.Graph()
    plain = graph.placeholder("x", default_value=inspect.Signature.empty)
    assert plain.args == ()
    assert graph.placeholder("y", default_value=None).args == (None,)


def test_generators_of_a_kind_of_device_are_kept() -> None:
    before = torch.get_rng_state()
    with torch.random.fork_rng(devices=[], device_type="cpu"):
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)


def test_methods_have_no_out_whatever_their_functions_were_called_with() -> None:
    x, out = torch.ones(2), torch.empty(2)
    torch.add(x, x, out=out)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        x.add(x, out=out)
    with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
        x.sum(out=torch.empty(()))


def test_options_of_compile_are_pytorchs() -> None:
    with pytest.raises(TypeError, match="fulgraph"):
        torch.compile(torch.relu, fulgraph=True)
    with pytest.raises(RuntimeError, match="mode or options"):
        torch.compile(torch.relu, mode="default", options={})
    assert torch.compile(torch.relu, fullgraph=True, dynamic=True, mode="default") is torch.relu


def test_nodes_say_that_they_are_builtins() -> None:
    x = torch.ones(2, requires_grad=True)
    assert repr(type((x * 2).grad_fn)) == "<class 'MulBackward0'>"


def test_a_tar_archive_of_the_first_pytorch_is_refused_by_that_name(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "old.pt", "w:") as archive:
        archive.addfile(tarfile.TarInfo("storages"))
    with pytest.raises(RuntimeError, match="tar archive"):
        torch.load(tmp_path / "old.pt")


@pytest.mark.parametrize("name", ["custom_fwd", "custom_bwd"])
def test_the_former_place_of_an_autocast_function_warns(name: str) -> None:
    with pytest.warns(FutureWarning, match=f"torch.amp.{name}"):
        getattr(torch.cuda.amp, name)(lambda context, x: x)


def test_the_former_name_of_a_choice_of_kernels_warns() -> None:
    with pytest.warns(FutureWarning, match="sdpa_kernel"), torch.backends.cuda.sdp_kernel():
        assert torch.backends.cuda.flash_sdp_enabled()


def test_dtypes_have_short_names() -> None:
    short = {
        "float32": "f32", "bfloat16": "bf16", "int8": "i8", "uint64": "u64", "bool": "b8",
        "complex64": "c64", "float8_e4m3fn": "f8e4m3fn", "float8_e8m0fnu": "f8e8m0fnu",
        "quint8": "quint8", "int3": "int3", "float4_e2m1fn_x2": "f4e2m1fnx2",
    }  # fmt: skip
    assert {name: getattr(torch, name).abbr for name in short} == short


def test_generators_have_no_offset() -> None:
    with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
        torch.Generator().get_offset()


def test_actions_of_a_profiler_are_pytorchs() -> None:
    assert [action.value for action in torch.profiler.ProfilerAction] == [0, 1, 2, 3, 4]


def test_uses_of_a_node_are_replaced_without_asking_of_each() -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    user = graph.call_function(torch.relu, (x,))
    assert x.replace_all_uses_with(y, None) == [user]
    assert user.args == (y,)


def test_properties_of_a_tensor_in_a_checkpoint_have_the_default_dtype() -> None:
    assert TensorProperties().dtype is torch.float32


def test_every_storage_of_bytes_is_one_of_pytorchs_base() -> None:
    class Own(torch.StorageBase):
        pass

    held = torch.ones(2).untyped_storage()
    assert isinstance(held, torch.StorageBase)
    assert issubclass(torch.UntypedStorage, torch.StorageBase)
    assert not isinstance(held, Own)
    assert not isinstance(torch.ones(2), torch.StorageBase)
