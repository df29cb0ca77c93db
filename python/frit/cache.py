"""The kernel cache on disk: frit.cache.info(), frit.cache.clear()."""
from . import _core


def info():
    """directory ('' when kernels are kept in memory only), entries, bytes."""
    return _core.cache_info()


def clear():
    """Removes every kernel from the disk. Kernels that are loaded stay."""
    _core.cache_clear()
