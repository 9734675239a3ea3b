"""Names that PyTorch's modules have besides the layers: checks, masks, old names, formats."""

import pytest

import maquette as mq
from maquette import nn
from maquette.nn.modules import container, conv, linear
from maquette.nn.modules.rnn import apply_permutation


def test_an_lstm_says_the_sizes_of_its_states_and_checks_them() -> None:
    lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2)
    x = mq.zeros(5, 6, 3)
    assert lstm.get_expected_hidden_size(x, None) == (4, 5, 2)
    assert lstm.get_expected_cell_size(x, None) == (4, 5, 4)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(4, 5, 4\)"):
        lstm.check_forward_args(x, (mq.zeros(4, 5, 2), mq.zeros(1, 5, 4)), None)
    with pytest.raises(RuntimeError, match="must have 3 dimensions, got 2"):
        lstm.check_input(x[0], None)


def test_hidden_states_are_permuted_in_pairs() -> None:
    state = mq.arange(6.0).view(1, 3, 2)
    order = mq.tensor([2, 0, 1])
    first, second = nn.LSTM(2, 2).permute_hidden((state, state), order)
    assert first.tolist() == second.tolist() == state[:, order].tolist()
    with pytest.warns(FutureWarning, match="deprecated"):
        apply_permutation(state, order)


def test_masks_are_merged_into_one() -> None:
    attention = nn.MultiheadAttention(4, 2)
    query, scores, keys = mq.zeros(2, 3, 4), mq.ones(3, 3), mq.ones(2, 3)
    merged, kind = attention.merge_masks(scores, keys, query)
    assert (merged.shape, kind) == ((2, 2, 3, 3), 2)
    assert attention.merge_masks(None, keys, query)[1] == 1
    assert attention.merge_masks(None, None, query) == (None, None)


def test_classes_stand_in_the_files_of_their_families() -> None:
    assert conv.LazyConv2d is nn.LazyConv2d
    assert container.ParameterList is nn.ParameterList
    assert linear.LazyLinear is nn.LazyLinear


def test_factory_kwargs_are_those_of_factories() -> None:
    assert nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": 1}}) == {
        "device": "cpu",
        "dtype": 1,
    }
    with pytest.raises(TypeError, match="unexpected kwargs"):
        nn.factory_kwargs({"bias": True})


def test_convolutions_take_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3))
    nn.utils.convert_conv2d_weight_memory_format(model, mq.channels_last)
    assert model[0].weight.is_contiguous(memory_format=mq.channels_last)


def test_old_names_warn() -> None:
    with pytest.warns(FutureWarning, match="nn.Container is deprecated"):
        container.Container(a=nn.ReLU())
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        nn.modules.loss.NLLLoss2d()


# Of PyTorch's modules, or kept for programs that set or override them.
_OF_PYTORCH = frozenset(
    "_apply _backward_hooks _backward_pre_hooks _buffers _call_impl _forward_hooks "
    "_forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks "
    "_forward_pre_hooks_with_kwargs _get_name _is_full_backward_hook _load_from_state_dict "
    "_load_state_dict_post_hooks _load_state_dict_pre_hooks _modules _named_members "
    "_non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook "
    "_register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward "
    "_state_dict_hooks _state_dict_pre_hooks _version".split()
)


def test_private_names_of_modules_are_free_for_programs() -> None:
    names = {n for n in dir(nn.Module) if n.startswith("_") and not n.startswith(("__", "_mq_"))}
    assert names <= _OF_PYTORCH
    own = {n for n in nn.ReLU()._mq_attributes if not n.startswith("_mq_")}
    assert own == {"training", "inplace"}


def test_a_module_with_hooks_of_its_own_is_called_as_any_other() -> None:
    class Watched(nn.Linear):
        def __init__(self) -> None:
            super().__init__(2, 2)
            self._hooks: list[object] = []
            self._own = self._module_names = None
            self.register_forward_hook(lambda *seen: self._hooks.append(seen))

    module = Watched()
    module(mq.ones(1, 2))
    module.load_state_dict(module.state_dict())
    assert len(module._hooks) == 1


def test_functions_that_stand_in_a_class_take_the_inputs_alone() -> None:
    namespace: dict[str, object] = {"act": mq.relu, "reset_parameters": nn.Linear.reset_parameters}
    made = type("Convolving", (nn.Module,), {**namespace, "__module__": "program"})()
    assert made.act(mq.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert made.reset_parameters.__self__ is made


def test_classes_of_no_module_may_be_modules() -> None:
    space: dict[str, object] = {"nn": nn}
    exec("class Own(nn.Module):\n    def forward(self, x): return x", space)
    assert space["Own"]()(3) == 3


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (nn.SiLU(), "silu"),
        (nn.Conv1d(2, 2, 1), "conv1d"),
        (nn.AdaptiveAvgPool1d(1), "adaptive_avg_pool1d"),
        (nn.MaxPool1d(1), "max_pool1d"),
        (nn.Softmax(0), "softmax"),
        (nn.Linear(3, 1), "linear"),
    ],
)
def test_layers_call_the_functions_that_stand_in_functional(layer, name, monkeypatch):
    calls = []
    before = getattr(nn.functional, name)
    monkeypatch.setattr(nn.functional, name, lambda *a, **k: calls.append(1) or before(*a, **k))
    layer(mq.ones(2, 3))
    assert calls == [1]


def test_a_programs_layer_may_run_under_any_name():
    class Running(nn.SiLU):
        _run = None

    assert Running()(mq.zeros(1)).item() == 0


def test_the_files_of_parallel_layers_are_modules_and_their_functions_names() -> None:
    from maquette.nn import parallel
    from maquette.nn.parallel.parallel_apply import get_a_var, parallel_apply
    from maquette.nn.parallel.replicate import replicate

    assert parallel.parallel_apply is parallel_apply
    assert parallel.replicate is replicate
    found = get_a_var({"a": [1, (2, mq.ones(3))]})
    assert found is not None
    assert found.shape == (3,)
