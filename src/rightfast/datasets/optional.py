"""Libraries of formats, imported where a file needs them."""

import importlib
from typing import Any


def library(name: str, purpose: str) -> Any:
    """The module. Raises ImportError with the remedy where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"expected the library {name} for {purpose}, got {error}; install it with "
            f"pip install {name}, or all formats with pip install 'rightfast[datasets]'",
            name=name,
        ) from error
