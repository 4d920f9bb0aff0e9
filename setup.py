"""Builds what a wheel needs beside Python files: the C kernel, the protobuf code and the page."""

from __future__ import annotations

import platform
import runpy
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
NATIVE = Path("tb_netdebug/core/stats/native")
PROTOS = sorted(Path("tb_netdebug").rglob("*.proto"))

# The same file compiled once for each instruction set; the module picks the best one when it is loaded.
X86_VARIANTS = {
    "avx2": ["-mavx2", "-mfma", "-mf16c", "-mbmi2"],
    "avx512": [
        "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c", "-mbmi2",
        "-mprefer-vector-width=512",
    ],
}  # fmt: skip
FLAGS = ["-O3", "-std=c11", "-fno-math-errno", "-ffp-contract=off", "-Wall", "-Wextra"]


def version() -> str:
    scope: dict[str, str] = {}
    exec((ROOT / "tb_netdebug/version.py").read_text(), scope)
    return scope["__version__"]


class BuildKernel(build_ext):
    """Compiles `passes.c` once for each instruction set and links all of them into one module."""

    def build_extension(self, ext: Extension) -> None:
        if ext.name.endswith("._kernel"):
            self.add_variants(ext)
        super().build_extension(ext)

    def add_variants(self, ext: Extension) -> None:
        variants = X86_VARIANTS if platform.machine() in ("x86_64", "AMD64") else {}
        for name, flags in {"baseline": [], **variants}.items():
            ext.extra_objects += self.compiler.compile(
                [str(NATIVE / "passes.c")],
                output_dir=str(Path(self.build_temp) / name),
                macros=[("VARIANT", name)],
                include_dirs=[str(NATIVE)],
                extra_postargs=["-fPIC", *FLAGS, *flags],
                depends=ext.depends,
            )
            ext.define_macros.append((f"HAVE_{name.upper()}", "1"))


class BuildGenerated(build_py):
    """Generates `*_pb2.py` next to the modules that use them, and puts the page beside the plugin."""

    def run(self) -> None:
        super().run()
        target = ROOT if self.editable_mode else Path(self.build_lib)
        for proto in PROTOS:
            generate(proto, target)
        page("copy_page", target.resolve())


class PackSources(sdist):
    """Packs the built page along, so that installing from the archive needs no Node."""

    def run(self) -> None:
        page("build_dist")
        super().run()


def generate(proto: Path, target: Path) -> None:
    from grpc_tools import protoc

    arguments = ["protoc", f"-I{ROOT}", f"--python_out={target}", f"--pyi_out={target}", str(ROOT / proto)]
    if protoc.main(arguments) != 0:
        sys.exit(f"protoc could not translate {proto}; its message stands above.")


def page(step: str, *arguments: Path) -> None:
    """A function of tools/build_page.py; what it cannot do ends the build with its sentence."""
    tool = runpy.run_path(str(ROOT / "tools/build_page.py"))
    try:
        tool[step](*arguments)
    except tool["BuildError"] as problem:
        sys.exit(str(problem))


setup(
    name="tb_netdebug",
    version=version(),
    description="Says in words why a neural network does not train: a recorder and TensorBoard plugin",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: C",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Software Development :: Debuggers",
        "Typing :: Typed",
    ],
    keywords="pytorch keras tensorboard debugger training monitoring gradients",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["tb_netdebug", "tb_netdebug.*"]),
    package_data={"tb_netdebug": ["py.typed", "**/*.pyi", "**/*.proto", "**/*.md"]},
    install_requires=[
        "fsspec>=2023.1",
        "google-crc32c>=1.5",
        "grpcio>=1.49.1",
        "numpy>=1.24",
        "nvidia-ml-py>=12",
        # Code from a newer protoc (pyproject.toml says which one a Python has) needs a newer protobuf.
        "protobuf>=4.21,<8; python_version < '3.13'",
        "protobuf>=5.27.2,<8; python_version == '3.13'",
        "protobuf>=6.31.1,<8; python_version >= '3.14'",
        "psutil>=5.9",
        "rich>=13",
        "tensorboard>=2.15",
        "tomli>=1.1; python_version < '3.11'",
        "zstandard>=0.21",
    ],
    extras_require={
        "gcs": ["gcsfs>=2023.1"],
        "keras": ["keras>=3.3", "tensorflow>=2.16.1"],
        "keras-jax": ["jax>=0.6.2", "keras>=3.12"],
        "keras-torch": ["keras>=3.12", "torch>=2.1"],
        "lightning": ["lightning>=2.1"],  # pytorch-lightning, its other name, does as well
        "optuna": ["optuna>=3"],
        "s3": ["s3fs>=2023.1"],
        "transformers": ["accelerate>=0.26", "transformers>=4.46"],
    },
    entry_points={
        "console_scripts": ["netdebug = tb_netdebug.cli:main"],
        "tensorboard_plugins": ["netdebug = tb_netdebug.viewer.plugin.loader:NetDebugLoader"],
    },
    ext_modules=[
        Extension(
            "tb_netdebug.core.stats._kernel",
            [
                str(NATIVE / f"{name}.c")
                for name in ("module", "arguments", "variants", "batch", "team", "tally", "packed")
            ],
            include_dirs=[str(NATIVE)],
            depends=[str(path) for path in sorted(NATIVE.glob("*.[ch]"))],
            extra_compile_args=FLAGS,
            libraries=["m"],
            # Without a compiler the package still installs and runs on the NumPy twin of the kernel.
            optional=True,
        ),
        Extension(
            "tb_netdebug.core.records._codec",
            ["tb_netdebug/core/records/codec.c"],
            depends=[str(path) for path in sorted(Path("tb_netdebug/core/records").glob("*.h"))],
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "tb_netdebug.recording.fork._fork",
            ["tb_netdebug/recording/fork/_fork.c"],
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "tb_netdebug.core.eventlog.reader._native",
            ["tb_netdebug/core/eventlog/reader/native/module.c"],
            depends=[
                str(path) for path in sorted(Path("tb_netdebug/core/eventlog/reader/native").glob("*.h"))
            ],
            extra_compile_args=FLAGS,
            optional=True,
        ),
    ],
    cmdclass={"build_ext": BuildKernel, "build_py": BuildGenerated, "sdist": PackSources},
)
