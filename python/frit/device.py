"""Devices: the processor and NVIDIA GPUs, `frit.devices()`; where what is new is made, `with frit.device("cuda"):`."""
from __future__ import annotations

from typing import Any

from . import _core


class device(str):
    """A device by its name: "cpu", "cuda" (which is "cuda:0"), "cuda:1" and so on. It is a string, and goes wherever a
    function has `device=`; in a with statement, what the thread makes in its block is made there:

        with frit.device("cuda"):
            x = frit.random.philox(7).uniform(size=1 << 20)     # on the GPU, and so is what is computed of it

    Arrays of NumPy's go wherever what they are computed with is, and where all operands are NumPy's, to the device of the
    block.

    "auto" is whichever takes less time for each kernel, by an estimate that counts copies; it is "cpu" where there
    is no GPU. The bits are the processor's, and what is on a device by its name stays there and goes with what is
    "auto" in one operation. `Tensor.device` of what is made so says "auto" until it is computed, for that decides,
    and then where it is; to ask computes nothing.

    ValueError: that is no name of a device; RuntimeError: there is no such device, or no driver, and why.
    """

    __slots__ = ()
    __module__ = "frit"

    def __new__(cls, name: str | None = None) -> device:
        return super().__new__(cls, _core.device_open(name))

    def __enter__(self) -> device:
        _core.device_enter(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _core.device_leave()

    def __repr__(self) -> str:
        return f"frit.device({str(self)!r})"

    @property
    def stream(self) -> int | None:
        """The handle (a CUstream's address) of the stream in which frit computes there, for other libraries to wait for; None
        for the processor."""
        return _core.device_stream(self)

    def memory(self) -> dict[str, int]:
        """What frit has of its memory: `live_bytes`, `peak_bytes` since the last frit.reset_stats(), `pooled_bytes` that are
        kept for reuse, and counts: `n_allocs`, `n_copies_in` from the host's memory, `n_copies_out` to it."""
        return _core.device_memory(self)


def devices() -> tuple[device, ...]:
    """All that there are, the processor first. That there is no driver for others is no error.

        >>> frit.devices()[0]
        frit.device('cpu')
    """
    return tuple(device(name) for name in _core.device_names())
