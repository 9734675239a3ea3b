"""Operators that ask a tensor what it is."""

import pytest

import maquette as mq

aten = mq.ops.aten
QUERIES = [
    ("dim", 2), ("numel", 12), ("storage_offset", 0), ("is_complex", False),
    ("is_floating_point", True), ("is_signed", True), ("is_conj", False), ("is_neg", False),
    ("is_inference", False), ("is_leaf", True), ("output_nr", 0), ("retains_grad", False),
    ("_version", 0), ("is_distributed", False), ("is_non_overlapping_and_dense", True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "answer"), QUERIES)
def test_T3_an_operator_answers_as_the_method(name: str, answer: object) -> None:
    assert getattr(aten, name).default(mq.ones(3, 4).t()) == answer


def test_T12_a_tensor_is_asked_for_one_memory_format() -> None:
    x = mq.ones(1, 2, 3, 3).contiguous(memory_format=mq.channels_last)
    assert aten.is_contiguous.memory_format(x, mq.channels_last)
    assert not aten.sym_is_contiguous(x)


def test_F13_questions_about_fakes_keep_their_symbols_out() -> None:
    with mq.fake.FakeTensorMode():
        assert aten.numel(mq.ones(3, 5)[:, ::2]) == 9
        assert not aten.is_non_overlapping_and_dense(mq.ones(3, 5)[:, ::2])
