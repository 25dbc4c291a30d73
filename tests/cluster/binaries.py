"""Build what the cluster is made of, from Go modules and Debian packages; cached by digest of what it is built from."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.cluster.config import CACHE, HERE, KUBERNETES_VERSION
from tests.cluster.shell import ClusterError, need_packages

MODULES = {
    "containerd": ("github.com/containerd/containerd/v2", "cmd/containerd", "v2.4.2"),
    "containerd-shim-runc-v2": ("github.com/containerd/containerd/v2", "cmd/containerd-shim-runc-v2", "v2.4.2"),
    "ctr": ("github.com/containerd/containerd/v2", "cmd/ctr", "v2.4.2"),
    "runc": ("github.com/opencontainers/runc", "", "v1.4.0"),
    "kube-router": ("github.com/cloudnativelabs/kube-router/v2", "cmd/kube-router", "v2.1.0"),
    "cni/bridge": ("github.com/containernetworking/plugins", "plugins/main/bridge", "v1.10.0"),
    "cni/loopback": ("github.com/containernetworking/plugins", "plugins/main/loopback", "v1.10.0"),
    "cni/host-local": ("github.com/containernetworking/plugins", "plugins/ipam/host-local", "v1.10.0"),
    "cni/portmap": ("github.com/containernetworking/plugins", "plugins/meta/portmap", "v1.10.0"),
    "coredns": ("github.com/coredns/coredns", "", "v1.15.0"),
    "helm": ("helm.sh/helm/v4", "cmd/helm", "v4.3.1"),
}
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
PROGRAMS = {
    "gcc": "gcc", "pkg-config": "pkg-config", "/usr/include/seccomp.h": "libseccomp-dev",
    "iptables": "iptables", "ipset": "ipset", "ip": "iproute2", "conntrack": "conntrack", "nsenter": "util-linux",
    "mount": "mount", "/bin/busybox": "busybox-static", "sysctl": "procps",
}  # fmt: skip
LDFLAGS = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"


def binaries_path() -> Path:
    """Folder of the binaries: one per set of sources, flags and Go version."""
    parts = [repr(sorted(MODULES.items())), LDFLAGS, _go_version()]
    parts += [path.read_text() for path in sorted((HERE / "go").rglob("*")) if path.is_file()]
    return CACHE / "bin" / hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def build() -> Path:
    """Build whatever is missing; each finished binary is kept, so a broken build goes on where it stopped."""
    need_packages(PROGRAMS)
    folder = binaries_path()
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    _build_own(folder, "kubernetes")
    _build_own(folder, "etcd")
    for name, (module, package, version) in MODULES.items():
        if not (folder / name).exists():
            _install(folder / name, module, package, version)
    for name in COMPONENTS:
        link = folder / name
        if not link.is_symlink():
            link.symlink_to("kubernetes")
    return folder


def _build_own(folder: Path, name: str) -> None:
    out = folder / name
    if out.exists():
        return
    print(f"cluster: building {name} (minutes when nothing is cached)", flush=True)
    partial = out.with_suffix(".partial")
    _go(["build", "-trimpath", "-ldflags", LDFLAGS, "-o", str(partial), "."], HERE / "go" / name, cgo=False)
    partial.replace(out)


def _install(out: Path, module: str, package: str, version: str) -> None:
    print(f"cluster: building {out.name} {version}", flush=True)
    work = out.parent / f".build-{out.name}"
    work.mkdir(exist_ok=True)
    target = f"{module}/{package}".rstrip("/") + f"@{version}"
    tags = ["-tags", "seccomp"] if out.name == "runc" else []
    environment = {"GOBIN": str(work)}
    _go(["install", "-trimpath", *tags, "-ldflags", "-s -w", target], work, cgo=out.name == "runc", extra=environment)
    next(path for path in work.iterdir() if path.is_file()).replace(out)
    shutil.rmtree(work)


def _go(arguments: list[str], folder: Path, *, cgo: bool, extra: dict[str, str] | None = None) -> None:
    environment = {**os.environ, "CGO_ENABLED": "1" if cgo else "0", "GOFLAGS": "", **(extra or {})}
    done = subprocess.run(
        [_go_program(), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ClusterError(f"`go {' '.join(arguments[:1])}` failed: {done.stderr.strip()[-2000:]}")


def _go_program() -> str:
    program = shutil.which("go")
    if program is None:
        raise ClusterError("missing: Go 1.26 or later (https://go.dev); the cluster is built from Go modules")
    return program


def _go_version() -> str:
    done = subprocess.run([_go_program(), "env", "GOVERSION"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
