"""Threads that read one cache, while it is cleared or closed, while the process forks or ends."""

import collections
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from rightfast import datasets
from rightfast.datasets import Loader, SharedCache

from .common import same

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
COUNT = 24


@pytest.fixture(scope="module")
def samples():
    """512 KiB each: a batch of 6 is worth a thread."""
    return torch.arange(COUNT * 1.0)[:, None].expand(COUNT, 1 << 17).contiguous()


@pytest.fixture(params=["files", "samples"])
def cache(request, samples, tmp_path):
    dataset = list(samples)
    if request.param == "files":
        datasets.write_npy(tmp_path / "a.npy", samples)
        dataset = datasets.NpyDataset(tmp_path / "a.npy")
    cache = SharedCache(dataset, fraction=1.0)
    cache.warm()
    return cache


def in_threads(*works):
    """Runs them all, and raises what one of them raised; fails if one does not end."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def epochs(cache, samples, seed, count=5):
    """Shuffled, with indices that repeat; every value is checked, and no kept batch changes."""
    draw = random.Random(seed)
    for _ in range(count):
        order = [draw.randrange(COUNT) for _ in range(2 * COUNT)]
        batches = list(Loader(cache, 6, sampler=order))
        assert same(torch.cat(batches), samples[order])
        assert same(cache[order[0]], samples[order[0]])
        again = list(Loader(cache, 6, sampler=order[::-1]))
        assert same(torch.cat(batches), samples[order])
        assert same(torch.cat(again), samples[order[::-1]])


def test_two_threads_read(cache, samples):
    in_threads(lambda: epochs(cache, samples, 1), lambda: epochs(cache, samples, 2))
    info = cache.info()
    assert (info.hits, info.misses) == (2 * 5 * (4 * COUNT + 1), 0)


def test_threads_read_while_others_clear(cache, samples):
    reading = True

    def read(seed):
        nonlocal reading
        try:
            epochs(cache, samples, seed)
        finally:
            reading = False

    def clear():
        while reading:
            cache.clear()
            time.sleep(0.002)

    in_threads(lambda: read(1), lambda: read(2), clear, clear)
    cache.clear()
    assert cache.warm() == COUNT
    assert same(cache.__getitems__(range(COUNT)).stacked, samples)


def test_a_thread_closes_while_another_reads(cache, samples):
    reading = threading.Event()

    def read_on(kept):
        while True:
            for first, batch in zip(range(0, COUNT, 6), Loader(cache, 6), strict=True):
                kept.append((first, batch))
                if len(kept) == 8:
                    reading.set()

    def read():
        kept = collections.deque(maxlen=8)
        with pytest.raises(ValueError, match="was closed"):
            read_on(kept)
        assert len(kept) == 8
        assert all(same(batch, samples[first : first + 6]) for first, batch in kept)

    def close():
        assert reading.wait(60)
        cache.close()

    in_threads(read, close)


def fail_at(cache, samples, at):
    for place, batch in enumerate(Loader(cache, 6)):
        assert same(batch, samples[6 * place : 6 * place + 6])
        if place == at:
            raise KeyError(at)


def test_a_consumer_that_fails_in_the_middle_of_an_epoch(cache, samples):
    for at in range(4):
        with pytest.raises(KeyError):
            fail_at(cache, samples, at)
        cache.clear()  # what was begun ends by itself
        cache.warm()
    assert same(torch.cat(list(Loader(cache, 6))), samples)


@pytest.mark.parametrize("full", [True, False])
def test_forks_while_copies_are_under_way(cache, samples, full):
    """A child has no threads of its parent, and waits neither for them nor for their locks."""
    for _ in range(8):
        if not full:
            cache.clear()
        begun = [cache.prefetch(range(first, first + 6)) for first in range(0, COUNT, 6)]
        child = os.fork()
        if not child:
            signal.alarm(60)
            torch.set_num_threads(1)  # OpenMP's threads do not survive a fork either
            try:
                read = torch.cat([cache.__getitems__(ahead).stacked for ahead in begun])
                assert same(read, samples)
                assert same(torch.cat(list(Loader(cache, 6))), samples)
                cache.clear()
                assert same(torch.cat(list(Loader(cache, 6))), samples)
            except BaseException:
                os._exit(1)
            os._exit(0)
        read = torch.cat([cache.__getitems__(ahead).stacked for ahead in begun])
        assert same(read, samples)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


LEAVES = """
import sys, torch
from rightfast.datasets import Loader, SharedCache
samples = [torch.full((1 << 17,), float(i)) for i in range(48)]
cache = SharedCache(samples, fraction=1.0)
cache.warm()
batches = iter(Loader(cache, 12, read_ahead=3))
assert next(batches)[5, 0] == 5
if sys.argv[1] == "error":
    raise SystemExit("in the middle")
"""


@pytest.mark.parametrize("how", ["end", "error"])
def test_the_process_ends_while_copies_are_under_way(how):
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-X", "faulthandler", "-c", LEAVES, how]
    done = subprocess.run(command, capture_output=True, text=True, env=paths, timeout=60)
    expected = (0, "") if how == "end" else (1, "in the middle")
    assert (done.returncode, done.stderr.strip()) == expected
