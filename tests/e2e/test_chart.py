"""The charts as Helm renders them: clear errors, bounds on everything, no right too many (C62, C72)."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.shell import ClusterError
from tests.e2e.install import ROOT, helm

Object = dict[str, Any]
REGISTRY = ("--set", "image.registry=registry.test/agentrun")
POSTGRES = ("--set", "mode=postgres", "--set", "postgres.urlSecret=journal")
MODES = [(), POSTGRES]


def render(kubeconfig: Path, *flags: str, chart: str = "agentrun") -> list[Object]:
    text = helm(kubeconfig, "template", "agentrun", str(ROOT / "charts" / chart), "-n", "agentrun-system", *flags)
    return [document for document in yaml.safe_load_all(text) if document]


def pods(documents: list[Object]) -> list[Object]:
    kinds = ("Deployment", "StatefulSet")
    return [document["spec"]["template"]["spec"] for document in documents if document["kind"] in kinds]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "image.registry is empty: set it to the registry"),
        ((*REGISTRY, "--set", "mode=postgres"), "postgres.urlSecret is empty: name a Secret"),
        ((*REGISTRY, "--set", "mode=cluster"), "mode"),
        ((*REGISTRY, "--set", "toolServer.mount=sometimes"), "mount"),
        ((*REGISTRY, "--set", "postgres.harnessReplicas=-1"), "harnessReplicas"),
    ],
)
def test_a_value_that_is_missing_or_wrong_is_named(kubeconfig: Path, flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        render(kubeconfig, *flags)


@pytest.mark.parametrize("mode", MODES)
def test_every_container_of_ours_is_bounded_and_restricted_C62(kubeconfig: Path, mode: tuple[str, ...]) -> None:
    found = pods(render(kubeconfig, *REGISTRY, *mode))
    assert len(found) == (4 if mode else 2)
    for spec in found:
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            assert container["resources"]["requests"].keys() == container["resources"]["limits"].keys() != set()
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("mode", MODES)
def test_no_role_has_a_star_or_a_way_to_more_rights_C72(kubeconfig: Path, mode: tuple[str, ...]) -> None:
    documents = render(kubeconfig, *REGISTRY, *mode)
    rules = [rule for document in documents for rule in document.get("rules") or []]
    assert rules
    for rule in rules:
        verbs, resources = set(rule["verbs"]), set(rule.get("resources", []))
        assert not verbs & {"*", "bind", "escalate", "impersonate"}, rule
        assert "*" not in resources, rule
        assert "secrets" not in resources or rule.get("resourceNames") or "list" not in verbs, rule


def test_one_replica_owns_the_sqlite_journal_and_no_second_can_start(kubeconfig: Path) -> None:
    documents = render(kubeconfig, *REGISTRY)
    sets = {document["metadata"]["name"]: document for document in documents if document["kind"] == "StatefulSet"}
    for name in ("agentrun", "agentrun-broker"):
        claims = sets[name]["spec"]["volumeClaimTemplates"]
        assert sets[name]["spec"]["replicas"] == 1
        assert [claim["spec"]["accessModes"] for claim in claims] == [["ReadWriteOncePod"]]
