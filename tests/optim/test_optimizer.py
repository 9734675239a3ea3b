"""What all optimizers share: groups, hooks, zeroing, saving and loading."""

import copy
import pickle

import pytest

import maquette as mq
from maquette import nn, optim


def parameters(count=2):
    return [nn.Parameter(mq.full((i + 1,), float(i + 1))) for i in range(count)]


def stepped(optimizer, times=1):
    """The optimizer after steps with gradients of one."""
    for _ in range(times):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = mq.ones_like(parameter)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    "params, error, message",
    [
        ([], ValueError, "empty parameter list"),
        (mq.ones(1), TypeError, "iterable of Tensors or dicts"),
        ([3], TypeError, "can only optimize Tensors"),
        ([{"params": {mq.ones(1)}}], TypeError, "ordered collections"),
        ([mq.ones(1, requires_grad=True) * 2], ValueError, "non-leaf"),
        ([("a", mq.ones(1)), mq.ones(1)], ValueError, "names are missing"),
    ],
)
def test_parameters_that_cannot_be_optimized(params, error, message):
    with pytest.raises(error, match=message):
        optim.SGD(params, lr=0.1)


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW])
@pytest.mark.parametrize("betas", [(0, 0.9), (mq.tensor(0.9), 0.99)])
def test_an_int_or_one_tensor_is_no_pair_of_betas(kind, betas):
    with pytest.raises(ValueError, match="either both floats or both Tensors"):
        kind(parameters(), betas=betas)


def test_a_parameter_belongs_to_one_group():
    (p,) = parameters(1)
    optimizer = optim.SGD([p], lr=0.1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": p})
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p], lr=0.1)


def test_named_parameters_keep_their_names():
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": parameters(1)})


def test_repr_lists_the_options_of_each_group():
    text = repr(optim.SGD(parameters(), lr=0.5))
    assert text.startswith("SGD (\nParameter Group 0\n    dampening: 0\n")
    assert "    lr: 0.5\n" in text


def test_a_closure_is_run_with_gradients_and_its_loss_returned():
    (p,) = parameters(1)
    optimizer = optim.SGD([p], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (p * 3).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3.0
    assert p.item() == -0.5


@pytest.mark.parametrize("foreach", [None, True])
def test_zero_grad_drops_or_fills(foreach):
    optimizer = stepped(optim.SGD(parameters(), lr=0.1, foreach=foreach))
    grads = [p.grad for p in optimizer.param_groups[0]["params"]]
    optimizer.zero_grad(set_to_none=False)
    assert all(grad.abs().sum().item() == 0 for grad in grads)
    optimizer.zero_grad()
    assert all(p.grad is None for p in optimizer.param_groups[0]["params"])


# --- Hooks ---------------------------------------------------------------------------


def test_hooks_run_around_each_step():
    optimizer, seen = optim.SGD(parameters(), lr=0.1), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("pre"))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post"))
    everywhere = optim.register_optimizer_step_pre_hook(lambda o, a, k: seen.append("all"))
    stepped(optimizer)
    handle.remove()
    everywhere.remove()
    stepped(optimizer)
    assert seen == ["all", "pre", "post", "pre"]


def test_a_users_step_is_hooked_once():
    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step()
            return super().step(closure)

    (p,) = parameters(1)
    optimizer, seen = Twice([p], lr=0.25), []
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    stepped(optimizer)
    assert seen == [1]
    assert p.item() == 0.5


def test_hooks_around_the_state_dict():
    optimizer, seen = stepped(optim.Adam(parameters())), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("save"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state.pop("extra")))
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["save", 1, "loaded"]


# --- Saving and loading --------------------------------------------------------------


def test_a_state_dict_names_parameters_by_place():
    a, b, c = parameters(3)
    optimizer = stepped(optim.Adam([{"params": [a, b]}, {"params": [c]}]))
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    assert state["state"][2]["exp_avg"] is optimizer.state[c]["exp_avg"]


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_training_goes_on_from_a_loaded_state(name):
    make = getattr(optim, name)
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    whole = stepped(make(parameters(), lr=0.1, **options), 4)
    half = stepped(make(parameters(), lr=0.1, **options), 2)
    resumed = make([nn.Parameter(p.detach().clone()) for p in half.param_groups[0]["params"]])
    resumed.load_state_dict(copy.deepcopy(half.state_dict()))
    stepped(resumed, 2)
    for p, q in zip(whole.param_groups[0]["params"], resumed.param_groups[0]["params"]):
        assert mq.equal(p, q)


def test_loaded_state_follows_its_parameter_except_the_counter():
    state = stepped(optim.Adam(parameters(1))).state_dict()
    double = nn.Parameter(mq.ones(1, dtype=mq.float64))
    optimizer = optim.Adam([double])
    optimizer.load_state_dict(state)
    assert optimizer.state[double]["exp_avg"].dtype == mq.float64
    assert optimizer.state[double]["step"].dtype == mq.float32


def test_a_state_dict_of_another_shape_is_refused():
    state = optim.SGD(parameters(2), lr=0.1).state_dict()
    with pytest.raises(ValueError, match="doesn't match the size"):
        optim.SGD(parameters(1), lr=0.1).load_state_dict(state)
    other = optim.SGD([{"params": p} for p in parameters(2)], lr=0.1)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        other.load_state_dict(state)


def test_an_optimizer_can_be_pickled_with_its_parameters():
    optimizer = pickle.loads(pickle.dumps(stepped(optim.Adam(parameters()))))
    stepped(optimizer)
    (group,) = optimizer.param_groups
    assert optimizer.state[group["params"][0]]["step"].item() == 2.0


def test_clipping_scales_all_gradients_by_one_factor():
    p, q = nn.Parameter(mq.zeros(2)), nn.Parameter(mq.zeros(1))
    p.grad, q.grad = mq.tensor([3.0, 0.0]), mq.tensor([4.0])
    assert nn.utils.clip_grad_norm_([p, q], 1.0).item() == 5.0
    assert mq.allclose(mq.cat([p.grad, q.grad]), mq.tensor([0.6, 0.0, 0.8]))
    assert nn.utils.clip_grad_norm_([p, q], 10.0).item() == pytest.approx(1.0)
    assert mq.allclose(q.grad, mq.tensor([0.8]))


def test_clipping_refuses_infinities_on_request():
    p = nn.Parameter(mq.zeros(1))
    p.grad = mq.tensor([float("inf")])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    nn.utils.clip_grad_value_(p, 2.0)
    assert p.grad.item() == 2.0


def test_parameters_become_a_vector_and_come_back():
    members = parameters(2)
    vector = nn.utils.parameters_to_vector(members)
    assert mq.equal(vector.detach(), mq.tensor([1.0, 2.0, 2.0]))
    nn.utils.vector_to_parameters(mq.tensor([7.0, 8.0, 9.0]), members)
    assert mq.equal(members[1].detach(), mq.tensor([8.0, 9.0]))
