"""JSON names of the API: camelCase with the initialisms that Kubernetes' API conventions keep in capitals."""

_INITIALISMS = {
    "id": "ID",
    "ids": "IDs",
    "uid": "UID",
    "usd": "USD",
    "url": "URL",
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "mtok": "MTok",
}


def json_name(python_name: str) -> str:
    """`cost_micro_usd` -> `costMicroUSD`, `call_id` -> `callID`, `uid` -> `uid`, `in_` -> `in`."""
    first, *rest = python_name.strip("_").split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)
