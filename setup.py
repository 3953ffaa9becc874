"""The C++ extension: built where torch is importable and a compiler is there, else left out.

Without it the install is a pure one: the torch path serves every transform. All else is in
pyproject.toml.
"""

import os
import shutil
from pathlib import Path

from setuptools import setup

FOLDER = Path("kernels/rightfast_kernels/dwt")
FLAGS = ["-O3", "-std=c++17", "-fvisibility=hidden", "-DTORCH_TARGET_VERSION=0x020a000000000000"]


def extensions():
    """(arguments of setup, why there is no extension or None)."""
    compiler = os.environ.get("CXX", "g++").split()[0]
    if os.environ.get("RIGHTFAST_PURE"):
        return {}, "RIGHTFAST_PURE is set"
    if shutil.which(compiler) is None:
        return {}, f"there is no compiler {compiler!r}"
    try:
        import torch.utils.cpp_extension as cpp
    except ImportError:
        return {}, "torch is not importable here (pip install --no-build-isolation uses yours)"
    sanitize = os.environ.get("RIGHTFAST_SANITIZE")
    checked = ["-g", "-O1", f"-fsanitize={sanitize}", "-fno-omit-frame-pointer"]
    extension = cpp.CppExtension(
        "rightfast_kernels._native",
        sorted(str(path) for path in FOLDER.glob("*.cpp")),
        depends=sorted(str(path) for path in FOLDER.glob("*.h")),
        extra_compile_args=FLAGS + (checked if sanitize else ["-g0"]),
        extra_link_args=[f"-fsanitize={sanitize}"] if sanitize else ["-Wl,-s"],
        py_limited_api=True,
    )
    build = cpp.BuildExtension.with_options(use_ninja=False)
    return {
        "ext_modules": [extension],
        "cmdclass": {"build_ext": build},
        "options": {"bdist_wheel": {"py_limited_api": "cp311"}},
    }, None


arguments, missing = extensions()
if missing:
    print(f"rightfast: without its native kernels, the torch path serves: {missing}")
setup(**arguments)
