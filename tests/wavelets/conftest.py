"""The properties of the transforms hold on both paths: native kernels, and torch operations."""

import pytest

from rightfast import wavelets as ours

TORCH = ("few_calls",)  # a kernel of the torch path
BOTH = (
    "equals_pywt",
    "properties",
    "hypothesis",
    "derivatives",
    "faults",
    "layers",
    "threads",
    "precision",
)


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__.rpartition("test_")[2] in BOTH:
        metafunc.parametrize("path", ["auto", "torch"], indirect=True)
    elif metafunc.module.__name__.rpartition("test_")[2] in TORCH:
        metafunc.parametrize("path", ["torch"], indirect=True)


@pytest.fixture(autouse=True)
def path(request):
    """The backend of the test. Where no kernels were built, "auto" is torch, too."""
    with ours.backend(getattr(request, "param", "auto")):
        yield
