"""`torch.monitor` and `torch.utils._content_store`."""

import datetime

import pytest

import maquette.torch as torch
from maquette.torch import monitor
from maquette.torch.monitor import Aggregation, Event, Stat
from maquette.torch.utils._content_store import ContentStoreReader, ContentStoreWriter

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def events():
    heard: list[Event] = []
    handle = monitor.register_event_handler(heard.append)
    yield heard
    monitor.unregister_event_handler(handle)


def test_handlers_hear_of_events_until_they_are_taken_away() -> None:
    heard: list[Event] = []
    event = Event("happened", datetime.datetime.now(), {"times": 1})
    handle = monitor.register_event_handler(heard.append)
    monitor.log_event(event)
    monitor.unregister_event_handler(handle)
    monitor.log_event(event)
    assert heard == [event]


def test_a_full_window_is_logged_and_takes_no_more(events) -> None:
    stat = Stat("loss", (Aggregation.SUM, Aggregation.MEAN), HOUR, 2)
    for number in (1, 3, 100):
        stat.add(number)
    assert events[0].data == {"loss.sum": 4.0, "loss.mean": 2.0}
    assert stat.get() == {Aggregation.SUM: 4.0, Aggregation.MEAN: 2.0}
    del stat
    assert len(events) == 1


def test_what_is_left_is_logged_when_the_object_goes(events) -> None:
    stat = Stat("loss", (Aggregation.COUNT, Aggregation.VALUE), HOUR)
    stat.add(5)
    assert stat.get() == {Aggregation.COUNT: 0.0, Aggregation.VALUE: 0.0}
    del stat
    assert events[0].data == {"loss.count": 1.0, "loss.value": 5.0}


def test_a_window_ends_with_its_time(events) -> None:
    stat = Stat("loss", (Aggregation.MAX,), datetime.timedelta(0))
    stat.add(1)
    stat.add(2)
    assert [event.data for event in events] == [{"loss.max": 1.0}]


def test_an_event_tells_texts_and_numbers() -> None:
    with pytest.raises(TypeError, match="a is of <class 'list'>"):
        Event("happened", datetime.datetime.now(), {"a": []})


def test_statistics_are_written_as_scalars(events) -> None:
    written = []

    class Writer:
        def add_scalar(self, name, value, walltime):
            written.append((name, value))

    handle = monitor.register_event_handler(monitor.TensorboardEventHandler(Writer()))
    Stat("loss", (Aggregation.MIN,), HOUR, 1).add(2)
    monitor.unregister_event_handler(handle)
    assert written == [("loss.min", 2.0)]


def test_storages_with_one_content_are_one_file(tmp_path) -> None:
    x = torch.arange(4.0)
    writer = ContentStoreWriter(str(tmp_path))
    writer.write_tensor("x", x)
    writer.write_tensor("half/x", x.clone()[::2])
    assert len(list((tmp_path / "storages").iterdir())) == 1
    reader = ContentStoreReader(str(tmp_path))
    read, half = reader.read_tensor("x"), reader.read_tensor("half/x")
    assert half.tolist() == [0.0, 2.0]
    assert read.untyped_storage().data_ptr() == half.untyped_storage().data_ptr()
