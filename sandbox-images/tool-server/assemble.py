"""Assemble the tool server's tree: an interpreter, the part of its library the server uses, and its own libc.

Run by the very interpreter that shall go into the tree, on any Linux with ldd and libsodium.so.23:
`python3.11 assemble.py PACKAGE_FOLDER DESTINATION`. Standard library only.

The tree is self-contained (lib/ld.so loads bin/python3 with lib/), so it works inside any user image, whatever libc
that one has, and under any mount point. `agentrun -> .` makes /agentrun/… name the same files in the image itself.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = "agentrun_sandbox"
MODULES = (
    "agentrun_sandbox.__main__", "agentrun_sandbox.guard", "agentrun_sandbox.operations", "agentrun_sandbox.ops.run",
    "agentrun_sandbox.ops.files", "agentrun_sandbox.ops.tree", "agentrun_sandbox.ops.put", "agentrun_sandbox.ops.get",
    "agentrun_sandbox.sodium", "runpy", "traceback", "linecache", "tokenize", "site", "shutil", "tarfile", "ctypes",
    "encodings.idna", "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "json", "re", "resource", "copy",
)  # fmt: skip
LIBRARIES = ("libsodium.so.23",)
ROOM_FOR = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x", re.MULTILINE)


def imported(package_folder: Path) -> list[Path]:
    """Files of all modules that importing MODULES loads, found by doing it in a fresh interpreter."""
    code = (
        f"import sys; sys.path.append({str(package_folder)!r})\n"
        f"for name in {MODULES!r}: __import__(name)\n"
        "print('\\n'.join(m.__file__ for m in list(sys.modules.values()) if getattr(m, '__file__', None)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)
    return sorted({Path(line) for line in done.stdout.splitlines() if line})


def copy_modules(files: list[Path], library: Path) -> None:
    """Put each file where the interpreter of the tree looks for it."""
    roots = (Path(sysconfig.get_path("platstdlib")).resolve(), Path(sysconfig.get_path("stdlib")).resolve())
    for file in files:
        root = next((root for root in roots if root in file.resolve().parents), None)
        if root is None:
            continue  # our own package, or something of this machine's site
        target = library / file.resolve().relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.resolve(), target)


def libraries(binaries: list[Path]) -> dict[str, Path]:
    """Every shared library that the binaries need, by the name they ask for, and the loader as `ld.so`."""
    found: dict[str, Path] = {}
    for binary in binaries:
        done = subprocess.run(["ldd", str(binary)], check=True, capture_output=True, text=True)
        for name, path in ROOM_FOR.findall(done.stdout):
            found[Path(name or path).name if name else "ld.so"] = Path(path)
    return found


def find_library(name: str) -> Path:
    """A library by its soname. Raises FileNotFoundError that names the Debian package."""
    done = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    match = re.search(rf"^\s*{re.escape(name)} .*=> (/\S+)$", done.stdout, re.MULTILINE)
    if match is None:
        raise FileNotFoundError(f"{name} is missing: install the Debian package libsodium23")
    return Path(match[1])


def assemble(package_folder: Path, out: Path) -> None:
    """Write the tree to `out`, which is emptied first."""
    shutil.rmtree(out, ignore_errors=True)
    library = out / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    (out / "bin").mkdir(parents=True)
    library.mkdir(parents=True)
    python = Path(os.path.realpath(sys.executable))
    shutil.copy(python, out / "bin" / "python3")
    copy_modules(imported(package_folder), library)
    shutil.copytree(package_folder / PACKAGE, library / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    (library / "lib-dynload").mkdir(exist_ok=True)  # a landmark: without it the interpreter warns at each start
    sodium = {name: find_library(name) for name in LIBRARIES}
    binaries = [python, *library.rglob("*.so"), *sodium.values()]
    for name, path in {**libraries(binaries), **sodium}.items():
        shutil.copy(path.resolve(), out / "lib" / name)
        (out / "lib" / name).chmod(0o755)
    (out / "agentrun").symlink_to(".")
    # The interpreter looks for its library from its own place upwards and gives up at the root; /usr is its last guess.
    (out / "usr").symlink_to(".")
    _compile(library)


def _compile(library: Path) -> None:
    """Bytecode that is never compared with its source: half of the start-up time."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    if not compileall.compile_dir(library, quiet=1, invalidation_mode=mode, stripdir=str(library)):
        raise SystemExit("assemble: bytecode cannot be compiled")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]), Path(sys.argv[2]))
