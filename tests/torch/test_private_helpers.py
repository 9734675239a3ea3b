"""Small modules under private paths: trackers, settings, sets, contexts, loggers, versions."""

import logging
import pathlib
import types

import pytest

import maquette as mq
import maquette.torch as torch
from maquette import nn
from maquette.torch._jit_internal import _isinstance, boolean_dispatch
from maquette.torch._logging import getArtifactLogger, set_logs
from maquette.torch.torch_version import TorchVersion
from maquette.torch.utils import collect_env
from maquette.torch.utils._config_module import Config, install_config_module
from maquette.torch.utils._contextlib import _DecoratorContextManager, context_decorator
from maquette.torch.utils._functools import cache_method
from maquette.torch.utils._ordered_set import OrderedSet
from maquette.torch.utils._thunk import Thunk
from maquette.torch.utils.module_tracker import ModuleTracker


def test_a_tracker_knows_what_runs_forward_and_backward() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    seen: list[tuple[set[str], bool]] = []
    with ModuleTracker() as tracker:
        net[1][0].register_forward_pre_hook(lambda *_: seen.append((set(tracker.parents), False)))
        x = mq.ones(1, 2, requires_grad=True)
        out = net(x)
        out.register_hook(lambda _: seen.append((set(tracker.parents), tracker.is_bw)))
        out.sum().backward()
    running = {"Global", "Sequential", "Sequential.1", "Sequential.1.0"}
    assert seen[0] == (running, False)
    assert seen[1][1]
    assert tracker.parents == {"Global"}


def test_versions_compare_as_versions_and_are_strings() -> None:
    assert torch.__version__ > "2.9"
    assert torch.__version__ < (3,)
    assert TorchVersion("2.0.0rc1") < "2.0"
    assert TorchVersion("1.13.0+cpu") > "1.13.0"
    assert TorchVersion("2.1.0.dev1") < TorchVersion("2.1.0a0")
    assert torch.__version__.split("+")[0] == "2.13.0"


def test_an_ordered_set_keeps_the_order_of_insertion() -> None:
    found = OrderedSet([3, 1, 2]) | OrderedSet([5, 1])
    assert list(found) == [3, 1, 2, 5]
    assert list(found - {1}) == [3, 2, 5]
    assert found == {1, 2, 3, 5}
    assert found.pop() == 5


def _settings(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.setenv("OWN_FLAG", "1")
    module = types.ModuleType("own_settings")
    module.depth = 1
    module.flag = Config(default=False, env_name_default="OWN_FLAG")
    module.nested = type("nested", (), {"width": 2, "__module__": "own_settings"})
    install_config_module(module)
    return module


def test_settings_are_read_from_the_environment_and_patched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = _settings(monkeypatch)
    assert (config.depth, config.flag, config.nested.width) == (1, True, 2)
    with config.patch({"depth": 3, "nested.width": 4}):
        assert (config.depth, config.nested.width) == (3, 4)
    assert config.get_config_copy() == {"depth": 1, "flag": True, "nested.width": 2}
    with pytest.raises(AttributeError, match="does not exist"):
        config.other = 1


def test_saved_settings_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    config = _settings(monkeypatch)
    config.depth = 7
    saved, changed = config.save_config(), config.codegen_config()
    assert changed == "own_settings.depth = 7"
    config.depth = 1
    config.load_config(saved)
    assert config.depth == 7


def test_a_context_decorates_functions_and_steps_of_generators() -> None:
    inside: list[bool] = []

    class Own(_DecoratorContextManager):
        def __enter__(self) -> None:
            inside.append(True)

        def __exit__(self, *exc: object) -> None:
            inside.pop()

    assert Own()(lambda: list(inside))() == [True]

    @Own()
    def steps() -> object:
        yield len(inside)
        yield len(inside)

    generator = steps()
    assert (next(generator), len(inside), next(generator)) == (1, 0, 1)
    with pytest.raises(RuntimeError, match="Cannot decorate classes"):
        context_decorator(lambda: Own(), int)


def test_values_are_worked_out_once() -> None:
    calls: list[int] = []
    thunk = Thunk(lambda: calls.append(1) or 5)
    assert (thunk.force(), thunk.force(), len(calls)) == (5, 5, 1)

    class Own:
        @cache_method
        def half(self, n: int) -> float:
            calls.append(n)
            return n / 2

    own = Own()
    assert (own.half(4), own.half(4), calls.count(4)) == (2.0, 2.0, 1)


def test_a_dispatched_function_goes_by_its_bool() -> None:
    chosen = boolean_dispatch("both", 1, False, lambda x, both: 2, lambda x, both=0: 1, "m", "f")
    assert (chosen(0), chosen(0, True), chosen(0, both=True)) == (1, 2, 2)
    assert _isinstance([1], list[int])
    assert not _isinstance(["a"], list[int] | None)


def test_logs_are_set_by_name() -> None:
    set_logs(modules={"own.module": logging.ERROR})
    assert logging.getLogger("own.module").level == logging.ERROR
    assert getArtifactLogger("a", "graph").name == "a.__graph"


def test_an_entry_of_a_local_hubconf_is_called(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hubconf.py").write_text("def twice(n):\n    return 2 * n\n")
    assert torch.hub.load(str(tmp_path), "twice", 3, source="local") == 6
    with pytest.raises(RuntimeError, match="Cannot find callable"):
        torch.hub.load(str(tmp_path), "thrice", source="local")


def test_the_environment_is_told() -> None:
    assert f"PyTorch version: {torch.__version__}" in collect_env.get_pretty_env_info()


def test_a_tensor_of_a_cache_is_known_until_it_is_removed_or_gone() -> None:
    x = mq.ones(2)
    for _ in range(2):
        torch._C._add_cached_tensor(x)
    assert torch._C._is_cached_tensor(x)
    torch._C._remove_cached_tensor(x)
    assert not torch._C._is_cached_tensor(x)


def test_sizes_of_a_result_and_its_gradient() -> None:
    out, grads = mq.ones(2), mq.ones(3, 2)
    assert torch.autograd._calculate_shape(out, grads, True) == ((2,), (2,))
    rows = torch.nested.as_nested_tensor([mq.ones(1, 2), mq.ones(3, 2)])
    sizes, _ = torch.autograd._calculate_shape(rows, rows, False)
    assert sizes.tolist() == [[1, 2], [3, 2]]


def test_two_tensors_are_one_by_their_own_address() -> None:
    x = mq.ones(2)
    assert x._cdata == x._cdata != x.view(2)._cdata
    assert torch._C._is_alias_of(x, x.view(2))
    assert not torch._C._is_alias_of(x, x.clone())


def test_the_fake_mode_that_is_active() -> None:
    assert torch._guards.active_fake_mode() is None
    with mq.FakeTensorMode() as mode:
        assert torch._guards.active_fake_mode() is mode


def test_the_module_of_a_device() -> None:
    assert torch._utils._get_device_module("cuda") is torch.cuda
    with pytest.raises(RuntimeError, match=r"torch\.toaster"):
        torch._utils._get_device_module("toaster")


def test_D104_dispatch_is_off_by_its_private_name() -> None:
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError(func)

    t = torch.ones(2).as_subclass(Refusing)
    with torch._C._DisableTorchDispatch():
        assert (t + 1).tolist() == [2.0, 2.0]
