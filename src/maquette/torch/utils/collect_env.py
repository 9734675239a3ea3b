"""`torch.utils.collect_env`: what a report of a defect should say of the machine and packages."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import NamedTuple

_PACKAGES = ("maquette", "numpy", "scipy", "ml_dtypes", "sympy", "cupy")


class SystemEnv(NamedTuple):
    """What is known of the machine."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    pip_packages: str
    cpu_info: str


def get_python_platform() -> str:
    """The platform, as Python names it."""
    return platform.platform()


def get_platform() -> str:
    """The operating system: ``linux``."""
    return sys.platform


def get_os(run_lambda: object = None) -> str:
    """The operating system and its kernel; no command is run."""
    return f"{platform.system()} {platform.release()} ({platform.machine()})"


def get_libc_version() -> str:
    """The C library: ``glibc-2.36``."""
    return "-".join(part for part in platform.libc_ver() if part) or "N/A"


def get_cpu_info(run_lambda: object = None) -> str:
    """The processor, and how many there are; no command is run."""
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} logical processors"


def get_pip_packages(run_lambda: object = None, patterns: object = None) -> str:
    """The packages that maquette uses, ``name==version``, a line each."""
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return "\n".join(found)


def get_env_info() -> SystemEnv:
    """All of it."""
    import maquette.torch as torch  # noqa: PLC0415  # it imports this package's parents

    return SystemEnv(
        torch_version=str(torch.__version__),
        is_debug_build="False",
        cuda_compiled_version="None",
        os=get_os(),
        libc_version=get_libc_version(),
        python_version=f"{sys.version.split()[0]} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=get_python_platform(),
        is_cuda_available=str(torch.cuda.is_available()),
        pip_packages=get_pip_packages(),
        cpu_info=get_cpu_info(),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """What is known, as lines."""
    titles = {
        "torch_version": "PyTorch version",
        "is_debug_build": "Is debug build",
        "cuda_compiled_version": "CUDA used to build PyTorch",
        "os": "OS",
        "libc_version": "Libc version",
        "python_version": "Python version",
        "python_platform": "Python platform",
        "is_cuda_available": "Is CUDA available",
    }
    lines = [f"{title}: {getattr(envinfo, name)}" for name, title in titles.items()]
    lines += ["", "CPU:", envinfo.cpu_info, "", "Versions of relevant libraries:"]
    lines += [f"[pip3] {line}" for line in envinfo.pip_packages.split("\n")]
    return "\n".join(lines)


def get_pretty_env_info() -> str:
    """What is known of this machine, as lines."""
    return pretty_str(get_env_info())


def main() -> None:
    """Print it."""
    sys.stdout.write(f"Collecting environment information...\n{get_pretty_env_info()}\n")
