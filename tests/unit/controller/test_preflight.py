"""The operator starts only where its API is whole: an older CRD would drop a limiting field in silence (C67)."""

import copy
from typing import Any

import pytest
from tests.unit.controller.apiserver import ApiServer, refusal

from agentrun.api.crd import custom_resource_definition
from agentrun.api.kinds import KINDS
from agentrun.controller import preflight
from agentrun.controller.preflight import NotInstalled, check_api, cluster_id
from agentrun.kube import Forbidden, KubeClient, Unavailable

Object = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install(api: ApiServer) -> None:
    for kind in KINDS:
        crd = copy.deepcopy(dict(custom_resource_definition(kind)))
        api.put(f"{CRDS}/{crd['metadata']['name']}", crd)
    api.put(f"{CRDS}/runs.other.dev", {"metadata": {"name": "runs.other.dev"}, "spec": {"group": "other.dev"}})


def schema(api: ApiServer, plural: str) -> Object:
    version = api.objects[f"{CRDS}/{plural}.agentrun.dev"]["spec"]["versions"][0]
    found: Object = version["schema"]["openAPIV3Schema"]["properties"]
    return found


async def test_this_builds_own_crds_are_enough(api: ApiServer, kube: KubeClient) -> None:
    install(api)
    await check_api(kube)


async def test_an_older_crd_is_refused_and_every_missing_field_is_named_C67(api: ApiServer, kube: KubeClient) -> None:
    install(api)
    del schema(api, "agentruns")["spec"]["properties"]["budget"]["properties"]["mutations"]
    del schema(api, "agentclasses")["spec"]["properties"]["egress"]
    with pytest.raises(NotInstalled) as found:
        await check_api(kube)
    told = str(found.value)
    assert "agentruns.agentrun.dev: spec.budget.mutations" in told
    assert "agentclasses.agentrun.dev: spec.egress" in told
    assert "agentrun-crds" in told
    assert "toolgrants" not in told


async def test_a_cluster_without_the_crds_is_refused_with_the_chart_to_install_C67(
    api: ApiServer, kube: KubeClient
) -> None:
    with pytest.raises(NotInstalled, match=r"agentruns\.agentrun\.dev.*agentrun-crds"):
        await check_api(kube)
    assert api.of("GET", CRDS)


async def test_a_message_stays_readable_however_much_is_missing(api: ApiServer, kube: KubeClient) -> None:
    install(api)
    schema(api, "agentruns").clear()
    for kind in KINDS:
        version = api.objects[f"{CRDS}/{kind.crd_name}"]["spec"]["versions"][0]
        version["schema"]["openAPIV3Schema"] = {}
    with pytest.raises(NotInstalled) as found:
        await check_api(kube)
    assert len(str(found.value)) < 4096


async def test_a_cluster_is_known_by_the_uid_of_kube_system(api: ApiServer, kube: KubeClient) -> None:
    api.put("/api/v1/namespaces/kube-system", {"metadata": {"name": "kube-system", "uid": "c-1"}})
    assert await cluster_id(kube) == "c-1"


async def test_an_api_server_that_is_starting_is_waited_for(
    api: ApiServer, kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "PAUSE_SECONDS", 0.01)
    api.put("/api/v1/namespaces/kube-system", {"metadata": {"name": "kube-system", "uid": "c-1"}})
    failures = [refusal(503, "ServiceUnavailable", "starting")] * 3
    api.rules.append(lambda _asked: failures.pop() if failures else None)
    assert await cluster_id(kube) == "c-1"
    assert not failures


@pytest.mark.parametrize(
    ("answer", "error"),
    [(refusal(503, "ServiceUnavailable", "no"), Unavailable), (refusal(403, "Forbidden", "no"), Forbidden)],
)
async def test_one_that_never_answers_is_told_as_it_answered(
    api: ApiServer,
    kube: KubeClient,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, Object],
    error: type[Exception],
) -> None:
    monkeypatch.setattr(preflight, "PAUSE_SECONDS", 0.001)
    api.rules.append(lambda _asked: answer)
    with pytest.raises(error):
        await cluster_id(kube)
    assert len(api.asked) == preflight.TRIES
