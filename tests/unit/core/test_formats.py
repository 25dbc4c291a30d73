"""Stored formats (docs/decisions/0001-formats.md), held by a golden file."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.histories import History, created

from agentrun.core import chain
from agentrun.core.digest import canonical, digest_json, sha256_digest
from agentrun.core.errors import CorruptHistory
from agentrun.core.events import EventRecord, NewEvent
from agentrun.core.ids import (
    Tenant,
    command_id,
    get_step,
    idempotency_key,
    model_step,
    put_step,
    tool_step,
    verify_step,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "formats.json"


def _formats() -> dict[str, object]:
    record = History().records[0]
    return {
        "steps": [model_step(3), tool_step(3, 0), put_step(1), get_step(1), verify_step(1)],
        "command": command_id("t3c0", 2),
        "tenant": Tenant("cluster-uid", "namespace-uid").key,
        "digest": sha256_digest(b"agentrun\x00"),
        "digestJSON": digest_json({"b": 1, "a": [1.5, "é", None]}),
        "idempotencyKey": idempotency_key("cluster-uid", "run-uid", "", "t3c0"),
        "event": {
            "body": record.body.decode(),
            "header": chain.header_bytes(record).decode(),
            "hash": record.hash,
            "prevHash": record.prev_hash,
        },
    }


def test_stored_formats_are_those_of_the_golden_file_R2() -> None:
    assert _formats() == json.loads(GOLDEN.read_text())


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    run=text, seq=st.integers(1, 2**53 - 1), fence=st.integers(0, 2**53 - 1), kind=text, source=st.none() | text,
    at=st.integers(0, 2**53 - 1), body=st.binary(max_size=99),
)  # fmt: skip
def test_the_hashed_header_is_rfc8785_whatever_it_holds(
    run: str, seq: int, fence: int, kind: str, source: str | None, at: int, body: bytes
) -> None:
    record = EventRecord(run, seq, fence, kind, 1, source, at, body, chain.GENESIS, "")
    expected = canonical(
        {
            "v": 1, "run": run, "seq": seq, "fence": fence, "kind": kind, "kindVersion": 1, "sourceKey": source,
            "recordedAt": at, "bodyDigest": "sha256:" + hashlib.sha256(body).hexdigest(),
        }
    )  # fmt: skip
    assert chain.header_bytes(record) == expected


def test_the_chain_starts_at_zeros_and_hashes_the_previous_one() -> None:
    history = History().admit()
    first, second = history.records
    assert first.prev_hash == chain.GENESIS
    raw = hashlib.sha256(bytes(32) + chain.header_bytes(first)).hexdigest()
    assert first.hash == f"sha256:{raw}"
    assert second.prev_hash == first.hash
    assert chain.verify(history.records) == second.hash


@pytest.mark.parametrize("field", ["body", "kind", "fence", "recorded_at", "source_key", "prev_hash", "run"])
def test_a_tampered_event_is_refused_with_its_position_R4(field: str) -> None:
    from msgspec.structs import replace

    history = History().admit().dispatch("t1")
    other = {
        "body": b"{}",
        "kind": "X",
        "fence": 9,
        "recorded_at": 1,
        "source_key": "x",
        "prev_hash": "sha256:" + "1" * 64,
    }
    records = list(history.records)
    records[1] = replace(records[1], **{field: other.get(field, "another-run")})
    with pytest.raises(CorruptHistory, match="event 2"):
        chain.verify(records)


def test_a_missing_event_is_refused_with_its_position_R4() -> None:
    history = History().admit().dispatch("t1")
    with pytest.raises(CorruptHistory, match="event 2 is missing"):
        chain.verify([history.records[0], history.records[2]])


def test_a_fork_gets_other_keys_and_a_retry_the_same() -> None:
    first = idempotency_key("c", "r", "", "t1c0")
    assert first == idempotency_key("c", "r", "", "t1c0")
    assert first != idempotency_key("c", "r", "fork-1", "t1c0")
    assert created().reducer_version == 1
    assert NewEvent("a", 1, b"").source_key is None
