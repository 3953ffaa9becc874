"""What `import rightfast.wavelets` costs after torch: nothing that takes long, a fresh process."""

import subprocess
import sys

SCRIPT = """
import sys, torch
before = set(sys.modules)
import rightfast.wavelets
more = {name for name in set(sys.modules) - before}
slow = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx.experimental",
        "rightfast.runtime", "triton", "sympy")
print(sorted(name for name in more if name.startswith(slow)))
print("rightfast.wavelets" in more)
"""


def test_importing_the_wavelets_imports_no_compiler_and_no_runtime():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[]", "True"]
