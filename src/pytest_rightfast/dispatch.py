"""See every ATen operator that runs in a context."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def watching(see: Callable[[Any, Any], None]) -> AbstractContextManager[Any]:
    """Call `see(operator, result)` after every operator within the context."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            result = func(*args, **(kwargs or {}))
            see(func, result)
            return result

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            """torch would import its compiler, which takes seconds, to keep it out of here; where
            nobody has imported it there is nothing to keep out."""
            return "torch._dynamo" in sys.modules

    return Watch()  # type: ignore[no-untyped-call]
