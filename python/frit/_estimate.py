"""frit.estimate(f)(*args): what a call would take, in bytes, operations and time, without computing it."""
from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from . import _core, _machine
from ._kept import Kept
from ._limits import Difference, bytes_of, first_array, max_batch
from ._meta import META, Handed, HandOver, ShapeDtype, arrays_bytes, asked_of, copied, element, reached, where_text, without_data
from ._rows import Kernel as Kernel, Layer, Line as Line, kernels_of, layers_of, lines_of
from ._units import bytes_text, count_text, time_text

_one_at_a_time = threading.RLock()


class Estimate:
    """What a call would take. `print()` it for a table.

    peak_bytes          the most memory of arrays that frit has at one time: results and temporaries, to the byte
    numpy_bytes         the most memory of results and temporaries that NumPy would have, beside what its functions need inside
    first_peak_bytes    as peak_bytes, at most, while there is no plan, or where Python's own loops are sooner: then operations
                        are taken one by one, as by NumPy
    result_bytes        of which the results stay
    argument_bytes      of the arrays and ShapeDtypes among the arguments
    us                  microseconds of the call, of which overhead_us are beside its kernels; python -m frit.machine calibrate
                        measures this machine, without which it is a guess
    bytes, ops          moved to and from memory, and operations, of all kernels
    machine             whose time that is; None: of one that nobody has measured
    limits              `gbs` from memory and `gops` of plain f32 operations that it reaches at most
    kernels             what runs, as a list of Kernel
    fallbacks           NumPy functions that are called with arrays, by name: what they take themselves is not known
    handed              of those the calls with arrays without data: their lines, and the bytes of what they make
    syncs               how often, and for what, Python needs a value
    stopped             None, or why the estimate ends before the function does: it needs a value that is not known
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.peak_bytes = self.first_peak_bytes = self.numpy_bytes = self.result_bytes = self.argument_bytes = 0
        self.overhead_us = 0.0
        self.machine: str | None = None
        self.limits: dict[str, float] | None = None
        self.power: list[float] | None = None
        self.kernels: list[Kernel] = []
        self.fallbacks: dict[str, int] = {}
        self.handed: list[Handed] = []
        self.syncs: dict[str, int] = {}
        self.stopped: str | None = None
        self.call: Any = None
        self._arrays = 0        # that a call is given, or gives
        self._is_closed: Callable[[], bool] = lambda: False     # whether it may be made again without running the function

    @property
    def us(self) -> float:
        return self.overhead_us + sum(k.us for k in self.kernels)

    @property
    def joules(self) -> float | None:
        """By the machine's `power`, the four numbers of a frit.energy.Power, with all threads at work: modelled, not measured;
        None: nobody has said it."""
        return self._joules(self.us)

    def _joules(self, us: float) -> float | None:
        from .energy import Power
        return None if self.power is None else float(Power(*self.power).watts(1.0) * us / 1e6)

    @property
    def bytes(self) -> int:
        return sum(k.bytes for k in self.kernels)

    @property
    def ops(self) -> float:
        return sum(k.runs * k.ops for k in self.kernels)

    @property
    def total_bytes(self) -> int:
        """Arguments and what frit has beside them: what the call needs of the machine's memory."""
        return self.argument_bytes + self.peak_bytes + sum(h.calls * h.result_bytes for h in self.handed)

    @property
    def lines(self) -> list[Line]:
        """Lines of the user's code, those that take longest first."""
        return lines_of(self.kernels)

    @property
    def layers(self) -> list[Layer]:
        """What each frit.scope takes, each class and each function of the user's code within it."""
        return layers_of((k.us, k.bytes, k.runs * k.ops, k.places) for k in self.kernels)

    def diff(self, before: Estimate) -> Difference:
        """What this one has more than one before."""
        if not isinstance(before, Estimate):
            raise TypeError(f"diff() takes another Estimate, not {before!r}")
        return Difference(before.as_dict(), self.as_dict())

    def check(self, memory: int | str | None = None, axis: int = 0) -> None:
        """MemoryError: the call needs more than `memory` (bytes, text like "16 GB", or None for what this machine has left); it
        says how many elements along `axis` would fit."""
        most = bytes_of(memory)
        if self.total_bytes <= most:
            return
        function, args, kwargs, values, unknown = self.call
        try:
            n = max_batch(function, axis, most, values=values, unknown=unknown)(*args, **kwargs)
            first = first_array([args, kwargs])
            fits = f"{n:,} elements along axis {axis} of {first.shape} would fit"
        except (MemoryError, ValueError) as error:
            fits = str(error)
        raise MemoryError(f"{self.name} needs {bytes_text(self.total_bytes)} ({bytes_text(self.argument_bytes)} arguments, "
                          f"{bytes_text(self.peak_bytes)} results and temporaries), and there are {bytes_text(most)}: {fits}")

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain dicts, lists and numbers, for json or pandas.DataFrame(e.as_dict()["kernels"])."""
        numbers = ("name", "peak_bytes", "first_peak_bytes", "numpy_bytes", "result_bytes", "argument_bytes", "us", "bytes",
                   "ops", "joules", "machine", "limits")
        return {**{k: getattr(self, k) for k in numbers},
                "kernels": [{**k._asdict(), "joules": self._joules(k.us)} for k in self.kernels],
                "lines": [at._asdict() for at in self.lines], "layers": [x.as_dict() for x in self.layers],
                "handed": [h._asdict() for h in self.handed],
                "fallbacks": dict(self.fallbacks), "syncs": dict(self.syncs), "stopped": self.stopped}

    def html(self) -> str:
        """A page that needs nothing else: memory, time by function and line, the source beside kernels, and what these reach of
        the machine."""
        from ._pages import estimate_page
        return estimate_page(self.as_dict())

    def _repr_html_(self) -> str:
        from ._pages import estimate_part
        return estimate_part(self.as_dict())

    def __str__(self) -> str:
        return "\n".join(self._text())

    def __repr__(self) -> str:
        return f"<frit.Estimate of {self.name}: peak {bytes_text(self.peak_bytes)}, {time_text(self.us)}>"

    def _text(self) -> Iterator[str]:
        n = sum(k.runs for k in self.kernels if k.is_kernel)
        yield (f"{self.name}: {time_text(self.us)} in {n} kernel{'' if n == 1 else 's'}, peak {bytes_text(self.peak_bytes)} "
               f"({bytes_text(self.result_bytes)} results) beside {bytes_text(self.argument_bytes)} arguments; "
               f"{bytes_text(self.bytes)} moved, {count_text(self.ops)} operations")
        if self.stopped:
            yield f"  ends early: {self.stopped}"
            yield "    (unknown=1.0 takes such a value to be 1.0; values='all' computes what follows from arrays that are there)"
        for title, counts in (("handed to NumPy, of which the time and memory are not known", self.fallbacks),
                              ("values that Python needs", self.syncs)):
            if counts:
                yield f"  {title}: " + ", ".join(f"{name} {k}" for name, k in sorted(counts.items()))
        if self.kernels:
            yield "       time   runs       moved         ops  kernel"
        for k in sorted(self.kernels, key=lambda k: -k.us):
            text = k.operations if len(k.operations) < 70 else k.operations[:66] + " ..."
            yield (f"  {time_text(k.us):>9} {k.runs:6} {bytes_text(k.bytes):>11} "
                   f"{count_text(k.runs * k.ops):>11}  {k.kind} over {k.shape}: {text}")
        if self.kernels:
            yield "       time       moved  line"
        for at in self.lines:
            yield f"  {time_text(at.us):>9} {bytes_text(at.bytes):>11}  {at.where}"


def _difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {k: n - before.get(k, 0) for k, n in after.items() if n != before.get(k, 0)}


_MOST_PLAIN, _FEW = 64 << 20, 4096      # bytes of arguments; of arrays of few elements


def recorded_rows(function: Callable[..., Any], args: list[Any]) -> list[dict[str, Any]]:
    """What csrc/bind/tensor/record.c has of a call on ShapeDtypes."""
    with _one_at_a_time:
        _core.record_begin()
        try:
            _core.eval(function(*[a._tensor() for a in args]))
        finally:
            found: list[dict[str, Any]] = _core.record_end()["rows"]
    return found


@contextmanager
def _on(machine: dict[str, Any] | None) -> Iterator[None]:
    """Estimates by this machine, or by the usual one."""
    usual = _machine.found()
    if machine is not None:
        _machine.use(machine)
    try:
        yield
    finally:
        if machine is not None:
            _machine.use(usual)


def run(out: Estimate, called: Callable[[], Any], roots: Iterable[Any], values: str, unknown: Any,
        machine: dict[str, Any] | None = None) -> None:
    """Fills `out` with what called() would take; what that gives lives until it is counted. What can be reached from `roots` is
    put back."""
    if values not in ("small", "all"):
        raise ValueError(f"estimate(): values is 'small' or 'all', not {values!r}")
    assume = None if unknown is None else element(unknown)
    hand_over = HandOver(values == "all")
    result: Any = None
    left: list[Any] = []
    usual = _machine.found()
    with _one_at_a_time, _on(machine), Kept(roots, without_data):
        out.limits = _machine.limits()
        before = _core.stats()
        _core.record_begin()
        live = _core.device_memory(META)["live_bytes"]
        _core.meta_begin()
        _core.meta_values(values == "all", assume, hand_over)
        _core.device_enter(META)
        try:
            result = called()
            left = [*reached(result), *Kept(roots).seen.values()]       # what the call leaves in objects is there when it ends
            _core.meta_values(values == "all", None, hand_over)         # and nobody asks for values any more
            _core.eval(result, [x for x in left if type(x) is _core.Tensor and x.device == META])
        except _core.NoDataError as error:
            out.stopped = str(error) + where_text(error)
        finally:
            _core.device_leave()
            _core.meta_values(False, None, None)
            out.peak_bytes, out.result_bytes, out.numpy_bytes = _core.meta_end()
            recorded = _core.record_end()
            out._arrays += _n_tensors(result[0] if isinstance(result, tuple) else None)
            del result, left
        after = _core.stats()
    out.kernels = kernels_of(recorded["rows"])
    out.machine = str((machine or usual or {}).get("name", "")) or None
    out.power = (machine or usual or {}).get("power")
    out.overhead_us = _machine.overhead_us(machine or usual, recorded["evals"], recorded["nodes"], out._arrays,
                                           out._is_closed())
    out.fallbacks = _difference(after["fallbacks"], before["fallbacks"])
    out.handed = hand_over.calls()
    # A call that Python makes as it is has copies of arguments beside what NumPy has, but never of large ones
    # (accelerate/plain.c); what is handed to NumPy may be copied for it; a node by itself may need temporaries.
    copies = (out.argument_bytes if out.argument_bytes <= _MOST_PLAIN else 0) + (out.numpy_bytes + _FEW if out.fallbacks else 0)
    by_nodes = recorded["first_peak_bytes"] and recorded["first_peak_bytes"] - live + recorded["peak_bytes"]
    out.first_peak_bytes = max(out.peak_bytes, out.numpy_bytes, by_nodes) + copies
    out.syncs = _difference(after["syncs"], {**before["syncs"], "eval": after["syncs"].get("eval", 0)})


def _n_tensors(x: Any) -> int:
    if isinstance(x, (list, tuple)):
        return sum(map(_n_tensors, x))
    return int(isinstance(x, _core.Tensor))


def estimated(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: str, unknown: Any,
              machine: dict[str, Any] | None = None) -> Estimate:
    from .accelerate import _unwrap, accelerate

    function = _unwrap(function)
    out = Estimate(getattr(function, "__qualname__", None) or repr(function))
    given = list(reached([function, args, kwargs]))
    out.argument_bytes = arrays_bytes(given)
    out._arrays = sum(isinstance(x, (numpy.ndarray, ShapeDtype)) for x in given)
    out.call = function, args, kwargs, values, unknown
    function, args, kwargs = copied((function, args, kwargs))
    fast = accelerate(function, results="tensors")
    out._is_closed = lambda: getattr(fast, "_state", None) is not None and fast._state.is_closed()

    def called() -> Any:
        return fast(*args, **kwargs), function, args, kwargs
    run(out, called, [function], values, unknown, machine)
    return out


def estimate(function: Callable[..., Any], *, values: str = "small", unknown: Any = None,
             machine: dict[str, Any] | None = None) -> Callable[..., Estimate]:
    """A function that tells what a call of `function` would take, without computing it: memory to the byte, bytes moved,
    operations, and time, per kernel and per line of code.

        print(frit.estimate(step)(frit.ShapeDtype((4096, 1024), "f4"), weights))

    Arguments are arrays or ShapeDtypes, in any containers and objects; so is what the function reaches without them. The
    function itself runs, as Python, on arrays without data (device "meta"). What it does to arrays, and to what it reaches
    through the user's own code, is undone: objects, containers, names of modules, cells, generators of random numbers. Files and
    iterators go on, and objects of installed packages that are no arguments stay as it leaves them.

    `values`: "small", and what follows from small arrays that are there is computed, so that its values are known, or "all", and
    whatever follows from arrays that are there is: then the estimate takes as long as a call, and memory as well.
    `unknown`: where Python needs a value that is not known, as in `if x.sum() > 0`, the estimate ends, and `stopped` says where;
    or it is this number. A mask is taken to choose all elements, and an index to be right.
    `machine`: whose time it is: this one's, or another that frit.machine.load() or frit.machine.gpu() gives.

    TypeError: arguments that cannot be copied. What the function raises itself is raised.
    """
    asked_of("estimate", function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Estimate:
        return estimated(function, args, kwargs, values, unknown, machine)
    return call
