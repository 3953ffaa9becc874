"""The extensions: built where a compiler is there, the kernels where torch is importable too.

Without the kernels the torch path serves every transform; without `_launch`, which needs no header
but Python's, Triton kernels are launched from Python. All else is in pyproject.toml.
"""

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup

KERNELS = Path("kernels/rightfast_kernels/dwt")
RUNTIME = Path("src/rightfast/runtime")
FLAGS = ["-O3", "-std=c++17", "-fvisibility=hidden", "-DTORCH_TARGET_VERSION=0x020a000000000000"]


def launch():
    """Optional: where it does not build, such as without Python's headers, the install goes on."""
    return Extension(
        "rightfast.runtime._launch",
        [str(RUNTIME / "_launch.c")],
        depends=[str(RUNTIME / "_launch.h")],
        extra_compile_args=["-O2", "-std=c11", "-fvisibility=hidden", "-g0"],
        extra_link_args=["-Wl,-s"],
        py_limited_api=True,
        optional=True,
    )


def extensions():
    """(arguments of setup, why the kernels are left out or None)."""
    compiler = os.environ.get("CXX", "g++").split()[0]
    if os.environ.get("RIGHTFAST_PURE"):
        return {}, "RIGHTFAST_PURE is set"
    if shutil.which(compiler) is None:
        return {}, f"there is no compiler {compiler!r}"
    sanitize = os.environ.get("RIGHTFAST_SANITIZE")
    limited = {"options": {"bdist_wheel": {"py_limited_api": "cp311"}}}
    found = [] if sanitize else [launch()]
    try:
        import torch.utils.cpp_extension as cpp
    except ImportError:
        missing = "torch is not importable here (pip install --no-build-isolation uses yours)"
        return {"ext_modules": found, **limited}, missing
    checked = ["-g", "-O1", f"-fsanitize={sanitize}", "-fno-omit-frame-pointer"]
    kernels = cpp.CppExtension(
        "rightfast_kernels._native",
        sorted(str(path) for path in KERNELS.glob("*.cpp")),
        depends=sorted(str(path) for path in KERNELS.glob("*.h")),
        extra_compile_args=FLAGS + (checked if sanitize else ["-g0"]),
        extra_link_args=[f"-fsanitize={sanitize}"] if sanitize else ["-Wl,-s"],
        py_limited_api=True,
    )
    build = cpp.BuildExtension.with_options(use_ninja=False)
    return {"ext_modules": [*found, kernels], "cmdclass": {"build_ext": build}, **limited}, None


arguments, missing = extensions()
if missing:
    print(f"rightfast: without its native kernels, the torch path serves: {missing}")
setup(**arguments)
