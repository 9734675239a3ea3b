"""What a plan can be told beside model and inputs: losses, accumulation, steps, mixed precision."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import maquette as mq
from maquette import nn
from maquette.fake import DataDependentOutputException
from maquette.plan.assumptions import building
from maquette.plan.plan import Plan, plan
from maquette.tensor.streams.generator import generator_of


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 4)

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        return self.down(self.up(x).relu())


def planned(**options: object) -> Plan:
    return plan(Two(), (mq.empty(16, 8),), train=True, **options)  # type: ignore[arg-type]


def test_an_output_that_is_no_scalar_has_its_mean_for_a_loss() -> None:
    assert planned().stand_in_loss
    assert not planned(loss=lambda y: y.sum()).stand_in_loss


def test_tensors_at_the_peak_have_names() -> None:
    names = {h.name for h in planned(optimizer="adamw").held}
    assert {"up.weight", "gradient of up.weight", "exp_avg of up.weight", "args[0]"} <= names


def test_an_optimizers_operators_are_placed_by_what_they_change() -> None:
    made = planned(optimizer="sgd"), planned(optimizer="sgd", device="cuda")
    one, grouped = ([o.place.line for o in p.operators if o.phase == "step"][-1] for p in made)
    assert (one, grouped) == ("down.bias", "up.weight and 3 more")


def test_accumulating_repeats_forward_and_backward_but_not_the_step() -> None:
    once, thrice = planned(optimizer="sgd"), planned(optimizer="sgd", accumulate=3)
    assert thrice.flops_by_phase["forward"] == 3 * once.flops_by_phase["forward"] + 3
    assert thrice.flops_by_phase["step"] == once.flops_by_phase["step"]


def test_the_first_step_and_a_steady_one_are_told_apart() -> None:
    first, second, third = planned(optimizer="adam", steps=3).by_step()
    assert second == third
    assert first.operators > second.operators
    assert first.peak_bytes <= second.peak_bytes


def test_modules_keep_what_one_pass_keeps_however_many_there_are() -> None:
    def kept(**options: object) -> int:
        return planned(**options).by_module()[0].activation_bytes

    assert kept(steps=2) == kept()
    assert kept(accumulate=3) == kept() + 4  # and the loss before it is divided


def test_autocast_casts_products_to_few_bits() -> None:
    names = [o.name for o in planned(autocast=mq.bfloat16).operators]
    assert names.count("aten._to_copy.default") >= 5
    assert "aten._to_copy.default" not in [o.name for o in planned().operators]


@pytest.mark.parametrize("option", ["accumulate", "steps"])
def test_numbers_of_times_start_at_one(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} is a number of times from 1 on, got 0"):
        planned(**{option: 0})


def test_an_unknown_optimizer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown optimizer 'adamx': expected one of .*adamw"):
        planned(optimizer="adamx")


class Choosy(nn.Module):
    """Reads a truth value, keeps what a mask selects."""

    def forward(self, x: mq.Tensor) -> mq.Tensor:
        if (x > 1).any():
            raise AssertionError("assumed to be false")
        return x[x > 0] * 2


def test_sizes_and_truths_that_data_tells_are_assumed_and_told() -> None:
    """Finding 36."""
    made = plan(Choosy(), (mq.empty(10, 10),))
    assert any(a.nbytes == 400 for a in made.allocations if not a.label)
    truth, size = made.notes
    assert truth.endswith("a truth value that data tells is false")
    assert size.endswith("a size that data tells is at its largest, 100")
    assert "test_recipe.py:" in size


def test_numbers_that_data_tells_are_not_assumed() -> None:
    class Reads(nn.Module):
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            return x * x.sum().item()

    with pytest.raises(DataDependentOutputException):
        plan(Reads(), (mq.empty(4),))


def test_a_model_that_changes_its_modules_as_it_runs_is_given_back() -> None:
    class Changing(Two):
        def forward(self, x: mq.Tensor) -> mq.Tensor:
            self.up = nn.Sequential(nn.Linear(8, 32))  # type: ignore[assignment]
            return self.down(x.new_ones(16, 32))

    assert plan(Changing(), (mq.empty(16, 8),)).peak_bytes > 0


def test_small_tensors_are_real_while_a_model_is_built() -> None:
    with building():
        rates = [x.item() for x in mq.linspace(0, 1, 3)]
        large = mq.empty(10**9)
    assert rates == [0.0, 0.5, 1.0]
    assert large.fake_mode is not None


def test_a_checkpoint_keeps_no_generator_of_a_device_that_it_does_not_use() -> None:
    def peak() -> int:
        model = nn.Sequential(*[Two() for _ in range(3)], nn.Linear(4, 4))
        model[1].up, model[2].up = nn.Linear(4, 32), nn.Linear(4, 32)
        return plan(model, (mq.empty(64, 8),), train=True, checkpoint="[0-2]").peak_bytes

    before = peak()
    generator_of(mq.device("cuda"))
    assert peak() == before


def test_checkpointed_modules_keep_nothing_and_are_run_again() -> None:
    model = nn.Sequential(*[Two() for _ in range(3)], nn.Linear(4, 4))
    for i in (1, 2):
        model[i].up = nn.Linear(4, 32)
    args = (mq.empty(64, 8),)
    kept = plan(model, args, train=True)
    again = plan(model, args, train=True, checkpoint="[0-2]")
    assert again.peak_bytes < kept.peak_bytes
    assert again.flops > kept.flops
    assert "forward" not in vars(model[0])


def test_a_pattern_that_no_module_matches_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no module's path matches 'blocks\.\*': there are up"):
        planned(checkpoint="blocks.*")


class _Layer:
    """A layer's cache as transformers has it, by the name that says that it is plain."""

    def __init__(self) -> None:
        self.keys = self.values = mq.empty(2, 1, 0, 8)

    def grown(self, name: str, x: mq.Tensor) -> mq.Tensor:
        longer = mq.cat([getattr(self, name), x], dim=-2)
        setattr(self, name, longer)
        return longer


DynamicLayer = type("DynamicLayer", (_Layer,), {})
Slow = type("Slow", (_Layer,), {})


class _Window(_Layer):
    """As transformers' layer of a sliding window: it keeps what the next token sees."""

    sliding_window = 12

    def __init__(self) -> None:
        super().__init__()
        self.cumulative_length = 0

    def grown(self, name: str, x: mq.Tensor) -> mq.Tensor:
        longer = super().grown(name, x)
        setattr(self, name, longer[..., -self.sliding_window + 1 :, :])
        self.cumulative_length += x.shape[-2] if name == "keys" else 0
        return longer


DynamicSlidingWindowLayer = type("DynamicSlidingWindowLayer", (_Window,), {})
SlowWindow = type("SlowWindow", (_Window,), {})


class Decoder(nn.Module):
    def __init__(self, *kind: type) -> None:
        super().__init__()
        self.tokens, self.out, self.kind = nn.Embedding(50, 8), nn.Linear(8, 50), kind

    def forward(self, input_ids, past_key_values=None, use_cache=True):  # type: ignore[no-untyped-def]
        cache = past_key_values or SimpleNamespace(layers=[k() for k in self.kind])
        x = self.tokens(input_ids).unsqueeze(1)
        for layer in cache.layers:
            keys, values = layer.grown("keys", x), layer.grown("values", x)
            x = (x @ keys.transpose(-1, -2)).softmax(-1) @ values
        return SimpleNamespace(logits=self.out(x.squeeze(1)), past_key_values=cache)


def generated(tokens: int, *kind: type, model: type[Decoder] = Decoder) -> Plan:
    with mq.FakeTensorMode():
        prompt = {"input_ids": mq.zeros(2, 7, dtype=mq.int64)}
        return plan(model(*kind), (), prompt, generate=tokens)


@pytest.mark.parametrize("tokens", [19, 20])
def test_generating_token_by_token_or_by_both_ends_is_the_same(tokens: int) -> None:
    ends, each = generated(tokens, DynamicLayer), generated(tokens, Slow)
    assert len(ends.operators) < len(each.operators) / 3
    assert (ends.peak_bytes, ends.flops) == (each.peak_bytes, each.flops)


@pytest.mark.parametrize("tokens", [3, 6, 40])
def test_a_window_that_fills_while_generating_is_no_difference(tokens: int) -> None:
    ends = generated(tokens, DynamicSlidingWindowLayer, DynamicLayer)
    each = generated(tokens, SlowWindow, Slow)
    assert (ends.peak_bytes, ends.flops) == (each.peak_bytes, each.flops)
    assert len(ends.operators) < len(each.operators) / 3 or tokens < 7


class _State:
    """As transformers' layer of a model that keeps a state of one size."""

    def __init__(self) -> None:
        self.state = mq.zeros(2, 1, 1, 8)

    def grown(self, x: mq.Tensor) -> mq.Tensor:
        self.state = self.state * 0.5 + x.sum(-2, keepdim=True)
        return self.state


LinearAttentionLayer = type("LinearAttentionLayer", (_State,), {})
SlowState = type("SlowState", (_State,), {})


class StateDecoder(Decoder):
    def forward(self, input_ids, cache_params=None, use_cache=True):  # type: ignore[no-untyped-def]
        cache = cache_params or SimpleNamespace(layers=[k() for k in self.kind])
        x = self.tokens(input_ids).unsqueeze(1)
        for layer in cache.layers:
            x = x * layer.grown(x)
        return SimpleNamespace(logits=self.out(x.squeeze(1)), cache_params=cache)


class Blocks(Decoder):
    """With layers that are alike, which are run once and told of again."""

    def __init__(self, *kind: type) -> None:
        super().__init__(*kind)
        self.blocks = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))

    def forward(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        found = super().forward(*args, **kwargs)
        self.blocks(mq.zeros(found.logits.shape[1], 8))
        return found


def test_blocks_that_are_not_run_again_count_once_in_each_stretch() -> None:
    ends = generated(20, DynamicLayer, model=Blocks)
    each = generated(20, Slow, model=Blocks)
    assert (ends.peak_bytes, ends.flops) == (each.peak_bytes, each.flops)


def test_a_state_of_one_size_is_a_cache_too() -> None:
    ends = generated(20, LinearAttentionLayer, model=StateDecoder)
    each = generated(20, SlowState, model=StateDecoder)
    assert (ends.peak_bytes, ends.flops) == (each.peak_bytes, each.flops)
    assert len(ends.operators) < len(each.operators) / 3


def test_a_model_without_a_cache_cannot_generate() -> None:
    class NoCache(nn.Module):
        def forward(self, input_ids, use_cache=True):  # type: ignore[no-untyped-def]
            return SimpleNamespace(logits=input_ids.unsqueeze(-1) * 1.0)

    with pytest.raises(TypeError, match="past_key_values"):
        plan(NoCache(), (), {"input_ids": mq.zeros(1, 2, dtype=mq.int64)}, generate=2)


def test_flops_are_counted_in_inference_mode() -> None:
    """Finding 19: composites come there whole, and their parts have the costs."""
    model, args = mq.nn.Linear(3, 4), (mq.ones(2, 3),)
    outside = plan(model, args).flops
    with mq.inference_mode():
        assert plan(model, args).flops == outside > 0
