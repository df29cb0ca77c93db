"""frit.profile: where the time of a program goes, while it runs."""
from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple

from . import _core, _machine, _trace
from ._files import write_whole
from ._limits import Difference
from ._numpy import named
from ._rows import Kernel, Layer, Line, at_peak_of, kernels_of, layers_of, lines_of
from ._units import bytes_text, count_text, time_text

_KEPT = 1 << 16         # spans, of 48 bytes each
_VARIABLE = "FRIT_TRACE"
# What a kind of span is called among the parts of the time, where that is not its name.
_PARTS = {"kernel": "kernels", "evaluation": "finding plans and memory", "handed": "handed to NumPy",
          "others": "functions of others", "plan": "making plans", "wait": "waiting for compiled code",
          "turn": "waiting for other threads", "loop": "loops without Python", "copy": "copies between devices",
          "call": "Python", "scope": "Python"}
_running: Profile | None = None
_lock = threading.Lock()


class Handed(NamedTuple):
    """A NumPy function that was called, from one line."""

    name: str
    where: str
    calls: int
    us: float               # without what was computed for its arguments
    why: str                # frit did not do it


class Other(NamedTuple):
    """A function of another package or of Python's library that an accelerated function called, from one line."""

    name: str               # "numpy.Generator.normal", "time.sleep"
    where: str
    calls: int
    us: float               # without what frit computed within it


class Evaluation(NamedTuple):
    """Why pending arrays were computed, at one line."""

    why: str                # "bool", "item", "print", "iteration", "end" of a call, "much" that was pending and so on
    where: str
    times: int
    us: float               # with the kernels that ran


class Call(NamedTuple):
    """An accelerated function."""

    name: str
    where: str
    calls: int
    us: float               # of all calls
    python_us: float        # of that in Python, tracing and NumPy that were not handed anything by frit


class Event(NamedTuple):
    """One thing that took time."""

    kind: str               # a row of csrc/base/span.def: "kernel", "evaluation", "handed", "others", "plan", "compile", "wait"
    name: str
    begin_us: float         # since the profile began
    us: float
    thread: int             # 0 is the one that began it
    where: str
    number: int             # threads of a kernel, nodes of a plan, turns of a loop


class Array(NamedTuple):
    """An array that was there when there was most memory in use."""

    where: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


class Profile:
    """What a program did while it was profiled. `print()` it for tables.

        with frit.profile() as p:
            train()
        print(p)
        p.save("train.json")        # for https://ui.perfetto.dev or chrome://tracing
        p.save("train.html")        # a page

    It is a decorator as well: of a function decorated by frit.profile(), `function.profile` is the Profile of its last call.

    us              microseconds from begin to end
    parts           what they went into, in the thread that began it, as a dict: its sum is `us`; "Python" is what was not frit's
    kernels         what ran, as a list of Kernel: us, share_of_limit, tier, threads and more
    lines, layers   the same by the user's lines, and by frit.scope, class and function
    calls           accelerated functions
    evaluations     why, where and how often pending arrays were computed
    handed          NumPy functions that were called, why, and what they took
    others          functions of other packages and of Python's library that accelerated functions called, and what they took
    compiles        (what, how many, us) of kernels "compiled", "from disk" or "left to the interpreter", beside all else
    memory          (us, bytes) of arrays of frit's in use, as a curve; peak_bytes is its highest
    at_peak         the largest arrays at that time
    events          the last of all that happened, one by one; n_lost came before
    counts          what frit.stats() counted meanwhile
    processes       profiles of other processes that were begun meanwhile, as dicts
    machine         whose limits the kernels' shares are of; None: nobody has measured it (python -m frit.machine calibrate)
    joules          that the processor took meanwhile, and `joules_source`: "measured" by its counters, "modelled" by the
                    machine's `power` and this process' load, or "unknown", and then None (frit.energy.measure)
    limits          `gbs` from memory and `gops` of plain f32 operations that it reaches at most
    """

    def __init__(self, name: str = "", events: int = _KEPT, processes: bool = False) -> None:
        if events < 0:
            raise ValueError(f"profile(): events is how many are kept, not {events}")
        self.name = name
        self.n_kept = events
        self.with_processes = processes
        self.us = 0.0
        self.parts: dict[str, float] = {}
        self.kernels: list[Kernel] = []
        self.calls: list[Call] = []
        self.evaluations: list[Evaluation] = []
        self.handed: list[Handed] = []
        self.others: list[Other] = []
        self.compiles: list[tuple[str, int, float]] = []
        self.memory: list[tuple[float, int]] = []
        self.at_peak: list[Array] = []
        self.temporary_bytes = self.peak_bytes = self.n_lost = self.begin_ns = 0
        self.events: list[Event] = []
        self.counts: dict[str, Any] = {}
        self.processes: list[dict[str, Any]] = []
        self.machine: str | None = None
        self.limits: dict[str, float] = {}
        self.joules: float | None = None
        self.joules_source = "unknown"
        self.pid = os.getpid()
        self._scopes: list[tuple[str, int, float]] = []
        self._folder: str | None = None
        self._before: dict[str, Any] = {}
        self._energy: Any = None

    # ---- begin and end

    def __enter__(self) -> Profile:
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def begin(self) -> None:
        """Begins. RuntimeError: another profile or estimate has begun and not ended."""
        global _running
        from .energy import measure
        with _lock:
            machine = _machine.found()
            self.machine, self.limits = str(machine["name"]) if machine else None, _machine.limits()
            _core.record_begin(self.n_kept)
            _running = self
        self._before = _core.stats()
        self._energy = measure().__enter__()
        if self.with_processes and _VARIABLE not in os.environ:
            from multiprocessing import util    # its children end without an atexit of Python's
            util.register_after_fork(self, _finalize)
            self._folder = tempfile.mkdtemp(prefix="frit-trace-")
            os.environ[_VARIABLE] = f"{os.urandom(8).hex()}:{self._folder}"

    def end(self) -> None:
        """Ends, and fills in what was seen. RuntimeError: it has not begun."""
        global _running
        with _lock:
            if _running is not self:
                raise RuntimeError("this profile has not begun, or has ended")
            self._energy.__exit__()
            recorded = _core.record_end()
            _running = None
        self.joules = None if self._energy.joules is None else float(self._energy.joules)
        self.joules_source = self._energy.source
        self.counts = _since(_core.stats(), self._before)
        self._fill(recorded)
        if self._folder is not None:
            del os.environ[_VARIABLE]
            self.processes = _collected(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are profiled, each by itself."""
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if _running is not None:        # a part of what is profiled already
                return function(*args, **kwargs)
            call.profile = Profile(self.name or function.__qualname__, self.n_kept, self.with_processes)    # type: ignore[attr-defined]
            with call.profile:              # type: ignore[attr-defined]
                return function(*args, **kwargs)
        call.profile = None                 # type: ignore[attr-defined]
        return call

    # ---- what was seen

    def _fill(self, recorded: dict[str, Any]) -> None:
        if "sums" not in recorded:          # in a child of fork, where what was recorded is the parent's
            return
        self.us = (recorded["end_ns"] - recorded["begin_ns"]) / 1000
        self.begin_ns = recorded["begin_ns"]
        scale = self.us / recorded["ticks"] if recorded["ticks"] else 0.0
        rows = recorded["rows"]
        self.kernels = sorted(kernels_of(rows, scale), key=lambda k: -k.us)
        self.peak_bytes, self.n_lost = recorded["live_peak_bytes"], recorded["lost"]
        self.memory = [(at * scale, n) for at, n in recorded["memory"]]
        self.memory[:0] = [(0.0, self.memory[0][1])] if self.memory else []
        self.at_peak = [Array(where, shape, str(dtype), n) for where, shape, dtype, n, _ in recorded["arrays"]]
        self.temporary_bytes = recorded["temporary_bytes"]
        self._sum(recorded["sums"], scale)
        where_of: dict[int, str] = {0: ""}
        for kind, name, number, site, thread, n, begin, end in recorded["spans"]:
            if site not in where_of:
                where_of[site] = _core.site_text(site)
            if name is None:
                name = rows[number]["operations"]
            self.events.append(Event(kind, name, begin * scale, (end - begin) * scale, thread, where_of[site], n))

    def _sum(self, sums: list[tuple[Any, ...]], scale: float) -> None:
        parts: dict[str, float] = {}
        calls: dict[tuple[str, str], list[float]] = {}
        evaluations: dict[tuple[str, str], list[float]] = {}
        handed: dict[tuple[str, str], list[float]] = {}
        others: dict[tuple[str, str], list[float]] = {}
        compiles: dict[str, list[float]] = {}
        scopes: dict[str, list[float]] = {}
        kept: dict[str, dict[Any, list[float]]] = {"call": calls, "evaluation": evaluations, "handed": handed,
                                                   "others": others, "compile": compiles, "scope": scopes}
        for kind, name, _, where, thread, number, n, ticks, own in sums:
            if thread == 0:
                part = _PARTS.get(kind, kind)
                parts[part] = parts.get(part, 0.0) + own * scale
            if kind not in kept:
                continue
            at = kept[kind].setdefault(name if kind in ("compile", "scope") else (name, where or ""), [0, 0.0, 0.0])
            at[0] += number if kind == "compile" else n
            at[1] += ticks * scale
            at[2] += own * scale
        parts["Python"] = self.us - sum(us for part, us in parts.items() if part != "Python")
        self.parts = dict(sorted(parts.items(), key=lambda part: -part[1]))
        self.calls = _sorted(Call(*key, int(n), us, own) for key, (n, us, own) in calls.items())
        self.evaluations = _sorted(Evaluation(why or "others", where, int(n), us)
                                   for (why, where), (n, us, _) in evaluations.items())
        self.handed = _sorted(Handed(name, where, int(n), own, _why(name)) for (name, where), (n, _, own) in handed.items())
        self.others = _sorted(Other(name, where, int(n), own) for (name, where), (n, _, own) in others.items())
        self.compiles = [(what, int(n), us) for what, (n, us, _) in compiles.items()]
        self._scopes = [(path, int(n), us) for path, (n, us, _) in scopes.items()]

    @property
    def lines(self) -> list[Line]:
        """Lines of the user's code, with their part of the kernels and what they called of NumPy's and others', longest first."""
        found = {at.where: at for at in lines_of(self.kernels)}
        called = [(h.where, h.us) for h in self.handed] + [(o.where, o.us) for o in self.others]
        for where, us in called:
            before = found.get(where, Line(where, 0.0, 0.0, 0.0))
            found[where] = before._replace(us=before.us + us)
        return sorted(found.values(), key=lambda at: -at.us)

    @property
    def layers(self) -> list[Layer]:
        """What each frit.scope took, each class and each function of the user's code within it."""
        layers = layers_of((k.us, k.bytes, k.runs * k.ops, k.places) for k in self.kernels)
        top = Layer("")
        top.parts = {x.name: x for x in layers}
        for path, n, us in self._scopes:
            layer = top.within(path.split("/"))[-1]
            layer.wall_us, layer.runs = us, n
        return top.children

    @property
    def fallbacks(self) -> dict[str, int]:
        """NumPy functions that were called, by name."""
        return dict(self.counts.get("fallbacks", {}))

    @property
    def syncs(self) -> dict[str, int]:
        """How often, and for what, Python needed a value."""
        return dict(self.counts.get("syncs", {}))

    @property
    def bytes(self) -> int:
        return sum(k.bytes for k in self.kernels)

    @property
    def ops(self) -> float:
        return sum(k.runs * k.ops for k in self.kernels)

    def joules_of(self, kernel: Kernel) -> float | None:
        """Its part of the joules, by the time that its threads took of all processors' time; None: nobody knows."""
        busy = self.us + sum(k.us * max(k.threads - 1, 0.0) for k in self.kernels)
        return self.joules * kernel.us * max(kernel.threads, 1.0) / busy if self.joules is not None and busy else None

    # ---- shown

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain dicts, lists and numbers, for json or pandas.DataFrame(p.as_dict()["kernels"])."""
        plain = ("name", "us", "parts", "peak_bytes", "temporary_bytes", "bytes", "ops", "joules", "joules_source", "machine",
                 "limits", "pid", "begin_ns", "n_lost", "counts", "fallbacks", "syncs", "memory", "compiles", "processes")
        rows = ("calls", "evaluations", "handed", "others", "at_peak", "lines", "events")
        return {**{k: getattr(self, k) for k in plain}, **{k: [x._asdict() for x in getattr(self, k)] for k in rows},
                "kernels": [{**k._asdict(), "share_of_limit": k.share_of_limit, "joules": self.joules_of(k)}
                            for k in self.kernels],
                "layers": [x.as_dict() for x in self.layers]}

    def trace(self) -> dict[str, Any]:
        """The events, of all processes, in the format that Perfetto and chrome://tracing open."""
        return _trace.trace(self.as_dict())

    def html(self) -> str:
        """A page that needs nothing else: where the time went, by cause, layer, function, line and kernel, when, and memory."""
        from ._pages import profile_page
        return profile_page(self.as_dict())

    def _repr_html_(self) -> str:
        from ._pages import profile_part
        return profile_part(self.as_dict())

    def diff(self, before: Profile) -> Difference:
        """What this one has more than one before."""
        if not isinstance(before, Profile):
            raise TypeError(f"diff() takes another Profile, not {before!r}")
        return Difference(before.as_dict(), self.as_dict())

    def save(self, path: str) -> None:
        """Writes the trace, as .json, or the page, as .html. ValueError: another name; OSError."""
        if not path.endswith((".json", ".html")):
            raise ValueError(f"a profile is saved as .json or .html, not as {path!r}")
        write_whole(path, (json.dumps(self.trace()) if path.endswith(".json") else self.html()).encode())

    def __repr__(self) -> str:
        return f"<frit.Profile of {self.name or 'what ran'}: {time_text(self.us)}, peak {bytes_text(self.peak_bytes)}>"

    def __str__(self) -> str:
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        from ._explained import WHY
        runs = sum(k.runs for k in self.kernels if k.is_kernel)
        yield (f"{self.name or 'profile'}: {time_text(self.us)}, {runs} kernel{'' if runs == 1 else 's'}, "
               f"{bytes_text(self.bytes)} moved, {count_text(self.ops)} operations; peak {bytes_text(self.peak_bytes)}")
        if self.joules is not None:
            yield f"  {self.joules:.3g} J, {self.joules_source}"
        for part, us in self.parts.items():
            yield f"  {time_text(us):>9} {us / self.us if self.us else 0:5.0%}  {part}"
        for what, n, us in self.compiles:
            yield f"  beside that: {n} kernel{'' if n == 1 else 's'} {what}, {time_text(us)}"
        if self.kernels:
            limit = "limit" if self.machine else "limit?"
            yield f"       time   runs   tier         threads {limit:>6}       moved  kernel"
        for k in self.kernels[:20]:
            share = k.share_of_limit
            text = k.operations if len(k.operations) < 60 else k.operations[:56] + " ..."
            reached, threads = "" if share is None else f"{share:.0%}", f"{k.threads:.1f}" if k.threads else ""
            yield (f"  {time_text(k.us):>9} {k.runs:6}   {k.tier:<12} {threads:>7} {reached:>6} "
                   f"{bytes_text(k.bytes):>11}  {k.kind} over {k.shape}: {text}")
        yield from _more(self.kernels, 20, "kernels")
        for title, rows in (("line", [(at.us, at.where) for at in self.lines]),
                            ("handed to NumPy", [(h.us, f"{h.name} {_times(h.calls, h.where)}: {h.why}") for h in self.handed]),
                            ("functions of others", [(o.us, f"{o.name} {_times(o.calls, o.where)}") for o in self.others]),
                            ("computed for", [(e.us, f"{WHY.get(e.why, e.why)} {_times(e.times, e.where)}")
                                              for e in self.evaluations])):
            if rows:
                yield f"       time  {title}"
            for us, text in rows[:20]:
                yield f"  {time_text(us):>9}  {text}"
            yield from _more(rows, 20, "lines")
        layers = self.layers
        if any(x.children for x in layers):
            yield "       time  layer"
            yield from _layer_lines(layers, 0)
        held = at_peak_of({"at_peak": [a._asdict() for a in self.at_peak], "temporary_bytes": self.temporary_bytes})
        if held:
            yield f"      bytes  largest arrays of the {bytes_text(self.peak_bytes)} at the peak"
        for n, what, where in held[:8]:
            yield f"  {bytes_text(n):>9}  {what}{where and f' of {where}'}"
        yield from _more(held, 8, "lines")
        if self.n_lost:
            yield f"{self.n_lost} events are in the sums alone: profile(events=) keeps more"
        for process in self.processes:
            yield f"process {process['pid']}: {process['name']}, {time_text(process['us'])}"


def _sorted(rows: Iterator[Any]) -> list[Any]:
    return sorted(rows, key=lambda x: -x.us)


def _times(n: int, where: str) -> str:
    return f"{n} time{'' if n == 1 else 's'}{where and f' at {where}'}"


def _more(rows: list[Any], n: int, what: str) -> Iterator[str]:
    if len(rows) > n:
        yield f"             and {len(rows) - n} {what} more"


def _layer_lines(layers: list[Layer], depth: int) -> Iterator[str]:
    for x in layers:
        wall = "" if x.wall_us is None else f" ({x.runs} times, {time_text(x.wall_us)} passed in it)"
        yield f"  {time_text(x.us):>9}  {'  ' * depth}{x.name}{wall}"
        yield from _layer_lines(x.children, depth + 1)


def _since(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What the counters of frit.stats() have counted between two looks."""
    out: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key, type(value)())
        if isinstance(value, dict):
            value = {k: n - old.get(k, 0) for k, n in value.items() if n != old.get(k, 0)}
        elif isinstance(value, (int, float)):
            value = value - old
        if value:
            out[key.removeprefix("n_")] = value
    return out


def _why(name: str) -> str:
    """Why NumPy was asked: frit has a function of this name that does not do what was wanted, or has none of its own."""
    from . import _namespace
    known = (name in _namespace.ours or hasattr(_core.Tensor, name)) and name not in named("handed") | named("method")
    return "frit's does not take these arguments" if known else "frit has none of its own"


# ---- other processes

def _collected(folder: str) -> list[dict[str, Any]]:
    """What other processes have left, in the order in which they began."""
    found = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".json"):
            continue
        try:
            with open(os.path.join(folder, name), encoding="utf8") as file:
                found.append(json.load(file))
        except (OSError, ValueError) as error:
            print(f"frit: a process's profile is lost: {error}", file=sys.stderr)
    return sorted(found, key=lambda p: p["begin_ns"])


def _leave(p: Profile, folder: str) -> None:
    if _running is not p or p.pid != os.getpid():
        return
    p.end()
    try:
        write_whole(os.path.join(folder, f"{p.pid}.json"), json.dumps(p.as_dict()).encode())
    except OSError as error:
        print(f"frit: this process's profile is lost: {error}", file=sys.stderr)


def join() -> None:
    """A process that was begun by one that is profiled with its processes is profiled, too: from here to its end."""
    if _running is not None:
        return
    _, _, folder = os.environ.get(_VARIABLE, "").partition(":")
    if not os.path.isdir(folder):
        return
    p = Profile(" ".join(sys.orig_argv[1:3]) or "python")
    p.begin()
    atexit.register(_leave, p, folder)


def _finalize(parent: Profile) -> None:
    """In a child of multiprocessing's, where join() has been."""
    from multiprocessing import util
    if _running is not None and parent._folder is not None:
        util.Finalize(None, _leave, (_running, parent._folder), exitpriority=100)


def _after_fork() -> None:
    global _running
    if _running is not None:
        _running.begin_ns = 0
        _running = None
        _core.record_end()      # what it has is the parent's
    if _VARIABLE in os.environ:
        join()


os.register_at_fork(after_in_child=_after_fork)


def profile(function: Callable[..., Any] | None = None, *, name: str = "", events: int = _KEPT, processes: bool = False) -> Any:
    """Profiles what runs in a with statement, or the calls of a function that it decorates: Profile says what it sees.

    `events`: how many of the last ones are kept one by one, 48 bytes each; sums are of all.
    `processes`: processes that are begun meanwhile and import frit are profiled, too, until they end, and are in `processes` and
    in the trace of this one. (They find it by FRIT_TRACE.) One that is forked and ends by os._exit is not.

    RuntimeError, when it begins: another profile or estimate has begun and not ended. On a GPU each evaluation is waited for, so
    that its time is known.
    """
    if function is not None and not callable(function):
        raise TypeError(f"profile() takes a function, not {function!r}; its name is profile(name=...)")
    p = Profile(name, events, processes)
    return p if function is None else p(function)
