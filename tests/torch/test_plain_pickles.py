"""Plain pickles under `install`: by PyTorch's names, so that both libraries read them."""

import copy
import multiprocessing
import pickle
import pickletools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import maquette.torch as torch

HEADERS = (
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x10\x00\x00\x00"
    b"protocol_versionq\x01M\xe9\x03X\r\x00\x00\x00little_endianq\x02\x88X\n\x00\x00\x00type_sizes"
    b"q\x03}q\x04(X\x05\x00\x00\x00shortq\x05K\x02X\x03\x00\x00\x00intq\x06K\x04X\x04\x00\x00\x00"
    b"longq\x07K\x04uu."
)


class Sub(torch.Tensor):
    """A subclass."""


@pytest.fixture
def _installed() -> Iterator[None]:
    torch.install()
    yield
    torch.uninstall()


def named(obj: object) -> set[str]:
    """The modules that a pickle names, by their first part."""
    found = pickletools.genops(pickle.dumps(obj, 2))
    return {str(arg).partition(".")[0].partition(" ")[0] for op, arg, _ in found
            if op.name == "GLOBAL"}  # fmt: skip


MADE: dict[str, Callable[[], Any]] = {
    "tensor": lambda: torch.arange(6.0).reshape(2, 3)[:, 1],
    "bfloat16": lambda: torch.ones(2, dtype=torch.bfloat16),
    "uint16": lambda: torch.ones(2, dtype=torch.uint16),
    "float8": lambda: torch.ones(2).to(torch.float8_e4m3fn),
    "conj": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "meta": lambda: torch.ones(2, device="meta"),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2), requires_grad=False),
    "buffer": lambda: torch.nn.Buffer(torch.ones(2)),
    "sparse": lambda: torch.eye(2).to_sparse(),
    "csr": lambda: torch.eye(2).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
    "error": lambda: torch.cuda.OutOfMemoryError("none left"),
    "method": lambda: torch.Tensor.add,
    "size": lambda: torch.Size([2, 3]),
    "dtype": lambda: torch.float32,
    "bool": lambda: torch.bool,
    "opaque": lambda: torch.uint4,
    "device": lambda: torch.device("cuda", 0),
    "layout": lambda: torch.strided,
    "scheme": lambda: torch.per_tensor_affine,
    "storage": lambda: torch.ones(2).untyped_storage(),
    "typed storage": lambda: torch.FloatStorage([1.0, 2.0]),
    "generator": lambda: torch.Generator().manual_seed(3),
    "loss": lambda: torch.nn.CrossEntropyLoss(),
    "result": lambda: torch.ones(2, 2).max(0),
    "graph": lambda: torch.fx.symbolic_trace(torch.nn.Linear(2, 2)),
    "loader": lambda: torch.utils.data.DataLoader([1, 2]),
}


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_T56_under_install_a_pickle_names_torch_alone(made: Callable[[], Any]) -> None:
    assert "maquette" not in named(made())
    assert type(pickle.loads(pickle.dumps(made()))).__name__ == type(made()).__name__


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_T56_what_was_pickled_without_install_loads_with_and_without(
    made: Callable[[], Any],
) -> None:
    data = pickle.dumps(made())
    alone = repr(type(pickle.loads(data)).__name__)
    torch.install()
    assert repr(type(pickle.loads(data)).__name__) == alone
    torch.uninstall()


@pytest.mark.usefixtures("_installed")
def test_T56_methods_as_pytorch_names_them_are_read() -> None:
    data = b"\x80\x02c__builtin__\ngetattr\nctorch._C\nTensorBase\nX\x03\x00\x00\x00add\x86R."
    assert pickle.loads(data)(torch.ones(1), 1).tolist() == [2]


@pytest.mark.usefixtures("_installed")
def test_T56_under_install_the_bytes_are_pytorchs() -> None:
    data = pickle.dumps(torch.ones(1), 2)
    assert data.startswith(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00(ctorch.storage\n")
    [text] = [arg for _, arg, _ in pickletools.genops(data) if str(arg).count("FloatStorage")]
    assert str(text).encode("latin1").startswith(HEADERS)


@pytest.mark.usefixtures("_installed")
def test_T56_under_install_each_storage_is_there_once() -> None:
    a = torch.zeros(1000)
    data = pickle.dumps([a, a[1:], a.view(torch.int32), a.untyped_storage()])
    assert len(data) < 6000
    made, tail, numbers, storage = pickle.loads(data)
    made.fill_(1)
    assert (tail[0].item(), numbers[0].item(), storage.nbytes()) == (1.0, 0x3F800000, 4000)
    assert storage.data_ptr() == made.data_ptr()


@pytest.mark.usefixtures("_installed")
def test_T56_under_install_attributes_and_classes_are_kept() -> None:
    t = torch.ones(2).as_subclass(Sub)
    t.note = ["kept"]
    p = torch.nn.Parameter(torch.ones(2))
    p.note = 3
    made, again = pickle.loads(pickle.dumps([t, p]))
    assert (type(made), made.note) == (Sub, ["kept"])
    assert (type(again), again.note, again.requires_grad) == (torch.nn.Parameter, 3, True)


@pytest.mark.usefixtures("_installed")
def test_T55_copies_of_storages_are_storages_under_install() -> None:
    storage = torch.ones(2).untyped_storage()
    for made in (copy.copy(storage), copy.deepcopy(storage)):
        assert type(made) is torch.UntypedStorage
        assert (made.tolist(), made.data_ptr() == storage.data_ptr()) == (storage.tolist(), False)


@pytest.mark.usefixtures("_installed")
def test_T56_bytes_that_are_damaged_are_refused() -> None:
    data = pickle.dumps(torch.ones(2), 4)
    cut = data.replace(b"K\x02Ntq", b"K\x03Ntq")
    assert cut != data
    with pytest.raises(RuntimeError, match="does not have 3 elements"):
        pickle.loads(cut)


def test_T56_losses_say_the_module_that_pytorch_has_them_in() -> None:
    torch.install()
    homes = {torch.nn.L1Loss.__module__, torch.nn.CTCLoss.__module__}
    assert homes == {"torch.nn.modules.loss"}
    options = torch.nn.LinearCrossEntropyOptions
    assert options.__module__ == "torch.nn.modules.linear_cross_entropy_options"
    torch.uninstall()


def _send(queue: Any) -> None:
    queue.put(torch.ones(2))


def test_T56_a_process_that_was_spawned_sends_tensors() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    torch.install()
    process = context.Process(target=_send, args=(queue,))
    process.start()
    assert queue.get().tolist() == [1.0, 1.0]
    process.join()
    torch.uninstall()
