"""What dispatch modes see of composite functions: the operators that PyTorch's are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.core.remembered import forget
from maquette.dispatch.modes import TorchDispatchMode
from maquette.nn import functional as F


class Seen(TorchDispatchMode):
    """Counts operators, less those that save for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names[str(func).removeprefix("aten.").removesuffix(".default")] += 1
        return func(*args, **(kwargs or {}))


def seen(call: Callable[[], object]) -> dict[str, int]:
    with Seen() as mode:
        call()
    return dict(mode.names)


X = mq.randn(4, 5)
Y = mq.randn(4, 5)
CLASSES = mq.tensor([0, 1, 2, 3])
ARRAY = np.arange(3, dtype=np.int32)


def test_numbers_in_tensors_are_read_below_the_modes() -> None:
    one, two = mq.tensor(1), mq.tensor(2)
    assert seen(lambda: mq.tensor([one, two])) == {"lift_fresh": 1}


@pytest.mark.parametrize("kind", [mq.int32, mq.int64])
def test_a_tensor_of_an_array_is_lifted_and_copied(kind: Any) -> None:
    assert seen(lambda: mq.tensor(ARRAY, dtype=kind)) == {"lift_fresh": 1, "_to_copy": 1}


def test_an_array_that_is_shared_is_lifted_once() -> None:
    assert seen(lambda: mq.from_numpy(ARRAY)) == {"lift_fresh": 1}
    assert seen(lambda: mq.as_tensor(ARRAY)) == {"lift_fresh": 1}


def test_an_array_among_the_indices_is_lifted_and_made_int64() -> None:
    assert seen(lambda: X[ARRAY]) == {"lift_fresh": 1, "_to_copy": 1, "index.Tensor": 1}


def test_a_scalar_of_numpy_is_assigned() -> None:
    made = mq.zeros(2)
    made[0] = ARRAY[2]
    assert made.tolist() == [2.0, 0.0]


def test_integers_of_numpy_in_a_list_index() -> None:
    assert X[[ARRAY[0], ARRAY[1]]].equal(X[:2])


def test_a_smoothed_cross_entropy_multiplies_by_scalars() -> None:
    names = seen(lambda: F.cross_entropy(X, CLASSES, label_smoothing=0.1))
    assert names["mul.Scalar"] == 2
    assert "mul.Tensor" not in names


def test_a_similarity_raises_both_lengths_by_one_tensor() -> None:
    names = seen(lambda: F.cosine_similarity(X, Y))
    assert names["clamp_min_.Tensor"] == 2
    assert names["scalar_tensor"] == 1


def test_distances_of_many_rows_have_one_batch_dimension() -> None:
    left, right = mq.randn(2, 1, 30, 4), mq.randn(3, 5, 4)
    names = seen(lambda: mq.cdist(left, right))
    assert (names["expand"], names["clone"], names["view"]) == (2, 2, 3)


def test_finite_is_a_product_of_two_questions() -> None:
    assert seen(lambda: X.isfinite()) == {"eq.Tensor": 1, "abs": 1, "ne.Scalar": 1, "mul.Tensor": 1}


def test_padding_copies_each_sequence_into_place() -> None:
    names = seen(lambda: mq.nn.utils.rnn.pad_sequence([X, Y[:2]]))
    assert names == {"slice.Tensor": 3, "full": 1, "select.int": 2, "copy_": 2}


def test_a_check_of_all_elements_is_an_operator_of_its_own() -> None:
    bools = X == X
    assert seen(lambda: mq._is_all_true(bools)) == {"_is_all_true": 1}
    with pytest.raises(RuntimeError, match="expected a tensor of bools"):
        mq._is_all_true(X)


def test_a_function_with_a_form_that_is_a_factory_takes_tensors_under_a_mode() -> None:
    assert seen(lambda: mq.normal(X, X.abs())).get("normal.Tensor_Tensor") == 1
    assert seen(lambda: mq.normal(0.0, 1.0, (2,))).get("normal.float_float") == 1


def test_a_size_in_a_tensor_is_read_once() -> None:
    size = mq.tensor(2)
    assert seen(lambda: mq.zeros(size)) == {"_local_scalar_dense": 1, "zeros": 1}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("full", lambda size: mq.full((size,), 1.0)),
        ("ones", lambda size: mq.ones(2, size)),
        ("randint", lambda size: mq.randint(0, size, (2,))),
        ("tril", lambda size: X.tril(size)),
    ],
)
def test_a_number_in_a_tensor_is_read_once_where_overloads_are_matched(
    name: str, call: Any
) -> None:
    packet = getattr(mq.ops.aten, name)
    forget(packet.by_class, packet._by_value)  # what earlier tests called is not matched again
    assert seen(lambda: call(mq.tensor(2)))["_local_scalar_dense"] == 1


def test_a_tensor_of_no_dimensions_names_the_dimension_of_a_deviation() -> None:
    assert X.std(mq.tensor(0)).equal(X.std(0))


def test_where_makes_a_tensor_of_the_dtype_that_the_number_asks_for() -> None:
    names = seen(lambda: mq.where(X > 0, CLASSES[:1], 0.5))
    assert names["_to_copy"] == names["where.self"] == 1


def test_the_constructor_keeps_the_dtype_of_a_tensor() -> None:
    assert mq.Tensor(mq.tensor([1, 2])).dtype is mq.int64
    assert mq.Tensor([1, 2]).dtype is mq.float32


def test_the_constructor_gives_a_view_of_a_tensor_that_hands_gradients_on() -> None:
    leaf = mq.ones(2, requires_grad=True)
    assert seen(lambda: mq.Tensor(leaf)) == {"alias": 1}
    mq.Tensor(leaf).sum().backward()
    assert leaf.grad.tolist() == [1, 1]


def test_vmap_indexes_one_tensor_for_a_whole_batch() -> None:
    table, rows = mq.arange(12.0).reshape(3, 4), mq.tensor([0, 2])
    nested = mq.func.vmap(
        mq.func.vmap(lambda row, column: table[row, column], (None, 0)), (0, None)
    )
    columns = mq.tensor([1, 3, 0])
    assert seen(lambda: nested(rows, columns)) == {"view": 1, "index.Tensor": 1}
    assert nested(rows, columns).equal(table[rows][:, columns])


def test_vmap_asks_a_batch_of_numbers_for_its_dtype_beside_a_number() -> None:
    numbers = mq.arange(4)
    assert seen(lambda: mq.func.vmap(lambda n: n - 3)(numbers)) == {
        "select.int": 1,
        "sub.Tensor": 1,
    }
    assert seen(lambda: mq.func.vmap(lambda n: n < 3)(numbers)) == {"lt.Scalar": 1}


def test_vmap_expands_what_was_never_batched() -> None:
    assert seen(lambda: mq.func.vmap(lambda row: Y)(X)) == {"expand": 1}
    nested = mq.func.vmap(lambda row: mq.func.vmap(lambda n: row)(Y[0]))
    assert seen(lambda: nested(X)) == {"select.int": 1, "view": 1, "expand": 1}


@pytest.mark.parametrize(
    "function",
    [
        lambda a: TABLE[:, a],
        lambda a: TABLE[:, a, a],
        lambda a: TABLE[a, :, a],
        lambda a: TABLE[:, :, a],
        lambda a: TABLE[:, a, mq.tensor([1, 0])],
    ],
)
def test_indices_that_differ_over_a_batch_are_as_a_loop_has_them(function: Any) -> None:
    indices = mq.tensor([[0, 2], [1, 1], [2, 0]])
    looped = mq.stack([function(index) for index in indices])
    assert mq.func.vmap(function)(indices).equal(looped)


TABLE = mq.arange(36.0).reshape(3, 4, 3)


def test_an_lstm_lays_its_input_out_once() -> None:
    lstm = mq.nn.LSTM(4, 5, 2)
    steps = mq.randn(2, 4, 3).permute(2, 0, 1)
    assert seen(lambda: lstm(steps))["clone"] == 1
    dense = steps.contiguous()
    assert "clone" not in seen(lambda: lstm(dense))


def test_classes_of_unknown_number_are_asked_for_no_shape_of_the_targets() -> None:
    with mq.FakeTensorMode(shape_env=mq.symbolic.ShapeEnv()):
        kept, mask = mq.randn(6, 3), mq.ones(6, dtype=mq.bool)
        targets = mq.zeros(6, dtype=mq.int64)
        assert F.cross_entropy(kept[mask], targets[mq.ones(6, dtype=mq.bool)]).shape == ()


def test_frames_of_a_signal_are_strided() -> None:
    signal, window = mq.randn(2, 40), mq.ones(8)
    names = seen(lambda: mq.stft(signal, 8, 4, window=window, center=False, return_complex=True))
    assert names == {"as_strided": 1, "mul.Tensor": 1, "_fft_r2c": 1, "transpose_": 1}


def test_what_cat_passes_over_has_zeros_for_a_gradient() -> None:
    x, nothing = mq.ones(2, 2, requires_grad=True), mq.ones(0, requires_grad=True)
    joined = mq.cat([x, nothing])
    names = seen(lambda: joined.backward(mq.ones(2, 2)))
    assert (names["zeros"], names.get("new_zeros"), nothing.grad.shape) == (1, None, (0,))
