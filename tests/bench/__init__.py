"""Figures as ratios, each measured in one run beside its reference (design 10)."""
