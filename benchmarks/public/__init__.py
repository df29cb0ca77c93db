"""Public programs as their authors wrote them, fetched and run in place; `python -m benchmarks.public` says how."""
