"""The plugin as a real process on a real pseudo-terminal, where nothing is stripped on the way."""

import os
import pty
import subprocess
import sys
from pathlib import Path

PLUGIN = [sys.executable, "-c", "from agentrun.cli.main import kubectl_agentrun; kubectl_agentrun()"]


def environment(kubeconfig: Path | str = "/nowhere") -> dict[str, str]:
    """Of a process that finds the same packages as this one."""
    return {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": os.pathsep.join(sys.path)}


def on_terminal(kubeconfig: Path, *arguments: str) -> tuple[int, bytes, str]:
    """(exit code, bytes that reached the terminal, standard error)."""
    master, slave = pty.openpty()
    done = subprocess.run(
        [*PLUGIN, *arguments],
        env=environment(kubeconfig),
        stdout=slave,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 65_536):
            shown += part
    except OSError:
        pass  # how Linux says that the other side is closed
    os.close(master)
    return done.returncode, shown.replace(b"\r\n", b"\n"), done.stderr.decode()
