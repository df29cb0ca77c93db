"""What a machine is taken to be where time is estimated: python -m frit.machine calibrate measures this one.

A machine is a dict of numbers (FIELDS), kept as JSON beside the kernel cache. csrc/backends/estimate.c makes time of
them; here are the measurements, and the numbers that fit them best."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy

from . import _core
from ._files import write_whole

FIELDS = {
    "name": "what the processor is called",
    "levels": "for so many bytes that one thread goes through again and again: bytes, GB/s read, GB/s written, GB/s read and "
              "written in one place, and so on",
    "all_levels": "the same of all threads together",
    "kind_ps": "picoseconds for a byte of vector instructions of each kind, and for an element that is added (csrc/jit/work.h)",
    "figures": "us to launch a kernel; ps for a byte loaded, and stored; ns of the value of a row, of a loop over one, of its "
               "end if that fills no vector, of a cycle that a row waits for its own instructions; bytes of a vector; as many "
               "threads as all of them are worth where arithmetic takes the time; us that they take beside their share",
    "call_us": "us of a call of an accelerated function, of an evaluation beside it, of an operation that is traced for it, of "
               "an array that it is given or gives, and of a call that runs the function",
    "product_gops": "thousand million multiplications and additions of f32 and f64 in a second, of large matrix products",
    "all_product_gops": "the same of all threads together",
}
# What data sheets of GPUs do not say, fitted on kernels of five of them (benchmarks/neusight.py, each left out in turn).
GPU = {
    "launch_us": 21.9,      # a call of a framework's, from its beginning to the end of a kernel without elements
    "output_us": 8.8,       # each array beside the first that it writes
    "bandwidth": 0.958,     # of the memory's, that kernels of a very large chip reach, and
    "multiprocessors": 21.7,    # with how many of them half as much is reached
    "rows_in_flight": 6.2,  # that a multiprocessor has between two passes, at 128 threads a row
    "row_bytes": 17.3,      # that it moves in a cycle through rows whose elements wait for each other
}
_KINDS, _SUM = 12, 7     # of work (csrc/jit/work.h), and which of them is done beside the others
_FEW = 4096             # bytes of an array of a kernel that is fitted: the first cache of any processor holds some of them
_FOOTPRINTS = [1 << k for k in (13, 15, 17, 19, *range(20, 28))]


# ---- measuring, in a process of its own ----

def _best(run: Callable[[], Any], seconds: float = 0.03, least: int = 7) -> float:
    """Nanoseconds of a run that nobody disturbs."""
    took: list[int] = []
    end = time.perf_counter() + seconds
    while len(took) < least or time.perf_counter() < end:
        began = time.perf_counter_ns()
        run()
        took.append(time.perf_counter_ns() - began)
    took.sort()
    return float(took[len(took) // 5])


def _calm(run: Callable[[], Any]) -> float:
    """The same, at the best of times: what is short may be disturbed all the while."""
    times = []
    for _ in range(5):
        times.append(_best(run, 0.02))
        time.sleep(0.05)
    return min(times)


def _timed(*tasks: Any, seconds: float = 0.01, rounds: int = 3) -> list[float]:
    """Nanoseconds of the kernels of a call (function, arrays...) of each task. What goes on beside may last longer than one of
    them is measured: all are in turns, and the best counts."""
    import frit
    calls = [(function, [frit.asarray(a) for a in arrays]) for function, *arrays in tasks]
    for function, tensors in calls:
        for _ in range(3):
            frit.eval(function(*tensors))
    frit.wait_for_compiles(30)
    best = [numpy.inf] * len(calls)
    for _ in range(rounds):
        time.sleep(0.02)
        for k, (function, tensors) in enumerate(calls):
            best[k] = min(best[k], _of_kernels(function, tensors, seconds))
    return best


def _of_kernels(function: Callable[..., Any], tensors: list[Any], seconds: float) -> float:
    import frit
    _core.record_begin(1 << 15)
    n, end = 0, time.perf_counter() + seconds
    while n < 5 or (time.perf_counter() < end and n < 5000):
        frit.eval(function(*tensors))
        n += 1
    seen = _core.record_end()
    took: dict[int, list[int]] = {}
    for kind, _, row, _, _, _, begin, over in seen["spans"]:
        if kind == "kernel":
            took.setdefault(row, []).append(over - begin)
    a_tick = (seen["end_ns"] - seen["begin_ns"]) / seen["ticks"]
    return float(sum(_undisturbed(t) * len(t) / n for t in took.values()) * a_tick)


def _undisturbed(times: list[int]) -> float:
    """The mean of the lower half: of clocks that go in steps no single time is exact."""
    times.sort()
    half = times[:(len(times) + 1) // 2]
    return sum(half) / len(half)


def _functions() -> dict[str, tuple[Callable[..., Any], str]]:
    """Kernels of every kind of work, and of which dtypes they are."""
    import frit as f
    return {
        "add": (lambda x: x + x, "fibc"),
        "chain": (lambda x: (x * 1.5 + x) * x - x * 0.5 + (x + 2) * (x - 3), "f"),
        "select": (lambda x: f.where(x > 1, x, 0.5), "f"), "clip": (lambda x: f.minimum(f.maximum(x, 0.2), 0.8), "f"),
        "divide": (lambda x: 1.5 / x, "f"), "divide2": (lambda x: x / (x + 1.0), "fc"), "sqrt": (lambda x: f.sqrt(x), "f"),
        "floor": (lambda x: f.floor(x) + f.rint(x), "f"), "exp": (lambda x: f.exp(x), "f"), "log": (lambda x: f.log(x), "f"),
        "sin": (lambda x: f.sin(x), "f"), "tanh": (lambda x: f.tanh(x), "f"), "power": (lambda x: x ** 2.5, "f"),
        "arctan": (lambda x: f.arctan(x), "f"), "widen": (lambda x: x.astype("f8") * 0.5, "ib"),
        "to f4": (lambda x: x.astype("f4") + 1, "ib"), "to i4": (lambda x: x.astype("i4") + 1, "fb"),
        "compared": (lambda x: (x > 1).astype("i4") * 3, "fb"),
        "multiply": (lambda x: x * x + 3, "ibc"),
        "bits": (lambda x: (x & 15) ^ (x << 2) | (x >> 1), "ib"), "remainder": (lambda x: x % (x + 7), "ib"),
        "remainder of ten": (lambda x: x % 10, "ib"), "quotient": (lambda x: x // 7, "fi"),
        "fmod": (lambda x: f.fmod(x, 0.3), "f"), "running": (lambda x: f.cumsum(x), "fi"),
        "sum": (lambda x: x.sum(), "fic"), "max": (lambda x: x.max(), "fi"), "argmax": (lambda x: x.argmax(), "f"),
        "sum of squares": (lambda x: (x * x).sum(), "fc"), "half": (lambda x: x + x, "h"),
        "halves": (lambda x: (x * 1.5 + x) * x - x * 0.5, "h"), "max of halves": (lambda x: (x - 0.5).max(), "h"),
        "apart": (lambda x: x[::7] * 2, "fi"), "apart too": (lambda x: x[:-8:5] + x[3:-5:5] * x[5:-3:5], "f"),
        "every other": (lambda x: x[:-1:2] + x[1::2], "f"), "hypot": (lambda x: f.hypot(x, x + 1), "f"),
        "log1p": (lambda x: f.log1p(abs(x)), "f"), "expm1": (lambda x: f.expm1(x) * x, "f"),
        "sigmoid": (lambda x: 1 / (1 + f.exp(-x)), "f"), "gelu": (lambda x: x * (1 + f.tanh(x * 0.8 + x * x * x * 0.04)), "f"),
        "norm": (lambda x: x / f.sqrt(x * x + 1), "f"), "chosen": (lambda x: f.where(x > 1, x * 2, f.floor(x) - 1), "f"),
    }


_DTYPES = {"f": ("f4", "f8"), "i": ("i4", "i8"), "b": ("i1", "u2"), "h": ("f2",), "c": ("c8", "c16")}


def _array(n: int, dtype: str) -> Any:
    x = numpy.random.default_rng(n).random(n) + 0.25
    return (100 * x if dtype[0] in "iu" else x * (1 + 0.5j) if dtype[0] == "c" else x).astype(dtype)


def _features(function: Callable[..., Any], *arrays: Any) -> Any:
    """What the kernel of a call does, in the order of the numbers that are fitted: a row for each loop, and one of how often."""
    from ._estimate import recorded_rows
    from ._meta import ShapeDtype
    rows = recorded_rows(function, [ShapeDtype(a.shape, a.dtype) for a in arrays])
    often = sum(numpy.array([r["rows"], r["loops"], r["tails"], r["waits"]]) for r in rows)
    loops = sum(numpy.array(r["work"]) * numpy.array([r["fill"]] * (len(r["work"]) - 1) + [1.0])[:, None] for r in rows)
    found = numpy.zeros((len(loops) + 1, _KINDS + 6))
    found[:-1, :_KINDS + 2], found[-1, _KINDS + 2:] = loops, often
    return found


def _fit(a: Any, b: Any) -> Any:
    """The x >= 0 that has the least squares of a x - b (Lawson and Hanson, 1974, chapter 23)."""
    n = a.shape[1]
    x, free = numpy.zeros(n), numpy.zeros(n, bool)
    for _ in range(3 * n):
        slope = a.T @ (b - a @ x)
        if free.all() or (slope[~free] <= 1e-12 * abs(b).max()).all():
            break
        free[numpy.argmax(numpy.where(free, -numpy.inf, slope))] = True
        while True:
            s = numpy.zeros(n)
            s[free] = numpy.linalg.lstsq(a[:, free], b, rcond=None)[0]
            if (s[free] > 0).all():
                break
            down = free & (s <= 0)
            step = min(x[down] / (x[down] - s[down]))
            x = x + step * (s - x)
            free &= x > 1e-15
        x = s
    return x


def _model(a: Any, x: Any) -> Any:
    """Nanoseconds of work by the numbers that are fitted, as csrc/backends/estimate.c has it for what the first cache holds."""
    sums, moves = a[..., _SUM] * x[_SUM], a[..., _KINDS:_KINDS + 2] @ x[_KINDS:_KINDS + 2]
    arithmetic = a[..., :_KINDS] @ x[:_KINDS] - sums
    return ((arithmetic ** 4 + moves ** 4 + sums ** 4) ** 0.25 + a[..., _KINDS + 2:] @ x[_KINDS + 2:]).sum(axis=-1)


def _fit_model(a: Any, b: Any, launch: float) -> Any:
    """The x > 0 for which the logarithms of _model(a, x) + launch over b + launch have the least squares, by Levenberg's and
    Marquardt's steps of logarithms."""
    def error(x: Any) -> Any:
        return numpy.log((_model(a, x) + launch) / (b + launch))

    weights = 1 / (b + launch)
    x = numpy.maximum(_fit(a.sum(axis=1) * weights[:, None], b * weights), 1e-3)
    careful, off = 1e-3, error(x)
    for _ in range(80):
        slopes = numpy.empty((len(b), len(x)))
        for k in range(len(x)):
            y = x.copy()
            y[k] *= 1.001
            slopes[:, k] = (error(y) - off) / 0.001
        square = slopes.T @ slopes
        step = numpy.linalg.solve(square + careful * numpy.diag(numpy.diag(square) + 1e-6), -slopes.T @ off)
        y = numpy.clip(x * numpy.exp(numpy.clip(step, -0.7, 0.7)), 1e-6, 1e6)
        new = error(y)
        if new @ new < off @ off:
            x, off, careful = y, new, careful / 2
        else:
            careful *= 4
    return x


def _work() -> list[tuple[Callable[..., Any], Any]]:
    """Functions to fit, and an array for each."""
    import frit as f
    found = [(function, _array(_FEW // int(d[1:]), d))
             for function, kinds in _functions().values() for kind in kinds for d in _DTYPES[kind]]
    for width in (4, 10, 16, 64, 100):
        x = _array(_FEW // 4 // width * width, "f4").reshape(-1, width)
        found += [(function, x) for function in (
            lambda x: x.sum(axis=1), lambda x: x - x.max(axis=1, keepdims=True), lambda x: x * x[0], lambda x: f.exp(x * x[0]),
            lambda x: x.sum(axis=0), lambda x: f.tanh(f.sin(x + x[0])).sum(axis=1))]
    return found


def _vector_bytes() -> float:
    return {"v3": 32.0, "v4": 64.0}.get(_core.show_config()["isa"], 16.0)


def _plain() -> dict[str, Any]:
    """This machine before it is measured: work is counted by its vectors."""
    ones = [1.0] * _KINDS
    return {"levels": ones[:4], "all_levels": ones[:4], "kind_ps": ones, "figures": [*ones[:7], _vector_bytes(), 1.0, 1.0],
            "product_gops": ones[:2], "all_product_gops": ones[:2]}


def _read(x: Any) -> Any:
    return x.max()


def _written(x: Any) -> Any:
    return -x


def _rewritten(x: Any) -> Any:
    x *= -1.0
    return x


def _measure() -> dict[str, Any]:
    """Numbers of this process, which has one thread or all."""
    import frit
    threads = _core.show_config()["threads"]
    use(_plain())
    work = _work() if threads == 1 or "--all" not in sys.argv else []
    x, launch = numpy.zeros(_KINDS + 6), 0.0
    if work:
        launch, *times = _timed((lambda x: x + 1, numpy.ones(16, "f4")), *work, seconds=0.006, rounds=6)
        x = _fit_model(numpy.array([_features(*task) for task in work]), numpy.maximum(numpy.array(times) - launch, 1.0), launch)
    small = frit.asarray(numpy.ones(16, "f4"))

    def chain(n: int) -> Any:
        y = small
        for _ in range(n):
            y = y + 1
        return frit.eval(y)
    array = numpy.ones(16, "f4")
    fast: Any = frit.accelerate(lambda x: x + 1)
    for _ in range(200):
        fast(array), chain(20)
    short, long = _calm(lambda: chain(1)), _calm(lambda: chain(20))
    node = max(long - short, 0.0) / 19
    calls = [t / 1000 for t in _calls(fast, array, node + launch)]
    calls[0] = max(calls[0] - launch / 1000, 0.0)
    calls[1:1] = [max(short - node - launch, 0.0) / 1000, node / 1000]
    levels = []
    passes = ((_read, "i4", 4), (_written, "f4", 8), (_rewritten, "f4", 4))
    base = _timed(*((f, numpy.ones(16, d)) for f, d, _ in passes))
    took = {size: numpy.full(3, numpy.inf) for size in _FOOTPRINTS}
    for _ in range(3):      # whoever disturbs one round may be gone in the next
        for size in _FOOTPRINTS:
            took[size] = numpy.minimum(took[size], _timed(*((f, numpy.ones(size // n, d)) for f, d, n in passes), rounds=1))
    for size in _FOOTPRINTS:
        read, both, here = (float(t) for t in numpy.maximum(took[size] - base, 1.0))
        levels += [float(size), size / read, size / 2 / max(both - read / 2, both / 4), size / here]
    kinds, moves, often = 1000 * x[:_KINDS], 1000 * x[_KINDS:_KINDS + 2], x[_KINDS + 2:]
    return {**_measure_large(), "levels": levels, "kind_ps": list(kinds), "threads": threads,
            "call_us": calls, "figures": [launch / 1000, *moves, *often, _vector_bytes()]}


def _measure_large() -> dict[str, Any]:
    """What shows how many threads work."""
    import frit
    squares = [numpy.random.default_rng(0).random((512, 512)).astype(dtype) for dtype in ("f4", "f8")]
    large = ((lambda x: frit.tanh(frit.sin(x)), _array(1 << 19, "f4")), *((lambda p: p @ p, m) for m in squares))
    busy, *products = _timed(*large, seconds=0.02, rounds=8)
    return {"busy": busy, "product_gops": [2 * 512 ** 3 / t for t in products]}


class _Model:
    def step(self, x: Any) -> Any:
        return x + 1


def _calls(fast: Callable[..., Any], array: Any, node: float) -> list[float]:
    """Nanoseconds of a call that is made again, of each array more, and of one that runs its function."""
    import frit
    five: Any = frit.accelerate(lambda a, b, c, d, e: a + b + c + d + e)
    model = _Model()
    opened: Any = frit.accelerate(lambda x: model.step(x))
    for _ in range(200):
        five(array, array, array, array, array), opened(array)
    again = _calm(lambda: fast(array))
    arrays = max(_calm(lambda: five(array, array, array, array, array)) - again, 0.0) / 4
    return [max(again - 2 * arrays, 0.0), arrays, max(_calm(lambda: opened(array)) - node - 2 * arrays, again)]


def _in_process(threads: int | None, *what: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FRIT_JIT": "always", "FRIT_EAGER_ELEMS": "0", "FRIT_DEVICE": "cpu"}
        environment.pop("FRIT_LOG", None)
        if threads:
            environment.update(FRIT_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        path = os.path.join(folder, "machine.json")
        done = subprocess.run([sys.executable, "-m", "frit.machine", "measure", path, *(() if threads else ("--all",)), *what],
                              env=environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"this machine could not be measured: {done.stderr.strip() or done.returncode}")
        with open(path, encoding="utf8") as file:
            found: dict[str, Any] = json.load(file)
        return found


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf8", errors="replace") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "a processor")
    except OSError:
        return "a processor"


def calibrate() -> dict[str, Any]:
    """Measures this machine in less than 30 seconds, keeps the numbers beside the kernel cache and uses them.

    RuntimeError: there is no compiler, or a measuring process fails."""
    alone, together = _in_process(1), _in_process(None)
    for _ in range(3):      # others may have had a processor all the while
        worth = min(max(alone["busy"] / together["busy"], 1.0), float(together["threads"]))
        if worth > 0.8 * together["threads"]:
            break
        time.sleep(0.5)
        again = _in_process(None, "--large")
        together["busy"] = min(together["busy"], again["busy"])
        together["product_gops"] = [max(v) for v in zip(together["product_gops"], again["product_gops"])]
    machine = {"name": _processor(), "levels": alone["levels"], "all_levels": together["levels"], "kind_ps": alone["kind_ps"],
               "call_us": alone["call_us"],
               "figures": [*alone["figures"], worth, 4.0], "product_gops": alone["product_gops"],
               "all_product_gops": together["product_gops"]}
    use(machine)
    save(machine)
    return machine


# ---- GPUs that are not here ----

def gpu(sheet: dict[str, Any] | str, constants: dict[str, float] | None = None) -> dict[str, Any]:
    """The machine that a GPU's data sheet describes, a dict or a JSON file: Mem_Bw in GB/s, Num_Sm, Freq in MHz, SingleFLOPs in
    Gflop/s, L2Cache in MB, and if they are known Device, Dev_Mem in GB and DoubleFLOPs.

        frit.estimate(f, machine=frit.machine.gpu("H100.json"))(x)

    KeyError: the sheet does not say one of these; ValueError, OSError: it is no JSON file."""
    if isinstance(sheet, str):
        with open(sheet, encoding="utf8") as file:
            sheet = dict(json.load(file))
    k = {**GPU, **(constants or {})}
    n, cycles = float(sheet["Num_Sm"]), sheet["Freq"] / 1000
    reached = k["bandwidth"] * n * n / (n * n + k["multiprocessors"] ** 2)
    wide = sheet["SingleFLOPs"] / sheet["DoubleFLOPs"] if sheet.get("DoubleFLOPs") else 32.0
    return {"name": sheet.get("Device", "a GPU"), "memory_bytes": int(sheet.get("Dev_Mem", 0) * 10**9),
            "gpu": [k["launch_us"], reached * sheet["Mem_Bw"], sheet["SingleFLOPs"], wide, n, k["output_us"],
                    sheet["L2Cache"] * 1e6, k["rows_in_flight"], k["row_bytes"] * n * cycles]}


# ---- files ----

def path() -> str:
    """Where the numbers of this machine are kept; "" where kernels are not kept either."""
    folder = _core.cache_info()["directory"]
    return os.path.join(folder, "machine.json") if folder else ""


def save(machine: dict[str, Any], to: str | None = None) -> None:
    """Writes a machine as JSON, whole or not at all."""
    to = path() if to is None else to
    if not to:
        return
    os.makedirs(os.path.dirname(os.path.abspath(to)), exist_ok=True)
    write_whole(to, json.dumps(machine, indent=1).encode())


def load(file: str) -> dict[str, Any]:
    """Reads a machine. ValueError: the file is none; OSError."""
    with open(file, encoding="utf8") as f:
        try:
            machine = json.load(f)
        except ValueError as error:
            raise ValueError(f"{file} is no machine: {error}") from error
    if not isinstance(machine, dict) or not ("gpu" in machine or set(FIELDS) <= set(machine)):
        raise ValueError(f"{file} is no machine: it has not all of {', '.join(FIELDS)}")
    return machine


def use(machine: dict[str, Any] | None) -> None:
    """Estimates by this machine from here on; None: by what is assumed of any. ValueError: it is none."""
    global _used, _is_found
    if isinstance(machine, dict) and "call_us" in machine:      # what C does not read
        times = machine["call_us"]
        if not (isinstance(times, (list, tuple)) and 3 <= len(times) <= 5
                and all(isinstance(t, (int, float)) and t >= 0 for t in times)):
            raise ValueError(f"a machine whose call_us is not 3 to 5 numbers: {times!r}")
    _core.machine_set(machine)
    _used, _is_found = machine, True


_used: dict[str, Any] | None = None
_is_found = False


def found() -> dict[str, Any] | None:
    """The machine by which time is estimated: what use() said, or what was measured before; None: nothing was."""
    if not _is_found:
        use(None)
        if path() and os.path.exists(path()):
            try:
                use(load(path()))
            except (OSError, ValueError) as error:
                print(f"frit: {path()} is left alone: {error}; python -m frit.machine calibrate makes another", file=sys.stderr)
    return _used


def limits() -> dict[str, float]:
    """Of the machine that is in use: GB/s of large arrays, and thousand million plain operations of f32 a second."""
    if _used is not None and "kind_ps" in _used:
        return {"gbs": max(_used["all_levels"][-3:]), "gops": 250.0 * _used["figures"][8] / max(_used["kind_ps"][0], 1e-3)}

    def us(moved: float, ops: float) -> float:
        return _core.estimate_us(moved, 0.0, ops, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    much = 1e9
    return {name: much / max(us(*work) - us(0.0, 0.0), 1.0) / 1e3 for name, work in (("gbs", (much, 0.0)), ("gops", (0.0, much)))}


def overhead_us(machine: dict[str, Any] | None, evals: int, nodes: int, arrays: int = 0, is_closed: bool = True) -> float:
    """What a call takes beside its kernels that is given or gives so many arrays: of a closed function, one that evaluates once
    is made again without running it."""
    if machine is None or evals == 0:
        return 0.0
    call, evaluation, node, array, opened = (*machine.get("call_us", (0.0, 0.0, 0.0)), 0.0, 0.0)[:5]
    if is_closed and evals == 1:
        return float(call + arrays * array)
    return float((call if is_closed else max(call, opened)) + arrays * array + (evals - 1) * evaluation + nodes * node)


def main(arguments: list[str]) -> int:
    if arguments == ["calibrate"]:
        machine = calibrate()
        print(json.dumps(machine, indent=1))
        return 0
    if arguments[:1] == ["measure"] and len(arguments) > 1:
        with open(arguments[1], "w", encoding="utf8") as file:
            json.dump(_measure_large() if "--large" in arguments else _measure(), file)
        return 0
    print("usage: python -m frit.machine calibrate", file=sys.stderr)
    return 2
