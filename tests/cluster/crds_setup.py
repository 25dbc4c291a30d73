"""Installs CRDs and policies on the real API server, gives each test module its namespace and people with roles.

Import `admin` and `place` into a test module. What the tests installed goes when the last module of theirs ends; what
a chart had installed before stays.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.crds_api import (
    GROUP,
    OPERATOR,
    Api,
    Manifest,
    Refused,
    collection,
    connect,
    eventually,
)
from tests.unit.api.examples import AGENT_DEFINITION, AGENT_RUN, edited

from agentrun.api.crdgen import DEFAULT_OPERATOR_NAMESPACE, documents
from agentrun.api.kinds import KINDS
from agentrun.api.policies.operator import NAMESPACE_PLACEHOLDER

INSTALLED_BY_TESTS = {"agentrun.dev/installed-by": "tests"}
RUN_VERBS = ("pause", "stop", "kill", "steer", "topup", "resolve", "migrate", "pin", "fork", "approve", "shell")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def with_namespace(value: Any) -> Any:
    """The generated object with the operator's default namespace in place."""
    if isinstance(value, str):
        return value.replace(NAMESPACE_PLACEHOLDER, DEFAULT_OPERATOR_NAMESPACE)
    if isinstance(value, dict):
        return {key: with_namespace(child) for key, child in value.items()}
    return [with_namespace(child) for child in value] if isinstance(value, list) else value


def objects() -> list[Manifest]:
    """CRDs first, then policies with their bindings."""
    return [with_namespace(item) for items in documents().values() for item in items]


def object_path(manifest: Manifest) -> str:
    """Path of a cluster-scoped object."""
    return f"{_PATHS[manifest['kind']]}/{manifest['metadata']['name']}"


def install(api: Api) -> None:
    """Apply everything; objects that were not there are labelled as the tests' own."""
    for manifest in objects():
        path = object_path(manifest)
        wanted = copy.deepcopy(manifest)
        try:
            labels = api.get(path)["metadata"].get("labels", {})
            ours = labels.items() >= INSTALLED_BY_TESTS.items()
        except Refused:
            ours = True
        if ours:
            wanted["metadata"]["labels"].update(INSTALLED_BY_TESTS)
        api.apply(path, wanted, manager="agentrun-tests", force="true")


def uninstall(api: Api) -> None:
    """Delete what the tests had installed, policies first."""
    for manifest in reversed(objects()):
        path = object_path(manifest)
        try:
            labels = api.get(path)["metadata"].get("labels", {})
        except Refused:
            continue
        if labels.items() >= INSTALLED_BY_TESTS.items():
            api.delete(path)


def wait_until_enforced(api: Api, namespace: str) -> None:
    """CRDs made seconds ago answer 503 or 429; policies act about a second after their creation."""
    for kind in KINDS:
        where = f"namespaces/{namespace}/" if kind.namespaced else ""
        eventually(lambda p=f"{GROUP}/{where}{kind.plural}": api.get(p), f"{kind.plural} served")
    runs = collection(namespace, "agentruns")
    forged = edited(AGENT_RUN, "spec.attribution", {"run": {"username": "mallory"}})

    def stamped() -> bool:
        made = api.create(runs, forged, dryRun="All")
        return made["spec"]["attribution"]["run"]["username"] != "mallory"

    eventually(stamped, "stamp of agentruns")
    eventually(lambda: policy_refuses(api, namespace), "policies")


def policy_refuses(api: Api, namespace: str) -> bool:
    """Whether the last policies of the list are in force, tried by dry runs that they must refuse."""
    definitions = collection(namespace, "agentdefinitions")
    too_large = edited(AGENT_DEFINITION, "spec.template.modelParameters", {"x": "y" * 300_000})
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "probe"},
        "spec": {"hard": {"budget.agentrun.dev/typo": "1"}},
    }
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    return refused(api, definitions, too_large) and refused(api, quotas, quota)


def refused(api: Api, path: str, manifest: Manifest) -> bool:
    """Whether a dry-run create is refused by a policy."""
    try:
        api.create(path, manifest, dryRun="All")
    except Refused as answer:
        if "ValidatingAdmissionPolicy" in answer.message:
            return True
        raise
    return False


@dataclass(frozen=True)
class Place:
    """A namespace with roles: group `editors` may edit our kinds, group `verb-<verb>` holds that verb."""

    api: Api
    namespace: str

    def runs(self) -> str:
        """Path of the namespace's AgentRuns."""
        return collection(self.namespace, "agentruns")

    def of(self, plural: str) -> str:
        """Path of a collection of ours."""
        return f"{GROUP}/{plural}" if plural == "agentclasses" else collection(self.namespace, plural)

    def person(self, name: str, *verbs: str) -> Api:
        """An editor with extra verbs."""
        return self.api.as_user(name, "editors", *(f"verb-{verb}" for verb in verbs))

    def operator(self) -> Api:
        """The operator's account, with all rights."""
        return self.api.as_user(OPERATOR, "system:masters")


def _role(place: Place, group: str, rules: list[Manifest]) -> None:
    base = f"{RBAC}/namespaces/{place.namespace}"
    name = {"metadata": {"name": group}}
    place.api.create(f"{base}/roles", name | {"rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": group}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
    place.api.create(f"{base}/rolebindings", name | {"roleRef": reference, "subjects": [subject]})


def _rule(group: str, resources: list[str], verbs: list[str], names: list[str] | None = None) -> Manifest:
    rule: Manifest = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return rule | ({"resourceNames": names} if names else {})


def _people(place: Place) -> None:
    edit = ["get", "list", "watch", "update", "patch", "delete"]
    kinds = [kind.plural for kind in KINDS if kind.namespaced]
    statuses = [f"{plural}/status" for plural in kinds]
    everything = _rule("agentrun.dev", [*kinds, *statuses], edit)
    pods = _rule("", ["pods/exec", "pods/attach", "pods/portforward", "pods/proxy"], ["create", "get"])
    debug = _rule("", ["pods/ephemeralcontainers"], ["patch", "update"])
    make = _rule("agentrun.dev", kinds, ["create"])
    _role(place, "editors", [everything, make, pods, debug, _rule("", ["resourcequotas"], ["create", "update"])])
    others = [kind for kind in kinds if kind != "agentruns"]
    _role(place, "definers", [everything, _rule("agentrun.dev", others, ["create"])])
    _role(place, "creators", [_rule("agentrun.dev", ["agentruns"], ["create"])])
    for verb in RUN_VERBS:
        _role(place, f"verb-{verb}", [_rule("agentrun.dev", ["agentruns"], [verb])])
    _role(place, "verb-grant", [_rule("agentrun.dev", ["agentdefinitions"], ["grant"], ["fixer"])])
    _role(place, "verb-use", [_rule("agentrun.dev", ["agentclasses"], ["use"], ["default"])])
    for index in range(4):
        _role(place, f"verb-secret-{index}", [_rule("", ["secrets"], ["get"], [f"secret-{index}"])])
    forker = _rule("agentrun.dev", ["agentruns"], ["fork"], ["source"])
    _role(place, "verb-fork-source", [forker])


@pytest.fixture(scope="module")
def admin(request: pytest.FixtureRequest, kubeconfig: Path) -> Iterator[Api]:
    """The cluster's admin, with CRDs and policies installed and in force."""
    ours = [item.path for item in request.session.items if item.path.name.startswith("test_crds_")]
    with connect(kubeconfig) as api:
        install(api)
        wait_until_enforced(api, "default")
        yield api
        if ours[-1] == request.path:
            uninstall(api)


@pytest.fixture(scope="module")
def place(admin: Api) -> Iterator[Place]:
    """A namespace of the module's own, with people."""
    made = admin.create("/api/v1/namespaces", {"metadata": {"generateName": "crds-"}})
    here = Place(admin, made["metadata"]["name"])
    _people(here)
    editor = here.person("probe", *RUN_VERBS)
    eventually(lambda: editor.create(here.runs(), paused("probe"), dryRun="All"), "roles in force")
    yield here
    for kind in KINDS:
        if kind.namespaced:
            admin.delete(here.of(kind.plural))
    admin.delete(f"/api/v1/namespaces/{here.namespace}")


def named(manifest: Manifest, name: str) -> Manifest:
    """A copy of an example under another name."""
    return edited(manifest, "metadata.name", name)


def paused(name: str) -> Manifest:
    """An AgentRun that is created paused."""
    return edited(named(AGENT_RUN, name), "spec.operatingMode", "Paused")
