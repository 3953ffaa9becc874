import tempfile
from pathlib import Path

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


@pytest.fixture
def disk():
    """A folder on a device, whatever the temporary folder of pytest is on."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)
