"""Random numbers by Philox4x32-10, a counter-based generator.

Element i of a stream is a function of the seed and of i alone, so the numbers do not depend on
threads, devices or on what else is computed in the same kernel, and drawing them fuses like any other
operation.  `philox(key)` takes the 64-bit key as it is; `default_rng(seed)` mixes the seed first.

Every other name is numpy.random's, with NumPy's own streams: seed, rand, randn, choice, permutation, RandomState."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as _numpy

from . import _core, _handed_over, _no_such_name

_Size = int | tuple[int, ...] | None
_U64 = (1 << 64) - 1


class Generator:
    """A stream of random numbers: a key, and how many have been drawn.

        >>> g = frit.random.default_rng(7)
        >>> g.integers(0, 10, size=(2, 3)).shape
        (2, 3)

    `size` is an int or a tuple, and the result a Tensor of that shape, which is drawn when it is needed; None: one number of
    Python's. ValueError: a size below 0. The source is Philox4x32-10 (Salmon and others, Parallel random numbers: as easy as
    1, 2, 3; 2011), held against its published vectors."""

    def __init__(self, key: int) -> None:
        self._key = int(key) & _U64
        self._drawn = 0

    def __repr__(self) -> str:
        return f"frit.random.Generator(key={self._key:#018x}, drawn={self._drawn})"

    @property
    def state(self) -> dict[str, int]:
        """The key and the position; assign it to go back to a place in the stream.

            >>> g = frit.random.philox(3)
            >>> before = g.state
            >>> first = g.random()
            >>> g.state = before
            >>> g.random() == first
            True
        """
        return {"key": self._key, "drawn": self._drawn}

    @state.setter
    def state(self, value: dict[str, int]) -> None:
        self._key, self._drawn = int(value["key"]) & _U64, int(value["drawn"])

    def _draw(self, function: Callable[..., Any], size: _Size, dtype: Any) -> Any:
        shape = () if size is None else (size,) if isinstance(size, (int, _numpy.integer)) else tuple(size)
        if any(d < 0 for d in shape):
            raise ValueError("negative dimensions are not allowed")
        n = 1
        for d in shape:
            n *= int(d)
        counter = _core.arange(n, dtype=_numpy.uint64) + _numpy.uint64(self._drawn & _U64)
        self._drawn += n
        out = function(counter, _numpy.uint64(self._key), dtype=_numpy.dtype(dtype)).reshape(shape)
        return out.item() if size is None else out

    def bits(self, size: _Size = None) -> Any:
        """64 random bits each, as uint64; without a size a Python int."""
        return self._draw(_core.random_bits, size, _numpy.uint64)

    def random(self, size: _Size = None, dtype: Any = _numpy.float64) -> Any:
        """Uniform in [0, 1), multiples of 2**-53 (float64) or 2**-24 (float32)."""
        return self._draw(_core.random_uniform, size, dtype)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: _Size = None, dtype: Any = _numpy.float64) -> Any:
        """Uniform in [low, high), float64 or float32; high itself can come where low + (high - low) is rounded to it."""
        return self.random(size, dtype) * (high - low) + low

    def standard_normal(self, size: _Size = None, dtype: Any = _numpy.float64) -> Any:
        """Normal with mean 0 and deviation 1, float64 or float32, by Box and Muller."""
        return self._draw(_core.random_normal, size, dtype)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: _Size = None, dtype: Any = _numpy.float64) -> Any:
        """Normal with mean `loc` and deviation `scale`."""
        return self.standard_normal(size, dtype) * scale + loc

    def integers(self, low: int, high: int | None = None, size: _Size = None) -> Any:
        """Integers from low to high - 1, or 0 to low - 1, as int64.  No number is favoured by more than
        (high - low) / 2**64.  ValueError: high is not above low."""
        low, high = (0, low) if high is None else (low, high)
        span = int(high) - int(low)
        if not 0 < span <= 1 << 63:
            raise ValueError(f"integers(): low={low} is not below high={high}")
        bits = self.bits(size)
        if size is None:
            return bits % span + low
        return (bits % _numpy.uint64(span)).astype(_numpy.int64) + int(low)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """A copy of `x`, or of the numbers below it, in a random order along one axis: its rows are moved as they are.
        AxisError: it has no such axis."""
        x = _core.arange(x) if isinstance(x, (int, _numpy.integer)) else _core.asarray(x)
        if not -x.ndim <= axis < x.ndim:
            raise _numpy.exceptions.AxisError(axis, x.ndim)
        return _core.take(x, _core.argsort(self.bits(x.shape[axis])), axis=axis)

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """The same of a Tensor or ndarray in place."""
        x[...] = self.permutation(x, axis)


def philox(key: int) -> Generator:
    """The stream with exactly this 64-bit key."""
    return Generator(key)


def default_rng(seed: Any = None) -> Generator:
    """A stream for `seed`: an int, a sequence of ints, or None for one that nobody has had. The key is what
    numpy.random.SeedSequence makes of the seed. A Generator is returned itself.

        >>> float(frit.random.default_rng([1, 2]).random()) == float(frit.random.default_rng([1, 2]).random())
        True
    """
    if isinstance(seed, Generator):
        return seed
    return Generator(int(_numpy.random.SeedSequence(seed).generate_state(1, _numpy.uint64)[0]))


def __getattr__(name: str) -> Any:
    value = None if name.startswith("_") else getattr(_numpy.random, name, None)
    if value is None:
        raise _no_such_name(name, __name__, _numpy.random, __dir__)
    if callable(value) and not isinstance(value, type):
        value = _handed_over(value, "random." + name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in dir(_numpy.random) if not n.startswith("_"))})
