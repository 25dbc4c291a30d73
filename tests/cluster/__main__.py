"""`python -m tests.cluster up|down|status|load|reclaim`."""

import os
import shutil
import subprocess
import sys

from tests.cluster import images, kind, lifecycle
from tests.cluster.config import kubeconfig_path
from tests.cluster.shell import ClusterError

USAGE = "usage: python -m tests.cluster up | down | status | load ARCHIVE… | reclaim"


def uses_kind() -> bool:
    """kind where a Docker daemon answers; the client alone proves nothing. AGENTRUN_CLUSTER=kind|local overrides."""
    wanted = os.environ.get("AGENTRUN_CLUSTER", "")
    if wanted not in ("", "kind", "local"):
        raise ClusterError(f"AGENTRUN_CLUSTER={wanted!r}: it must be kind or local")
    if wanted:
        return wanted == "kind"
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True, timeout=20, check=False).returncode == 0


def main(arguments: list[str]) -> int:
    """Command line."""
    backend = kind if uses_kind() else lifecycle
    match arguments:
        case ["up"]:
            print(f"KUBECONFIG={backend.up()}")
        case ["down"]:
            backend.down()
        case ["status"]:
            print("healthy" if backend.healthy() else "not running or not healthy")
            print(f"KUBECONFIG={kubeconfig_path()}")
        case ["load", *archives] if archives:
            return kind.load(archives) if backend is kind else images.main(archives)
        case ["reclaim"]:
            from tests.cluster.volumes import reclaim

            print(f"cluster: {reclaim()} volumes are free again")
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
