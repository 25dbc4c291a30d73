"""`kubectl agentrun` as a person runs it: a process of its own with a kubeconfig."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MAIN = "from agentrun.cli.main import kubectl_agentrun; kubectl_agentrun()"


class Plugin:
    """The plugin in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        self._namespace = namespace

    def __call__(self, *verb: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Exit code, output and errors of one verb."""
        command = [sys.executable, "-c", MAIN, "-n", self._namespace, *verb]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=seconds, check=False
        )

    def json(self, *verb: str) -> Any:
        """Parsed output of a verb that must succeed."""
        done = self(*verb, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lines(self, *verb: str) -> list[Any]:
        """One JSON document per line."""
        done = self(*verb, "-o", "json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
