"""Make the Python environment the Makefile runs in: a venv in the user's cache, keyed by the dependencies' digest.

Standard library only. `--path` prints where it is (or will be); without it the venv is made if it is missing.
The project itself is not installed into it: two checkouts may share one.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("dev", "openai")


def requirements() -> list[str]:
    """Every dependency the checks need, from pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {})
    return sorted({*project["dependencies"], *(line for name in EXTRAS for line in extras.get(name, []))})


def venv_path() -> Path:
    """One place per set of dependencies and interpreter."""
    key = "\n".join([sys.version, *requirements()])
    cache = Path(os.environ.get("AGENTRUN_CACHE", Path.home() / ".cache" / "agentrun"))
    return cache / "venvs" / hashlib.sha256(key.encode()).hexdigest()[:16]


def make(path: Path) -> None:
    """Build the venv beside its place and move it there whole, so that a broken try leaves nothing half-made."""
    _need_venv_module()
    print(f"agentrun: installing {len(requirements())} Python packages into {path}", file=sys.stderr)
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
    pip = [str(path / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements()], check=True)
    (path / ".complete").touch()


def _need_venv_module() -> None:
    try:
        import ensurepip  # noqa: F401 - only to see whether it is there
    except ImportError:
        print("agentrun: installing the Debian package python3-venv", file=sys.stderr)
        subprocess.run(["apt-get", "install", "-y", "-qq", "python3-venv"], check=True, stdout=sys.stderr)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", action="store_true", help="print the venv's path and make nothing")
    arguments = parser.parse_args()
    path = venv_path()
    if not arguments.path and not (path / ".complete").exists():
        make(path)
    print(path)
    return 0


if __name__ == "__main__":
    if sys.version_info < (3, 11):  # noqa: UP036 - this file may be run by whatever python3 is there
        sys.exit("agentrun: Python 3.11 or later is needed; set PYTHON=/path/to/python3.11")
    sys.exit(main())
