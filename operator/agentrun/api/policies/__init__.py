"""Admission policies that ship with the CRDs: who acted, who may act, who may write status."""
