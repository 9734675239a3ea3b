"""`torch.distributed.checkpoint.state_dict`: states of models and optimizers by names."""

import pytest

import maquette as mq
import maquette.torch.distributed.checkpoint.state_dict as states
from maquette import nn, optim


def trained():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[0].bias.requires_grad_(False)
    optimizer = optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model(mq.randn(4, 2)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def test_states_of_an_optimizer_go_by_the_names_of_parameters():
    model, optimizer = trained()
    found = states.get_optimizer_state_dict(model, optimizer)
    assert list(found["state"]) == ["0.weight", "1.weight", "1.bias"]
    assert found["param_groups"][0]["params"] == ["0.weight", "1.weight", "1.bias"]
    assert found["state"]["1.bias"]["exp_avg"] is optimizer.state[model[1].bias]["exp_avg"]


@pytest.mark.parametrize("flat", [False, True])
def test_what_was_taken_is_set(flat):
    options = states.StateDictOptions(flatten_optimizer_state_dict=flat)
    of_model, of_optimizer = states.get_state_dict(*trained(), options=options)
    model, optimizer = trained()
    optimizer.param_groups[0]["lr"] = 0.5
    states.set_state_dict(
        model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer, options=options
    )
    again = states.get_state_dict(model, optimizer, options=options)
    assert mq.equal(again[0]["0.weight"], of_model["0.weight"])
    assert str(again[1]) == str(of_optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_an_optimizer_that_has_not_begun_has_states_and_changes_nothing():
    model = nn.Linear(2, 3)
    before = model.weight.tolist()
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    found = states.get_optimizer_state_dict(model, optimizer)
    assert found["state"]["weight"]["step"].item() == 1
    assert model.weight.tolist() == before
    assert model.weight.grad is None
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_frozen_parameters_are_left_out_if_asked():
    model, _ = trained()
    options = states.StateDictOptions(ignore_frozen_params=True)
    assert "0.bias" not in states.get_model_state_dict(model, options=options)
    assert "0.bias" in states.get_model_state_dict(model)


def test_a_full_state_takes_the_place_of_meta_tensors():
    model = nn.Linear(2, 3, device="meta")
    given = nn.Linear(2, 3).state_dict()
    options = states.StateDictOptions(full_state_dict=True)
    states.set_model_state_dict(model, given, options=options)
    assert model.weight.tolist() == given["weight"].tolist()


def test_keys_must_match_unless_strict_is_false():
    model = nn.Linear(2, 3)
    given = {"weight": mq.ones(3, 2), "gain": mq.ones(1)}
    with pytest.raises(RuntimeError, match="bias"):
        states.set_model_state_dict(model, given)
    found = states.set_model_state_dict(model, given, options=states.StateDictOptions(strict=False))
    assert found.missing_keys == ["bias"]
    assert found.unexpected_keys == ["gain"]
