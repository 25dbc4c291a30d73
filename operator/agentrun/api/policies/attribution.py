"""The stamp of `spec.attribution` and its guard (docs/decisions/0003-attribution.md).

Both evaluate the same expressions: the mutating policy writes `want`, the validating policy asserts
`spec.attribution == want` afterwards, so that a missing or overridden stamp refuses the request.

An *act* is a key of the attribution with the value it stands for. A key whose value did not change keeps its author;
a new or changed one gets who asks now; a key that had no author and did not change stays without one.
"""

from dataclasses import dataclass

from agentrun.api.policies.objects import Check, Manifest, Match, mutating, validating

MAX_GROUPS = 256
MAX_GROUP_CHARS = 256


@dataclass(frozen=True)
class Acts:
    """How the acts of a kind are found. In expressions `$o` stands for the object, new or old."""

    plural: str
    entries: tuple[str, ...]
    with_groups: str
    maps: tuple[str, ...] = ()
    lists: tuple[tuple[str, str], ...] = ()


def _constant(key: str) -> str:
    return f"[{{'{key}': dyn('')}}]"


def _optional(path: str, key: str) -> str:
    return f"(has($o.spec.{path}) ? [{{'{key}': dyn($o.spec.{path})}}] : [])"


def _listed(path: str, key: str) -> str:
    entry = f"{{'{path}/' + item.{key}: dyn(item)}}"
    return f"(has($o.spec.{path}) ? $o.spec.{path}.map(item, {entry}) : [])"


# Cancel keeps its author when Kill is added: its value never changes, and it stays while it is in the old map.
_STOP = (
    "(has($o.spec.stop) ? [{'stop/' + $o.spec.stop.mode: dyn('')}] : [])",
    (
        "(has($o.spec.stop) && $o.spec.stop.mode == 'Kill' && 'stop/Cancel' in variables.before "
        "? [{'stop/Cancel': dyn('')}] : [])"
    ),
)
# Taking a rollout away (a revocation, say) is an act too: the key stays once it is there.
_ROLLOUT = (
    "(has($o.spec.rollout) || 'rollout' in variables.before ? [{'rollout': dyn($o.spec.?rollout.orValue({}))}] : [])"
)
# What decides how runs behave: the class belongs to it.
_TEMPLATE = "[{'template': dyn([dyn($o.spec.?className.orValue('')), dyn($o.spec.?template.orValue(''))])}]"
# A grant is one act: everything in it but the stamp itself.
_GRANT = "[{'grant': dyn($o.spec.transformMap(k, v, k != 'attribution', v))}]"

ACTS: tuple[Acts, ...] = (
    Acts(
        plural="agentruns",
        entries=(
            _constant("run"),
            _optional("operatingMode", "operatingMode"),
            *_STOP,
            _listed("steering", "id"),
            _listed("topUps", "id"),
            _listed("resolutions", "callID"),
            _optional("migrateTo", "migrateTo"),
        ),
        with_groups="k == 'run'",
        maps=("stop",),
        lists=(("steering", "id"), ("topUps", "id"), ("resolutions", "callID")),
    ),
    Acts(
        plural="agentdefinitions",
        entries=(
            _TEMPLATE,
            _ROLLOUT,
            _listed("schedules", "id"),
        ),
        with_groups="k == 'template' || k.startsWith('schedules/')",
        lists=(("schedules", "id"),),
    ),
    Acts(plural="toolgrants", entries=(_GRANT,), with_groups="true"),
    Acts(plural="toolapprovals", entries=(_constant("decision"),), with_groups="true"),
)


def _well_formed(acts: Acts) -> tuple[tuple[str, str], ...]:
    """Malformed objects get no stamp: the schema refuses them right after, with a better message."""
    parts = ["has(object.spec) && type(object.spec) == map"]
    parts += [f"type(object.spec.?{path}.orValue({{}})) == map" for path in acts.maps]
    if acts.plural == "agentruns":
        parts.append("type(object.spec.?stop.?mode.orValue('Cancel')) == string")
    for path, key in acts.lists:
        parts.append(
            f"type(object.spec.?{path}.orValue([])) == list && object.spec.?{path}.orValue([]).all(item, "
            f"type(item) == map && type(item.?{key}.orValue(0)) == string && "
            f"object.spec.{path}.exists_one(other, other.?{key}.orValue('') == item.{key}))"
        )
    return (("well-formed", " && ".join(parts)),)


def _acts_map(entries: tuple[str, ...], obj: str) -> str:
    return "(" + " + ".join(entries).replace("$o", obj) + ").transformMapEntry(i, act, act)"


def _variables(acts: Acts) -> dict[str, str]:
    return {
        "before": "oldObject != null ? oldObject.?spec.?attribution.orValue({}) : dyn({})",
        "uid": "has(request.userInfo.uid) ? request.userInfo.uid : ''",
        "groups": "has(request.userInfo.groups) ? request.userInfo.groups.transformList(i, g, "
        f"i < {MAX_GROUPS} && g.size() <= {MAX_GROUP_CHARS}, g) : []",
        "me": "{'username': dyn(request.userInfo.username), 'uid': dyn(variables.uid)}",
        "meWithGroups": "{'username': dyn(request.userInfo.username), 'uid': dyn(variables.uid), "
        "'groups': dyn(variables.groups)}",
        "acts": _acts_map(acts.entries, "object"),
        "oldActs": f"oldObject != null ? {_acts_map(acts.entries, 'oldObject')} : {{}}",
        "want": "variables.acts.transformMap(k, value, "
        "!(k in variables.oldActs) || variables.oldActs[k] != value || k in variables.before, "
        "k in variables.before && k in variables.oldActs && variables.oldActs[k] == value "
        f"? variables.before[k] : ({acts.with_groups}) ? dyn(variables.meWithGroups) : dyn(variables.me))",
    }


def stamps() -> list[Manifest]:
    """The mutating policies that write `spec.attribution`, one per kind."""
    patch = "[JSONPatch{op: 'add', path: '/spec/attribution', value: variables.want}]"
    found: list[Manifest] = []
    for acts in ACTS:
        match = Match(resources=(acts.plural,), when=_well_formed(acts))
        found += mutating(f"agentrun-stamp-{acts.plural}", match, patch, _variables(acts))
    return found


def stamp_guards() -> list[Manifest]:
    """The validating policies that assert what the stamps wrote."""
    found: list[Manifest] = []
    for acts in ACTS:
        check = Check(
            "object.spec.?attribution.orValue({}) == variables.want",
            "spec.attribution is not what the API server stamps: leave the field out; if you did, the policy "
            f"agentrun-stamp-{acts.plural} or its binding is missing (install the chart agentrun-crds again)",
            "Forbidden",
        )
        match = Match(resources=(acts.plural,), when=(("has-spec", "has(object.spec)"),))
        found += validating(f"agentrun-attribution-{acts.plural}", match, [check], _variables(acts))
    return found
