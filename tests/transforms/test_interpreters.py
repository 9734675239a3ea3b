"""The stack of interpreters: levels, states, lowering (D124), and keys of tensors (D14)."""

import pytest

import maquette as mq
from maquette.dispatch.base import TransformType
from maquette.dispatch.tls import tls
from maquette.transforms import grad, jvp, vmap
from maquette.transforms.inspection import add_batch_dim, maybe_get_level, remove_batch_dim
from maquette.transforms.interpreter import (
    compare_functorch_state,
    pushed,
    stack,
    temporarily_clear_interpreter_stack,
    temporarily_restore_interpreter_stack,
    top,
)
from maquette.transforms.reverse_level import GradInterpreter


def test_D124_levels_count_from_the_outermost_and_lower_exposes_the_one_below():
    seen = []

    def inner(x):
        levels = stack()
        seen.append([level.level() for level in levels])
        with levels[1].lower():
            seen.append([level.level() for level in stack()])
        return x.sum()

    grad(lambda x: vmap(inner)(x).sum())(mq.ones(2, 3))
    assert seen == [[1, 2], [1]]


def test_D124_vmap_tells_its_batch_and_randomness():
    seen = []
    vmap(lambda x: seen.append(top()) or x, randomness="same")(mq.ones(2))
    (level,) = seen
    assert level.key() is TransformType.Vmap
    assert (level.batch_size(), level.randomness()) == (2, "same")


def test_D124_states_agree_by_depth_and_settings():
    with pushed(GradInterpreter()) as level:
        state = level.get_state()
        assert level.check_state(state)
        assert compare_functorch_state([(level, state)])
        assert not compare_functorch_state([])
    assert not compare_functorch_state([(level, state)])


def test_D124_grad_restores_grad_mode_below():
    seen = []

    def inner(x):
        with top().lower():
            seen.append(mq.is_grad_enabled())
        return x * x

    with mq.no_grad():
        grad(inner)(mq.tensor(1.0))
    assert seen == [False]


def test_D124_the_stack_is_cleared_and_restored_after_errors_too():
    def inner(x):
        before = stack()
        with temporarily_clear_interpreter_stack() as levels:
            assert stack() == ()
            with temporarily_restore_interpreter_stack(levels):
                assert stack() == before
        with pytest.raises(ZeroDivisionError), temporarily_clear_interpreter_stack():
            raise ZeroDivisionError
        assert stack() == before
        return x

    vmap(inner)(mq.ones(2))


def test_D14_keys_of_tensors_tell_their_transform():
    seen = []
    vmap(lambda x: seen.append(mq.dispatch.keys(x)) or x)(mq.ones(2))
    grad(lambda x: seen.append(mq.dispatch.keys(x)) or x)(mq.ones(()))
    assert seen[0].has("FuncTorchBatched")
    assert seen[1].has("FuncTorchGradWrapper")


def test_D20_a_program_without_transforms_includes_no_key_of_theirs():
    before = tls.st.include
    vmap(mq.sin)(mq.ones(2))
    jvp(mq.sin, (mq.ones(2),), (mq.ones(2),))
    assert tls.st.include == before
    assert tls.st.transforms == ()


def test_a_tensor_of_a_level_that_is_not_in_force_can_be_looked_at() -> None:
    x = mq.randn(3, 4, 5)
    hidden = add_batch_dim(x, 1, 0)
    assert hidden.shape == (3, 5)
    assert maybe_get_level(hidden) == -2
    assert mq.equal(remove_batch_dim(hidden, 0, 4, 0), x.movedim(1, 0))
