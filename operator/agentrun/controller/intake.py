"""Whether a run can be taken in, and with what: pure judgement over what the cache holds (design 4)."""

from typing import Any

import msgspec
import rfc8785

from agentrun.api.conditions import AcceptedReason as Reason
from agentrun.api.digests import template_digest
from agentrun.controller.names import DEFINITION_LABEL, TEMPLATE_DIGEST, revision_name
from agentrun.controller.plan_run import Unsupported, plan_run
from agentrun.core.plan import RunPlan
from agentrun.kube.reading import member, members

Object = dict[str, Any]
UNSUPPORTED_FIELDS = {
    "forkFrom": "forks",
    "parent": "sub-runs",
    "dedupeKey": "dedupe keys",
    "startDeadlineSeconds": "start deadlines",
    "migrateTo": "migrations",
}


class Waiting(msgspec.Struct, frozen=True):
    """Not taken in (yet): the condition's reason and what would change it. `final`: waiting changes nothing."""

    reason: Reason
    message: str
    final: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """What this version cannot do: journalled, so that no later version starts the run behind anybody's back."""

    reason: Reason
    message: str


class Intake(msgspec.Struct, frozen=True):
    """What a run will be started with."""

    template: Object
    template_digest: str
    revision: str
    plan: RunPlan
    refusal: Refusal | None = None


def judge(
    run: Object, definition: Object | None, agent_class: Object | None, revision: Object | None
) -> Intake | Waiting:
    """Look at everything a run names, in the order a person would mend it."""
    if "run" not in member(run["spec"], "attribution"):
        fix = "install the chart agentrun-crds (admission policies), then delete and apply the run again"
        return Waiting(Reason.UNATTRIBUTED, f"nobody vouches for who requested this run: {fix}", final=True)
    name = run["spec"]["definitionRef"]["name"]
    if definition is None:
        return Waiting(
            Reason.DEFINITION_NOT_FOUND, f"there is no AgentDefinition {name} in this namespace; the run waits"
        )
    class_name = definition["spec"].get("className", "default")
    if agent_class is None:
        return Waiting(Reason.CLASS_NOT_FOUND, f"there is no AgentClass {class_name}; the run waits")
    try:
        template = _template(run, definition, revision)
    except rfc8785.CanonicalizationError as error:
        return Waiting(Reason.INVALID_TEMPLATE, f"the template of AgentDefinition {name} has no digest: {error}")
    if isinstance(template, Waiting):
        return template
    return _planned(run, template, agent_class)


def _refusal(run: Object) -> Refusal | None:
    spec = run["spec"]
    if member(spec, "input").get("git"):
        fix = "give spec.input.files instead"
        return Refusal(Reason.GIT_INPUT_UNAVAILABLE, f"spec.input.git is not available in this version: {fix}")
    for field, what in UNSUPPORTED_FIELDS.items():
        if spec.get(field):
            message = f"spec.{field}: {what} are not available in this version; leave the field out"
            return Refusal(Reason.UNSUPPORTED_FEATURE, message)
    return None


def _template(run: Object, definition: Object, revision: Object | None) -> Object | Waiting:
    """The frozen template, hashed again: a revision of another definition or with other content is not it (R7)."""
    name, wanted = definition["metadata"]["name"], run["spec"]["definitionRef"].get("revision") or ""
    digest = template_digest(definition["spec"]["template"])
    pinned = wanted not in ("", digest, revision_name(name, digest))
    if revision is None or member(revision["metadata"], "labels").get(DEFINITION_LABEL) != name:
        return _not_there(name, wanted) if pinned else _being_frozen(name)
    frozen = member(revision["metadata"], "annotations").get(TEMPLATE_DIGEST)
    if not pinned and frozen != digest:
        return _being_frozen(name)
    promised = wanted if wanted.startswith("sha256:") else frozen
    if template_digest(member(revision, "data")) != promised:
        return _changed(revision["metadata"]["name"])
    return dict(revision["data"])


def _not_there(name: str, wanted: str) -> Waiting:
    return Waiting(Reason.REVISION_NOT_FOUND, f"AgentDefinition {name} has no revision {wanted}; the run waits")


def _being_frozen(name: str) -> Waiting:
    return Waiting(Reason.PENDING, f"the template of AgentDefinition {name} is being frozen")


def _changed(name: str) -> Waiting:
    fix = "delete it: the template a definition has now is frozen again"
    return Waiting(Reason.REVISION_NOT_FOUND, f"ControllerRevision {name} holds another template than promised; {fix}")


def _planned(run: Object, template: Object, agent_class: Object) -> Intake | Waiting:
    files = members(member(run["spec"], "input"), "files")
    refusal, plan = _refusal(run), RunPlan()
    try:
        plan = plan_run(template, agent_class, run["spec"].get("budget"), workspace=bool(files))
    except LookupError as error:
        return Waiting(Reason.MODEL_NOT_FOUND, str(error.args[0]))
    except Unsupported as error:
        refusal = refusal or Refusal(Reason.UNSUPPORTED_FEATURE, str(error))
    digest = template_digest(template)
    return Intake(template, digest, revision_name(run["spec"]["definitionRef"]["name"], digest), plan, refusal)


def input_document(run: Object, files: dict[str, str]) -> Object:
    """What is hashed as the run's input: text, parameters, and each file by digest."""
    given = member(run["spec"], "input")
    listed = [
        {"path": file["path"], "executable": bool(file.get("executable")), "digest": files[file["path"]]}
        for file in members(given, "files")
    ]
    return {"text": given.get("text", ""), "parameters": member(given, "parameters"), "files": listed}
