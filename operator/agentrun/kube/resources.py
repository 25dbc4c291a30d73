"""Resources we touch, and the paths the API server serves them under."""

from dataclasses import dataclass

GROUP = "agentrun.dev"
VERSION = "v1alpha1"


@dataclass(frozen=True)
class Resource:
    """One resource: `group` is empty for the core API."""

    group: str
    version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """URL path; without a namespace the whole cluster."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        rest = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{base}{where}/{self.plural}{rest}"


RUNS = Resource(GROUP, VERSION, "agentruns")
DEFINITIONS = Resource(GROUP, VERSION, "agentdefinitions")
GRANTS = Resource(GROUP, VERSION, "toolgrants")
APPROVALS = Resource(GROUP, VERSION, "toolapprovals")
CLASSES = Resource(GROUP, VERSION, "agentclasses", namespaced=False)
REVISIONS = Resource("apps", "v1", "controllerrevisions")
PODS = Resource("", "v1", "pods")
NODES = Resource("", "v1", "nodes", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps")
SECRETS = Resource("", "v1", "secrets")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts")
POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies")
LEASES = Resource("coordination.k8s.io", "v1", "leases")
EVENTS = Resource("events.k8s.io", "v1", "events")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
SELF_ACCESS_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)
