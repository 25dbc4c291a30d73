"""What each image is made of."""

import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.cluster.images import pack_oci
from tests.cluster.shell import need_packages, run

from imagebuild import cache, debian

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = ROOT / "sandbox-images"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PREFIX = "agentrun.test"  # a name reserved for tests (RFC 6761): nothing can be pulled from it by accident
USER = "65532:65532"
PYTHON = "/usr/bin/python3.11"
SITE = Path("usr/local/lib/python3.11/dist-packages")
GUARD = (
    "/lib/ld.so", "--library-path", "/lib", "/bin/python3", "-I", "-S", "-X", "utf8", "-m", "agentrun_sandbox.guard",
)  # fmt: skip
REFERENCE_PACKAGES = (
    "python3", "python3-pip", "python3-venv", "python3-pytest", "git", "dash", "bash", "coreutils", "findutils", "grep",
    "sed", "gawk", "diffutils", "patch", "make", "tar", "gzip", "procps", "less", "ca-certificates",
)  # fmt: skip
REFERENCE_ENV = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
    "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PYTHONDONTWRITEBYTECODE=1",
)  # fmt: skip
PRODUCT_PACKAGES = ("python3", "ca-certificates", "tzdata", "media-types")
PRODUCT_ENV = ("PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1")


@dataclass(frozen=True)
class Built:
    """One image in the cache. `digest` is the manifest's."""

    image: str
    digest: str
    archive: Path


def _image(repository: str, key: str, layers: list[Path], *, tag: str = "", **settings: Any) -> Built:
    """Pack the layers, once per key; images that manifests name have a fixed tag."""
    name = f"{PREFIX}/{repository}:{tag or key}"

    def pack(out: Path) -> str:
        return pack_oci(layers, out, name=name, user=USER, **settings)

    archive, digest = cache.archive(repository, f"{key}-{tag}" if tag else key, pack)  # the name is in the bytes
    return Built(name, digest, archive)


def tool_server() -> Built:
    """Interpreter, part of its library, server and guard: 14 MB, mounted into any other image."""
    need_packages({PYTHON: "python3.11-minimal", "/usr/lib/python3.11/tarfile.py": "libpython3.11-stdlib"})
    need_packages({f"/usr/lib/{platform.machine()}-linux-gnu/libsodium.so.23": "libsodium23"})
    script, package = HERE / "tool-server" / "assemble.py", HERE / "toolserver"
    version = run(PYTHON, "-VV").strip()
    key = cache.digest_of([version, _libc(), *GUARD], [script, *cache.files_below(package, "*.py")])
    tree = cache.folder("tool-server", key, lambda out: _run(PYTHON, script, package, out))
    return _image("tool-server", key, [tree], entrypoint=GUARD)


def reference() -> Built:
    """A work image for Python: python3, pip, pytest, git and the usual tools, for any UID."""
    key = cache.digest_of([*REFERENCE_PACKAGES, *REFERENCE_ENV], [Path(debian.__file__)])
    tree = cache.folder("reference", key, _make_reference)
    return _image("reference", key, [tree], tag="1", cmd=["python3"], env=REFERENCE_ENV, workdir="/workspace")


def _make_reference(out: Path) -> None:
    debian.unpack(REFERENCE_PACKAGES, out)
    (out / "workspace").mkdir()
    debian.precompile(out / "usr/lib/python3", out / "usr/lib/python3.11", root=out)


def noshell() -> Built:
    """One static program and nothing else."""
    need_packages({"gcc": "gcc", "/usr/include/stdio.h": "libc6-dev"})
    source = HERE / "noshell" / "main.c"
    key = cache.digest_of([_libc()], [source])
    tree = cache.folder("noshell", key, lambda out: _run("gcc", "-static", "-Os", "-s", "-o", out / "hello", source))
    return _image("noshell", key, [tree], tag="1", entrypoint=["/hello"])


def product() -> Built:
    """The operator, harness, broker, proxy, console and CLI: a layer of dependencies, a layer of our source."""
    base = _product_base()
    sources = [ROOT / "pyproject.toml", *cache.files_below(ROOT / "operator")]
    key = cache.digest_of([base.name, *PRODUCT_ENV], sources)
    source = cache.folder("agentrun-source", key, _install_source)
    return _image("agentrun", key, [base, source], entrypoint=["agentrun"], env=PRODUCT_ENV)


def _product_base() -> Path:
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["openai"]]
    installed = {
        f"{found.name}=={found.version}" for found in metadata.distributions() if found.name != PROJECT["name"]
    }
    pinned = sorted(installed)  # the versions that the tests ran with
    key = cache.digest_of([*PRODUCT_PACKAGES, *wanted, *pinned], [Path(debian.__file__)])

    def make(out: Path) -> None:
        debian.unpack(PRODUCT_PACKAGES, out)
        print(f"images: installing {len(wanted)} Python packages and what they need", flush=True)
        constraints = out / "constraints.txt"
        constraints.write_text("\n".join(pinned))
        _pip("install", "--no-compile", "--target", str(out / SITE), "--constraint", str(constraints), *wanted)
        constraints.unlink()
        debian.precompile(out / SITE, out / "usr/lib/python3.11", root=out)

    return cache.folder("agentrun-base", key, make)


def _install_source(out: Path) -> None:
    _pip("install", "--no-compile", "--no-deps", "--no-build-isolation", "--target", str(out / SITE), str(ROOT))
    scripts = out / "usr/local/bin"
    scripts.mkdir(parents=True)
    for script, entry in PROJECT["scripts"].items():
        module, function = entry.split(":")
        text = f"#!{PYTHON}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        (scripts / script).write_text(text)
        (scripts / script).chmod(0o755)
    shutil.rmtree(out / SITE / "bin", ignore_errors=True)  # pip's, with this machine's interpreter in the first line
    debian.precompile(out / SITE, root=out)


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"pip failed: {done.stderr.strip()[-2000:]}")


def _run(*command: str | Path) -> None:
    run(*command, timeout=300)


def _libc() -> str:
    return " ".join(platform.libc_ver()) + platform.machine()


IMAGES: dict[str, Callable[[], Built]] = {
    "tool-server": tool_server, "reference": reference, "noshell": noshell, "agentrun": product,
}  # fmt: skip
