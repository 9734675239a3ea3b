"""`torch.func.rearrange`: patterns and the errors they have."""

import pytest

import maquette as mq
from maquette.torch.func import rearrange, vmap

X = mq.arange(24).view(2, 3, 4)


@pytest.mark.parametrize(
    "pattern, lengths, expected",
    [
        ("a b c -> c a b", {}, X.permute(2, 0, 1)),
        ("a b c -> b (a c)", {}, X.transpose(0, 1).reshape(3, 8)),
        ("a b (c d) -> d a b c", {"d": 2}, X.view(2, 3, 2, 2).permute(3, 0, 1, 2)),
        ("a ... -> ... a", {}, X.permute(1, 2, 0)),
        ("a ... -> (... a)", {}, X.permute(1, 2, 0).reshape(24)),
        ("a b c -> a 1 b () c", {}, X.view(2, 1, 3, 1, 4)),
    ],
)
def test_names_are_ordered_split_and_joined(pattern, lengths, expected):
    assert mq.equal(rearrange(X, pattern, **lengths), expected)


def test_a_sequence_is_stacked_first():
    assert mq.equal(rearrange([X, X + 1], "n a b c -> (n a) b c"), mq.cat([X, X + 1]))


@pytest.mark.parametrize(
    "pattern, lengths, words",
    [
        ("a b c", {}, "single '->'"),
        ("a b -> b a", {}, r"dimensions in pattern \(2\).*\(3\)"),
        ("a b c d ... -> a b c d ...", {}, "at least 4"),
        ("a b c -> a b", {}, "only on one side"),
        ("a a c -> a c", {}, "duplicate dimension 'a'"),
        ("a b (c d) -> a b c d", {}, "sizes of c and d cannot be told"),
        ("a b (c d) -> a b c d", {"c": 3}, "3 elements times something, got 4"),
        ("a 1 c -> a c", {}, "1 elements, got 3"),
        ("a (...) -> a ...", {}, "left side is not allowed"),
        ("a b c -> ... a b c", {}, "right side, but not left"),
        ("a b c -> a b c", {"z": 2}, "not found"),
        ("((a b) c) -> a b c", {}, "one-level"),
        ("(a b c -> a b c", {}, "Imbalanced"),
        ("a b c -> 2 a b c", {}, "of size 1, got 2"),
        ("_a b c -> _a b c", {}, "underscore"),
    ],
)
def test_a_pattern_that_does_not_fit_is_refused(pattern, lengths, words):
    with pytest.raises(ValueError, match=words):
        rearrange(X, pattern, **lengths)


def test_it_is_mapped():
    assert mq.equal(vmap(lambda x: rearrange(x, "a b -> b a"))(X), X.transpose(1, 2))
