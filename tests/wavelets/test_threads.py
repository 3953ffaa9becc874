"""Many threads at once, and many calls: same results, no growth."""

import gc
import resource
from concurrent.futures import ThreadPoolExecutor

import torch

from rightfast import wavelets as ours

from .common import leaves, signal


def test_a_pool_of_threads_gets_what_one_thread_gets():
    jobs = [
        (torch.from_numpy(signal(2, 33 + i, 20, key=str(i))), wavelet, mode)
        for i in range(12)
        for wavelet, mode in (("haar", "zero"), ("bior4.4", "symmetric"), ("db3", "antireflect"))
    ]

    def work(job):
        x, wavelet, mode = job
        x = x.clone().requires_grad_()
        coeffs = ours.wavedec2(x, wavelet, mode, 1)
        back = ours.waverec2(coeffs, wavelet, mode)
        (gradient,) = torch.autograd.grad((back**2).sum(), x)
        return [*leaves(coeffs), back, gradient]

    alone = [work(job) for job in jobs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for one, other in zip(pool.map(work, jobs), alone, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_ten_thousand_calls_do_not_grow():
    x = torch.randn(1, 64, requires_grad=True)

    def call():
        back = ours.idwt(*ours.dwt(x, "haar", "zero"), "haar", "zero")
        torch.autograd.grad(back, x, x)

    def resident():
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(gc.get_objects())

    for _ in range(1000):
        call()
    peak, objects = resident()
    for _ in range(10_000):
        call()
    after, objects_after = resident()
    # A tensor of 64 floats kept per call would be 10 MB with its object, and 10,000 objects.
    assert after - peak < 4096, "kilobytes of resident peak"
    assert objects_after - objects < 500
