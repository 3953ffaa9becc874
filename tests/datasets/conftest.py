import pytest

from .common import LAYOUTS, numbers


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return LAYOUTS[request.param]


@pytest.fixture
def written(layout, tmp_path):
    """(dataset, the tensor it was written from), in each layout."""
    write, read, options = layout
    samples = numbers()
    write(tmp_path / "samples", samples, **options)
    return read(tmp_path / "samples"), samples
