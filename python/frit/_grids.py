"""np.mgrid and np.ogrid as broadcast rows of numbers, which need not be in memory: inside an accelerated
function, of plain numbers; anything else is NumPy's."""
import math
from typing import Any

import numpy

_DTYPES = frozenset(map(numpy.dtype, ("i8", "f8")))
_NUMBERS = frozenset({int, float, complex, type(None)})


def _rows(sizes: list[int], dtype: Any, ours: dict[str, Any]) -> list[Any]:
    """The numbers from 0 along each axis, with all axes."""
    n = len(sizes)
    return [ours["arange"](size, dtype=dtype).reshape((1,) * k + (size,) + (1,) * (n - k - 1)) for k, size in enumerate(sizes)]


def _stacked(rows: list[Any], sizes: list[int], dtype: Any, ours: dict[str, Any]) -> Any:
    result = ours["empty"]((len(sizes), *sizes), dtype=dtype)
    for k, row in enumerate(rows):
        result[k] = row
    return result


class Grid:
    """np.mgrid or np.ogrid."""

    def __init__(self, theirs: Any, ours: dict[str, Any]) -> None:
        self._theirs, self._ours = theirs, ours

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is not tuple or not 0 < len(key) <= 8 or not all(type(s) is slice and self._is_plain(s) for s in key):
            return self._theirs[key]
        sizes, lines = [], []
        numbers: list[float] = [0]
        for s in key:
            start, step = s.start or 0, 1 if s.step is None else s.step
            if type(step) is complex:
                count = int(abs(step))
                numbers += [start, s.stop, abs(step)]
                step = (s.stop - start) / float(count - 1) if count != 1 else count
            else:
                count = math.ceil((s.stop - start) / step)
                numbers += [start, s.stop, step]
            sizes.append(count)
            lines.append((start, step))
        dtype = numpy.result_type(*numbers)
        if dtype not in _DTYPES or any(n < 0 for n in sizes):
            return self._theirs[key]
        rows = [row * step + start for row, (start, step) in zip(_rows(sizes, dtype, self._ours), lines)]
        return tuple(rows) if self._theirs.sparse else _stacked(rows, sizes, dtype, self._ours)

    def _is_plain(self, s: slice) -> bool:
        kinds = {type(s.start), type(s.stop), type(s.step)}
        return (kinds <= _NUMBERS and type(s.stop) in (int, float) and type(s.start) is not complex and s.step != 0
                and all(-1 << 53 < abs(x) < 1 << 53 for x in (s.start, s.stop, s.step) if x is not None))
