"""Bytes, times and counts as people read them."""


def _scaled(x: float, units: tuple[str, ...], step: float) -> str:
    i = 0
    while x >= 999.5 and i < len(units) - 1:
        x /= step
        i += 1
    return f"{x:.0f} {units[i]}" if x >= 99.5 or x == int(x) else f"{x:.3g} {units[i]}"


def bytes_text(n: float) -> str:
    return _scaled(n, ("B", "kB", "MB", "GB", "TB", "PB"), 1000)


def time_text(us: float) -> str:
    return _scaled(us * 1000, ("ns", "us", "ms", "s"), 1000)


def count_text(n: float) -> str:
    return _scaled(n, ("", "k", "M", "G", "T", "P"), 1000).rstrip()
