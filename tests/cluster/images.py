"""OCI images without a registry: packed from folders, deterministically, and imported into every node."""

import argparse
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.config import nodes, state_dir
from tests.cluster.shell import run

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pack_oci(
    rootfs: Path | Sequence[Path],
    out: Path,
    *,
    name: str,
    entrypoint: Sequence[str] = (),
    cmd: Sequence[str] = (),
    env: Sequence[str] = (),
    user: str = "",
    workdir: str = "/",
) -> str:
    """Write an OCI archive with one layer per folder; returns the manifest's digest. Same input, same bytes."""
    folders = [rootfs] if isinstance(rootfs, Path) else list(rootfs)
    blobs: dict[str, bytes] = {}
    layers, diff_ids = [], []
    for folder in folders:
        plain = _layer(folder)
        diff_ids.append(_digest(plain))
        layers.append(_blob(blobs, LAYER, gzip.compress(plain, 1, mtime=0)))
    settings = {"Entrypoint": list(entrypoint), "Cmd": list(cmd), "Env": list(env), "User": user, "WorkingDir": workdir}
    config = {
        "architecture": ARCHITECTURES[os.uname().machine], "os": "linux",
        "config": {key: value for key, value in settings.items() if value},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }  # fmt: skip
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": _blob(blobs, CONFIG, _json(config)), "layers": layers,
    }  # fmt: skip
    entry = _blob(blobs, MANIFEST, _json(manifest))
    digest = entry["digest"]
    entry["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    _archive(out, blobs, _json({"schemaVersion": 2, "manifests": [entry]}))
    return str(digest)


def load_image(archive: Path, cluster: str = "default", binaries: Path | None = None) -> None:
    """Import an OCI archive into every node of the local cluster."""
    from tests.cluster.binaries import binaries_path

    folder = binaries or binaries_path()
    for node in nodes(cluster):
        ctr = (folder / "ctr", "--address", node.containerd_socket, "--namespace", "k8s.io")
        run(*ctr, "images", "import", "--digests", "--local", archive.resolve(), timeout=300)


def _layer(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            info = tar.gettarinfo(path, arcname=str(path.relative_to(folder)))
            if info is None:
                continue  # a socket
            info.mtime, info.uname, info.gname = 0, "", ""
            if info.isfile():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return buffer.getvalue()


def _archive(out: Path, blobs: dict[str, bytes], index: bytes) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", index)
        for digest, data in sorted(blobs.items()):
            _add(tar, f"blobs/sha256/{digest.removeprefix('sha256:')}", data)
    partial.replace(out)


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _blob(blobs: dict[str, bytes], media_type: str, data: bytes) -> dict[str, object]:
    digest = _digest(data)
    blobs[digest] = data
    return {"mediaType": media_type, "digest": digest, "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def main(arguments: list[str]) -> int:
    """`load ARCHIVE…`."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster load", description="Import OCI archives.")
    parser.add_argument("archive", nargs="+", type=Path)
    for archive in parser.parse_args(arguments).archive:
        load_once(archive)
    return 0


def load_once(archive: Path, cluster: str = "default") -> None:
    """Import it, unless this very file was imported into this very cluster before."""
    known = state_dir(cluster) / "loaded"  # goes with the cluster
    stat = archive.stat()
    mark = f"{archive.resolve()} {stat.st_mtime_ns} {stat.st_size}"
    if known.exists() and mark in known.read_text().splitlines():
        return
    load_image(archive, cluster)
    with known.open("a") as file:
        file.write(mark + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
