"""What frit did and what it found: frit.stats(), frit.show_config(), frit.wait_for_compiles()."""
import sys
from typing import Any, TextIO

import numpy

from . import _core


def stats() -> dict[str, Any]:
    """Counts since the start or reset_stats(), as a dict.

        >>> frit.reset_stats()
        >>> frit.eval(frit.exp(frit.ones(3)) + 1).shape
        (3,)
        >>> frit.stats()["evals"]
        1

    kernels (dispatches run), evals, compiled, disk_hits,
    loaded (kernels whose code is in memory now: code_bytes of it in code_maps mappings) and unloaded,
    pending_nodes, bytes_read, bytes_written, peak_bytes, ...;
    how often each way was taken, by its name (frit.config.ways() says what they are): jitted, interpreted, replayed, ...;
    fallbacks: NumPy functions that were called, by name; syncs: why pending values were computed.
    """
    return {k.removeprefix("n_"): v for k, v in _core.stats().items()}


def reset_stats() -> None:
    """Sets all counts of stats() to zero; what is counted now (pending_nodes, live_bytes) stays."""
    _core.stats_reset()


def wait_for_compiles(timeout: float | None = None) -> bool:
    """Waits until no plan is being made and no kernel compiled; False when `timeout` seconds were not enough.

        >>> frit.wait_for_compiles(60)
        True

    From its second second on, a line tells how many kernels are left, in a terminal or a notebook.
    """
    from . import _progress

    def step(seconds: float) -> int:
        return 0 if _core.wait_compiles(seconds) else max(1, _core.stats()["n_pending"])
    return _progress.wait(step, None if timeout is None else float(timeout))


def isa_levels() -> list[str]:
    """The instruction-set levels that this machine can run, lowest first."""
    levels: list[str] = _core.show_config()["isa_levels"]
    return levels


def show_config(file: TextIO | None = None) -> None:
    """Prints what frit found on this machine and how it is set."""
    from . import __version__
    c, cache = _core.show_config(), _core.cache_info()
    why = c["compile_unavailable"]
    where = cache["directory"] or "in memory only"
    print(f"frit {__version__}, NumPy {numpy.__version__}, Python {sys.version.split()[0]}",
          f"instruction set: {c['isa']} (of {', '.join(c['isa_levels'])}), threads: {c['threads']}",
          f"libgccjit: {'not usable: ' + why if why else 'in use, by the helper program'}",
          f"kernel cache: {where}, {cache['entries']} entries, {cache['bytes']:,} bytes",
          *(f"warning: {w}" for w in c["warnings"].splitlines()),
          *(f"{s['variable']}={s['value']}" for s in c["settings"]
            if str(s["value"]) != str(s["default"]).strip('"')),
          sep="\n", file=file or sys.stdout)
