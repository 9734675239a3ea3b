"""How tensors print; the expected texts are PyTorch's for the same values."""

import warnings

import numpy as np
import pytest

import maquette as mq
from maquette.tensor import Parameter
from maquette.tensor.printing import get_printoptions, printoptions, set_printoptions
from maquette.tensor.tensor import from_array


@pytest.mark.parametrize(
    "data, text",
    [
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.0, 1e6], "tensor([1.0000e+00, 1.0000e+06])"),
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1.5, -2.25, 1000.0], "tensor([   1.5000,   -2.2500, 1000.0000])"),
        ([0.0001, 0.5], "tensor([1.0000e-04, 5.0000e-01])"),
        ([float("nan"), float("inf"), -1.0], "tensor([nan, inf, -1.])"),
        ([0.0, 0.0], "tensor([0., 0.])"),
        ([3, -12], "tensor([  3, -12])"),
        ([True, False], "tensor([ True, False])"),
        ([1 + 2j, 3.5 - 1j], "tensor([1.0000+2.j, 3.5000-1.j])"),
        (2.5, "tensor(2.5000)"),
        ([], "tensor([])"),
        ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
    ],
)
def test_T48_values_print_as_pytorchs(data: object, text: str) -> None:
    assert repr(mq.tensor(data)) == text


def test_T48_more_than_a_thousand_elements_are_summarised_by_three_edges() -> None:
    text = repr(from_array(np.arange(1001)))
    assert text == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"


def test_T48_a_thousand_elements_are_shown() -> None:
    assert "..." not in repr(from_array(np.arange(1000)))


def test_T48_matrices_are_summarised_in_both_dimensions() -> None:
    lines = repr(from_array(np.zeros((40, 40), np.float32))).splitlines()
    assert len(lines) == 7
    assert lines[3] == "        ...,"
    assert lines[0] == "tensor([[0., 0., 0.,  ..., 0., 0., 0.],"


def test_T48_lines_end_by_column_80() -> None:
    lines = repr(from_array(np.random.default_rng(0).standard_normal(100))).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > 10


@pytest.mark.parametrize(
    "kind, text",
    [
        ("float64", "tensor([1.], dtype=torch.float64)"),
        ("int32", "tensor([1], dtype=torch.int32)"),
        ("int64", "tensor([1])"),
        ("bool", "tensor([True])"),
        ("bfloat16", "tensor([1.], dtype=torch.bfloat16)"),
        ("complex64", "tensor([1.+0.j])"),
    ],
)
def test_T48_dtype_is_said_unless_usual(kind: str, text: str) -> None:
    assert repr(mq.tensor([1], dtype=getattr(mq, kind))) == text


def test_T48_an_empty_tensor_says_its_dtype_unless_the_default() -> None:
    assert repr(mq.tensor([], dtype=mq.int64)) == "tensor([], dtype=torch.int64)"
    assert repr(mq.empty(0, 3)) == "tensor([], size=(0, 3))"


def test_T48_requires_grad_or_the_node_is_said() -> None:
    x = mq.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"


def test_T48_a_meta_tensor_prints_device_and_size() -> None:
    assert repr(mq.empty(2, device="meta")) == "tensor(..., device='meta', size=(2,))"


def test_T48_a_suffix_that_is_too_long_starts_a_line() -> None:
    with printoptions(linewidth=30):
        text = repr(mq.ones(2, requires_grad=True))
    assert text == "tensor([1., 1.],\n       requires_grad=True)"


def test_T48_a_parameter_says_so() -> None:
    text = repr(Parameter(mq.ones(2)))
    assert text == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


def test_T48_printing_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        repr(mq.tensor([1e308, 1e-308, float("inf")], dtype=mq.float64))


def test_T48_options_hold_for_the_block() -> None:
    with printoptions(precision=1, sci_mode=True):
        assert repr(mq.tensor([1.0])) == "tensor([1.0e+00])"
    assert repr(mq.tensor([1.0])) == "tensor([1.])"


def test_a_profile_that_is_not_known_changes_nothing() -> None:
    with printoptions(precision=2):
        mq.set_printoptions(profile="long")
        assert repr(mq.tensor([0.12345])) == "tensor([0.12])"


def test_F5_a_fake_prints_its_metadata() -> None:
    mode = mq.FakeTensorMode()
    assert repr(mode.from_tensor(mq.ones(2, 3))) == "FakeTensor(..., size=(2, 3))"
    with mode:
        there = mq.empty(2, device="cuda", dtype=mq.float64, requires_grad=True)
    assert "device='cuda:0', size=(2,), dtype=torch.float64, requires_grad=True" in (
        repr(there).replace("\n           ", " ")
    )


def test_F5_a_fake_parameter_is_put_in_words() -> None:
    fake = mq.FakeTensorMode().from_tensor(mq.ones(2))
    assert repr(Parameter(fake)) == "Parameter(FakeTensor(..., size=(2,), requires_grad=True))"


def test_F5_a_fake_of_a_result_names_its_node() -> None:
    fake = mq.FakeTensorMode().from_tensor(mq.ones(2, requires_grad=True))
    assert repr(fake * 2) == "FakeTensor(..., size=(2,), grad_fn=<MulBackward0>)"


def test_F6_a_known_value_never_prints() -> None:
    with mq.FakeTensorMode():
        assert "3" not in repr(mq.tensor(3))


def test_F6_a_fake_takes_no_format_spec() -> None:
    with mq.FakeTensorMode(), pytest.raises(TypeError, match="format"):
        f"{mq.ones(()):.2f}"


def test_a_subclass_says_what_stands_for_the_values() -> None:
    class Wrapping(mq.Tensor):
        def __repr__(self) -> str:
            return super().__repr__(tensor_contents="inner=1")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None) -> object:
            raise NotImplementedError

    made = mq.Tensor._make_wrapper_subclass(Wrapping, (2,), dtype=mq.int32, requires_grad=False)
    assert repr(made) == "Wrapping(inner=1, dtype=torch.int32)"
    assert mq.ones(2).__repr__(tensor_contents="abc") == "tensor(abc)"


def test_a_profile_sets_the_width_of_lines_too() -> None:
    with printoptions(linewidth=30):
        set_printoptions(profile="default")
        assert get_printoptions()["linewidth"] == 80
