"""Indices, batches, threads and forks: what does not depend on the format."""

import gc
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from rightfast import datasets
from rightfast.datasets import raw
from rightfast.datasets.buffers import Pool
from rightfast.datasets.threads import THREADS

from .common import COUNT, LAYOUTS, numbers, same

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def big(tmp_path):
    """64 samples of 256 KiB: batches are worth several threads."""
    samples = numbers(count=64, shape=(1, 256, 256))
    datasets.write_npy(tmp_path / "big.npy", samples)
    return datasets.NpyDataset(tmp_path / "big.npy"), samples


def test_indices(written):
    dataset, samples = written
    for index in (0, -1, -COUNT, np.int64(3), torch.tensor(4), True):
        assert same(dataset[index], samples[int(index)])
    chosen = [3, -1, 3, 0, 4, 5, 6, -COUNT]
    assert same(dataset.__getitems__(chosen).stacked, samples[chosen])
    assert same(dataset.__getitems__(np.array(chosen)).stacked, samples[chosen])
    for index in (COUNT, -COUNT - 1, 10**12):
        with pytest.raises(IndexError, match=f"below {COUNT}, the number of samples"):
            dataset[index]
        with pytest.raises(IndexError, match=str(index)):
            dataset.__getitems__([0, index])
    for index in (1.0, "1", None, slice(2)):
        with pytest.raises(TypeError, match="expected indices as integers"):
            dataset[index]


def test_iterating_ends(written):
    dataset, samples = written
    assert same(torch.stack(list(dataset)), samples)


def test_a_batch_is_its_samples_and_one_tensor(written):
    dataset, samples = written
    batch = dataset.__getitems__([4, 2])
    assert isinstance(batch, list)
    assert same(batch[1], samples[2])
    assert batch[1].data_ptr() == batch.stacked[1].data_ptr()
    assert datasets.collate(batch) is batch.stacked
    assert same(torch.utils.data.default_collate(batch), samples[[4, 2]])
    assert same(datasets.collate([samples[1], samples[2]]), samples[[1, 2]])


def test_samples_are_copies(written):
    dataset, samples = written
    dataset[3].zero_()
    dataset.__getitems__([3, 4]).stacked.zero_()
    assert same(dataset[3], samples[3])


def test_torch_loads_it(written):
    dataset, samples = written
    for part in (dataset, Subset(dataset, range(COUNT))):
        for function in (None, datasets.collate):
            loader = DataLoader(part, 5, num_workers=0, collate_fn=function)
            assert same(torch.cat(list(loader)), samples)


def test_threads_read_one_batch(big, monkeypatch):
    dataset, samples = big
    seen = set()
    read = raw.RawSource.read

    def noting(self, indices, rows):
        seen.add((threading.get_ident(), len(indices)))
        read(self, indices, rows)

    monkeypatch.setattr(raw.RawSource, "read", noting)
    order = torch.randperm(64).tolist()
    assert same(dataset.__getitems__(order).stacked, samples[order])
    assert [size for _, size in seen] == [64 // THREADS] * len(seen)
    assert threading.get_ident() not in {thread for thread, _ in seen}


def test_many_threads_share_a_dataset(big):
    dataset, samples = big
    wrong = []

    def read(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(10):
            order = torch.randint(64, (7,), generator=generator).tolist()
            if not same(dataset.__getitems__(order).stacked, samples[order]):
                wrong.append(order)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_error_in_a_thread_is_raised_and_the_dataset_goes_on(big, tmp_path):
    dataset, samples = big
    assert same(dataset[63], samples[63])
    os.truncate(tmp_path / "big.npy", 40 << 18)
    with pytest.raises(ValueError, match="truncated"):
        dataset.__getitems__(range(64))
    assert same(dataset.__getitems__(range(39)).stacked, samples[:39])


def test_short_reads_are_continued(tmp_path, monkeypatch):
    """A signal, or more than 2 GiB, and the system gives less than was asked for."""
    preadv = os.preadv
    calls = []

    def short(fd, buffers, offset):
        calls.append(offset)
        first = next(b for b in buffers if len(b))
        return preadv(fd, [memoryview(first)[: max(1, len(first) // 3)]], offset)

    monkeypatch.setattr(os, "preadv", short)
    samples = numbers()
    for layout in ("packed", "files"):
        datasets.write_npy(tmp_path / layout, samples, layout=layout)
        dataset = datasets.NpyDataset(tmp_path / layout)
        assert same(dataset.__getitems__([4, 5, 6, 1]).stacked, samples[[4, 5, 6, 1]])
    assert len(calls) > 20


def inherited(dataset, folder, order, queue):
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds()]
    before = [link for link in links if link.startswith(str(folder))]
    queue.put((before, dataset.__getitems__(order).stacked.view(torch.uint8).tolist()))


def fds():
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_no_file_handle_crosses_a_fork(written, tmp_path):
    dataset, samples = written
    order = [5, 1, 22]
    dataset.__getitems__(order)  # the parent has files open now
    queue = FORK.Queue()
    child = FORK.Process(target=inherited, args=(dataset, tmp_path, order, queue))
    child.start()
    before, got = queue.get(timeout=60)
    child.join()
    assert before == []
    assert got == samples[order].view(torch.uint8).tolist()
    assert same(dataset.__getitems__(order).stacked, samples[order])  # and so has the parent still


def test_a_child_does_not_wait_for_its_parent_s_threads(big):
    dataset, samples = big
    for reads in (dataset, datasets.SharedCache(dataset, fraction=1.0)):
        ahead = reads.prefetch(range(16))
        pid = os.fork()
        if not pid:
            ahead.finish = lambda: os._exit(1)  # what would wait for ever
            torch.set_num_threads(1)  # OpenMP's do not survive a fork
            os._exit(2 if same(reads.__getitems__(ahead).stacked, samples[:16]) else 3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
        assert same(reads.__getitems__(ahead).stacked, samples[:16])


def test_pickles_carry_no_handles(written):
    dataset, samples = written
    assert same(dataset[1], samples[1])
    again = pickle.loads(pickle.dumps(dataset))
    assert same(again.__getitems__([2, 0]).stacked, samples[[2, 0]])


@pytest.mark.parametrize("name", LAYOUTS)
def test_files_are_closed_with_the_dataset(name, tmp_path):
    write, read, options = LAYOUTS[name]
    write(tmp_path / "a", numbers(), **options)
    dataset = read(tmp_path / "a")
    dataset.__getitems__([1, 4])
    del dataset
    gc.collect()
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds()]
    assert [link for link in links if link.startswith(str(tmp_path))] == []


def test_the_kernel_is_advised(disk):
    path, samples = disk / "big.npy", numbers(count=8, shape=(1, 256, 256))
    datasets.write_npy(path, samples)
    dataset = datasets.NpyDataset(path)
    datasets.make_cold(path)
    dataset.advise([6])
    for _ in range(500):
        if datasets.resident_bytes(path) >= 1 << 18:
            break
        threading.Event().wait(0.01)
    assert datasets.resident_bytes(path) >= 1 << 18
    assert same(dataset[6], samples[6])


def test_a_pool_lends_memory_again_and_never_what_is_in_use():
    pool = Pool()
    first = pool.take(1 << 20).tensor((1 << 18,), torch.float32)
    place = first.data_ptr()
    view, array = first[5:7], first.numpy()
    first.fill_(1)
    del first
    second = pool.take(1 << 20).tensor((1 << 18,), torch.float32).fill_(2)
    assert second.data_ptr() != place
    del view
    third = pool.take(1 << 20).tensor((1 << 20,), torch.uint8)
    assert third.data_ptr() != place
    assert (array == 1).all()
    del array
    fourth = pool.take(1 << 20).tensor((1 << 19,), torch.bfloat16)
    assert fourth.data_ptr() == place


def test_a_pool_keeps_no_more_than_it_may():
    pool = Pool(kept=3 << 20)
    tensors = [pool.take(1 << 20).tensor((1 << 20,), torch.uint8) for _ in range(8)]
    assert len({tensor.data_ptr() for tensor in tensors}) == 8
    tensors.clear()
    assert pool.waiting == 3 << 20
    pool.clear()
    assert pool.waiting == 0
