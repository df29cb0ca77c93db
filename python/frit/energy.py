"""Energy: what the processor's counters say, a model of power where there are none, and which power limit uses least.

    with frit.energy.measure() as e:        # RAPL counters, if this process may read them
        f(x)
    print(e.joules, e.source)

Energy is in joules, power in watts, clocks are in GHz and times in seconds."""
from __future__ import annotations

import glob
import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy

from . import _machine

_DOMAINS = "/sys/class/powercap/intel-rapl:[0-9]*"
_TIME, _POWER = 4.0, 3.0        # exponents of time and of power under a limit (least_energy)


# ---- counters ----

def counters() -> dict[str, tuple[str, int]]:
    """Packages whose energy this process may read: their names, files that count microjoules, and where those begin again."""
    found = {}
    for folder in sorted(glob.glob(_DOMAINS)):
        if os.path.basename(folder).count(":") > 1:     # a part of a package, which counts it, too
            continue
        try:
            with open(os.path.join(folder, "energy_uj"), encoding="ascii") as file:
                int(file.read())
            with open(os.path.join(folder, "max_energy_range_uj"), encoding="ascii") as file:
                found[os.path.basename(folder)] = os.path.join(folder, "energy_uj"), int(file.read())
        except (OSError, ValueError):
            continue
    return found


class measure:
    """Joules of what is done in a with statement. `source`: "measured", by all packages' counters together, whoever used them;
    or "modelled", by `power` and the processors' time of this process, where counters cannot be read; "unknown" without either,
    and then `joules` is None.

    `power`: a Power, or None for the calibrated machine's."""

    def __init__(self, power: Power | None = None) -> None:
        self.joules: float | None = None
        self.source, self.seconds = "unknown", 0.0
        self._power = power

    def __enter__(self) -> measure:
        self._counters = counters()
        self._before = _read(self._counters)
        self._began, self._used = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *error: Any) -> None:
        self.seconds = time.perf_counter() - self._began
        used, after = time.process_time() - self._used, _read(self._counters)
        if self._counters and after is not None and self._before is not None:
            self.joules = sum((a - b) % most for a, b, (_, most) in zip(after, self._before, self._counters.values())) / 1e6
            self.source = "measured"
        elif self.seconds > 0 and (power := self._power or _machines_power()) is not None:
            self.joules = power.watts(min(used / self.seconds / (os.cpu_count() or 1), 1.0)) * self.seconds
            self.source = "modelled"


def _machines_power() -> Power | None:
    numbers = (_machine.found() or {}).get("power")
    return None if numbers is None else Power(*numbers)


def _read(found: dict[str, tuple[str, int]]) -> list[int] | None:
    out = []
    for path, _ in found.values():
        try:
            with open(path, encoding="ascii") as file:
                out.append(int(file.read()))
        except (OSError, ValueError):
            return None
    return out


# ---- power of a processor ----

class Power:
    """Watts of a processor by its load and clock: (idle + more * (1 - exp(-load / soon))) * clock ** growth.

    A package that is woken up by one thread draws a large part of what it draws at most: hence the saturation. The four numbers
    are a machine's own; Power.fit() finds them."""

    def __init__(self, idle: float, more: float, soon: float, growth: float) -> None:
        self.numbers = float(idle), float(more), float(soon), float(growth)

    def watts(self, load: float, clock: float = 1.0) -> Any:
        """load: from 0 to 1, of all hardware threads; clock in GHz, in which the numbers were fitted. Arrays, too."""
        return _watts(numpy.array(self.numbers), numpy.asarray(load, float), numpy.asarray(clock, float))[()]

    @classmethod
    def fit(cls, load: Sequence[float], clock: Sequence[float], watts: Sequence[float]) -> Power:
        """The numbers that are least off, as shares, over what was measured; single outliers count less. ValueError: fewer than
        four rows, or watts that are not above 0."""
        x, f, w = (numpy.asarray(v, float) for v in (load, clock, watts))
        if len(w) < 4 or not (w > 0).all() or not (f > 0).all():
            raise ValueError("Power.fit() takes four rows or more, of clocks and watts above 0")
        growth, soon, width = 1.25, 0.3, (1.25, 10.0)
        for _ in range(7):      # a grid, and finer ones around its best
            tried = [(_off(x, f, w, g, s), g, s) for g in numpy.clip(growth + width[0] * _GRID, 0, 2.5)
                     for s in numpy.clip(soon * width[1] ** _GRID, 0.02, 5)]
            (_, best), growth, soon = min(tried, key=lambda found: float(found[0][0]))
            width = width[0] / 2, width[1] ** 0.5
        return cls(best[0], best[1], soon, growth)

    def __repr__(self) -> str:
        return "frit.energy.Power({:.4g}, {:.4g}, {:.4g}, {:.4g})".format(*self.numbers)


_GRID = numpy.linspace(-1, 1, 5)


def _off(load: Any, clock: Any, watts: Any, growth: float, soon: float) -> tuple[float, Any]:
    """(how far off the best two other numbers are, those)"""
    flat = clock ** growth
    a = numpy.stack([flat, flat * (1 - numpy.exp(-load / soon))], 1)
    weights = 1 / watts
    for _ in range(5):          # what is far off weighs less
        got = numpy.maximum(numpy.linalg.lstsq(a * weights[:, None], watts * weights, rcond=None)[0], 1e-3)
        far = 1 + (numpy.log(a @ got / watts) / 0.1) ** 2
        weights = 1 / watts / far ** 0.25
    return float(numpy.sum(numpy.sqrt(far) - 1)), got


def _watts(numbers: Any, load: Any, clock: Any) -> Any:
    idle, more, soon, growth = numbers
    return (idle + more * (1 - numpy.exp(-load / soon))) * clock ** growth


# ---- power limits of a GPU ----

def least_energy(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The one of these runs of a training that took least energy: rows with `time` in seconds and `power` in watts."""
    return min(rows, key=lambda r: r["time"] * r["power"])


class Limited:
    """Time and power of one training under a power limit, from a few limits at which it ran: time = least + slow / limit ** 4,
    power = (limit ** -3 + free ** -3) ** (-1 / 3). The exponents are from the tables of Zeus (You and others, NSDI 2023). Not for
    limits below all that were measured."""

    def __init__(self, limits: Sequence[float], times: Sequence[float], powers: Sequence[float]) -> None:
        limit, t, p = (numpy.asarray(v, float) for v in (limits, times, powers))
        if not len(limit) or not (limit > 0).all() or not (t > 0).all() or not (p > 0).all():
            raise ValueError("Limited() takes limits, times and powers above 0")
        x = limit ** -_TIME
        a = numpy.stack([numpy.ones_like(x), x / x.max()], 1) / t[:, None]
        least, slow = numpy.linalg.lstsq(a, numpy.ones_like(t), rcond=None)[0]
        if slow < 0:            # the limit does not slow it
            least, slow = numpy.sum(1 / t) / numpy.sum(1 / t ** 2), 0.0
        elif least < 0:
            least, slow = 0.0, 1 / numpy.mean(x / x.max() / t)
        self._least, self._slow = float(least), float(slow / x.max())
        free = numpy.geomspace(p.max() / 3, 4 * p.max(), 400)
        off = numpy.log(_power(limit[:, None], free[None]) / p[:, None])
        self._free = float(free[numpy.argmin(numpy.sum(numpy.sqrt(1 + (off / 0.05) ** 2), 0))])

    def time(self, limit: float) -> float:
        return float(self._least + self._slow * limit ** -_TIME)

    def power(self, limit: float) -> float:
        return float(_power(limit, self._free))

    def energy(self, limit: float) -> float:
        return self.time(limit) * self.power(limit)


def _power(limit: Any, free: Any) -> Any:
    return (limit ** -_POWER + free ** -_POWER) ** (-1 / _POWER)


def foresee(rows: Iterable[dict[str, Any]], limits: Iterable[float]) -> dict[str, Any]:
    """The batch size, optimizer and power limit, of these limits, with the least energy as far as the rows tell: dicts with
    `batch_size`, `optimizer`, `power_limit`, `time` and `power`. Three limits of each batch size give some 2 % of energy."""
    curves: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for r in rows:
        curves.setdefault((r["batch_size"], r.get("optimizer")), []).append(r)
    found = []
    for (batch, optimizer), measured in curves.items():
        curve = Limited(*zip(*((r["power_limit"], r["time"], r["power"]) for r in measured)))
        lowest = min(r["power_limit"] for r in measured)
        found += [{"batch_size": batch, "optimizer": optimizer, "power_limit": limit, "time": curve.time(limit),
                   "power": curve.power(limit)} for limit in limits if limit >= lowest]
    return least_energy(found)
