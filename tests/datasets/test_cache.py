"""`SharedCache` in one process."""

import contextlib
import copy
import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple

import numpy as np
import pytest
import torch

from rightfast import datasets
from rightfast.datasets import SharedCache
from rightfast.datasets.locks import ALL
from rightfast.datasets.segment import Segment
from rightfast.datasets.table import _COUNTING, BASE

from .common import COUNT, SHAPE, inodes_of, numbers, same

FORK = multiprocessing.get_context("fork")


class Counted(torch.utils.data.Dataset):
    """Notes what is read of it."""

    def __init__(self, samples):
        self.samples, self.read = samples, []

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        self.read.append(index)
        return self.samples[index]


@pytest.fixture(params=["files", "samples"])
def dataset(request, tmp_path):
    if request.param == "samples":
        return Counted(numbers())
    datasets.write_npy(tmp_path / "a.npy", numbers())
    return datasets.NpyDataset(tmp_path / "a.npy")


@pytest.mark.parametrize("fraction", [0, 0.25, 0.5, 1, 1.0])
def test_what_is_read_is_what_was_written(dataset, fraction):
    samples = numbers()
    with SharedCache(dataset, fraction=fraction) as cache:
        assert len(cache) == COUNT
        for _ in range(3):
            order = torch.randperm(COUNT).tolist()
            for first in range(0, COUNT, 5):
                chosen = order[first : first + 5]
                assert same(cache.__getitems__(chosen).stacked, samples[chosen])
            assert all(same(cache[i], samples[i]) for i in order)
        room = int(fraction * COUNT)
        info = cache.info()
        assert (info.capacity, info.filled) == (room, room)
        assert info.nbytes == room * samples[0].nbytes
        assert info.hits + info.misses == 6 * COUNT
        assert info.hits == 5 * room + hits_of_the_first_epoch(info, room)


def hits_of_the_first_epoch(info, room):
    """None: each sample is read once by batch before it is read again."""
    assert info.misses == 6 * COUNT - 5 * room
    return 0


def test_a_sample_is_read_once():
    source = Counted(numbers())
    cache = SharedCache(source, fraction=1.0)
    source.read.clear()
    for _ in range(3):
        cache.__getitems__(range(COUNT))
        assert [cache[i].shape for i in range(COUNT)] == [SHAPE] * COUNT
    assert source.read == list(range(COUNT))
    assert cache.info().hit_rate == pytest.approx(5 / 6)


def test_first_come(dataset):
    """Samples that are asked for are stored, not those in front."""
    cache = SharedCache(dataset, fraction=0.5)
    for _ in range(2):
        cache.__getitems__(range(COUNT - 11, COUNT))
    assert cache.info().hits == 11


def test_duplicates_and_negative_indices(dataset):
    cache, samples = SharedCache(dataset, fraction=1.0), numbers()
    chosen = [3, 3, -1, COUNT - 1, 3]
    for _ in range(2):
        assert same(cache.__getitems__(chosen).stacked, samples[chosen])
    assert cache.info().filled == 2
    assert same(cache[-2], samples[-2])
    for index in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError, match="below"):
            cache[index]
    with pytest.raises(TypeError, match="expected indices as integers"):
        cache[1.0]


def test_writing_to_a_sample_does_not_change_the_cache(dataset):
    cache, samples = SharedCache(dataset, fraction=0.5), numbers()
    for _ in range(3):
        for i in range(COUNT):
            cache[i].zero_()
        batch = cache.__getitems__(range(COUNT))
        batch[0].zero_()
        batch.stacked.zero_()
    assert same(cache.__getitems__(range(COUNT)).stacked, samples)
    assert same(cache[0], samples[0])


@pytest.mark.parametrize(
    ("room", "capacity"),
    [
        (0, 0),
        ("0", 0),
        (1, 0),
        (280, 1),
        (560, 2),
        ("1KiB", 3),
        ("1 kb", 3),
        ("0.5 KiB", 1),
        ("1GiB", COUNT),
    ],
)
def test_bytes(dataset, room, capacity):
    cache = SharedCache(dataset, bytes=room)
    cache.warm()
    assert cache.info().capacity == cache.info().filled == capacity


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"fraction": -0.1}, ValueError, "from 0 to 1"),
        ({"fraction": 1.01}, ValueError, "use bytes="),
        ({"fraction": float("nan")}, ValueError, "from 0 to 1"),
        ({"fraction": "half"}, TypeError, "as a number"),
        ({"fraction": True}, TypeError, "as a number"),
        ({"bytes": "4 parsecs"}, ValueError, "such as '4GiB'"),
        ({"bytes": "-4GiB"}, ValueError, "such as '4GiB'"),
        ({"bytes": -1}, ValueError, "at least 0"),
        ({"bytes": 1.5}, TypeError, "an integer or a text"),
        ({"bytes": True}, TypeError, "an integer or a text"),
        ({"bytes": ""}, ValueError, "such as '4GiB'"),
        ({"fraction": np.complex64(0.5)}, TypeError, "as a number"),
        ({}, ValueError, "got neither"),
        ({"fraction": 0.5, "bytes": 1}, ValueError, "got both"),
    ],
)
def test_arguments(dataset, options, error, match):
    with pytest.raises(error, match=match):
        SharedCache(dataset, **options)


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor.*:UserWarning")
def test_what_is_no_map_style_dataset():
    with pytest.raises(TypeError, match="map-style"):
        SharedCache(iter([torch.zeros(2)]), fraction=1.0)
    meta = torch.zeros(2, device="meta")
    quantized = torch.quantize_per_tensor(torch.zeros(2), 1, 0, torch.qint8)
    for sample in ("text", None, {"a": object()}, meta, quantized):
        with pytest.raises(TypeError, match="dense tensors and numbers"):
            SharedCache([sample], fraction=1.0)


@pytest.mark.parametrize("sample", [(), {}, [[], ()]])
def test_samples_of_nothing(sample):
    with pytest.raises(TypeError, match="a tensor or a number in them"):
        SharedCache([sample] * 3, fraction=1.0)


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_dataset_that_gives_another_number_of_samples(count):
    """None of them is stored, as nobody knows which is which."""

    class Source(Counted):
        def __getitems__(self, indices):
            return [self.samples[0]] * count

    cache, samples = SharedCache(Source(numbers()), fraction=1.0), numbers()
    for read in (lambda: cache.__getitems__([1, 2, 3]), lambda: list(datasets.Loader(cache, 3))):
        with pytest.raises(ValueError, match=f"of 3 indices, got {count}"):
            read()
    assert cache.info().filled == 0
    Source.__getitems__ = None
    assert same(cache.__getitems__([1, 2, 3]).stacked, samples[1:4])


def in_a_new_process(code, sent):
    """What a program, which is no child of multiprocessing, prints about the cache ``sent``."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    load = "import pickle, sys; cache = pickle.load(sys.stdin.buffer); "
    done = subprocess.run(
        [sys.executable, "-c", load + code], input=sent, capture_output=True, env=paths, timeout=60
    )
    return (done.stdout + done.stderr).decode().strip()


READ = "print(float(cache[3].sum()), cache.info().filled)"


def test_a_pickle_is_good_as_long_as_the_cache(tmp_path):
    """Here, and in a process that is no child, as often as one likes."""
    datasets.write_npy(tmp_path / "a.npy", numbers())
    cache, samples = SharedCache(datasets.NpyDataset(tmp_path / "a.npy"), fraction=1.0), numbers()
    sent = pickle.dumps(cache)
    for again in (pickle.loads(sent), pickle.loads(sent), copy.deepcopy(cache), copy.copy(cache)):
        assert same(again[3], samples[3])
    assert (cache.info().hits, cache.info().misses) == (3, 1)
    for _ in range(2):
        assert in_a_new_process(READ, sent) == f"{float(samples[3].sum())} 1"
    assert (cache.info().hits, cache.info().misses) == (5, 1)
    del again
    cache.close()
    said = in_a_new_process("", sent)
    assert "ValueError: expected shared memory of a process that runs and has not closed" in said
    other = SharedCache(list(samples), fraction=0.5)  # has the descriptor's number now
    assert "got another file; keep it open there" in in_a_new_process("", sent)
    other.close()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_duplicate_does_not_end_the_locks(tmp_path, duplicate):
    """The system drops a process's record locks once it closes any descriptor of the file."""
    datasets.write_npy(tmp_path / "a.npy", numbers())
    cache, samples = SharedCache(datasets.NpyDataset(tmp_path / "a.npy"), fraction=1.0), numbers()
    cache[0]  # from here on this process has a row to count in
    with cache._table.writing(3) as slot:
        descriptors = len(os.listdir("/proc/self/fd"))
        duplicate(cache)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == descriptors
        said = in_a_new_process(READ, pickle.dumps(cache))
        assert said == f"{float(samples[3].sum())} 1"  # not stored: it is being written here
        cache._table.slots.store(slot, [memoryview(samples[3].numpy().tobytes())])
    assert cache._table._row == 0
    assert cache._table.counts[:2].tolist() == [[0, 1], [0, 1]]  # the other one has its own
    assert cache.info().filled == 2


def test_large_batches_of_hits_are_copied_by_threads():
    """Ahead of their turn; what they hand out, and what they count, is as ever."""
    samples = numbers(count=24, shape=(1 << 17,))  # 512 KiB each
    cache = SharedCache(Counted(samples), fraction=0.5)
    cache.warm()
    seen, gather = set(), cache._table.slots.gather

    def noting(slots, parts):
        seen.add(threading.get_ident())
        gather(slots, parts)

    cache._table.slots.gather = noting
    order = torch.randperm(24).tolist()
    for _ in range(2):
        batches = list(datasets.Loader(cache, 6, sampler=order))
        assert same(torch.cat(batches), samples[order])
        batches[0].zero_()
    assert threading.get_ident() not in seen
    assert (cache.info().hits, cache.info().misses) == (24, 24)
    loader = iter(datasets.Loader(cache, 6))
    next(loader)
    cache.close()
    with pytest.raises(ValueError, match="was closed"):
        next(loader)


def test_clear_and_warm(dataset):
    cache, samples = SharedCache(dataset, fraction=0.5), numbers()
    assert cache.warm() == 11
    assert cache.info().hits == cache.info().misses == 0
    cache.__getitems__(range(11))
    assert cache.info().hit_rate == 1
    cache.clear()
    assert cache.info().filled == cache.info().nbytes == 0
    assert cache.warm([22, 21]) == 2
    assert same(cache.__getitems__(range(COUNT)).stacked, samples)
    assert cache.info().filled == 11
    with pytest.raises(IndexError):
        cache.warm([COUNT])


def test_use_after_close(dataset):
    cache = SharedCache(dataset, fraction=1.0)
    cache.warm()
    again = pickle.loads(pickle.dumps(cache))
    kept = cache[3]
    cache.close()
    cache.close()
    for one in (cache, again):
        for use in (
            lambda one=one: one[0],
            lambda one=one: one.__getitems__([0]),
            lambda one=one: one.prefetch([0]),
            lambda one=one: one.info(),
            lambda one=one: one.warm(),
            lambda one=one: one.clear(),
            lambda one=one: pickle.dumps(one),
        ):
            with pytest.raises(ValueError, match="was closed"):
                use()
    assert same(kept, numbers()[3])


def test_memory_is_committed_as_it_fills_and_given_back_by_close(monkeypatch):
    commits = []
    commit = Segment.commit

    def noting(self, offset, nbytes):
        commits.append(nbytes)
        commit(self, offset, nbytes)

    monkeypatch.setattr(Segment, "commit", noting)
    samples = numbers(count=16, shape=(1 << 18,))  # 1 MiB each
    cache = SharedCache(Counted(samples), fraction=1.0)
    fd = cache._table.segment.fd

    def committed():
        return os.fstat(fd).st_blocks * 512

    assert committed() < 1 << 20
    assert sum(commits) < 1 << 20  # the table
    commits.clear()
    cache.__getitems__([4, 9])
    assert 2 << 20 <= committed() < 3 << 20
    assert commits == [1 << 20, 1 << 20]
    for _ in range(2):
        cache.warm()
        assert 16 << 20 <= committed() < 17 << 20
        cache.clear()  # keeps it
        assert cache.info().filled == 0
    assert same(cache.__getitems__(range(16)).stacked, samples)
    assert 16 << 20 <= committed() < 17 << 20
    inode = os.fstat(fd).st_ino
    assert inode in inodes_of("self")
    cache.close()
    assert inode not in inodes_of("self")  # without a name, a descriptor or a mapping: it is free


def leaves(batch):
    """Without the containers: torch makes lists of tuples, where ours stay tuples."""
    return repr(torch.utils._pytree.tree_leaves(batch))


Pair = namedtuple("Pair", "image label")


@pytest.mark.parametrize(
    "make",
    [
        lambda i: (torch.full((3, 5), float(i)), i),
        lambda i: {
            "image": torch.full((7,), i, dtype=torch.int16),
            "weight": i / 3,
            "odd": i % 2 > 0,
        },
        lambda i: Pair(torch.full((2,), float(i), dtype=torch.bfloat16), torch.tensor(i)),
        lambda i: [(torch.zeros(0), i), {"deep": [torch.full((1, 1, 1), i)]}],
        lambda i: i,
    ],
)
def test_samples_of_several_parts(make):
    source = [make(i) for i in range(10)]
    cache = SharedCache(source, fraction=0.5)
    for _ in range(3):
        for i in range(10):
            assert repr(cache[i]) == repr(source[i])
        batch = cache.__getitems__([7, 0, 3])
        assert repr(list(batch)) == repr([source[i] for i in (7, 0, 3)])
        wanted = torch.utils.data.default_collate([source[i] for i in (7, 0, 3)])
        assert leaves(batch.stacked) == leaves(wanted)
        assert type(batch.stacked) is (torch.Tensor if source[0] == 0 else type(source[0]))
    loaded = zip(datasets.Loader(cache, 4), torch.utils.data.DataLoader(source, 4), strict=True)
    assert all(leaves(a) == leaves(b) for a, b in loaded)


@pytest.mark.parametrize(
    "odd",
    [torch.zeros(3, 6), torch.zeros(3, 5, dtype=torch.float64), (torch.zeros(3, 5),), 1.5],
)
def test_samples_of_unequal_shape(odd):
    source = [torch.ones(3, 5)] * 4 + [odd]
    cache = SharedCache(source, fraction=1.0)
    for read in (lambda: cache[4], lambda: cache.__getitems__([0, 4]), cache.warm):
        with pytest.raises(ValueError, match=r"of one structure, shape and dtype.*for sample 4"):
            read()
    assert same(cache.__getitems__([0, 1]).stacked, torch.ones(2, 3, 5))


def test_an_empty_dataset():
    for source in ([], numbers()[:0]):
        cache = SharedCache(Counted(source), fraction=1.0)
        assert len(cache) == cache.warm() == 0
        assert cache.__getitems__([]) == []
        assert list(datasets.Loader(cache, 4, shuffle=True)) == []
        assert cache.info().hit_rate == 0
        with pytest.raises(IndexError):
            cache[0]
        cache.clear()
        cache.close()


def test_two_caches_at_once_and_one_on_another(dataset):
    samples = numbers()
    first, second = SharedCache(dataset, fraction=1.0), SharedCache(Counted(-samples), fraction=0.5)
    outer = SharedCache(second, fraction=1.0)
    for _ in range(2):
        for i in range(COUNT):
            assert same(first[i], samples[i])
            assert same(outer[i], -samples[i])
    first.close()
    assert same(second.__getitems__(range(COUNT)).stacked, -samples)
    assert same(outer.__getitems__(range(COUNT)).stacked, -samples)


def refill(cache):
    cache.clear()
    cache.warm(range(COUNT - 1, -1, -1))


@pytest.mark.parametrize("then", [refill, SharedCache.clear])
@pytest.mark.parametrize("chosen", [0, [0], [0, 1], [0, 22]])
def test_a_clear_between_the_look_and_the_copy(dataset, then, chosen):
    """The slot may have another sample's bytes by the time it is copied: a miss."""
    samples = numbers()
    cache = SharedCache(dataset, bytes=20 * samples[0].nbytes)
    cache.warm()
    slots, name = cache._table.slots, "copy" if chosen == 0 else "gather"
    copies = getattr(slots, name)

    def late(*arguments):
        setattr(slots, name, copies)
        then(cache)
        copies(*arguments)

    setattr(slots, name, late)
    found = cache[0] if chosen == 0 else cache.__getitems__(chosen).stacked
    assert same(found, samples[chosen])
    assert (cache.info().hits, cache.info().misses) == (0, 1 if chosen == 0 else len(chosen))


@pytest.mark.parametrize("then", [refill, SharedCache.clear])
def test_a_clear_while_a_sample_is_written(dataset, then):
    """It is not published, and nobody else writes to its slot before it is done."""
    cache, samples = SharedCache(dataset, bytes=5 * numbers()[0].nbytes), numbers()
    chosen = [22, 21, 20, 19, 18, 7]
    with cache._table.writing(7) as slot:
        assert slot == 0
        then(cache)
        assert same(cache.__getitems__(chosen).stacked, samples[chosen])
        assert cache.info().filled == 4  # slot 0 is sample 22's, which waits for it
        cache._table.slots.store(slot, [memoryview(samples[7].numpy().tobytes())])
    assert cache._table.missing(chosen) == [22, 7]
    for _ in range(2):
        assert same(cache.__getitems__(chosen).stacked, samples[chosen])
    assert cache._table.missing(chosen) == [7]


def test_a_sample_that_is_there_again_when_its_first_writer_ends(dataset):
    """It stays there."""
    cache, samples = SharedCache(dataset, fraction=1.0), numbers()
    with cache._table.writing(7) as slot:
        cache.clear()
        cache.__getitems__([22, 7])
        assert cache._table.missing([22, 7]) == [22]
        cache._table.slots.store(slot, [memoryview(samples[7].numpy().tobytes())])
    assert cache._table.missing([22, 7]) == [22]
    assert same(cache.__getitems__([22, 7]).stacked, samples[[22, 7]])
    assert cache.info().filled == 2


def test_no_reader_meets_a_ticket_twice(dataset):
    """Not of any number of clears, nor of a cache without a slot."""
    for room in (0, 1, 3):
        cache, given = SharedCache(dataset, bytes=room * numbers()[0].nbytes), set()
        for _ in range(50):
            cache.warm([4, 2, 9])
            tickets = {cache._table.tickets[i] for i in (2, 4, 9)} - {0}
            current = {ticket for ticket in tickets if ticket >= cache._table.header[BASE]}
            assert len(current) == room
            assert not current & given
            given |= current
            cache.clear()
            assert cache.info().filled == 0


def test_a_slot_whose_writer_died_is_used_again(dataset):
    cache = SharedCache(dataset, bytes=2 * numbers()[0].nbytes)
    writing = cache._table.writing(5)
    assert writing.__enter__() == 0
    assert not writing.__exit__(KeyError, KeyError(), None)  # as if the process had ended here
    assert cache.info().filled == 0
    with cache._table.writing(5) as slot:
        assert slot == 0
        cache._table.slots.store(slot, [memoryview(bytes(numbers()[5].nbytes))])
    assert cache.info().filled == 1
    cache.__getitems__([1, 2])
    assert cache.info().filled == 2


@pytest.mark.parametrize("what", ["clear", "info", "warm"])
def test_a_signal_handler_uses_the_cache(what):
    """While the thread that it interrupts copies, stores, clears or counts. It waits for nobody."""
    samples, draw, calls = numbers(), random.Random(0), []
    cache = SharedCache(list(samples), fraction=0.5)

    def handler(*arguments):
        calls.append(getattr(cache, what)())
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 1e-3))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        handler()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            chosen = [draw.randrange(COUNT) for _ in range(3)]
            assert same(cache.__getitems__(chosen).stacked, samples[chosen])
            assert same(cache[chosen[0]], samples[chosen[0]])
            if draw.random() < 0.1:
                cache.clear()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(calls) > 50
    cache.clear()
    assert cache.warm() == COUNT // 2


def interrupted_at(place, function, handler):
    """Calls ``function``, and ``handler`` at the ``place``-th line that it runs of the protocol.

    False if it does not run so many.
    """

    def trace(frame, event, argument):
        nonlocal place
        if not frame.f_code.co_filename.endswith(("/table.py", "/locks.py")):
            return None
        place -= event == "line"
        if place < 0:
            sys.settrace(None)
            handler()
            return None
        return trace

    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(None)
    return place < 0


HANDLERS = {
    "clears": lambda cache: cache.clear(),
    "clears and fills": lambda cache: (cache.clear(), cache.warm([9, 8]), cache.clear()),
    "reads": lambda cache: cache.__getitems__([4, 5]),
}


@contextlib.contextmanager
def another_process(**asked):
    """``ask(name)`` is what ``asked[name]()`` returns in a child, one for all: a fork takes longer
    than all that is tested here."""
    ours, theirs = FORK.Pipe()

    def answer():
        while True:
            theirs.send(asked[theirs.recv()]())

    def ask(name):
        ours.send(name)
        assert ours.poll(30), f"no answer to {name}"
        return ours.recv()

    child = FORK.Process(target=answer, daemon=True)
    child.start()
    try:
        yield ask
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_a_signal_handler_at_each_line(handler):
    """What it interrupts goes on rightly, and no lock stays."""
    samples = numbers()
    cache = SharedCache(list(samples), fraction=1.0)
    locks = cache._table.segment.locks

    def use():
        cache.clear()
        for _ in range(2):
            assert same(cache.__getitems__([3, 4]).stacked, samples[3:5])
            assert same(cache[3], samples[3])

    def is_free():
        taken = locks._lock(ALL)
        locks._unlock(ALL)
        return taken

    def refill():
        cache.clear()
        return cache.warm()

    use()
    place = 0
    with another_process(is_free=is_free, refill=refill) as ask:

        def interrupt():
            before = locks._depth and not ask("is_free")
            handler(cache)
            assert not before or not ask("is_free")

        while interrupted_at(place, use, interrupt):
            assert (locks._depth, locks._held) == (0, {_COUNTING})
            assert ask("refill") == COUNT
            assert same(cache.__getitems__(range(COUNT)).stacked, samples)
            place += 1
    assert place > 100
