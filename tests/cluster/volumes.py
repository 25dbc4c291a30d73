"""Released local volumes made free again: emptied, and their claim forgotten (what a provisioner would do)."""

import json
import shutil

from tests.cluster.addons import volume_names
from tests.cluster.binaries import binaries_path
from tests.cluster.config import kubeconfig_path, nodes
from tests.cluster.shell import run


def reclaim(cluster: str = "default") -> int:
    """How many volumes were made free."""
    kubectl = (binaries_path() / "kubectl", f"--kubeconfig={kubeconfig_path(cluster)}")
    items = json.loads(run(*kubectl, "get", "persistentvolumes", "-l", "test=local", "-o", "json"))["items"]
    released = {item["metadata"]["name"] for item in items if item["status"]["phase"] == "Released"}
    for node in nodes(cluster):
        for name in released.intersection(volume_names(node)):
            folder = node.state / "volumes" / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            patch = json.dumps([{"op": "remove", "path": "/spec/claimRef"}])
            run(*kubectl, "patch", "persistentvolume", name, "--type=json", f"--patch={patch}")
    return len(released)
