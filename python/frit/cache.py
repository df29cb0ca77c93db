"""The kernel cache on disk: frit.cache.info(), frit.cache.clear()."""
from typing import Any

from . import _core


def info() -> dict[str, Any]:
    """directory ('' when kernels are kept in memory only), entries, bytes."""
    return _core.cache_info()


def clear() -> None:
    """Removes every kernel from the disk. Kernels that are loaded stay."""
    _core.cache_clear()
