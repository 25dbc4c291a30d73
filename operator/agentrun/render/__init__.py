"""Untrusted text for terminals: what a model, a tool or a user wrote never steers the reader's screen. Pure."""
