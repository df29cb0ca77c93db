"""Is an epoch of the demo's training loop, with its BLAS, faster under the decorator?"""
import numpy as np
import pytest

import frit
from frit import demo

from .common import assert_close, time_warm


@pytest.mark.parametrize("library", ["numpy", "frit"])
def test_epoch(benchmark, library):
    benchmark.group = "an epoch of the digits perceptron"
    images, labels, _, _ = demo.digits()
    order = np.random.default_rng(0).permutation(len(images))
    fast = frit.accelerate(demo.train_epoch)
    (p, v), (q, w) = demo.initial_state(1), demo.initial_state(1)
    assert_close(fast(images, labels, q, w, order), demo.train_epoch(images, labels, p, v, order), 1e-4)
    assert_close([a for layer in q for a in layer], [a for layer in p for a in layer], 1e-3)
    epoch = fast if library == "frit" else demo.train_epoch

    def work():
        epoch(images, labels, p, v, order)
    time_warm(benchmark, work, iterations=3)
