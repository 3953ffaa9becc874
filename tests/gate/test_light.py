import subprocess
import sys

import pytest_rightfast

MODULES = [
    "accepted",
    "builds",
    "checkouts",
    "exits",
    "git",
    "locks",
    "messages",
    "protocol",
    "provenance",
    "sides",
    "statistics",
    "student",
    "ulps",
    "verdicts",
    "workers",
]


def test_the_gate_imports_nothing_heavy():
    """A plain install has no torch or numpy, and every pytest run pays for what is imported."""
    lines = [f"import sys; sys.path.insert(0, {str(pytest_rightfast.__path__[0] + '/..')!r})"]
    lines += [f"import pytest_rightfast.{name}" for name in MODULES]
    lines += [
        "print(sorted({'torch', 'numpy', 'scipy', 'triton', 'rightfast'} & set(sys.modules)))"
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
