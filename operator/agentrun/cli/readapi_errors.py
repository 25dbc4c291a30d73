"""What stood in the way to the read API, in plain words, with the command an admin would run. Pure."""

import shlex
from typing import Any

from agentrun.cli.plain import RUNNER_ROLE, ask_admin
from agentrun.kube.errors import KubeError

READ_ROLE = "agentrun-read"


def refused_token(error: KubeError, namespace: str, operator_namespace: str) -> str:
    """Of the TokenRequest for the tenant's viewer account."""
    where = shlex.quote(namespace)
    if error.status == 403:
        return (
            f"missing right: `create` on serviceaccounts/token of agentrun-viewer in namespace {namespace} "
            f"({error.message})\n{ask_admin(error.message, RUNNER_ROLE, namespace, cluster_role=True)}"
        )
    if error.status == 404 and "serviceaccounts" in error.message:
        return (
            f"namespace {namespace} has no ServiceAccount agentrun-viewer. The operator makes it with the namespace's "
            f"first run or definition: see that it works (kubectl get pods -n {shlex.quote(operator_namespace)}),\n"
            f"or an admin makes it: kubectl create serviceaccount agentrun-viewer -n {where}"
        )
    if error.status == 404:
        return f"there is no namespace {namespace}: choose one with -n ({error.message})"
    return f"no token for reading the journal: {_answered(error)}"


def refused_by_proxy(error: KubeError, operator_namespace: str) -> str:
    """Of the API server's service proxy."""
    where = shlex.quote(operator_namespace)
    if error.status == 403:
        return (
            "missing right: `get` on services/proxy of https:agentrun-read:https in namespace "
            f"{operator_namespace} ({error.message})\n"
            f"{ask_admin(error.message, READ_ROLE, operator_namespace, cluster_role=False)}"
        )
    if error.status == 404:
        return (
            f"there is no read API in namespace {operator_namespace} ({error.message}): "
            "give --operator-namespace, or an admin installs the chart agentrun"
        )
    if error.status >= 500:
        return (
            f"the read API in namespace {operator_namespace} does not answer ({error.message}): "
            f"try again, and look at kubectl get pods -n {where}"
        )
    return _answered(error)


def refused_by_reader(status: int, said: dict[str, Any], namespace: str) -> str:
    """Of the read API itself; its message says what it knows."""
    words = f"{said.get('message') or said.get('class') or status}"
    match status:
        case 401 | 403:
            return f"the read API does not take the viewer's token of namespace {namespace}: {words}"
        case 404:
            return f"the journal of namespace {namespace} does not have it: {words}"
        case 410:
            return f"its journal was erased: {words}"
        case 503:
            return f"the read API cannot answer now: {words}"
        case _:
            return f"the read API answers {status}: {words}"


def _answered(error: KubeError) -> str:
    if error.status == 401:
        return "the API server does not know you (401): sign in again, the kubeconfig's credential may have run out"
    return f"the API server answers {error.status} {error.reason}: {error.message}"
