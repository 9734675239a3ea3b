"""The C kernel is optional: where there is no compiler, NumPy takes its place."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension("sample_ops._rms_norm", ["sample_ops/_rms_norm.c"], optional=True),
    ]
)
