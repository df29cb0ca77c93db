"""The clock of the workers, and what they begin with: no library is imported here."""
import importlib.util
import sys
import time

WARM_UP = 0.02      # seconds of calls before each turn: another library has had the caches


def timed(f, budget):
    """Times of one call, each the mean over enough calls to be read off the clock."""
    start, n = time.perf_counter(), 0
    while n < 2 or time.perf_counter() - start < WARM_UP:
        f()
        n += 1
    inner = max(1, int(0.001 / ((time.perf_counter() - start) / n)))
    times, end = [], time.perf_counter() + budget
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(inner):
            f()
        times.append((time.perf_counter() - start) / inner)
    return times


def want_frit():
    """Ends the benchmark where there is no frit: a table of its peers alone says nothing, and looks like success."""
    if not importlib.util.find_spec("frit"):
        sys.exit("frit cannot be imported here: pip install . or put the checkout's python/ on PYTHONPATH")
