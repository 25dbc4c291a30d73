"""The operator's account, as policies name it."""

# Replaced by the generator: a namespace for plain files, a Helm expression for the chart.
NAMESPACE_PLACEHOLDER = "OPERATOR-NAMESPACE"
OPERATOR_USERNAME = f"system:serviceaccount:{NAMESPACE_PLACEHOLDER}:agentrun-operator"
