"""The run behind a request: that it exists, is wanted, and follows the template it is said to follow. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic
import rfc8785

from agentrun.api.agentclass import AgentClassSpec
from agentrun.api.agentrun import AgentRunSpec
from agentrun.api.common import Actor
from agentrun.api.digests import template_digest
from agentrun.api.template import Template
from agentrun.broker.authority import DEFINITION_LABEL, Authority, Object, is_going, labels_of, uid_of
from agentrun.broker.refusal import Refused
from agentrun.broker.wire import RunName
from agentrun.core.errors import ErrorClass

_Model = TypeVar("_Model", bound=pydantic.BaseModel)


@dataclass(frozen=True)
class LiveRun:
    """A run that may act, with its frozen template (as stored and as model) and its class."""

    name: RunName
    spec: AgentRunSpec
    raw_template: Mapping[str, Any]
    template: Template
    template_digest: str
    agent_class: AgentClassSpec

    @property
    def definition(self) -> str:
        """Name of the AgentDefinition."""
        return self.spec.definition_ref.name

    @property
    def requester(self) -> Actor | None:
        """Whom the run acts for: as the API server stamped it, or as the operator set it for a machine-made run."""
        return self.spec.on_behalf_of or (self.spec.attribution or {}).get("run")


def existing_run(name: RunName, run: Object | None) -> AgentRunSpec:
    """The spec of the run of that UID. Raises Refused (RunNotFound, Denied)."""
    if run is None or uid_of(run) != name.uid:
        raise Refused(ErrorClass.RUN_NOT_FOUND, f"no AgentRun {name.namespace}/{name.name} with UID {name.uid} exists")
    return _spec(AgentRunSpec, run, f"AgentRun {name.namespace}/{name.name}")


def live_run(name: RunName, digest: str, read: Authority) -> LiveRun:
    """The run, if it may act. Raises Refused (RunNotFound, RunStopped, AuthorityUnavailable, Denied)."""
    spec = existing_run(name, read.run)
    if spec.stop is not None:
        raise Refused(ErrorClass.RUN_STOPPED, f"the run is being stopped ({spec.stop.mode}): nothing new is started")
    if read.run is not None and is_going(read.run):
        raise Refused(ErrorClass.RUN_STOPPED, "the run is being deleted: nothing new is started")
    raw = _template(spec.definition_ref.name, digest, read.revision)
    template = _validated(Template, raw, f"template {digest} of AgentDefinition {spec.definition_ref.name}")
    return LiveRun(name, spec, raw, template, digest, _class(spec, read))


def _template(definition: str, digest: str, revision: Object | None) -> Mapping[str, Any]:
    """The template of a ControllerRevision, hashed again: a changed copy is not what was frozen."""
    if revision is None or labels_of(revision).get(DEFINITION_LABEL) != definition:
        message = f"AgentDefinition {definition} has no ControllerRevision for template {digest} yet"
        raise Refused(ErrorClass.AUTHORITY_UNAVAILABLE, message)
    data: Object = revision.get("data") or {}
    try:
        found = template_digest(data)
    except rfc8785.CanonicalizationError as error:
        found = str(error)
    if found != digest:
        name = revision["metadata"]["name"]
        raise Refused(ErrorClass.DENIED, f"ControllerRevision {name} holds another template than {digest} ({found})")
    return data


def _class(spec: AgentRunSpec, read: Authority) -> AgentClassSpec:
    definition = spec.definition_ref.name
    if read.definition is None:
        raise Refused(ErrorClass.DENIED, f"AgentDefinition {definition} does not exist: its class is unknown")
    if read.agent_class is None:
        class_name = read.definition["spec"].get("className", "default")
        raise Refused(ErrorClass.DENIED, f"AgentClass {class_name} of AgentDefinition {definition} does not exist")
    return _spec(AgentClassSpec, read.agent_class, f"AgentClass {read.agent_class['metadata']['name']}")


def _spec(model: type[_Model], obj: Object, what: str) -> _Model:
    return _validated(model, obj.get("spec"), what)


def _validated(model: type[_Model], value: Any, what: str) -> _Model:
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        message = f"{what} is not readable by this version ({where}: {error.errors()[0]['msg']}): the call is refused"
        raise Refused(ErrorClass.DENIED, message) from None
