"""A cache that many processes share, and what is left when they are killed."""

import contextlib
import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from rightfast import datasets
from rightfast.datasets import Loader, SharedCache, segment

from .common import COUNT, inodes_of, names_in_shm, numbers, run_on_a_small_disk, same

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*worker processes.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
FORK = multiprocessing.get_context("fork")
MIB = 1 << 20


@pytest.fixture
def dataset(tmp_path):
    datasets.write_npy(tmp_path / "a.npy", numbers())
    return datasets.NpyDataset(tmp_path / "a.npy")


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_fill_one_cache(dataset, context):
    workers = 2 if context == "fork" else 1
    cache, samples = SharedCache(dataset, fraction=1.0), numbers()
    loader = Loader(cache, 4, num_workers=workers, multiprocessing_context=context)
    assert same(torch.cat(list(loader)), samples)
    info = cache.info()
    assert (info.hits, info.misses, info.filled) == (0, COUNT, COUNT)
    cache.dataset._source = None  # from here on the file is not there
    assert same(cache.__getitems__(range(COUNT)).stacked, samples)
    if context == "fork":
        assert same(torch.cat(list(loader)), samples)
        assert cache.info().hits == 2 * COUNT


def test_workers_of_torch_s_own_loader(dataset):
    cache, samples = SharedCache(dataset, fraction=0.5), numbers()
    for function in (None, datasets.collate):
        loader = torch.utils.data.DataLoader(cache, 4, num_workers=2, collate_fn=function)
        assert same(torch.cat(list(loader)), samples)
    assert (cache.info().hits, cache.info().misses) == (11, 2 * COUNT - 11)


def hammer(cache, samples, seconds, seed):
    """Reads at random, by one and by batch; exits with 1 at the first wrong value."""
    torch.set_num_threads(1)  # OpenMP's threads do not survive a fork; DataLoader does it too
    draw, end = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        chosen = [draw.randrange(len(samples)) for _ in range(draw.choice([1, 2, 9]))]
        if not torch.equal(cache.__getitems__(chosen).stacked, samples[chosen]):
            os._exit(1)
        if not torch.equal(cache[chosen[0]], samples[chosen[0]]):
            os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("pause", [0.05, 0])
@pytest.mark.parametrize(
    "seconds", [pytest.param(3, id="short"), pytest.param(60, id="long", marks=pytest.mark.slow)]
)
def test_eight_workers_and_a_parent_that_clears(seconds, pause):
    """Every value is checked. Two thirds fit; slots change their samples all the time."""
    samples = torch.arange(60.0)[:, None].expand(60, 5000).contiguous()
    cache = SharedCache(list(samples), fraction=2 / 3)
    children = [FORK.Process(target=hammer, args=(cache, samples, seconds, n)) for n in range(8)]
    for child in children:
        child.start()
    clears = 0
    while any(child.is_alive() for child in children):
        time.sleep(pause)
        cache.clear()
        clears += 1
    assert [child.exitcode for child in children] == [0] * 8
    assert clears > 5
    info = cache.info()
    assert info.hits > 100 or not pause
    assert info.misses > 100
    assert cache.warm() == 40
    assert torch.equal(cache.__getitems__(range(60)).stacked, samples)


def die_alone(cache):
    with cache._table.segment.locks.alone():
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_is_killed_where_it_is_alone(dataset):
    cache = SharedCache(dataset, fraction=1.0)
    child = FORK.Process(target=die_alone, args=(cache,))
    child.start()
    child.join(30)
    assert child.exitcode == -signal.SIGKILL
    cache.clear()
    assert cache.warm() == COUNT


def die_while_writing(cache, index):
    with cache._table.writing(index):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_writer_is_killed(dataset):
    """Its lock is released, its slot used by the next writer, and no half sample is seen."""
    cache, samples = SharedCache(dataset, bytes=5 * numbers()[0].nbytes), numbers()
    for index in (3, 4):
        child = FORK.Process(target=die_while_writing, args=(cache, index))
        child.start()
        child.join(30)
        assert child.exitcode == -signal.SIGKILL
    assert cache.info().filled == 0
    chosen = [3, 4, 5, 6, 7]
    for _ in range(2):
        assert same(cache.__getitems__(chosen).stacked, samples[chosen])
    assert (cache.info().filled, cache.info().hits) == (5, 5)
    cache.clear()
    assert cache.warm() == 5


def hold_lock(cache, index, ready, leave):
    with cache._table.writing(index):
        ready.set()
        leave.wait(60)
        cache._table.slots.store(0, [memoryview(bytes(numbers()[3].nbytes))])


def test_what_another_process_writes_is_read_from_the_dataset(dataset):
    cache, samples = SharedCache(dataset, fraction=1.0), numbers()
    ready, leave = FORK.Event(), FORK.Event()
    child = FORK.Process(target=hold_lock, args=(cache, 3, ready, leave))
    child.start()
    assert ready.wait(60)
    assert same(cache[3], samples[3])
    assert cache.info().filled == 0  # not stored twice, not waited for
    leave.set()
    child.join()
    assert cache.info().filled == 1


def test_close_in_one_process_is_seen_by_all(dataset):
    cache = SharedCache(dataset, fraction=1.0)
    child = FORK.Process(target=cache.close)
    child.start()
    child.join()
    with pytest.raises(ValueError, match="was closed"):
        cache[0]


SCRIPT = """
import sys, time, torch
from rightfast.datasets import Loader, SharedCache
class Source(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.full((1 << 18,), float(index))
cache = SharedCache(Source(), fraction=1.0)
iterator = iter(Loader(cache, 4, num_workers=2))
workers = [worker.pid for worker in iterator._workers]
for batch in iterator:
    pass
print(*workers, cache.info().filled, flush=True)
iterator = iter(Loader(cache, 4, num_workers=2, prefetch_factor=1))
kept = [next(iterator), next(iterator)]  # from each: by now they look for their parent
print(*[worker.pid for worker in iterator._workers], flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def program():
    """A process with 64 MiB in a cache and batches in flight: (process, pids of its workers)."""
    paths = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
    ) as process:
        try:
            assert process.stdout.readline().split()[-1] == "64"
            yield process, [int(pid) for pid in process.stdout.readline().split()]
        finally:
            process.kill()


def used():
    found = os.statvfs("/dev/shm")
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def eventually(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


@pytest.mark.parametrize("victim", ["worker", "parent"])
def test_kill_9_leaves_nothing_in_shm(victim):
    names, before = names_in_shm(), used()
    with program() as (process, workers):
        assert used() >= before + 32 * MIB  # other tests come and go, by less
        assert names_in_shm() <= names
        os.kill(workers[0] if victim == "worker" else process.pid, signal.SIGKILL)
        if victim == "worker":
            assert eventually(lambda: gone(workers[0]))
            assert not gone(process.pid)  # it learns of it at the next batch
            process.kill()
        process.wait()
        # torch's workers look for their parent every few seconds, and end without it.
        assert eventually(lambda: all(gone(pid) for pid in workers))
        assert eventually(lambda: used() < before + 32 * MIB)
    assert names_in_shm() <= names


def test_a_killed_worker_leaves_the_cache_to_the_others(dataset):
    cache, samples = SharedCache(dataset, fraction=1.0), numbers()
    iterator = iter(Loader(cache, 2, num_workers=2, prefetch_factor=1))
    next(iterator)
    os.kill(iterator._workers[1].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(iterator)
    assert same(torch.cat(list(Loader(cache, 2, num_workers=2))), samples)


def test_a_cache_that_does_not_fit(monkeypatch):
    monkeypatch.setattr(segment, "free_bytes", lambda folder: 1000)
    with pytest.raises(OSError, match=r"expected room for 6\.289 KiB in /dev/shm") as caught:
        SharedCache(list(numbers()), fraction=1.0)
    assert caught.value.errno == errno.ENOSPC
    for said in ("free of", "take a smaller fraction= or bytes=", "--shm-size"):
        assert said in str(caught.value)
    assert SharedCache(list(numbers()), bytes=900).warm() == 3


FULL = """
import errno, os, sys, torch
from rightfast.datasets import Loader, SharedCache, segment
segment.FOLDER = sys.argv[1]
samples = [torch.full((1 << 16,), float(i)) for i in range(40)]  # 10 MiB
try:
    SharedCache(samples, fraction=1.0)
except OSError as error:
    print("init", error.errno == errno.ENOSPC, error)
cache = SharedCache(samples, fraction=0.5)
with open(sys.argv[1] + "/somebody.bin", "wb") as file:
    os.posix_fallocate(file.fileno(), 0, 6 << 20)
filled = 0
try:
    for i in range(40):
        assert torch.equal(cache[i], samples[i])
        filled += 1
except OSError as error:
    print("fill", error.errno == errno.ENOSPC, cache.info().filled == filled, error)
assert torch.equal(cache.__getitems__(range(filled)).stacked, torch.stack(samples[:filled]))
os.remove(sys.argv[1] + "/somebody.bin")
for i in range(40):
    assert torch.equal(cache[i], samples[i])
print("after", cache.info().filled)
"""


def test_a_memory_file_system_that_fills_up(tmp_path):
    """A real one, of 8 MiB, in a namespace of its own."""
    lines = run_on_a_small_disk(FULL, tmp_path).splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("init True ")
    assert "expected room for 10 MiB" in lines[0]
    assert lines[1].startswith("fill True True ")
    assert "1 files there with a name, the largest somebody.bin (6 MiB)" in lines[1]
    assert lines[2] == "after 20"


def test_no_memory_file_system(tmp_path):
    with pytest.raises(OSError, match="expected a memory file system"):
        segment.Segment(10, str(tmp_path / "nowhere"))


CLEARED = """
import os, sys, time, torch
from rightfast.datasets import SharedCache, segment
segment.FOLDER = sys.argv[1]
def fill_up():
    file, size, step = os.open(sys.argv[1] + "/somebody.bin", os.O_CREAT | os.O_RDWR), 0, 1 << 20
    while step >= 4096:
        try:
            os.posix_fallocate(file, size, step)
            size += step
        except OSError:
            step //= 2
    os.close(file)
def ends(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
def used():
    found = os.statvfs(sys.argv[1])
    return (found.f_blocks - found.f_bfree) * found.f_frsize
samples = torch.arange(8.0)[:, None].expand(8, 1 << 16).contiguous()
for one in (True, False):
    for what in ("clear", "close"):
        cache = SharedCache(list(samples), fraction=0.5)
        assert cache.warm([4, 5, 6, 7]) == 4
        told, tell = os.pipe()
        child = os.fork()
        if not child:
            torch.set_num_threads(1)
            for name in ("copy", "gather"):
                def late(*arguments, copies=getattr(cache._table.slots, name)):
                    os.write(tell, b"!")
                    time.sleep(1)
                    copies(*arguments)
                setattr(cache._table.slots, name, late)
            try:
                read = cache[4] if one else cache.__getitems__([4, 5, 6, 7]).stacked
                assert torch.equal(read, samples[4] if one else samples[4:])
                assert one or what == "clear"
                cache[4]
                assert what == "clear"
            except ValueError as error:
                assert what == "close" and "was closed" in str(error), error
            os._exit(0)
        assert os.read(told, 1) == b"!"
        getattr(cache, what)()
        fill_up()
        if what == "clear":  # the slots are still there
            assert cache.warm() == 4
            assert torch.equal(cache.__getitems__(range(8)).stacked, samples)
        print(ends(child))
        os.remove(sys.argv[1] + "/somebody.bin")
        cache.close()
        assert used() == 0
cache = SharedCache([torch.zeros(1)] * 1000000, fraction=0)
child = os.fork()
if not child:
    fill_up()
    assert cache[999999] == 0  # in a page of the table that nobody has used
    os._exit(0)
print(ends(child))
"""


def test_clear_and_close_while_one_reads_and_the_file_system_is_full(tmp_path):
    """Memory is not taken from who reads it: the system would have none to give, and send SIGBUS.
    What is cleared can be filled again, as it is still there."""
    assert run_on_a_small_disk(CLEARED, tmp_path).split() == ["0"] * 5


def test_memory_is_free_when_all_have_closed(dataset):
    """A child that has the cache keeps it until its next use of it."""
    cache = SharedCache(dataset, fraction=1.0)
    inode = os.fstat(cache._table.segment.fd).st_ino
    ours, theirs = FORK.Pipe()

    def child():
        theirs.recv()
        with pytest.raises(ValueError, match="was closed"):
            cache[0]
        theirs.send("raised")
        theirs.recv()

    process = FORK.Process(target=child, daemon=True)  # a failure ends it
    process.start()
    cache.close()
    assert inode not in inodes_of("self")
    assert inode in inodes_of(process.pid)
    ours.send("use it")
    assert ours.recv() == "raised"
    assert inode not in inodes_of(process.pid)
    ours.send("end")
    process.join()


def receive(caches, samples, done):
    cache = caches.get()
    done.put(same(cache.__getitems__(range(COUNT)).stacked, samples))


def test_a_cache_is_sent_to_a_child_that_runs(dataset):
    samples, caches, done = numbers(), FORK.Queue(), FORK.Queue()
    child = FORK.Process(target=receive, args=(caches, samples, done))
    child.start()
    cache = SharedCache(dataset, fraction=1.0)
    caches.put(cache)
    assert done.get(timeout=60)
    child.join()
    assert (cache.info().filled, cache.info().misses) == (COUNT, COUNT)


def put_first(queue, cache):
    queue.put(cache[0].tolist())


def test_a_cache_whose_parent_has_dropped_it(dataset):
    """A process that is being started has it, whatever becomes of that of its parent."""
    start = multiprocessing.get_context("spawn")
    queue = start.Queue()
    child = start.Process(target=put_first, args=(queue, SharedCache(dataset, fraction=1.0)))
    child.start()
    assert queue.get(timeout=60) == numbers()[0].tolist()
    child.join()


def leave_half_way(cache):
    cache._table.slots.gather = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
    cache.__getitems__([3])


def test_a_reader_is_killed(dataset):
    """Nobody waits for it."""
    cache = SharedCache(dataset, fraction=1.0)
    cache.warm()
    child = FORK.Process(target=leave_half_way, args=(cache,))
    child.start()
    child.join(30)
    assert child.exitcode == -signal.SIGKILL
    cache.clear()
    assert cache.warm() == COUNT
