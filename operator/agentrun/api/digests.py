"""Digests of API content (design section 11): SHA-256 over RFC 8785 JSON."""

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785

# What a built-in tool promises; its wording for the model and its bounds may change without voiding a grant.
BUILTIN_CONTRACT_FIELDS = ("executor", "builtin", "sideEffectClass", "idempotency", "retryClass")


def json_digest(value: Any) -> str:
    """`sha256:<hex>` over the RFC 8785 form of `value`.

    Raises: rfc8785.CanonicalizationError for integers beyond 2**53 - 1, lone surrogates and other types.
    """
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def template_digest(spec_template: Mapping[str, Any]) -> str:
    """Digest of `spec.template` exactly as the API server returns it."""
    return json_digest(dict(spec_template))


def tool_digest(toolspec: Mapping[str, Any]) -> str:
    """Digest of one ToolSpec (JSON names) as grants name it.

    For executor Builtin it covers the contract only: executor, builtin, sideEffectClass, idempotency, retryClass.
    `idempotency` absent and `{mode: None}` mean the same and hash the same. For other executors it covers everything,
    the description included: it is what the model was shown when the tool was admitted (R17).
    """
    if toolspec.get("executor") != "Builtin":
        return json_digest(dict(toolspec))
    contract = {name: toolspec[name] for name in BUILTIN_CONTRACT_FIELDS if name in toolspec}
    contract.setdefault("idempotency", {"mode": "None"})
    return json_digest(contract)
