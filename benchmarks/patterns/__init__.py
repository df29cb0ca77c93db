"""Twelve ways in which people write programs; `python -m benchmarks.patterns` says more."""
