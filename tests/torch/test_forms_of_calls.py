"""Forms of calls and attributes that PyTorch takes (findings 7, 8, 9, 39, 42, 45)."""

import pytest

import maquette.torch as torch

THREE = torch.tensor(3)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: torch.ones(THREE), [1.0, 1.0, 1.0]),
        (lambda: torch.full((2,), THREE), [3, 3]),
        (lambda: torch.arange(THREE), [0, 1, 2]),
        (lambda: torch.add(torch.ones(2), torch.ones(2), alpha=THREE), [4.0, 4.0]),
        (lambda: torch.ones(2).cumsum(torch.tensor(0)), [1.0, 2.0]),
    ],
)
def test_a_tensor_stands_for_a_number(made: object, expected: list[float]) -> None:
    """Finding 39."""
    assert made().tolist() == expected


def test_nonzero_gives_rows_or_a_tuple() -> None:
    """Finding 39."""
    x = torch.tensor([[0, 1], [2, 0]])
    assert torch.nonzero(x).tolist() == [[0, 1], [1, 0]]
    assert [t.tolist() for t in x.nonzero(as_tuple=True)] == [[0, 1], [1, 0]]
    assert [t.tolist() for t in torch.nonzero(THREE, as_tuple=True)] == [[0]]


def test_parts_of_complex_tensors_are_written() -> None:
    """Finding 39."""
    x = torch.ones(2, dtype=torch.complex64)
    x.real, x.imag = torch.tensor([0.0, 5.0]), 3
    assert x.tolist() == [3j, 5 + 3j]
    with pytest.raises(RuntimeError, match="imag"):
        torch.ones(2).imag = 3


def test_gradients_are_deleted_and_set_by_their_private_name() -> None:
    """Findings 7 and 39."""
    x = torch.ones(2, requires_grad=True)
    x._grad = torch.ones(2)
    assert x.grad.tolist() == [1.0, 1.0]
    del x.grad
    assert x.grad is None


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_out_of_range_become_the_least_integer(kind: torch.dtype) -> None:
    """Finding 8."""
    x = torch.tensor([3e9, float("inf"), float("nan"), -3e9], dtype=kind)
    assert x.to(torch.int32).tolist() == [-(2**31)] * 4
    assert x.to(torch.int16).tolist() == [0] * 4
    assert torch.tensor([300.0, -1.5]).to(torch.int8).tolist() == [44, -1]


def test_results_of_masked_functions_have_pytorchs_dtypes() -> None:
    """Finding 9."""
    ints, parts = torch.tensor([1, 2], dtype=torch.int32), torch.ones(2, dtype=torch.complex64)
    assert torch.masked.argmin(ints).dtype is torch.int32
    assert torch.masked.argmax(torch.ones(2)).dtype is torch.float32
    assert torch.masked.var(parts, unbiased=False).dtype is torch.complex64
    assert torch.masked.std(parts, unbiased=False).dtype is torch.complex64
    assert torch.masked.logsumexp(ints, 0).dtype is torch.int32


@pytest.mark.parametrize("name", ["add", "sub", "addcmul", "addcdiv"])
def test_the_factor_may_come_first_as_it_did(name: str) -> None:
    """Finding 45."""
    x = torch.tensor([2.0])
    others = (x, x) if name.startswith("addc") else (x,)
    factor = "value" if name.startswith("addc") else "alpha"
    expected = getattr(torch, name)(x, *others, **{factor: 3}).item()
    for call in (getattr(x, name), lambda *args: getattr(torch, name)(x, *args)):
        with pytest.warns(UserWarning, match="deprecated"):
            assert call(3, *others).item() == expected


@pytest.mark.parametrize(
    "call",
    [
        lambda **o: torch.linspace(0, 1, 2, **o),
        lambda **o: torch.logspace(0, 1, 2, **o),
        lambda **o: torch.zeros(2, **o),
        lambda **o: torch.normal(0.0, 1.0, (2,), **o),
    ],
)
def test_out_may_stand_beside_its_dtype(call: object) -> None:
    """Finding 45."""
    out = torch.empty(2)
    assert call(out=out, dtype=torch.float32, device="cpu") is out
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        call(out=out, dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: torch.empty(True), TypeError, "must be tuple of ints, not bool"),
        (lambda: torch.finfo(torch.ones(1)), TypeError, "must be torch.dtype, not Tensor"),
        (lambda: torch.iinfo(torch.ones(1)), TypeError, "must be torch.dtype, not Tensor"),
        (lambda: torch.set_num_threads(0), RuntimeError, "positive integer"),
        (lambda: torch.Generator("opengl"), RuntimeError, "not an accelerator"),
        (lambda: type("T", (torch.FloatTensor,), {}), TypeError, "not an acceptable base type"),
    ],
)
def test_what_pytorch_refuses_is_refused(call: object, error: type[Exception], text: str) -> None:
    """Finding 42."""
    with pytest.raises(error, match=text):
        call()


def test_a_parameter_gets_another_storage_without_grad() -> None:
    """Finding 43."""
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="cannot set the storage"):
        p.set_(torch.zeros(3))
    with torch.no_grad():
        p.set_(torch.zeros(3))
    assert p.tolist() == [0.0] * 3
    assert p.requires_grad


def test_a_capsule_is_read_as_an_array() -> None:
    """Finding 40."""
    x = torch.ones(2)
    assert torch.asarray(torch.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_integers_of_more_than_64_bits_are_refused(number: int) -> None:
    """Finding 16: they were taken modulo two to the bits."""
    x = torch.ones(2, dtype=torch.int64)
    for call in (
        lambda: x + number,
        lambda: number - x,
        lambda: x * number,
        lambda: x == number,
        lambda: x.clone().fill_(number),
        lambda: torch.full((2,), number),
        lambda: x.masked_fill(x > 0, number),
    ):
        with pytest.raises(OverflowError, match=r"int too big to convert|negative int to unsigned"):
            call()


def test_halves_are_not_filled_with_what_they_cannot_hold() -> None:
    """Finding 16."""
    for call in (
        lambda: torch.full((2,), 70000.0, dtype=torch.float16),
        lambda: torch.ones(2, dtype=torch.float16).fill_(70000.0),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            call()
    assert torch.full((1,), float("inf"), dtype=torch.float16).item() == float("inf")


@pytest.mark.parametrize("name", ["floordiv", "mod", "matmul", "rshift", "pow", "truediv"])
def test_reflected_operators_leave_what_they_do_not_know(name: str) -> None:
    """Finding 30."""
    assert getattr(torch.ones(2), f"__r{name}__")(object()) is NotImplemented


def test_memory_formats_that_are_kept() -> None:
    """Finding 18: a permuted batch norm, and max_pool3d without a batch dimension."""
    permuted = torch.ones(2, 3, 1, 2).permute(0, 3, 1, 2)
    assert torch.nn.BatchNorm2d(2)(permuted).stride() == (6, 1, 2, 2)
    one = torch.ones(1, 3, 2, 1).permute(0, 2, 1, 3)  # only a size of 1 makes it channels-last
    assert torch.nn.BatchNorm2d(2)(one).stride() == (6, 1, 2, 2)
    both = torch.ones(1, 3, 1, 1).permute(0, 3, 1, 2)
    assert torch.nn.BatchNorm2d(1)(both).stride() == (3, 3, 1, 1)
    last = torch.ones(4, 4, 4, 2).permute(3, 0, 1, 2)
    assert torch.nn.functional.max_pool3d(last, 2).stride() == (1, 8, 4, 2)
    assert torch.nn.functional.avg_pool3d(last, 2).stride() == (8, 4, 2, 1)
    weight = torch.nn.Conv2d(4, 4, 7, groups=4)
    weight(torch.ones(1, 4, 8, 8)).sum().backward()
    assert weight.weight.grad.stride() == weight.weight.stride() == (49, 49, 7, 1)


def test_a_tensor_of_one_place_is_no_number_of_parts() -> None:
    """Finding 44: tensor_split took it for the number of sections."""
    x = torch.arange(4)
    for cut in (torch.tensor([3]), (3,)):
        assert [part.tolist() for part in torch.tensor_split(x, cut)] == [[0, 1, 2], [3]]
    assert [part.tolist() for part in x.tensor_split(torch.tensor(2))] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="takes one of sections, indices"):
        torch.tensor_split(x)


def test_a_number_is_an_accelerators() -> None:
    with torch._subclasses.FakeTensorMode():
        assert torch.zeros(2, device=0).device == torch.device("cuda:0")
        assert torch.nn.Linear(2, 2, device=1).weight.device == torch.device("cuda:1")
        assert torch.empty_like(torch.ones(1), device=0).is_cuda
    with pytest.raises(TypeError, match=r"'device' must be torch\.device, not bool"):
        torch.zeros(2, device=True)


def test_asarray_leaves_history_unless_told() -> None:
    x = torch.ones(2, requires_grad=True) + 1
    with pytest.warns(UserWarning, match="requires grad as obj does"):
        assert torch.asarray(x) is x
    assert torch.asarray(x, requires_grad=True) is x
    assert not torch.asarray(x, requires_grad=False).requires_grad


def test_asarray_of_a_leaf_takes_its_wish_for_a_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    assert torch.asarray(x, requires_grad=False) is x
    assert not x.requires_grad


def test_edges_of_a_histogram_are_a_tuple() -> None:
    assert isinstance(torch.histogramdd(torch.rand(4, 2), bins=[2, 2]).bin_edges, tuple)
