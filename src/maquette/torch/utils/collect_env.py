"""`torch.utils.collect_env`: what a report of a defect should say of the machine and packages."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

Run = Callable[[str | list[str]], tuple[int, str, str]]
"""What runs a command: `run`, or a program's own."""

_PACKAGES = ("maquette", "numpy", "scipy", "ml_dtypes", "sympy", "cupy")


class SystemEnv(NamedTuple):
    """What is known of the machine; None of what is not here."""

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str | None
    gcc_version: str | None
    clang_version: str | None
    cmake_version: str | None
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    cuda_runtime_version: str | None
    cuda_module_loading: str
    nvidia_driver_version: str | None
    nvidia_gpu_models: str | None
    cudnn_version: str | None
    is_xpu_available: str
    pip_version: str
    pip_packages: str
    conda_packages: str | None
    hip_compiled_version: str
    hip_runtime_version: str
    miopen_runtime_version: str
    caching_allocator_config: dict[str, str]
    is_xnnpack_available: str
    cpu_info: str


# --- commands --------------------------------------------------------------------------------


def run(command: str | list[str]) -> tuple[int, str, str]:
    """Run a command; its exit status, and what it wrote to stdout and to stderr, stripped."""
    shell = isinstance(command, str)
    try:
        done = subprocess.run(command, shell=shell, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def run_and_read_all(run_lambda: Run, command: str | list[str]) -> str | None:
    """What a command wrote; None if it failed."""
    status, out, _ = run_lambda(command)
    return None if status else out


def run_and_return_first_line(run_lambda: Run, command: str | list[str]) -> str | None:
    """The first line that a command wrote; None if it failed."""
    out = run_and_read_all(run_lambda, command)
    return None if out is None else out.split("\n")[0]


def run_and_parse_first_match(run_lambda: Run, command: str | list[str], regex: str) -> str | None:
    """The first group of a pattern in what a command wrote; None without one."""
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return None if found is None else found.group(1)


def get_gcc_version(run_lambda: Run) -> str | None:
    """The version of gcc, if it is here."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: Run) -> str | None:
    """The version of clang, if it is here."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda: Run) -> str | None:
    """The version of cmake, if it is here."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_driver_version(run_lambda: Run) -> str | None:
    """The version of NVIDIA's driver, if it is here."""
    asked = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    return run_and_return_first_line(run_lambda, asked)


def get_gpu_info(run_lambda: Run) -> str | None:
    """The names of NVIDIA's devices, a line each; None without any."""
    return run_and_read_all(run_lambda, "nvidia-smi --query-gpu=name --format=csv,noheader")


def get_running_cuda_version(run_lambda: Run) -> str | None:
    """The version of CUDA's compiler, if it is here."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


# --- this machine ----------------------------------------------------------------------------


def get_python_platform() -> str:
    """The platform, as Python names it."""
    return platform.platform()


def get_platform() -> str:
    """The operating system: ``linux``."""
    return sys.platform


def get_os(run_lambda: Run) -> str:
    """The operating system and its kernel; no command is run."""
    return f"{platform.system()} {platform.release()} ({platform.machine()})"


def get_libc_version() -> str:
    """The C library: ``glibc-2.36``."""
    return "-".join(part for part in platform.libc_ver() if part) or "N/A"


def get_cpu_info(run_lambda: Run) -> str:
    """The processor, and how many there are; no command is run."""
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} logical processors"


def get_pip_packages(run_lambda: Run, patterns: Iterable[str] | None = None) -> tuple[str, str]:
    """ "pip3", and the packages that maquette uses, ``name==version``, a line each.

    patterns: parts of the names of those to list instead.
    """
    if patterns is not None:
        wanted = tuple(patterns)
        every = {str(d.metadata["Name"]): d.version for d in importlib.metadata.distributions()}
        chosen = sorted(n for n in every if any(p in n for p in wanted))
        return "pip3", "\n".join(f"{name}=={every[name]}" for name in chosen)
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return "pip3", "\n".join(found)


def get_env_info() -> SystemEnv:
    """All of it."""
    import maquette.torch as torch  # noqa: PLC0415  # it imports this package's parents

    pip, packages = get_pip_packages(run)
    return SystemEnv(
        torch_version=str(torch.__version__),
        is_debug_build="False",
        cuda_compiled_version=None,
        gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run),
        os=get_os(run),
        libc_version=get_libc_version(),
        python_version=f"{sys.version.split()[0]} ({sys.maxsize.bit_length() + 1}-bit runtime)",
        python_platform=get_python_platform(),
        is_cuda_available=str(torch.cuda.is_available()),
        cuda_runtime_version=get_running_cuda_version(run),
        cuda_module_loading="N/A",
        nvidia_driver_version=get_nvidia_driver_version(run),
        nvidia_gpu_models=get_gpu_info(run),
        cudnn_version=None,
        is_xpu_available="False",
        pip_version=pip,
        pip_packages=packages,
        conda_packages=None,
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config={},
        is_xnnpack_available="False",
        cpu_info=get_cpu_info(run),
    )


def pretty_str(envinfo: SystemEnv) -> str:
    """What is known, as lines."""
    titles = {
        "torch_version": "PyTorch version",
        "is_debug_build": "Is debug build",
        "cuda_compiled_version": "CUDA used to build PyTorch",
        "gcc_version": "GCC version",
        "clang_version": "Clang version",
        "cmake_version": "CMake version",
        "os": "OS",
        "libc_version": "Libc version",
        "python_version": "Python version",
        "python_platform": "Python platform",
        "is_cuda_available": "Is CUDA available",
        "nvidia_gpu_models": "GPU models and configuration",
        "nvidia_driver_version": "Nvidia driver version",
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
