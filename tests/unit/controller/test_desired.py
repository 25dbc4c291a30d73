"""From a run's state to its objects: the same twice, nothing to do once they exist, never another run's (C1)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.histories import History, created
from tests.unit.controller.sandboxes import wanted
from tests.unit.controller.situations import histories, verified

from agentrun.controller.desired import desired_pods
from agentrun.controller.names import RUN_UID_LABEL, pod_name
from agentrun.controller.pod import build_pod, build_policy
from agentrun.controller.sandboxes import number, purpose
from agentrun.controller.standing import standing_objects
from agentrun.core.events import SandboxLost
from agentrun.core.state import State

Object = dict[str, Any]
AGAIN = "7c9e6679-7425-40de-944b-e07fc1f90ae7"  # the UID that the API server gives a run made anew under its old name


def pods(state: State) -> list[Object]:
    """The Pods a run in this state should have."""
    return [
        build_pod(wanted(run_name=state.name, run_uid=state.uid, purpose=what, number=count))
        for what, count in desired_pods(state).items()
    ]


def missing(state: State, there: list[Object]) -> list[str]:
    """Names of what is still to be made, beside these Pods."""
    found = {(purpose(pod), number(pod)) for pod in there}
    return [pod["metadata"]["name"] for pod in pods(state) if (purpose(pod), number(pod)) not in found]


def names(state: State) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods(state)]


def test_the_same_state_seen_twice_gives_the_same_objects() -> None:
    seen: set[str] = set()
    for history in (History().admit(), verified(), *histories()):
        assert pods(history.now) == pods(history.now)
        seen |= desired_pods(history.now).keys()
    assert seen == {"work", "verify"}
    assert standing_objects("team") == standing_objects("team")
    assert build_policy(wanted(), "pod-uid", "system") == build_policy(wanted(), "pod-uid", "system")


def test_objects_built_twice_share_nothing_that_a_caller_could_change() -> None:
    one, other = build_pod(wanted()), build_pod(wanted())
    one["spec"]["containers"][0]["securityContext"]["privileged"] = True
    one["metadata"]["labels"].clear()
    assert build_pod(wanted()) == other


@pytest.mark.parametrize("history", [History().admit(), verified()], ids=["working", "judging"])
def test_there_is_nothing_to_do_once_the_pods_exist(history: History) -> None:
    assert missing(history.now, []) == names(history.now) != []
    assert missing(history.now, pods(history.now)) == []


@given(st.dictionaries(st.sampled_from(["agentrun.dev/run-uid", "agentrun.dev/purpose", "app"]), st.text()))
def test_a_label_that_churns_makes_no_second_pod_C1(labels: dict[str, str]) -> None:
    state = History().admit().now
    there = pods(state)
    there[0]["metadata"]["labels"] = labels
    assert missing(state, there) == []


def test_a_run_made_anew_under_an_old_name_has_pods_of_its_own_C1() -> None:
    before, after = History().admit().now, History(created(uid=AGAIN)).admit().now
    assert before.name == after.name
    assert not set(names(before)) & set(names(after))
    (pod,) = pods(after)
    assert pod["metadata"]["labels"][RUN_UID_LABEL] == AGAIN
    assert pod["metadata"]["ownerReferences"][0]["uid"] == AGAIN
    assert before.uid not in str(pod)


@given(st.uuids(), st.uuids(), st.from_regex(r"[a-z]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True))
def test_pods_are_told_apart_by_their_runs_uid_not_by_its_name_C1(one: object, other: object, name: str) -> None:
    same_start = str(one)[:8] == str(other)[:8]  # then the owner decides (test_one_sandbox.py)
    assert (pod_name(name, str(one), "work", 1) == pod_name(name, str(other), "work", 1)) is same_start
    assert str(one)[:8] in pod_name(name, str(one), "work", 1)


def test_a_lost_judges_pod_is_followed_by_one_of_another_name() -> None:
    history = verified()
    lost = pods(history.now)
    history.add(SandboxLost("pod-2", "SandboxLost", "node died"))
    assert missing(history.now, lost) == names(history.now)
    assert names(history.now) != [pod["metadata"]["name"] for pod in lost]


def test_a_policy_chooses_the_pods_of_its_run_and_no_other_runs() -> None:
    def chosen_by(uid: str) -> Object:
        found: Object = build_policy(wanted(run_uid=uid), "pod-uid", "system")["spec"]["podSelector"]["matchLabels"]
        return found

    labels = build_pod(wanted(run_uid=AGAIN))["metadata"]["labels"]
    assert chosen_by(AGAIN).items() <= labels.items()
    assert not chosen_by(History().now.uid).items() <= labels.items()


def test_the_default_deny_chooses_every_sandbox_of_its_namespace_R20() -> None:
    deny = standing_objects("team")[0]
    chosen = deny["spec"]["podSelector"]["matchLabels"]
    assert chosen
    for what in ("work", "verify"):
        pod = build_pod(wanted(purpose=what))
        assert chosen.items() <= pod["metadata"]["labels"].items()
        assert pod["metadata"]["namespace"] == deny["metadata"]["namespace"] == "team"
