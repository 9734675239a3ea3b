"""State dicts: keys and metadata, strict and lenient loading, hooks, extra state."""

import pytest

import maquette as mq
from maquette import nn


def model():
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def test_keys_are_parameters_then_buffers_by_path():
    assert list(model().state_dict()) == [
        "0.weight", "0.bias", "1.weight", "1.bias",
        "1.running_mean", "1.running_var", "1.num_batches_tracked",
    ]  # fmt: skip


def test_metadata_holds_versions():
    metadata = model().state_dict()._metadata
    assert dict(metadata) == {"": {"version": 1}, "0": {"version": 1}, "1": {"version": 2}}


def test_values_are_detached_aliases_unless_kept():
    module = nn.Linear(1, 1)
    saved = module.state_dict()["weight"]
    assert not saved.requires_grad
    assert saved.data_ptr() == module.weight.data_ptr()
    assert module.state_dict(keep_vars=True)["weight"] is module.weight


def test_loading_copies_values_and_keeps_tensors():
    source, target = model(), model()
    weight = target[0].weight
    assert repr(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert target[0].weight is weight
    assert mq.equal(weight, source[0].weight)


def test_strict_loading_lists_every_mismatch():
    state = model().state_dict()
    del state["0.bias"]
    state["2.extra"] = mq.ones(1)
    state["0.weight"] = mq.ones(4, 4)
    with pytest.raises(RuntimeError) as caught:
        model().load_state_dict(state)
    text = str(caught.value)
    assert "Error(s) in loading state_dict for Sequential:" in text
    assert 'Missing key(s) in state_dict: "0.bias"' in text
    assert 'Unexpected key(s) in state_dict: "2.extra"' in text
    assert "size mismatch for 0.weight: copying a param with shape" in text


def test_lenient_loading_returns_the_keys():
    state = nn.Linear(1, 1).state_dict()
    state["other"] = state.pop("bias")
    result = nn.Linear(1, 1).load_state_dict(state, strict=False)
    assert result.missing_keys == ["bias"]
    assert result.unexpected_keys == ["other"]


def test_lenient_loading_still_refuses_wrong_sizes():
    with pytest.raises(RuntimeError, match="size mismatch"):
        nn.Linear(1, 1).load_state_dict({"weight": mq.ones(2, 2)}, strict=False)


def test_loading_what_is_no_mapping_or_no_tensor():
    with pytest.raises(TypeError, match="dict-like"):
        nn.Linear(1, 1).load_state_dict([])
    with pytest.raises(RuntimeError, match=r"expected torch\.Tensor or Tensor-like"):
        nn.Linear(1, 1).load_state_dict({"weight": 3, "bias": mq.ones(1)})


def test_assign_takes_the_tensors_themselves():
    module = nn.Linear(1, 1, dtype=mq.float64)
    state = {"weight": mq.ones(1, 1), "bias": nn.Parameter(mq.ones(1))}
    module.load_state_dict(state, assign=True)
    assert module.bias is state["bias"]
    assert isinstance(module.weight, nn.Parameter)
    assert module.weight.dtype == mq.float32


def test_a_meta_module_is_filled_by_assign():
    module = nn.Linear(2, 2, device="meta")
    module.load_state_dict(nn.Linear(2, 2).state_dict(), assign=True)
    assert module(mq.ones(1, 2)).shape == (1, 2)


def test_loading_data_into_meta_without_assign_warns():
    state = nn.Linear(1, 1).state_dict()
    with pytest.warns(UserWarning, match="no-op"):
        nn.Linear(1, 1, device="meta").load_state_dict(state)


def test_a_one_element_vector_loads_into_a_scalar():
    module = nn.Module()
    module.scale = nn.Parameter(mq.zeros(()))
    module.load_state_dict({"scale": mq.full((1,), 7.0)})
    assert module.scale.item() == 7.0


def test_batch_norm_loads_state_older_than_its_counter():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    module = nn.BatchNorm1d(2)
    module.load_state_dict(state)
    assert module.num_batches_tracked.item() == 0


def test_loading_does_not_change_the_given_dict():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    nn.BatchNorm1d(2).load_state_dict(dict(state), strict=False)
    assert "num_batches_tracked" not in state


class Versioned(nn.Module):
    """A module with state that is no tensor."""

    def __init__(self):
        super().__init__()
        self.version = 0

    def get_extra_state(self):
        return {"version": self.version}

    def set_extra_state(self, state):
        self.version = state["version"]


def test_extra_state_travels_along():
    source, target = nn.Sequential(Versioned()), nn.Sequential(Versioned())
    source[0].version = 3
    assert list(source.state_dict()) == ["0._extra_state"]
    target.load_state_dict(source.state_dict())
    assert target[0].version == 3
    with pytest.raises(RuntimeError, match=r"0\._extra_state"):
        target.load_state_dict({})


def test_hooks_around_saving_and_loading():
    module, seen = nn.Linear(1, 1), []
    module.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("save", prefix)))
    module.register_state_dict_post_hook(lambda m, state, prefix, meta: state.pop(prefix + "bias"))
    module.register_load_state_dict_pre_hook(
        lambda m, state, prefix, *_: state.update(bias=mq.ones(1))
    )
    module.register_load_state_dict_post_hook(lambda m, keys: seen.append(keys.missing_keys))
    with pytest.raises(RuntimeError, match="must return None"):
        module.state_dict()
    module._mq_state_hooks.save_post.clear()
    module.load_state_dict({"weight": mq.ones(1, 1)})
    assert seen == [("save", ""), []]
    assert module.bias.item() == 1.0


def test_a_public_post_hook_is_marked_and_is_no_private_one():
    module = model()

    def hook(*args):
        return None

    module.register_state_dict_post_hook(hook)
    assert hook._from_public_api
    with pytest.raises(RuntimeError, match="previously registered"):
        module._register_state_dict_hook(hook)
