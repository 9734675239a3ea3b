"""What functions and methods say of calls that fit none of their signatures."""

from collections.abc import Callable

import pytest

import maquette as mq
import maquette.torch as torch

Call = Callable[[mq.Tensor], object]


def refusal(call: Call) -> TypeError:
    with pytest.raises(TypeError) as caught:
        call(mq.ones(3))
    return caught.value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t: mq.atan2(2, t),
            "atan2(): argument 'input' (position 1) must be Tensor, not int",
        ),
        (
            lambda t: mq.atan2(t, 2),
            "atan2(): argument 'other' (position 2) must be Tensor, not int",
        ),
        (lambda t: t.atan2(2), "atan2(): argument 'other' (position 1) must be Tensor, not int"),
        (lambda t: mq.atan2(t, other=2), "atan2(): argument 'other' must be Tensor, not int"),
        (
            lambda t: mq.softmax(t, "a"),
            "softmax(): argument 'dim' (position 2) must be int, not str",
        ),
        (
            lambda t: t.permute("a"),
            "permute(): argument 'dims' (position 1) must be tuple of ints, not str",
        ),
        (
            lambda t: mq.layer_norm(t, [1.5]),
            "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, but "
            "found element of type float at pos 0",
        ),
        (lambda t: mq.stack([t, 3]), "expected Tensor as element 1 in argument 0, but got int"),
        (lambda t: mq.isclose(t), 'isclose() missing 1 required positional arguments: "other"'),
        (lambda t: mq.atan2(t, t, t), "atan2() takes 2 positional arguments but 3 were given"),
        (
            lambda t: mq.isclose(t, t, 1, 1, True, 3),
            "isclose() takes from 2 to 5 positional arguments but 6 were given",
        ),
        (lambda t: mq.atan2(t, t, other=t), "atan2() got multiple values for argument 'other'"),
        (lambda t: mq.abs(t, foo=1), "abs() got an unexpected keyword argument 'foo'"),
        (
            lambda t: mq.cat((t, t), dim=0, axis=0),
            "cat() got an unexpected keyword argument 'axis'",
        ),
        (lambda t: mq.zeros(2, dtype=3), "zeros(): argument 'dtype' must be torch.dtype, not int"),
    ],
)
def test_the_argument_its_place_and_both_types_are_named(call: Call, message: str) -> None:
    assert str(refusal(call)) == message


def test_a_refused_call_asks_no_fake_for_its_value() -> None:
    with mq.FakeTensorMode():
        number = mq.ones(())
        with pytest.raises(TypeError, match="missing 1 required positional arguments"):
            number.permute()
        with pytest.raises(TypeError, match="must be tuple of ints"):
            mq.ones(3).permute(number)


def test_the_signature_that_was_meant_is_in_a_note() -> None:
    error = refusal(lambda t: mq.atan2(2, t))
    assert error.__notes__ == ["It is atan2(Tensor input, Tensor other, *, Tensor out = None)."]


def test_where_several_may_be_meant_all_are_listed() -> None:
    text = str(refusal(lambda t: mq.ge(2, t)))
    assert text.splitlines() == [
        "ge() received an invalid combination of arguments - got (int, Tensor), but expected one "
        "of:",
        " * (Tensor input, Tensor other, *, Tensor out = None)",
        " * (Tensor input, Number other, *, Tensor out = None)",
    ]


def test_signatures_of_as_many_arguments_say_which_do_not_fit() -> None:
    text = str(refusal(lambda t: mq.bitwise_and(2, 3)))
    assert "(Number self, Tensor other)\n      didn't match" in text
    assert "(int, !int!)" in text


def test_what_the_types_do_not_say_is_in_a_note() -> None:
    error = refusal(lambda t: mq.quantile(t, 0.5, mq.ones(2)))
    assert error.__notes__ == ["'dim': only a tensor of one element stands for a number"]


def test_methods_take_no_out_and_do_not_count_the_tensor() -> None:
    text = str(refusal(lambda t: t.sum("a")))
    assert "got (str)" in text
    assert "input" not in text
    assert "out" not in text


def test_what_takes_numbers_for_tensors_has_one_signature() -> None:
    assert "argument 'other' (position 2) must be Tensor, not str" in str(
        refusal(lambda t: mq.add(t, "a"))
    )


def test_operators_speak_of_their_schema_still() -> None:
    with pytest.raises(RuntimeError, match="Declaration: aten::atan2"):
        mq.ops.aten.atan2.default(mq.ones(2), 3)


def test_dimensions_may_be_given_one_by_one_where_one_alone_means_another_form() -> None:
    x = torch.zeros(1, 1, 2, 4)
    assert x.squeeze(0, 1).shape == x.clone().squeeze_(0, 1).shape == (2, 4)
    assert [part.shape[1] for part in torch.zeros(1, 4).hsplit(1, 3)] == [1, 2, 1]
    with pytest.raises(TypeError, match="squeeze"):
        torch.squeeze(x, 0, 1)  # a function takes a tuple


@pytest.mark.parametrize(
    ("kind", "meant"),
    [(float, mq.float64), (int, mq.int64), (complex, mq.complex128)],
)
def test_T30_pythons_types_of_numbers_are_dtypes_by_place_too(kind: type, meant: mq.dtype) -> None:
    x = mq.ones(2, dtype=mq.float64)
    assert x.view(kind).dtype is x.view(meant).dtype is meant
    assert mq.view_copy(x, kind).dtype is mq.softmax(x, 0, float).to(kind).dtype is meant
    assert mq.promote_types(kind, mq.int8) is mq.promote_types(meant, mq.int8)
    assert mq.can_cast(int, kind) is True
    assert mq.frombuffer(bytearray(16), dtype=kind).dtype is meant


def test_T30_norms_and_modules_take_pythons_float_for_a_dtype() -> None:
    assert mq.norm(mq.ones(2), dtype=float).dtype is mq.float64
    assert mq.nn.Linear(2, 2).to(float).weight.dtype is mq.float64


@pytest.mark.parametrize(
    "name",
    "linalg_norm fft_fft special_erf view_copy zeros_like max_pool2d mse_loss constant_pad_nd gelu "
    "view_as_real slice alias rsub one_hot silu_ sym_size pixel_shuffle tensordot".split(),
)
def test_functions_alone_are_no_methods_of_tensors(name: str) -> None:
    assert callable(getattr(mq.ops.aten, name))
    assert not hasattr(mq.ones(2), name)


@pytest.mark.parametrize("name", "index_copy narrow_copy relu prelu softmax dropout_".split())
def test_methods_that_are_named_like_functions_alone(name: str) -> None:
    assert hasattr(mq.ones(2), name) is (name != "dropout_")


NUMBERS = mq.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.clone().uniform_(0.0, None),
        lambda x: torch.normal(x, None),
        lambda x: torch.arange(0, 3, None),
        lambda x: torch.cat([x], None),
        lambda x: torch.split(x, 1, None),
        lambda x: torch.fft.fft2(x, dim=None),
        lambda x: torch.linalg.matrix_norm(x, dim=None),
        lambda x: torch.median(x, None),
        lambda x: torch.squeeze(x, dim=None),
        lambda x: torch.sum(x, 0, None),
        lambda x: torch.triu(x, None),
        lambda x: torch.linalg.svd(x, None),
    ],
)
def test_none_is_no_default_of_a_number_or_a_flag(call: Call) -> None:
    with pytest.raises(TypeError, match="NoneType"):
        call(NUMBERS)


def test_none_for_a_list_of_dimensions_is_all_of_them() -> None:
    assert torch.amax(NUMBERS, None) == NUMBERS.amax(dim=None) == 11
    assert torch.equal(torch.amin(NUMBERS, None, True), mq.zeros(1, 1))
    assert torch.equal(torch.roll(NUMBERS, 1, None).flatten()[:2], mq.tensor([11.0, 0.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: mq.unique(3), "argument 'input' (position 1) must be Tensor, not int"),
        (lambda t: mq.norm(t, dim="a"), "argument 'dim' (position 3) must be tuple of ints"),
        (lambda t: mq.stft(t, "a"), "stft(): argument 'n_fft' (position 2) must be int, not str"),
        (lambda t: mq.cdist(t, 3), "cdist(): argument 'x2' (position 2) must be Tensor, not int"),
        (lambda t: mq.einsum("i->i", 3), "expected Tensor as element 0 in argument 1"),
        (lambda t: mq.block_diag(t, []), "expected Tensor as element 1 in argument 0"),
        (lambda t: mq.atleast_2d(t, 3), "atleast_2d() received an invalid combination"),
        (lambda t: mq.chain_matmul(t, None), "expected Tensor as element 1 in argument 0"),
        (lambda t: torch.lu(3), "argument 'A' (position 1) must be Tensor, not int"),
        (lambda t: torch.sparse.mm(3, t), "_sparse_mm(): argument"),
        (lambda t: torch.sparse.sum(t, "a"), "_sparse_sum("),
    ],
)
def test_functions_in_python_refuse_as_those_of_operators_do(call: Call, message: str) -> None:
    assert message in str(refusal(call))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.to("cpu", "float64"),
        lambda t: t.to("cpu", 3),
        lambda t: t.to("cpu", True),
        lambda t: t.to(t, mq.int32),
        lambda t: t.to(mq.float64, mq.int32),
        lambda t: t.to(mq.float64, dtype=mq.int32),
        lambda t: t.to(t, dtype=mq.int32),
        lambda t: t.to("cpu", device="cpu"),
        lambda t: t.to("cpu", mq.float64, False, False, mq.contiguous_format),
        lambda t: t.to(mq.float64, 1),
    ],
)
def test_T17_to_passes_over_nothing_that_it_is_given(call: Call) -> None:
    assert "to() " in str(refusal(call))


def test_T17_to_takes_a_tensor_by_name_and_none_for_a_device() -> None:
    t = mq.ones(3)
    assert t.to(tensor=t.double()).dtype is t.to("cpu", None, True).double().dtype is mq.float64
    assert t.to(None, mq.int32, copy=True).dtype is mq.int32
    assert t.to(mq.float32, False, True) is not t


@pytest.mark.parametrize("flag", [1, "False", None])
def test_what_is_to_require_grad_is_said_by_a_bool(flag: bool) -> None:
    for call in (
        lambda: mq.ones(2).requires_grad_(flag),
        lambda: mq.set_grad_enabled(flag),
        lambda: mq.nn.Linear(2, 2).requires_grad_(flag),
    ):
        with pytest.raises(TypeError, match="must be bool"):
            call()
    with pytest.raises(RuntimeError, match="must be a bool"):
        mq.ones(2).requires_grad = flag


@pytest.mark.parametrize("flag", [1, "False"])
def test_factories_take_no_other_truth_for_requires_grad(flag: bool) -> None:
    for make in (mq.ones, mq.empty, mq.hann_window, lambda n, **k: mq.tensor([0.0] * n, **k)):
        with pytest.raises(TypeError, match="must be bool"):
            make(2, requires_grad=flag)
