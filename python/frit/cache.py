"""The kernel cache on disk: frit.cache.info() and clear(), and kernels as one file: export() and load().

    # on a machine with a compiler, after the program has run
    frit.wait_for_compiles()
    frit.cache.export("kernels.frit")

    # on one without, with the same build of frit (the same wheel), before the program runs
    frit.cache.load("kernels.frit")
"""
import os
from typing import Any

from . import _core
from ._files import write_whole


class ExportError(ValueError):
    """A file that load() cannot use. Nothing of it was taken, and the cache is as it was."""


class ForeignExport(ExportError):
    """The file was not written by export()."""


class CorruptExport(ExportError):
    """The file is truncated, or was altered since export() wrote it."""


class UnfitExport(ExportError):
    """The file was written by another build of frit, or its kernels need another processor."""


def info() -> dict[str, Any]:
    """A dict: `directory` ('' when kernels are kept in memory only), `entries`, and `bytes` of them all.

        >>> sorted(frit.cache.info())
        ['bytes', 'directory', 'entries']
    """
    return _core.cache_info()


def clear() -> None:
    """Removes every kernel from the disk. Kernels that are loaded stay."""
    _core.cache_clear()


def _version() -> str:
    from . import __version__
    return __version__


def export(path: str | os.PathLike[str]) -> int:
    """Writes the CPU kernels of the cache on disk into one file; returns how many they are.

    They are those of this build of frit, also of earlier processes, for the instruction sets of the processors that
    compiled them: FRIT_ISA=v3 makes kernels for older ones, too. wait_for_compiles() waits for those under way.
    The file appears under its name when it is whole. OSError: it cannot be written, or there is no cache on disk."""
    path = os.fspath(path)
    data, n = _core.cache_export(_version())
    write_whole(path, data)
    return n


def load(path: str | os.PathLike[str]) -> int:
    """Takes the kernels of a file of export() into the cache on disk; returns how many.

    Later processes find them there, too; without a cache on disk they are in this process's memory. They are used
    whether or not there is a compiler. Load before the program runs: a kernel that has been refused a compiler is not
    looked for again. Kernels for instruction sets that this processor does not have, or FRIT_ISA leaves out, are left.

    All of the file is checked before anything is taken: ForeignExport, CorruptExport and UnfitExport say what is
    wrong; OSError: it cannot be read. The checks find accidents, not forgery: an export is machine code, so load only
    what you would also import."""
    with open(path, "rb") as file:
        return _core.cache_load(file.read(), _version())
