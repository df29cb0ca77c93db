"""What frit.estimate says of memory beside what the allocator has: for tests/test_estimate.py and benchmarks/peak_memory.py."""
import copy
import gc
import warnings
from typing import NamedTuple

import numpy as np

import frit


class NoCall(Exception):
    """The accelerated function itself raises."""


class Compared(NamedTuple):
    predicted: int      # with plans, as they settle
    bound: int          # at any time
    planned: int        # what the allocator had with plans,
    first: int          # in the first call,
    later: int          # and in one after that
    handed: int         # calls that NumPy did
    stopped: str | None
    numpys: int         # what NumPy is estimated to have

    @property
    def is_exact(self):
        return self.predicted == self.planned

    @property
    def is_unsafe(self):
        return self.planned > (self.bound if self.handed else self.predicted) or max(self.first, self.later) > self.bound


def quietly(f, *args):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


def allocated(f, args):
    """(the most bytes that frit had in a call of f beside those before, calls that NumPy did)"""
    args = copy.deepcopy(args)
    gc.collect()
    frit.reset_stats()
    before = frit.stats()["live_bytes"]
    try:
        result = quietly(f, *args)
    except Exception as error:
        raise NoCall from error
    s = frit.stats()
    del result
    return s["peak_bytes"] - before, sum(s["fallbacks"].values())


def compare(f, args, values="all", shapes=False):
    """The estimate of f(*args), by values or by the shapes of arrays, beside calls of it."""
    given = copy.deepcopy(list(args))
    if shapes:
        given = [frit.ShapeDtype(a.shape, a.dtype, "C" if a.flags.c_contiguous else "F") if isinstance(a, np.ndarray) else a for a in given]
    e = quietly(frit.estimate(f, values=values), *given)
    fast = frit.accelerate(f)
    first, _ = allocated(fast, args)
    frit.wait_for_compiles(20)
    with frit.config(eager_elems=0):
        planned, handed = allocated(fast, args)
    later, _ = allocated(fast, args)
    handed += sum(h.calls for h in e.handed)        # random numbers among them, which frit does not count
    return Compared(e.peak_bytes, e.first_peak_bytes, planned, first, later, handed, e.stopped, e.numpy_bytes)
