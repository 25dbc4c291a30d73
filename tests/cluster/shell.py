"""Running programs and waiting with a bound."""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class ClusterError(Exception):
    """Something is missing or does not come up; the message is one line a person can act on."""


def run(*argv: str | Path, check: bool = True, timeout: float = 120, data: str | None = None) -> str:
    """Standard output of a program; its standard error goes into the error."""
    command = [str(part) for part in argv]
    done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode:
        detail = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise ClusterError(f"`{' '.join(command[:6])}` failed ({done.returncode}): {detail}")
    return done.stdout


def wait_until(what: str, probe: Callable[[], bool], seconds: float, every: float = 0.1) -> None:
    """Poll until true; raises ClusterError naming what did not happen."""
    end = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > end:
            raise ClusterError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(every)


def tail(path: Path, lines: int = 15) -> str:
    """Last lines of a log, for error messages."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else "(no log)"


def need_packages(programs: dict[str, str]) -> None:
    """Install the Debian packages of programs or files that are missing, and say so."""
    missing = sorted({package for thing, package in programs.items() if not _there(thing)})
    if not missing:
        return
    if not _there("apt-get"):
        raise ClusterError(f"missing: {', '.join(missing)} (no apt-get here: install them by hand)")
    print(f"cluster: installing Debian packages: {' '.join(missing)}", flush=True)
    _apt(missing)


def _apt(packages: Sequence[str]) -> None:
    command = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages)
    try:
        run("env", "DEBIAN_FRONTEND=noninteractive", *command, timeout=600)
    except ClusterError:
        run("apt-get", "update", "-qq", timeout=300)
        run("env", "DEBIAN_FRONTEND=noninteractive", *command, timeout=600)


def _there(thing: str) -> bool:
    import shutil

    return Path(thing).exists() if thing.startswith("/") else shutil.which(thing) is not None
