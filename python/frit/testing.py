"""Comparing results: bit by bit, as frit promises, or in units of the last place.  Every other name is numpy.testing's."""
from typing import Any

import numpy


def bits(a: Any) -> Any:
    """Integers that are equal exactly where two arrays mean the same: every NaN is one value, and the
    two zeros differ.  A complex array gets a last axis of two."""
    a = numpy.asarray(a)
    if a.dtype.kind == "c":
        return bits(numpy.ascontiguousarray(a).reshape(a.shape + (1,)).view(a.real.dtype))
    if a.dtype.kind != "f":
        return a
    if a.dtype.itemsize > 8:    # long double has no integer of its size
        return numpy.where(numpy.isnan(a), numpy.inf, a)
    a = numpy.where(numpy.isnan(a), numpy.array(numpy.nan, a.dtype), a)
    return numpy.ascontiguousarray(a).view(f"i{a.dtype.itemsize}")


def assert_bits_equal(got: Any, want: Any) -> None:
    """Same dtype, shape and values; the zeros differ, every NaN is one value. AssertionError: they are not, and where.

        >>> frit.testing.assert_bits_equal(frit.arange(3.0), np.arange(3.0))
    """
    g, w = numpy.asarray(got), numpy.asarray(want)
    if g.dtype != w.dtype or g.shape != w.shape:
        raise AssertionError(f"{g.dtype}{g.shape} instead of {w.dtype}{w.shape}")
    bad = bits(g) != bits(w)
    if bad.any():
        bad = bad.any(-1) if bad.ndim > g.ndim else bad
        at = tuple(int(i[0]) for i in numpy.nonzero(bad))
        raise AssertionError(f"{int(bad.sum())} of {g.size} elements differ; at {at}: "
                             f"{g[at]!r} instead of {w[at]!r}")


def ulp_distance(a: Any, b: Any) -> Any:
    """How many numbers of their float dtype lie between a and b, element by element, as an array of their shape
    (of numbers: of one element). inf where one alone is NaN.

        >>> one = np.ones(1, "f4")
        >>> frit.testing.ulp_distance(one, np.nextafter(one, np.float32(2)))
        array([1.])
    """
    a, b = numpy.asarray(a), numpy.asarray(b)
    # The bits in the order of the numbers, the two zeros next to each other.
    i, j = (bits(x).astype(numpy.int64) for x in (a, b))
    low = numpy.int64(numpy.iinfo(bits(a).dtype).min)
    i, j = (numpy.where(k < 0, low - k, k) for k in (i, j))
    # As unsigned numbers, so that the difference of any two fits.
    top, bottom = numpy.maximum(i, j).view(numpy.uint64), numpy.minimum(i, j).view(numpy.uint64)
    d = (top - bottom).astype(numpy.float64)
    return numpy.where(numpy.isnan(a) != numpy.isnan(b), numpy.inf, d)


def assert_max_ulp(got: Any, want: Any, limit: float = 1) -> None:
    """No element further than `limit` units of the last place from the one wanted."""
    d = ulp_distance(got, want)
    if d.size and d.max() > limit:
        at = numpy.unravel_index(int(d.argmax()), d.shape)
        raise AssertionError(f"{d.max():g} ULP at {at}: {numpy.asarray(got)[at]!r} instead of "
                             f"{numpy.asarray(want)[at]!r}")


def __getattr__(name: str) -> Any:
    import numpy.testing  # which is slow to import
    if name.startswith("_") or not hasattr(numpy.testing, name):
        from . import _no_such_name
        raise _no_such_name(name, __name__, numpy.testing, lambda: {*globals(), *dir(numpy.testing)})
    return getattr(numpy.testing, name)
