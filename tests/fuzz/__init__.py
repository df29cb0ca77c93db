"""Random programs, run by NumPy and by frit, compared bit by bit.  `python -m tests.fuzz --help`."""
