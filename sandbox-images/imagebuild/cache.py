"""Folders and archives keyed by the digest of what they are built from: unchanged inputs cost nothing."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.config import CACHE

IMAGES = CACHE / "images" / "built"
ROOT = Path(__file__).resolve().parent.parent.parent
KEY_LENGTH = 12  # also the image's tag: a changed source is another image, which no node mistakes for the old one
KEPT = 3  # builds of one image that stay in the cache


@contextmanager
def locked() -> Iterator[None]:
    """One build at a time: two would do the same work twice."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (IMAGES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def files_below(folder: Path, pattern: str = "*") -> list[Path]:
    """Source files, without what programs leave beside them."""
    found = (path for path in sorted(folder.rglob(pattern)) if path.is_file())
    return [path for path in found if "__pycache__" not in path.parts and not _hidden(path.relative_to(folder))]


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def digest_of(texts: Iterable[str], files: Iterable[Path] = ()) -> str:
    """Digest of texts and of files (names and bytes)."""
    whole = hashlib.sha256()
    for text in texts:
        whole.update(len(text.encode()).to_bytes(8, "big") + text.encode())
    for file in files:
        name = os.path.relpath(file, ROOT)  # two checkouts share what is the same
        whole.update(name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()[:KEY_LENGTH]


def folder(kind: str, key: str, make: Callable[[Path], None]) -> Path:
    """A folder made once per key; a broken build leaves nothing behind."""
    place = IMAGES / "layers" / f"{kind}-{key}"
    if not place.exists():
        partial = place.with_name(place.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        make(partial)
        partial.rename(place)
        _prune(place.parent, f"{kind}-")
    place.touch()
    return place


def archive(name: str, key: str, make: Callable[[Path], str]) -> tuple[Path, str]:
    """An OCI archive and its manifest's digest, made once per key."""
    place = IMAGES / "archives" / f"{name}-{key}"
    if not (place / "image.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        digest = make(place / "image.tar")
        (place / "image.json").write_text(json.dumps({"name": name, "digest": digest}))
        _prune(place.parent, f"{name}-")
    place.touch()
    return place / "image.tar", str(json.loads((place / "image.json").read_text())["digest"])


def _prune(parent: Path, prefix: str) -> None:
    mine = (path for path in parent.glob(prefix + "*") if len(path.name) == len(prefix) + KEY_LENGTH)
    old = sorted(mine, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in old[KEPT:]:
        shutil.rmtree(path)
