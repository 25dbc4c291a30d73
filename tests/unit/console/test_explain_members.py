"""What stands in each of the seven answers, and that it is what the reducer does (R1, R9, R12, R22, R27)."""

import pytest
from msgspec.structs import replace as with_changes
from tests.histories import BLOB, START, History, created, dispatched
from tests.unit.console.moments import (
    ANN,
    TOOLS,
    explained,
    flying,
    head_of,
    new,
    out_of_budget,
    pause,
    steps,
    stop,
    taken_over,
    verifying,
    working,
)

from agentrun.console.explain import LAST_ACCEPTED, explain
from agentrun.console.explain_effects import SHOWN
from agentrun.console.histories import verified
from agentrun.core.errors import CorruptHistory
from agentrun.core.events import (
    DeadlinePassed,
    ModelCompleted,
    ProposedCall,
    Quiesced,
    SteeringAdded,
    StepAbandoned,
    ToolCompleted,
    Usage,
    VerificationCompleted,
)
from agentrun.core.plan import BudgetPlan, RunPlan

# --- identity and state ---------------------------------------------------------------------------------------------


def test_identity_names_user_tenant_revision_model_and_images_R27() -> None:
    history = new().admit().started().dispatch("t1")
    history.add(ModelCompleted("t1", 1, BLOB, "Stop", Usage(), adapter="OpenAIChat/1", summary="x"))
    identity = explained(history)["identity"]
    assert identity == {
        "tenant": "c1/ns-uid-1", "namespace": "team-a", "name": "run-1", "uid": history.now.uid, "requester": "ann",
        "definition": "fixer", "templateDigest": "sha256:" + "d" * 64, "inputDigest": "sha256:" + "e" * 64,
        "reducerVersion": 1, "model": "OpenAIChat/1", "images": [], "createdAt": START + 1_000_000,
    }  # fmt: skip


def test_only_accepted_facts_are_listed_the_newest_ten_R1() -> None:
    history = new().admit()
    for number in range(LAST_ACCEPTED + 2):
        history.add(SteeringAdded(f"s{number}", BLOB, "AfterCurrentWork", ANN), source_key=f"steer:{number}")
    history.dispatch("t1")
    accepted = explained(history)["state"]["accepted"]
    assert [fact["sourceKey"] for fact in accepted] == [f"steer:{number}" for number in range(2, LAST_ACCEPTED + 2)]
    assert accepted[-1] == {"seq": 14, "kind": "SteeringAdded", "sourceKey": "steer:11",
                            "recordedAt": START + 14_000_000}  # fmt: skip


def test_a_waiting_call_shows_its_tool_and_deadline_R5() -> None:
    answer = explained(flying("pay"))
    [step] = answer["state"]["unfinished"]
    assert step == {"step": "t1c0", "kind": "tool", "tool": "pay", "attempt": 1, "phase": "flying",
                    "deadlineAt": START + 10**9, "nextAttemptAt": 0}  # fmt: skip
    assert answer["limits"]["deadlines"] == {"wallClockAt": 0, "idleAt": 0, "t1c0At": START + 10**9}


# --- authority ------------------------------------------------------------------------------------------------------


def test_authority_shows_payload_policy_and_approval_of_what_is_in_flight_R27() -> None:
    history = working("read", "read").dispatch("t1c0")
    history.add(with_changes(dispatched("t1c1"), approval="approval-7", actor="bob", scope="grant-2"))
    authority = explained(history)["authority"]
    assert steps(authority["actions"]) == ["t1c0", "t1c1"]
    assert authority["actions"][1] == {
        "step": "t1c1", "tool": "read", "actor": "bob", "scope": "grant-2", "approval": "approval-7", "verdict": "",
        "fingerprint": BLOB, "key": "ar1-key", "dispatchedAt": START + 7_000_000,
    }  # fmt: skip
    assert authority["actions"][0]["approval"] == "none needed"
    assert authority["approvalsUsed"] == ["approval-7"]


def test_with_nothing_in_flight_the_last_dispatch_counts_even_of_several_at_one_time_R1() -> None:
    history = working("read", "read").dispatch("t1c1").dispatch("t1c0")
    history.add(ToolCompleted("t1c1", 1, "Ok", BLOB, verdict="v1")).add(
        ToolCompleted("t1c0", 1, "Ok", BLOB, verdict="v0")
    )
    [action] = explained(history)["authority"]["actions"]
    assert (action["step"], action["verdict"]) == ("t1c0", "v0")


# --- effects --------------------------------------------------------------------------------------------------------


def test_an_answered_call_is_committed_with_its_receipt_R1() -> None:
    history = flying("write").add(ToolCompleted("t1c0", 1, "Ok", BLOB, receipt="pod=p body=b", output_bytes=3))
    effects = explained(history)["effects"]
    assert effects["committed"] == [
        {"step": "t1c0", "tool": "write", "sideEffect": "Workspace", "attempt": 1, "status": "Ok",
         "answeredAt": START + 7_000_000, "receipt": "pod=p body=b"}
    ]  # fmt: skip
    assert [effects[other] for other in ("refused", "repeated", "unknown", "late")] == [[], [], [], []]


def test_a_refused_call_is_told_apart_whether_it_was_sent_or_never_C45() -> None:
    history = new().admit().started().dispatch("t1")
    calls = (ProposedCall("t1c0", "rm", BLOB), ProposedCall("t1c1", "read", BLOB, "InvalidArguments", "no path"))
    history.add(ModelCompleted("t1", 1, BLOB, "ToolCalls", Usage(), calls=calls))
    history.dispatch("t2").reply("t2", "pay").dispatch("t2c0")
    history.add(ToolCompleted("t2c0", 1, "Refused", BLOB, error_class="Denied"))
    effects = explained(history)["effects"]
    assert [(e["step"], e["attempt"], e["errorClass"]) for e in effects["refused"]] == [
        ("t1c0", 0, "NotFound"),
        ("t1c1", 0, "InvalidArguments"),
        ("t2c0", 1, "Denied"),
    ]
    assert effects["committed"] == effects["unknown"] == []


def test_a_repeated_call_is_shown_while_it_waits_for_its_answer_and_after_R12() -> None:
    history = taken_over(flying("send")).dispatch("t1c0", attempt=2)
    [before] = explained(history)["effects"]["repeated"]
    assert (before["step"], before["attempt"], before["status"]) == ("t1c0", 2, "InFlight")
    history.answer("t1c0", attempt=2)
    [after] = explained(history)["effects"]["repeated"]
    assert (after["attempt"], after["status"]) == (2, "Ok")
    assert steps(explained(history)["effects"]["committed"]) == ["t1c0"]


def test_an_answer_from_the_steps_memory_counts_as_repeated_R12() -> None:
    history = flying("write").add(ToolCompleted("t1c0", 1, "Ok", BLOB, replayed=True))
    assert steps(explained(history)["effects"]["repeated"]) == ["t1c0"]


def test_every_unknown_effect_names_its_step_however_it_was_lost_R5() -> None:
    """One was answered as unknown, another lost its owner: neither hides the other."""
    history = flying("write").answer("t1c0", "Unknown").dispatch("t2").reply("t2", "pay").dispatch("t2c0")
    effects = explained(taken_over(history))["effects"]
    assert [(e["step"], e["tool"], e["status"]) for e in effects["unknown"]] == [
        ("t1c0", "write", "Unknown"),
        ("t2c0", "pay", "Unknown"),
    ]
    assert effects["committed"] == []


def test_a_late_answer_commits_nothing_and_is_shown_as_late_R3_4() -> None:
    history = taken_over(flying("pay")).add(ToolCompleted("t1c0", 1, "Ok", BLOB, receipt="paid"))
    answer = explained(history)
    assert steps(answer["effects"]["unknown"]) == ["t1c0"]
    assert answer["effects"]["unknown"][0]["status"] == "Unknown"
    assert answer["effects"]["committed"] == []
    assert [(e["step"], e["receipt"]) for e in answer["effects"]["late"]] == [("t1c0", "paid")]
    assert answer["state"]["lateFactsKeptAsEvidence"] == 1


def test_a_late_reply_of_the_model_renames_no_call_R3_4() -> None:
    history = new().admit().started().dispatch("t1")
    taken_over(history).dispatch("t1", attempt=2).reply("t1", "read", attempt=2).dispatch("t1c0")
    history.reply("t1", "pay", attempt=1)
    answer = explained(history.answer("t1c0"))
    assert [(e["step"], e["tool"]) for e in answer["effects"]["committed"]] == [("t1c0", "read")]


@pytest.mark.parametrize(("tool", "unknown"), [("send", ["t1c0"]), ("pay", ["t1c0"]), ("look", []), ("write", [])])
def test_an_outside_call_that_nobody_waits_for_any_more_is_unknown_R9(tool: str, unknown: list[str]) -> None:
    """Even where a repetition would have been safe: there will be none."""
    history = stop(flying(tool)).add(StepAbandoned("t1c0", 1, "Cancel"))
    assert steps(explained(history)["effects"]["unknown"]) == unknown


def test_an_outside_call_lost_by_its_owner_and_then_cancelled_is_unknown_R9() -> None:
    history = stop(taken_over(flying("send"))).add(Quiesced())
    answer = explained(history)
    assert answer["state"]["state"] == "failed"
    assert [(e["step"], e["status"]) for e in answer["effects"]["unknown"]] == [("t1c0", "Abandoned")]


def test_lists_of_effects_are_bounded_and_keep_the_newest_R19() -> None:
    history = working(*["read"] * (SHOWN + 1), plan=RunPlan(tools=TOOLS))
    for index in range(SHOWN + 1):
        history.dispatch(f"t1c{index}").answer(f"t1c{index}")
    committed = explained(history)["effects"]["committed"]
    assert (len(committed), committed[0]["step"], committed[-1]["step"]) == (SHOWN, "t1c1", f"t1c{SHOWN}")


# --- control --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "turn"),
    [(new(), "t1"), (new().admit(), "t1"), (new().admit().dispatch("t1"), "t2"), (flying("read"), "t2")],
    ids=["created", "ready", "waiting_model", "waiting_tool"],
)
def test_steer_names_the_model_call_that_really_gets_the_message_R9(history: History, turn: str) -> None:
    """The promise is tried: the message is added, and the run goes on until the model is called."""
    assert f"model call {turn} " in explained(history)["control"]["verbs"]["steer"]["takesHold"]
    after = History(created(history.now.plan))
    after.records, after.state = list(history.records), history.now
    after.add(SteeringAdded("s1", BLOB, "NextModelCall", ANN))
    if not after.now.admitted_at:
        after.admit()
    for step in after.now.flying:
        after.reply("t1", "look") if step.kind == "model" else after.answer(step.id)
    if turn == "t2" and after.now.turn == 1:
        after.dispatch("t1c0").answer("t1c0")
    after.dispatch(turn)
    assert [f"t{steer.turn}" for steer in after.now.steering] == [turn]


def test_control_names_what_it_would_meet_R9() -> None:
    verbs = explained(flying("write"))["control"]["verbs"]
    assert "left to finish: t1c0" in verbs["pause"]["takesHold"]
    assert "t1c0" in verbs["cancel"]["takesHold"]
    assert "arun-pod-1" in verbs["kill"]["takesHold"]
    assert verbs["fork"] == {"possible": False, "takesHold": "not in this version"}


def test_resume_cannot_help_against_an_empty_budget_and_says_so_R22() -> None:
    resume = explained(out_of_budget())["control"]["verbs"]["resume"]
    assert not resume["possible"]
    assert "modelCalls" in resume["takesHold"]


def test_both_milestones_of_a_stop_have_their_time_R9() -> None:
    history = stop(flying("read"))
    asked = START + 7_000_000
    milestones = explained(history)["control"]["milestones"]
    assert milestones == {"cancelRequestedAt": asked, "acknowledgedAt": asked, "quiescentAt": 0}
    history.add(StepAbandoned("t1c0", 1, "Cancel"), Quiesced())
    assert explained(history)["control"]["milestones"]["quiescentAt"] == START + 9_000_000


def test_a_deadline_is_named_as_what_refuses_new_work() -> None:
    history = flying("read").add(DeadlinePassed("wallClock"))
    assert explained(history)["authority"]["newWork"] == "refused: Deadline by the operator"


# --- limits ---------------------------------------------------------------------------------------------------------


def test_limits_tell_granted_reserved_used_and_left_R22() -> None:
    limits = explained(flying("pay"))["limits"]["budget"]
    assert set(limits) == {
        "modelCalls", "inputTokens", "outputTokens", "costMicroUSD", "toolCalls", "mutations", "outputBytes",
    }  # fmt: skip
    assert limits["modelCalls"] == {"granted": 10, "reserved": 0, "used": 1, "left": 9, "beyondReserved": 0}
    assert limits["mutations"] == {"granted": 3, "reserved": 1, "used": 0, "left": 2, "beyondReserved": 0}
    assert limits["outputBytes"]["granted"] is limits["outputBytes"]["left"] is None


def test_a_run_that_waits_for_a_person_tells_when_it_is_given_up_R22() -> None:
    plan = RunPlan(tools=TOOLS, budget=BudgetPlan(idle_seconds=60))
    history = pause(working("read", plan=plan))
    assert explained(history)["limits"]["deadlines"] == {"wallClockAt": 0, "idleAt": history.now.at + 60_000_000}
    assert explained(stop(history))["limits"]["deadlines"]["idleAt"] == 0


def test_what_was_used_without_a_reservation_is_not_hidden_R22() -> None:
    limits = explained(working("read"))["limits"]["budget"]
    assert limits["inputTokens"]["used"] + limits["inputTokens"]["beyondReserved"] == 100


# --- recovery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "may", "same_key", "check"),
    [
        ("read", True, False, False),
        ("look", True, False, False),
        ("write", False, False, False),
        ("send", True, True, False),
        ("pay", False, False, True),
    ],
)
def test_what_may_be_repeated_follows_from_the_tools_class_R12(
    tool: str, may: bool, same_key: bool, check: bool
) -> None:
    [step] = explained(flying(tool))["recovery"]["steps"]
    assert (step["tool"], step["mayRepeat"], step["sameKey"], step["mustCheck"]) == (tool, may, same_key, check)
    assert step["why"]


@pytest.mark.parametrize("tool", ["read", "look", "write", "send", "pay"])
def test_recovery_foretells_what_a_takeover_does_R12(tool: str) -> None:
    history = flying(tool)
    [step] = explained(history)["recovery"]["steps"]
    after = explained(taken_over(history))
    assert (after["state"]["state"] == "needs_reconciliation") is step["mustCheck"]


def test_a_call_that_has_not_begun_needs_no_look_outside_R12() -> None:
    [step] = explained(working("pay"))["recovery"]["steps"]
    assert (step["mayRepeat"], step["mustCheck"]) == (True, False)
    assert "nothing was dispatched" in step["why"]


def test_an_unknown_outcome_under_the_same_key_may_be_repeated_but_is_to_be_checked_R12() -> None:
    [step] = explained(flying("send").answer("t1c0", "Unknown"))["recovery"]["steps"]
    assert (step["mayRepeat"], step["sameKey"], step["mustCheck"]) == (True, True, True)


# --- the ground of it -----------------------------------------------------------------------------------------------


def test_a_history_that_lost_its_end_is_not_explained_R4() -> None:
    history = flying("pay")
    with pytest.raises(CorruptHistory, match="event 6"):
        verified(head_of(history), tuple(history.records[:-1]))


def test_a_history_that_was_changed_is_not_explained_R4() -> None:
    history = flying("pay")
    changed = with_changes(history.records[2], body=history.records[2].body.replace(b"work", b"play"))
    with pytest.raises(CorruptHistory, match="event 3"):
        verified(head_of(history), (*history.records[:2], changed, *history.records[3:]))


def test_a_history_written_anew_with_good_hashes_is_not_explained_R4() -> None:
    """As long, and whole in itself, but not what the head was."""
    with pytest.raises(CorruptHistory, match="the head, event 6"):
        verified(head_of(flying("pay")), tuple(flying("send").records))


def test_events_behind_the_head_that_was_read_are_part_of_the_answer() -> None:
    history = new().admit()
    head = head_of(history)
    history.dispatch("t1")
    assert explain(verified(head, tuple(history.records)))["state"]["headSeq"] == 3


def test_a_verified_run_is_completed_with_the_judges_word_R24() -> None:
    history = verifying().add(VerificationCompleted("verify1", 1, passed=True, summary="3 passed"))
    state = explained(history)["state"]
    assert (state["state"], state["reason"], state["message"]) == ("completed", "Verified", "3 passed")
