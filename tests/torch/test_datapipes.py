"""`torch.utils.data.datapipes`: pipes, their iterations, graphs, snapshots and loaders."""

import io
import pickle
import warnings

import pytest

from maquette.torch.utils.data import (
    DataChunk,
    DataLoader,
    IterDataPipe,
    MapDataPipe,
    functional_datapipe,
    graph,
    graph_settings,
)
from maquette.torch.utils.data import datapipes as pipes
from maquette.torch.utils.data.datapipes.utils.common import StreamWrapper
from maquette.torch.utils.data.datapipes.utils.decoder import Decoder, basichandlers
from maquette.torch.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration


def doubled(x):
    return 2 * x


def parity(x):
    return x % 2


def below(n):
    return pipes.iter.IterableWrapper(range(n))


def test_pipes_are_methods_of_pipes() -> None:
    pipe = below(5).map(doubled).batch(2)
    assert list(pipe) == [[0, 2], [4, 6], [8]]
    assert isinstance(next(iter(pipe)), DataChunk)
    assert len(pipe) == 3
    assert "batch" in dir(pipe)


def test_a_class_of_ones_own_becomes_a_method_once() -> None:
    @functional_datapipe("negated_here")
    class Negated(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            for x in self.source:
                yield -x

    assert list(below(3).negated_here()) == [0, -1, -2]
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("negated_here")(Negated)
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("integers_here")(int)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: below(3).concat(below(2)), [0, 1, 2, 0, 1]),
        (lambda: below(3).mux(below(2)), [0, 0, 1, 1]),
        (lambda: below(3).zip(below(2)), [(0, 0), (1, 1)]),
        (lambda: below(4).batch(2).unbatch(), [0, 1, 2, 3]),
        (lambda: pipes.iter.Sampler(below(3)), [0, 1, 2]),
        (lambda: below(1).fork(1), [0]),
    ],
)
def test_several_pipes_become_one(made, expected) -> None:
    assert list(made()) == expected


def test_columns_are_mapped_and_put_where_the_caller_says() -> None:
    rows = [(1, 2, 3)]
    source = pipes.iter.IterableWrapper(rows)
    add = lambda a, b: a + b  # noqa: E731
    with warnings.catch_warnings(action="ignore"):
        assert list(source.map(add, input_col=[0, 2])) == [(4, 2)]
        assert list(source.map(add, input_col=[0, 2], output_col=-1)) == [(1, 2, 3, 4)]
        with pytest.raises(ValueError, match="3 are required"):
            source.map(add, input_col=[0, 1, 2])


def test_a_lambda_is_warned_of_where_pickle_needs_it() -> None:
    with pytest.warns(UserWarning, match="not supported by pickle"):
        below(2).filter(lambda x: x > 0)


def test_groups_are_given_when_they_are_full() -> None:
    pipe = below(6).groupby(parity, group_size=2, keep_key=True)
    assert list(pipe) == [(0, [0, 2]), (1, [1, 3]), (0, [4]), (1, [5])]


def test_a_second_iteration_ends_the_first() -> None:
    pipe = below(3)
    first = iter(pipe)
    assert next(first) == 0
    second = iter(pipe)
    assert next(second) == 0
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(first)
    assert pipe._number_of_samples_yielded == 1


def test_forks_read_one_source_and_say_how_far_they_may_part() -> None:
    first, second = below(5).fork(2, buffer_size=2)
    together = zip(first, second, strict=True)
    assert list(together) == [(i, i) for i in range(5)]
    ahead = iter(below(5).fork(2, buffer_size=2)[0])
    assert [next(ahead), next(ahead)] == [0, 1]
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        next(ahead)


def test_an_iteration_of_an_older_round_does_not_end_the_next() -> None:
    """PyTorch's fork ends the new iteration when the old one is let go."""
    child, _ = below(3).fork(2)
    old = iter(child)
    assert next(old) == 0
    with pytest.warns(UserWarning, match="not exhausted"):
        new = iter(child)
    assert next(new) == 0
    del old
    assert list(new) == [1, 2]


def test_samples_are_sent_to_the_pipe_of_their_class() -> None:
    even, odd = below(5).demux(2, parity)
    assert list(even) == [0, 2, 4]
    assert list(odd) == [1, 3]
    with pytest.raises(ValueError, match="between 0 and 0"):
        list(below(2).demux(1, parity)[0])


def test_a_seed_gives_an_order_once() -> None:
    pipe = below(20).shuffle()
    orders = [list(pipe.set_seed(3)), list(pipe), list(pipe.set_seed(3))]
    assert orders[0] == orders[2] != orders[1]
    assert list(pipe.set_shuffle(False)) == list(range(20))


def test_a_snapshot_is_gone_on_from() -> None:
    pipe = below(10).map(doubled)
    _simple_graph_snapshot_restoration(pipe, 4)
    assert list(pipe) == [8, 10, 12, 14, 16, 18]
    with pytest.raises(RuntimeError, match="exceeds the number of samples"):
        _simple_graph_snapshot_restoration(below(2), 3)


def test_a_pickled_pipe_keeps_its_seed() -> None:
    pipe = below(10).shuffle().set_seed(5)
    copy = pickle.loads(pickle.dumps(pipe))
    assert list(copy) == list(pipe) != list(range(10))


def test_the_graph_of_a_pipe_has_what_it_is_made_from() -> None:
    source = below(3)
    mapped = source.map(doubled)
    assert graph.traverse_dps(mapped) == {id(mapped): (mapped, {id(source): (source, {})})}
    first, second = mapped.fork(2)
    both = first.zip(second)
    assert len(graph_settings.get_all_graph_pipes(graph.traverse_dps(both))) == 6
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe`"):
        graph.traverse_dps([mapped])


def test_what_cannot_be_pickled_hides_no_pipes() -> None:
    source = below(3)
    with warnings.catch_warnings(action="ignore"):
        pipe = source.map(lambda x: x)
        pipe.file = [io.StringIO(), (x for x in ())]
        found = graph.traverse(pipe, only_datapipe=False)
    assert found[id(pipe)][1] == {id(source): (source, {})}


def test_parts_are_told_once_on_each_way() -> None:
    pipe = below(7).sharding_filter()
    graph_settings.apply_sharding(pipe, 3, 1)
    assert list(pipe) == [1, 4]
    assert len(pipe) == 2
    with pytest.raises(RuntimeError, match="Sharding twice"):
        graph_settings.apply_sharding(pipe.sharding_filter(), 3, 1)


def test_an_error_says_whose_iteration_it_was() -> None:
    with pytest.raises(TypeError) as caught:
        list(pipes.iter.IterableWrapper([None]).map(doubled))
    assert "thrown by __iter__ of MapperIterDataPipe" in caught.value.__notes__[0]


def test_pipes_with_keys() -> None:
    source = pipes.map.SequenceWrapper([1, 2, 3])
    assert isinstance(source, MapDataPipe)
    assert list(source.map(doubled).batch(2)) == [[2, 4], [6]]
    assert list(source.zip(source.concat(source))) == [(1, 1), (2, 2), (3, 3)]
    assert sorted(source.shuffle()) == [1, 2, 3]


def test_files_are_listed_opened_and_read(tmp_path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.bin").write_text("two")
    pipe = pipes.iter.FileLister(str(tmp_path), "*.txt").open_files("b").read_from_stream()
    assert list(pipe) == [(str(tmp_path / "a.txt"), b"one")]


def test_a_stream_closes_with_the_last_made_from_it() -> None:
    archive = StreamWrapper(io.BytesIO(b"all"))
    member = StreamWrapper(io.BytesIO(b"part"), archive)
    archive.autoclose()
    assert not archive.closed
    member.close()
    assert archive.closed


def test_a_decoder_knows_files_by_their_names() -> None:
    decode = Decoder(basichandlers)
    assert decode(("a.json", b"[1]")) == {"a.json": [1]}
    assert decode(("a.odd", b"x")) == {"a.odd": b"x"}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_reads_pipes_and_lets_workers_share(workers) -> None:
    pipe = below(8).sharding_filter().map(doubled)
    loader = DataLoader(pipe, batch_size=None, num_workers=workers)
    assert sorted(loader) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_a_loader_shuffles_a_pipe_that_does_not() -> None:
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        loader = DataLoader(below(50), batch_size=None, shuffle=True)
    read = list(loader)
    assert sorted(read) == list(range(50)) != read


def test_data_frames_are_absent_politely() -> None:
    from maquette.torch.utils.data.datapipes.dataframe import CaptureDataFrame

    with pytest.raises(NotImplementedError, match="map a pipe by a function"):
        CaptureDataFrame()
