"""Polynomials of least maximal error, with coefficients that a float or a double can hold.

Remez' exchange on a dense set of points, in MPFR arithmetic.  Coefficients are rounded one after
the other, lowest power first, and the rest is fitted again to what the rounding left over; so the
rounded polynomial is close to the best that its format allows.
"""

import gmpy2
import numpy as np
from gmpy2 import mpfr
from scipy.optimize import linprog

PREC = 240
gmpy2.get_context().precision = PREC
N_POINTS = 1200


def grid(lo, hi, n=N_POINTS):
    """Points of [lo, hi], denser towards the ends, where the error of a fit swings fastest."""
    lo, hi = mpfr(lo), mpfr(hi)
    mid, half = (lo + hi) / 2, (hi - lo) / 2
    pi = gmpy2.const_pi()
    return np.array(
        [mid - half * gmpy2.cos(pi * (mpfr(2 * i + 1) / (2 * n))) for i in range(n)], dtype=object
    )


def solve(a, b):
    """Gaussian elimination with partial pivots on arrays of mpfr."""
    a = np.concatenate([a, b[:, None]], axis=1)
    n = len(a)
    for i in range(n):
        k = max(range(i, n), key=lambda r: abs(a[r, i]))
        if k != i:
            a[[i, k]] = a[[k, i]]
        a[i] = a[i] / a[i, i]
        for r in range(i + 1, n):
            if a[r, i] != 0:
                a[r] = a[r] - a[r, i] * a[i]
    x = a[:, n].copy()
    for i in range(n - 2, -1, -1):
        x[i] = x[i] - np.dot(a[i, i + 1 : n], x[i + 1 :])
    return x


def remez(xs, g, w, powers):
    """Coefficients c minimising max |w * (g - sum c_k x^powers_k)| over the points; that error."""
    n = len(powers)
    basis = np.stack([power(xs, p) for p in powers], axis=1)
    pick = [int(round(i * (len(xs) - 1) / n)) for i in range(n + 1)]
    best = None
    for _ in range(60):
        m = np.empty((n + 1, n + 1), dtype=object)
        m[:, :n] = basis[pick]
        m[:, n] = [(-1) ** i / w[j] for i, j in enumerate(pick)]
        sol = solve(m, g[pick])
        c, level = sol[:n], abs(sol[n])
        err = w * (g - np.dot(basis, c))
        # One extremum from each run of equal sign, then the n + 1 neighbouring ones that matter.
        sign = np.array([1 if e >= 0 else -1 for e in err])
        cuts = [0] + [i for i in range(1, len(xs)) if sign[i] != sign[i - 1]] + [len(xs)]
        ext = [max(range(a, b), key=lambda j: abs(err[j])) for a, b in zip(cuts, cuts[1:])]
        while len(ext) > n + 1:
            if len(ext) == n + 2:
                ext = ext[1:] if abs(err[ext[0]]) < abs(err[ext[-1]]) else ext[:-1]
                break
            k = min(range(len(ext)), key=lambda j: abs(err[ext[j]]))
            if k in (0, len(ext) - 1):
                del ext[k]
            else:
                other = k - 1 if abs(err[ext[k - 1]]) < abs(err[ext[k + 1]]) else k + 1
                for j in sorted((k, other), reverse=True):
                    del ext[j]
        top = max(abs(e) for e in err)
        if best is None or top < best[1]:
            best = (c, top)
        if len(ext) < n + 1 or ext == pick or top <= level * mpfr("1.001"):
            break
        pick = ext
    return best


def power(xs, p):
    return xs**p if p else xs * 0 + 1


def improve(xs, g, w, powers, c):
    """The coefficients c changed by a linear programme for a least max |w * (g - sum c_k x^p_k)|.

    Fixing a low power leaves a basis that vanishes at 0, where the exchange of points may fail. The
    corrections are small, so that doubles suffice once everything is scaled."""
    every = slice(None, None, 2)
    top = max(abs(x) for x in xs)
    basis = np.stack([w[every] * power(xs[every] / top, p) for p in powers], axis=1)
    err = w[every] * (g[every] - sum(v * power(xs[every], p) for v, p in zip(c, powers)))
    unit = max(abs(e) for e in err)
    norm = [max(abs(e) for e in basis[:, k]) for k in range(len(powers))]
    a = np.array(
        [[float(basis[i, k] / norm[k]) for k in range(len(powers))] for i in range(len(basis))]
    )
    b = np.array([float(e / unit) for e in err])
    one = np.ones((len(b), 1))
    res = linprog(
        [0] * len(powers) + [1],
        A_ub=np.block([[-a, -one], [a, -one]]),
        b_ub=np.concatenate([-b, b]),
        bounds=[(-1e3, 1e3)] * len(powers) + [(0, None)],
        method="highs",
    )
    if res.status != 0:
        return c
    return [
        v + mpfr(float(d)) * unit / norm[k] / mpfr(top) ** p
        for k, (v, d, p) in enumerate(zip(c, res.x, powers))
    ]


def round_to(x, bits):
    """x rounded to `bits` significant bits (53 a double, 24 a float)."""
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        r = +mpfr(x)
    return mpfr(r)


def fit(f, lo, hi, powers, weight=None, bits=53, exact=None, points=N_POINTS):
    """Rounded coefficients of f over [lo, hi] and the weighted error that they reach.

    weight(x) multiplies the error; without it, the error is relative to f.  bits is a number for
    all coefficients or a list.  exact maps powers to coefficients that are given."""
    xs = grid(lo, hi, points)
    g = np.array([mpfr(f(x)) for x in xs], dtype=object)
    w = np.array([mpfr(weight(x)) if weight else 1 / abs(y) for x, y in zip(xs, g)], dtype=object)
    width = (
        dict(zip(powers, bits)) if isinstance(bits, (list, tuple)) else {p: bits for p in powers}
    )
    done = dict(exact or {})
    for p, v in done.items():
        g = g - mpfr(v) * power(xs, p)
    left = [p for p in powers if p not in done]
    c = list(remez(xs, g, w, left)[0]) if left else []
    while left:
        p, v = left.pop(0), c.pop(0)
        done[p] = round_to(v, width[p])
        g = g - done[p] * power(xs, p)
        if left:
            c = improve(xs, g, w, left, c)
    return [done[p] for p in powers], float(max(abs(w * g)))


def denominator(f, lo, hi, n, m, weight, points=200, rounds=8):
    """Coefficients of Q, Q(0) = 1, of degree m such that f Q is nearly a polynomial of n terms.

    Least squares of w (f Q - P) / Q, in which the Q that divides is that of the round before (Sanathanan, Koerner:
    Transfer function synthesis as a ratio of two complex polynomials, IEEE Transactions on Automatic Control 8, 1963)."""
    xs = grid(lo, hi, points)
    q = [mpfr(1)] + [mpfr(0)] * m
    for _ in range(rounds):
        rows, right = [], []
        for x in xs:
            y, s = mpfr(f(x)), mpfr(weight(x)) / sum(c * x**k for k, c in enumerate(q))
            rows.append([s * x**k for k in range(n)] + [-s * y * x**k for k in range(1, m + 1)])
            right.append(s * y)
        a, b = np.array(rows, dtype=object), np.array(right, dtype=object)
        q = [mpfr(1)] + list(solve(a.T.dot(a), a.T.dot(b))[n:])
    return q
