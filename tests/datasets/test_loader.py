"""`Loader`: batches in order and right, whatever is kept, dropped or broken off."""

import gc
import multiprocessing
import os

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    get_worker_info,
)

from rightfast import datasets
from rightfast.datasets import Loader
from rightfast.datasets.ring import Ring

from .common import COUNT, names_in_shm, numbers, same

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*worker processes.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
WORKERS = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture
def dataset(tmp_path):
    datasets.write_npy(tmp_path / "a.npy", numbers())
    return datasets.NpyDataset(tmp_path / "a.npy")


@pytest.fixture
def samples():
    return numbers()


class Noting(datasets.SampleDataset):
    """Says in the first element which process read a sample."""

    def __init__(self, dataset):
        super().__init__(dataset._source)

    def start(self, indices, rows):
        reading = super().start(indices, rows)
        for row in rows:
            row[:4] = os.getpid().to_bytes(4, "little")
        return reading


@WORKERS
@pytest.mark.parametrize("read_ahead", [None, 0, 1, 5, 50])
def test_every_batch_in_order(dataset, samples, workers, read_ahead):
    loader = Loader(dataset, 4, num_workers=workers, read_ahead=read_ahead)
    assert len(loader) == 6
    seen = [batch.clone() for batch in loader]
    assert [len(batch) for batch in seen] == [4, 4, 4, 4, 4, 3]
    assert same(torch.cat(seen), samples)


@WORKERS
def test_batches_that_are_kept_are_not_written_again(dataset, samples, workers):
    loader = Loader(dataset, 2, num_workers=workers, prefetch_factor=2 if workers else None)
    kept = [list(loader) for _ in range(3)]
    for batches in kept:
        assert same(torch.cat(batches), samples)
    del kept, batches
    assert same(torch.cat(list(loader)), samples)


@WORKERS
def test_shuffled_epochs(dataset, samples, workers):
    generator = torch.Generator().manual_seed(3)
    loader = Loader(dataset, 4, shuffle=True, generator=generator, num_workers=workers)
    orders = []
    for _ in range(2):
        epoch = torch.cat(list(loader))
        order = [next(i for i in range(COUNT) if same(samples[i], one)) for one in epoch]
        assert sorted(order) == list(range(COUNT))
        orders.append(order)
    assert orders[0] != orders[1]


def test_workers_read_and_the_parent_has_it_in_place(dataset, samples):
    loader = Loader(Noting(dataset), 4, num_workers=2)
    iterator = iter(loader)
    (ring, workers), batch = loader._rings[0], next(iterator)
    writer = batch.view(torch.uint8).flatten()[:4].numpy().tobytes()
    assert int.from_bytes(writer, "little") in {worker.pid for worker in workers}
    start = ring._memory(0, 1).ctypes.data
    assert start <= batch.data_ptr() < start + ring.slots * ring.slot_bytes
    assert same(batch.flatten(1)[:, 1:], samples[:4].flatten(1)[:, 1:])


def test_hits_too_are_copied_where_the_parent_reads(dataset, samples):
    cache = datasets.SharedCache(dataset, fraction=1.0)
    cache.warm()
    loader = Loader(cache, 4, num_workers=1)
    batches = list(loader)
    ring = loader._rings[0][0]
    start = ring._memory(0, 1).ctypes.data
    assert start <= batches[0].data_ptr() < start + ring.slots * ring.slot_bytes
    assert same(torch.cat(batches), samples)
    assert cache.info().hits == COUNT


def test_slots_return_and_a_ring_is_used_by_one_epoch_after_the_other(dataset, samples):
    loader = Loader(dataset, 4, num_workers=2)
    for _ in range(4):
        places = {batch.data_ptr() for batch in loader}
    assert len(loader._rings) == 1
    ring = loader._rings[0][0]
    assert len(places) <= ring.slots
    gc.collect()
    assert not ring._held


def test_epochs_that_are_broken_off(dataset, samples):
    loader = Loader(dataset, 2, num_workers=2)
    for _ in range(6):
        for batch in loader:
            assert same(batch, samples[:2])
            break
    kept = next(iter(loader))
    assert same(torch.cat(list(loader)), samples)
    assert same(kept, samples[:2])
    assert len(loader._rings) == 1


def test_two_iterators_at_a_time(dataset, samples):
    loader = Loader(dataset, 4, num_workers=1)
    for a, b in zip(loader, loader, strict=True):
        assert same(a, b)
    assert len(loader._rings) == 2


def test_persistent_workers(dataset, samples):
    loader = Loader(dataset, 4, num_workers=2, persistent_workers=True)
    for _ in range(3):
        assert same(torch.cat([batch.clone() for batch in loader]), samples)
        next(iter(loader))
    assert len(loader._rings) == 1


def test_more_batches_than_a_ring_has(dataset, samples):
    """Those come in memory of their own."""
    loader = Loader(dataset, 1, num_workers=1, prefetch_factor=1)
    kept = list(loader)
    ring = loader._rings[0][0]
    start = ring._memory(0, 1).ctypes.data
    inside = [start <= b.data_ptr() < start + ring.slots * ring.slot_bytes for b in kept]
    assert any(inside)
    assert not all(inside)
    assert same(torch.cat(kept), samples)


def test_spawned_workers(dataset, samples):
    loader = Loader(dataset, 4, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert same(torch.cat(batches), samples)
    ring = loader._rings[0][0]
    assert batches[0].data_ptr() >= ring._memory(0, 1).ctypes.data


def test_pinning_thread(dataset, samples):
    loader = Loader(dataset, 4, num_workers=1, pin_memory=torch.cuda.is_available())
    assert same(torch.cat(list(loader)), samples)


@WORKERS
def test_a_dataset_of_another_kind(samples, workers):
    loader = Loader(Subset(list(samples), range(20)), 4, num_workers=workers)
    assert same(torch.cat(list(loader)), samples[:20])


@WORKERS
def test_samplers(dataset, samples, workers):
    loader = Loader(dataset, 3, sampler=[5, 4, 5, 1], num_workers=workers, drop_last=True)
    assert same(torch.cat(list(loader)), samples[[5, 4, 5]])
    batches = BatchSampler(SequentialSampler(dataset), 10, False)
    loader = Loader(dataset, batch_sampler=batches, num_workers=workers)
    assert same(torch.cat(list(loader)), samples)
    loader = Loader(dataset, batch_sampler=[[1, 2], [3]], num_workers=workers)
    assert same(torch.cat(list(loader)), samples[1:4])


def first_elements(loader):
    return torch.cat([batch.flatten(1)[:, 0].clone() for batch in loader]).tolist()


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("replacement", [True, False])
def test_the_order_is_that_of_torch_s_loader(dataset, given, replacement):
    """Whatever the number of workers, and in the second epoch too."""
    orders = []
    for make, workers in ((DataLoader, 0), (DataLoader, 2), (Loader, 0), (Loader, 2)):
        torch.manual_seed(5)
        generator = torch.Generator().manual_seed(6) if given else None
        sampler = RandomSampler(dataset, replacement, 50, generator)
        loader = make(dataset, 3, sampler=sampler, num_workers=workers, generator=generator)
        orders.append([first_elements(loader) for _ in range(2)] + [torch.rand(()).item()])
    assert orders[1:] == orders[:1] * 3
    assert orders[0][0] != orders[0][1]


def test_workers_have_the_seeds_of_torch_s_loader(dataset):
    queue, seeds = multiprocessing.get_context("fork").SimpleQueue(), []
    for make in (DataLoader, Loader):
        generator = torch.Generator().manual_seed(6)
        list(
            make(
                dataset,
                4,
                num_workers=2,
                generator=generator,
                worker_init_fn=lambda worker: queue.put(torch.initial_seed()),
            )
        )
        seeds.append({queue.get(), queue.get()})
    assert seeds[0] == seeds[1]


class Advised(datasets.SampleDataset):
    """Notes what is advised and read, by whom."""

    def __init__(self, dataset, queue):
        super().__init__(dataset._source)
        self.queue = queue

    def advise(self, indices):
        self.queue.put(("advised", get_worker_info().id, list(indices)))
        super().advise(indices)

    def start(self, indices, rows):
        self.queue.put(("read", get_worker_info().id, list(indices)))
        return super().start(indices, rows)


@pytest.mark.parametrize("size", [2, 7, 12])
def test_workers_advise_all_before_it_is_read_and_read_once(dataset, samples, size):
    queue = multiprocessing.get_context("fork").SimpleQueue()
    loader = Loader(Advised(dataset, queue), size, num_workers=2, read_ahead=2)
    assert same(torch.cat(list(loader)), samples)
    told = []
    while not queue.empty():
        told.append(queue.get())
    batches = [list(range(start, min(start + size, COUNT))) for start in range(0, COUNT, size)]
    for what in ("advised", "read"):
        seen = [indices for kind, _, indices in told if kind == what and indices]
        assert sorted(seen) == batches
    mine = min(2, len(batches) // 2)  # of each worker, before it reads
    for worker in range(2):
        kinds = [kind for kind, who, _ in told if who == worker]
        assert kinds[: mine + 1] == ["advised"] * mine + ["read"]


def test_a_first_batch_that_fails_is_reported_in_its_turn(dataset, tmp_path, samples):
    """That of the second worker, read before the first one's was asked for."""
    os.truncate(tmp_path / "a.npy", os.path.getsize(tmp_path / "a.npy") - samples[:17].nbytes)
    iterator = iter(Loader(dataset, 4, num_workers=2))
    assert same(next(iterator), samples[:4])
    with pytest.raises(ValueError, match=r"sample 4 .*: the file is truncated"):
        next(iterator)
    iterator._shutdown_workers()


def test_an_index_out_of_range_is_reported_in_its_turn(dataset, samples):
    iterator = iter(Loader(dataset, sampler=[1, 2, 3, 4, COUNT], num_workers=2))
    assert same(torch.cat([next(iterator) for _ in range(4)]), samples[1:5])
    with pytest.raises(IndexError, match="below 23"):
        next(iterator)
    iterator._shutdown_workers()


def test_worker_init_is_called(dataset):
    queue = multiprocessing.get_context("fork").SimpleQueue()
    list(Loader(dataset, 4, num_workers=2, worker_init_fn=queue.put))
    assert {queue.get(), queue.get()} == {0, 1}


@WORKERS
def test_errors_of_a_file_reach_the_parent(dataset, tmp_path, workers):
    os.truncate(tmp_path / "a.npy", 1000)
    iterator = iter(Loader(dataset, 4, num_workers=workers))
    with pytest.raises(ValueError, match="truncated"):
        list(iterator)
    if workers:
        iterator._shutdown_workers()  # the error refers to the iterator, which would end late


def test_arguments(dataset):
    with pytest.raises(TypeError, match="no collate_fn="):
        Loader(dataset, 4, collate_fn=list)
    with pytest.raises(ValueError, match="at least 0 batches"):
        Loader(dataset, 4, read_ahead=-1)
    with pytest.raises(ValueError, match="either sampler= or shuffle"):
        Loader(dataset, 4, sampler=[1], shuffle=True)
    with pytest.raises(ValueError, match="without batch_size"):
        Loader(dataset, 4, batch_sampler=[[1]])


def test_a_child_does_not_free_what_its_parent_holds():
    """A fork copies the parent's tensor; that the copy ends says nothing."""
    ring = Ring(1, 2, 4096)
    slot = ring.claim(0)
    tensor = ring.received(slot, 4096).tensor((4096,), torch.uint8)
    pid = os.fork()
    if not pid:
        del tensor
        gc.collect()
        os._exit(ring._lent[slot])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    del tensor
    assert ring._lent[slot] == 0


def test_nothing_in_shm_has_a_name(dataset):
    before = names_in_shm()
    iterator = iter(Loader(dataset, 4, num_workers=1))
    next(iterator)
    assert names_in_shm() <= before
