"""Root file systems from Debian packages, unpacked without running anything of theirs."""

import compileall
import py_compile
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.shell import need_packages, run

SUITE = "bookworm"
MERGED = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
UNUSED = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/bug",
    "usr/share/perl", "usr/share/perl5", "usr/share/gitweb", "usr/share/common-licenses", "usr/share/bash-completion",
    "usr/lib/*-linux-gnu/gconv", "usr/lib/*-linux-gnu/perl", "usr/lib/*-linux-gnu/perl-base",
    "var/lib/apt", "var/lib/dpkg", "var/cache",
)  # fmt: skip


def unpack(packages: Sequence[str], out: Path) -> None:
    """The packages and what they depend on, into `out`; documentation and Perl left out."""
    need_packages({"mmdebstrap": "mmdebstrap"})
    print(f"images: unpacking {len(packages)} Debian packages and what they need", flush=True)
    run(
        "mmdebstrap", "--quiet", "--variant=extract", "--mode=root", f"--include={','.join(packages)}",
        "--aptopt=APT::Install-Recommends false", "--skip=output/dev", MERGED,
        "--format=directory", SUITE, out, timeout=900,
    )  # fmt: skip
    for pattern in UNUSED:
        for folder in out.glob(pattern):
            shutil.rmtree(folder)
    for folder in ("proc", "sys", "dev", "tmp", "etc"):
        (out / folder).mkdir(exist_ok=True)
    _settle(out)


def _settle(out: Path) -> None:
    """What the packages' own scripts would have done and a container needs."""
    (out / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532::/tmp:/bin/sh\n")
    (out / "etc" / "group").write_text("root:x:0:\nnonroot:x:65532:\n")
    (out / "etc" / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    _certificates(out)
    for link, target in (("awk", "gawk"), ("python", "python3")):
        place = out / "usr" / "bin" / link
        if not place.exists() and (place.parent / target).exists():
            place.symlink_to(target)


def _certificates(out: Path) -> None:
    parts = sorted((out / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    if parts:
        bundle = out / "etc" / "ssl" / "certs" / "ca-certificates.crt"
        bundle.parent.mkdir(parents=True, exist_ok=True)
        bundle.write_bytes(b"".join(part.read_bytes() for part in parts))


def precompile(*folders: Path, root: Path) -> None:
    """Bytecode that is not compared with its source; what cannot be compiled (templates) stays as it is."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for folder in folders:
        compileall.compile_dir(folder, quiet=2, invalidation_mode=mode, stripdir=str(root), prependdir="/", workers=2)
