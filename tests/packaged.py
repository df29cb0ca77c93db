"""What an installed frit must do, without pytest: cibuildwheel runs this for each wheel, and test_packaging.py in several ways.

    python tests/packaged.py [FOLDER]       FOLDER: where frit must have come from"""
import os
import sys

import numpy as np

import frit

here = os.path.dirname(frit.__file__)
assert len(sys.argv) < 2 or here == os.path.join(sys.argv[1], "frit"), here
assert all(os.path.exists(os.path.join(here, name)) for name in ("py.typed", "_core.pyi", "__init__.pyi", "frit-cc"))
assert os.access(os.path.join(here, "frit-cc"), os.X_OK)

x = np.linspace(0, 1, 100_000).reshape(100, 1000)
for _ in range(3):
    t = frit.asarray(x)
    assert np.array_equal(np.asarray((t * 2 + 1).sum(axis=1)), (x * 2 + 1).sum(axis=1))
    frit.wait_for_compiles(60)
assert np.array_equal(frit.accelerate(lambda a: np.sqrt(a) + a)(x), np.sqrt(x) + x)
print("compiled", frit.stats()["compiled"], "interpreted", frit.stats()["interpreted"])
