"""The same commands on kind, for machines with Docker: images come from a registry there."""

import shutil
from pathlib import Path

from tests.cluster.config import HERE, kubeconfig_path
from tests.cluster.shell import ClusterError, run

NAME = "agentrun"


def _kind() -> str:
    program = shutil.which("kind")
    if program is None:
        raise ClusterError("missing: kind v0.33 (`go install sigs.k8s.io/kind@v0.33.0`), or set AGENTRUN_CLUSTER=local")
    return program


def up(_cluster: str = "default") -> Path:
    """Create the cluster, or use the one that runs."""
    config = kubeconfig_path()
    config.parent.mkdir(parents=True, exist_ok=True)
    if NAME not in run(_kind(), "get", "clusters", check=False).split():
        arguments = ("--name", NAME, "--config", HERE / "kind.yaml", "--kubeconfig", config, "--wait", "180s")
        run(_kind(), "create", "cluster", *arguments, timeout=900)
    config.write_text(run(_kind(), "get", "kubeconfig", "--name", NAME))
    return config


def down(_cluster: str = "default") -> None:
    """Delete it."""
    run(_kind(), "delete", "cluster", "--name", NAME, timeout=300)


def healthy(_cluster: str = "default") -> bool:
    """Whether kind knows it."""
    return NAME in run(_kind(), "get", "clusters", check=False).split()


def load(archives: list[str]) -> int:
    """Load OCI archives into its nodes."""
    for archive in archives:
        run(_kind(), "load", "image-archive", archive, "--name", NAME, timeout=600)
    return 0
