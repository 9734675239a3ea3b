"""`torch.distributed` of one process: groups, collectives, stores; more processes are refused."""

from datetime import timedelta

import pytest

import maquette as mq
import maquette.torch as torch
from maquette.torch import distributed as dist


@pytest.fixture
def world():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def t():
    return mq.arange(4.0)


# --- groups -----------------------------------------------------------------------------------


def test_a_group_of_one_process_is_made_and_destroyed(world):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
    assert (world.rank(), world.size(), world.name()) == (0, 1, "gloo")
    dist.destroy_process_group()
    assert not dist.is_initialized()
    assert dist.group.WORLD is None


@pytest.mark.parametrize(
    "call", [dist.get_rank, dist.get_world_size, dist.barrier, dist.new_group, dist.get_backend]
)
def test_without_a_group_calls_say_how_to_make_one(call):
    with pytest.raises(ValueError, match="make sure to call init_process_group"):
        call()


def test_a_second_default_group_is_refused(world):
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def test_more_processes_are_refused_in_words():
    with pytest.raises(NotImplementedError, match="one process only; no backend sends"):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=2)
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    "backend, error", [("nccl", RuntimeError), ("cpu:gloo,cuda:nccl", RuntimeError)]
)
def test_backends_that_are_not_built_in_are_refused(backend, error):
    with pytest.raises(error, match="Distributed package doesn't have NCCL built in"):
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)


def test_addresses_give_rank_and_size(tmp_path):
    for address in (f"file://{tmp_path}/store", "tcp://127.0.0.1:29500"):
        dist.init_process_group("gloo", init_method=address, rank=0, world_size=1)
        dist.destroy_process_group()
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500?rank=0&world_size=1")
    dist.destroy_process_group()


def test_the_environment_of_a_launcher_is_read(monkeypatch):
    said = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    for name, value in (said | {"LOCAL_RANK": "0"}).items():
        monkeypatch.setenv(name, value)
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_node_local_rank()) == (0, 0)
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "address, lacking",
    [
        ("env://", "environment variable RANK expected, but not set"),
        ("tcp://127.0.0.1:29500", "rank parameter missing"),
        ("tcp://127.0.0.1", "port number missing"),
        ("file://", "path missing"),
    ],
)
def test_what_an_address_lacks_is_named(address, lacking, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match=lacking):
        dist.init_process_group("gloo", init_method=address)


def test_further_groups_are_of_the_one_process(world):
    made = dist.new_group([0])
    assert (dist.get_rank(made), dist.get_process_group_ranks(made)) == (0, [0])
    assert (dist.get_global_rank(made, 0), dist.get_group_rank(made, 0)) == (0, 0)
    with pytest.raises(ValueError, match="less or equal to the world size"):
        dist.new_group([0, 1])
    with pytest.raises(ValueError, match="Rank 1 is out of range"):
        dist.new_group([1])
    dist.destroy_process_group(made)
    with pytest.raises(ValueError, match="is not registered"):
        dist.get_rank(made)


# --- collectives ------------------------------------------------------------------------------


def test_combined_values_of_one_process_are_its_own(world, t):
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX):
        dist.all_reduce(t, op)
        dist.reduce(t, 0, op)
    assert t.tolist() == [0, 1, 2, 3]


def test_gathered_and_scattered_values_arrive(world, t):
    calls = (
        lambda out: dist.all_gather([out], t),
        lambda out: dist.all_gather_into_tensor(out, t),
        lambda out: dist.gather(t, [out]),
        lambda out: dist.scatter(out, [t]),
        lambda out: dist.reduce_scatter(out, [t]),
        lambda out: dist.reduce_scatter_tensor(out, t),
        lambda out: dist.all_to_all([out], [t]),
        lambda out: dist.all_to_all_single(out, t, [4], [4]),
    )
    for call in calls:
        out = mq.zeros(4)
        call(out)
        assert out.tolist() == [0, 1, 2, 3]


def test_work_that_is_asked_for_is_done(world, t):
    work = dist.all_reduce(t, async_op=True)
    assert work.wait() is True
    assert work.is_completed()
    assert work.get_future().wait() == [t]
    assert dist.barrier(async_op=True).wait()


def test_objects_are_sent_as_copies(world):
    given, out = {"a": [1]}, [None]
    dist.all_gather_object(out, given)
    assert out == [given]
    assert out[0] is not given
    dist.broadcast_object_list(out, src=0)
    dist.gather_object(5, out)
    assert out == [5]
    dist.scatter_object_list(out, ["x"])
    assert out == ["x"]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda t: dist.broadcast(t, 1), RuntimeError, "broadcast: invalid root rank: 1"),
        (lambda t: dist.broadcast(t), ValueError, "Must specify global_rank or group_rank"),
        (lambda t: dist.gather(t), ValueError, "``gather_list`` must be specified"),
        (lambda t: dist.scatter(t), ValueError, "``scatter_list`` must be specified"),
        (lambda t: dist.all_reduce([t]), TypeError, "Expected parameter `tensor` of type"),
        (lambda t: dist.all_gather([t, t], t), RuntimeError, "expected length 1, got 2"),
        (lambda t: dist.all_gather([t[:3]], t), RuntimeError, r"expected \(4\), got \(3\)"),
        (lambda t: dist.all_gather([t.int()], t), ValueError, "different dtypes"),
        (lambda t: dist.all_reduce(t, dist.ReduceOp.BAND), RuntimeError, "non-integral"),
        (lambda t: dist.all_reduce(t * 1j, dist.ReduceOp.MAX), ValueError, "complex"),
        (lambda t: dist.all_to_all_single(t, t, [3], [4]), RuntimeError, "Split sizes"),
        (lambda t: dist.all_reduce(t, group=3), ValueError, "not initialized in the world"),
        (lambda t: dist.send(t, 0), ValueError, "should not be the same as the rank"),
        (lambda t: dist.send(t, 1), RuntimeError, "cannot send to rank 1"),
        (lambda t: dist.recv(t), RuntimeError, "cannot receive from another process"),
    ],
)
def test_what_cannot_be_is_refused(call, error, words, world, t):
    with pytest.raises(error, match=words):
        call(t)


def test_handlers_are_asked_about_collectives():
    class Asked(mq.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    asked = mq.ones(1).as_subclass(Asked)
    assert dist.all_reduce(asked) == "all_reduce"
    assert dist.all_gather([asked], mq.ones(1)) == "all_gather"


# --- stores -----------------------------------------------------------------------------------


@pytest.fixture(params=["hash", "file", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        return dist.HashStore()
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "store"), 1)
    return dist.PrefixStore("p", dist.HashStore())


def test_stores_keep_values(store):
    store.set("a", "b")
    assert store.get("a") == b"b"
    assert [store.add("n", 2), store.add("n", 3), store.get("n")] == [2, 5, b"5"]
    assert (store.num_keys(), store.check(["a", "z"])) == (2, False)
    store.append("a", "c")
    assert store.multi_get(["a", "n"]) == [b"bc", b"5"]
    assert (store.delete_key("a"), store.delete_key("a")) == (True, False)


def test_stores_set_what_is_as_expected(store):
    assert store.compare_set("k", "", "v") == b"v"
    assert store.compare_set("k", "x", "w") == b"v"
    assert store.compare_set("k", "v", "w") == b"w"


def test_waiting_for_a_value_ends(store):
    with pytest.raises(dist.DistStoreError, match="Wait timeout"):
        store.wait(["a"], timedelta(milliseconds=5))


# --- samplers ---------------------------------------------------------------------------------


def test_a_sampler_asks_the_group(world):
    sampler = torch.utils.data.DistributedSampler(range(5), shuffle=False)
    assert (sampler.rank, sampler.num_replicas, list(sampler)) == (0, 1, [0, 1, 2, 3, 4])


def test_a_sampler_without_a_group_says_so():
    with pytest.raises(ValueError, match="init_process_group"):
        torch.utils.data.DistributedSampler(range(5))
