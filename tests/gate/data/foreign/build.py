"""Compile src/toy/_core.c in place."""

import os
import subprocess
import sysconfig

name = "src/toy/_core" + sysconfig.get_config_var("EXT_SUFFIX")
include = "-I" + sysconfig.get_path("include")
compiler = os.environ.get("CC", "cc").split()
subprocess.run([*compiler, "-shared", "-fPIC", include, "src/toy/_core.c", "-o", name], check=True)
