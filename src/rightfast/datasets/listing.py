"""Which files a path stands for."""

import os
from pathlib import Path


def files_of(path: str | os.PathLike[str], suffixes: tuple[str, ...], what: str) -> list[str]:
    """The files of a folder that end so, by name. Raises ValueError for a folder without any."""
    found = sorted(
        entry.path
        for entry in os.scandir(path)
        if entry.name.endswith(suffixes) and not entry.name.startswith(".") and entry.is_file()
    )
    if not found:
        raise ValueError(
            f"expected {what} files ({', '.join(suffixes)}) in {path}, got a folder without any; "
            "check the path and the format"
        )
    return found


def existing(path: str | os.PathLike[str], what: str) -> Path:
    """``path``, which must be there. Raises TypeError and FileNotFoundError."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"expected the path of {what.removesuffix(',')}, got {type(path).__name__}; give a "
            "text or a pathlib.Path"
        )
    found = Path(path)
    if not found.exists():
        raise FileNotFoundError(f"expected {what} at {found}, got nothing there; check the path")
    return found


def check_size(path: str, needed: int, what: str) -> None:
    """Raises ValueError if ``path`` is shorter than its header says."""
    size = os.path.getsize(path)
    if size < needed:
        raise ValueError(
            f"expected {needed} bytes of {what} in {path}, as its header says, got {size}: the "
            "file is truncated; write it anew"
        )
