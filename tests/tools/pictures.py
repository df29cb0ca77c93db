"""python tests/tools/pictures.py: the pictures in docs/pictures/, of pages as Chromium shows them, in few colours (Pillow)."""
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

os.environ["FRIT_CACHE"] = "0"      # of a machine that nobody has measured

import frit  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH = 1000


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def norm(x):
    d = x - x.mean(axis=1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5)


def train(x, y, w, v):
    for _ in range(30):
        h = gelu(norm(x @ w))
        p = softmax(h @ v)
        loss = -(y * np.log(p + 1e-9)).sum(axis=1).mean()
        if loss < 0.01:
            break
        v = v - 0.1 * (h.T @ (p - y)) / len(x)
    return np.sort(p, axis=1)


def arguments(n):
    r = np.random.default_rng(1)
    return r.random((n, 128)), np.eye(10)[r.integers(0, 10, n)], r.standard_normal((128, 64)) * 0.1, r.standard_normal((64, 10)) * 0.1


def main():
    browser = shutil.which("chromium") or sys.exit("no chromium (Debian: apt-get install chromium)")
    explained = frit.explain(train)(*arguments(4096))
    a, b = (frit.estimate(train, unknown=1.0)(*arguments(n)) for n in (2048, 4096))
    step, given = frit.accelerate(train), arguments(4096)
    for _ in range(3):
        step(*given)
    frit.wait_for_compiles()
    with frit.profile(name="train, five times") as p:
        for _ in range(5):
            with frit.scope("epoch"):
                step(*given)
    with tempfile.TemporaryDirectory() as folder:
        for name, page, scheme, height in (("explain", explained.html(), 1, 1500), ("explain-dark", explained.html(), 0, 1500),
                                           ("profile", p.html(), 1, 3000),
                                           ("estimate", a.html(), 1, 2250), ("difference", b.diff(a).html(), 1, 1400)):
            path = os.path.join(folder, name + ".html")
            with open(path, "w", encoding="utf8") as file:
                file.write(page.replace(ROOT + "/tests/tools/", ""))
            subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{height}",
                            f"--blink-settings=preferredColorScheme={scheme}", f"--user-data-dir={folder}/profile",
                            f"--screenshot={folder}/{name}.png", "file://" + path], check=True, capture_output=True, timeout=120)
            with Image.open(f"{folder}/{name}.png") as picture:
                picture.convert("RGB").quantize(200).save(f"{ROOT}/docs/pictures/{name}.png", optimize=True)


if __name__ == "__main__":
    main()
