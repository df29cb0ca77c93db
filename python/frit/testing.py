"""Comparing results: bit by bit, as frit promises, or in units of the last place."""
import numpy


def _bits(a):
    if a.dtype.kind == "c":
        part = a.real.dtype
        return _bits(numpy.ascontiguousarray(a).reshape(a.shape + (1,)).view(part))
    if a.dtype.kind == "f" and a.dtype.itemsize <= 8:
        a = numpy.where(numpy.isnan(a), numpy.array(numpy.nan, a.dtype), a)
        return numpy.ascontiguousarray(a).view(f"i{a.dtype.itemsize}")
    return a


def assert_bits_equal(got, want):
    """Same dtype, shape and values; the zeros differ, every NaN is one value."""
    g, w = numpy.asarray(got), numpy.asarray(want)
    if g.dtype != w.dtype or g.shape != w.shape:
        raise AssertionError(f"{g.dtype}{g.shape} instead of {w.dtype}{w.shape}")
    bad = _bits(g) != _bits(w)
    if bad.any():
        bad = bad.any(-1) if bad.ndim > g.ndim else bad
        at = tuple(int(i[0]) for i in numpy.nonzero(bad))
        raise AssertionError(f"{int(bad.sum())} of {g.size} elements differ; at {at}: "
                             f"{g[at]!r} instead of {w[at]!r}")


def ulp_distance(a, b):
    """How many numbers of their dtype lie between a and b, element by element."""
    a, b = numpy.asarray(a), numpy.asarray(b)
    i, j = _bits(a), _bits(b)
    low = numpy.iinfo(i.dtype).min
    i, j = (numpy.where(k < 0, low - k, k).astype(numpy.float64) for k in (i, j))
    return numpy.where(numpy.isnan(a) != numpy.isnan(b), numpy.inf, numpy.abs(i - j))


def assert_max_ulp(got, want, limit=1):
    """No element further than `limit` units of the last place from the one wanted."""
    d = ulp_distance(got, want)
    if d.size and d.max() > limit:
        at = numpy.unravel_index(int(d.argmax()), d.shape)
        raise AssertionError(f"{d.max():g} ULP at {at}: {numpy.asarray(got)[at]!r} instead of "
                             f"{numpy.asarray(want)[at]!r}")
