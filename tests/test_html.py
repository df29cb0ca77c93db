"""What a notebook shows of a Tensor: nothing is computed for it, little is formatted, and it is HTML."""
import html.parser
import re

import numpy as np
import pytest

import frit

MOST = 60 * 20     # elements that a table may have


class Page(html.parser.HTMLParser):
    """The cells of tables as rows, and all other text; every tag that begins ends."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.text, self.open = [], "", []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "tr" in self.open:
            self.rows[-1][-1] += data
        else:
            self.text += data


def page(t):
    before = frit.stats()
    found = Page(t._repr_html_())
    after = frit.stats()
    for name in ("pending_nodes", "evals", "kernels", "syncs", "nodes", "plans"):
        assert after[name] == before[name], name
    return found


def computed(array):
    t = frit.asarray(array) if isinstance(array, np.ndarray) else array
    frit.eval(t)
    return page(t)


def values(p, has_rows):
    """The cells of a table without its heads, as text without NumPy's padding."""
    return [[c.strip() for c in row[has_rows:]] for row in p.rows[1:]]


def test_a_pending_tensor_says_what_it_will_be_and_waits_for():
    x = frit.asarray(np.arange(12.0).reshape(3, 4))
    y = (x * 2 + 1).sum(axis=0)
    p = page(y)
    assert not p.rows
    assert p.text == "frit.Tensor shape (4,), float64, on cpu, 32 B; pending: it waits for 3 operations, whose values take 224 B"
    frit.eval(y)
    assert values(page(y), 0) == [["27.", "33.", "39.", "45."]]


def test_what_others_wait_for_does_not_count():
    x = frit.asarray(np.ones(1000, "f4"))
    near, far = x + 1, [frit.exp(x) for _ in range(5)]
    assert "waits for 1 operation, whose values take 4 kB" in page(near).text
    assert "waits for 1 operation," in page(far[0]).text
    window = near[10:20]
    assert "shape (10,), float32, on cpu, 40 B; pending: it waits for 1 operation, whose values take 4 kB" in page(window).text
    far.clear()


def test_a_computed_tensor_with_readers_that_wait_leaves_them():
    x = frit.asarray(np.arange(6.0)) + 0
    frit.eval(x)
    y = x * 3
    assert values(page(x), 0) == [["0.", "1.", "2.", "3.", "4.", "5."]]
    assert y._is_pending()
    x[:2] = 7
    assert "pending" in page(x).text
    assert y.tolist() == [0, 3, 6, 9, 12, 15] and x.tolist() == [7, 7, 2, 3, 4, 5]


@pytest.mark.parametrize("array", [
    np.arange(12.0).reshape(3, 4) / 7, np.array([1e300, 1.5, np.nan, -np.inf]), np.arange(6).reshape(2, 3).astype("i1"),
    np.array([[True], [False]]), np.array([1 + 2j, 3.5 - 1j]), np.arange(20, dtype="u8"), np.float16([[0.1, 0.2]]),
    np.arange(24.0).reshape(4, 6)[::2, ::-3]], ids=lambda a: f"{a.dtype}{a.shape}")
def test_cells_are_what_numpy_prints(array):
    p = computed(array)
    want = np.array2string(array.reshape(-1), separator="|", max_line_width=10**9)[1:-1].split("|")
    assert sum(values(p, array.ndim > 1), []) == [w.strip() for w in want]
    assert p.rows[0][array.ndim > 1:] == [str(i) for i in range(array.shape[-1])]


def test_of_a_large_one_the_corners():
    array = np.arange(100 * 30.0).reshape(100, 30)
    p = computed(array)
    rows, columns = [0, 1, 2, 3, 4, 95, 96, 97, 98, 99], [*range(10), *range(20, 30)]
    cells = [[c for c in row if c != "\u2026"] for row in values(p, 1)]
    cells = [row for row in cells if row]
    assert [[float(c) for c in row] for row in cells] == array[np.ix_(rows, columns)].tolist()
    assert [row[0] for row in p.rows] == ["", "0", "1", "2", "3", "4", "\u2026", "95", "96", "97", "98", "99"]
    assert {len(row) for row in p.rows} == {22}


@pytest.mark.parametrize("shape", [(10**6,), (3, 10**5), (10**5, 3), (60, 20), (61, 21), (4,) * 9, (1, 1, 5), (2, 3, 4)], ids=str)
def test_little_is_formatted(shape):
    array = np.ones(shape)
    formatted = []
    with np.printoptions(formatter={"float": lambda x: formatted.append(x) or f"{x:.1f}"}):
        p = computed(array)
    n = sum(c.strip() == "1.0" for row in p.rows for c in row)
    assert 0 < n <= len(formatted) <= MOST
    if array.ndim > 2:
        assert "[" + "0, " * (array.ndim - 2) + ":, :] is" in p.text


def test_without_elements_or_axes():
    assert "shape (0, 3), float64, on cpu, 0 B" in computed(np.empty((0, 3))).text
    p = computed(frit.asarray(2.5))
    assert p.rows == [["2.5"]] and "shape ()," in p.text


def test_text_is_escaped():
    with np.printoptions(formatter={"float": lambda x: f"<b>&\"{x:.0f}"}):
        t = frit.asarray(np.arange(2.0))
        frit.eval(t)
        assert values(page(t), 0) == [['<b>&"0', '<b>&"1']]
        assert t._repr_html_().count("<b>") == 1 and "&lt;b&gt;&amp;&quot;0" in t._repr_html_()


def test_a_formatter_that_writes_what_stands_between_cells():
    with np.printoptions(formatter={"float": lambda x: f"|{x:.0f}|"}):
        p = computed(np.arange(2.0))
    assert not p.rows and "|0|" in p.text and "|1|" in p.text


def test_without_data():
    shown = []
    def f(x):
        y = np.exp(x)
        shown.append(None)
        return y
    with frit.device("meta"):
        t = frit.zeros((2, 3)) + 1
        assert re.search(r"on meta, 48 B; pending: it waits for \d operations?", page(t).text)
        frit.eval(t)
    p = page(t)
    assert not p.rows and p.text.endswith("on meta, 48 B; without data")


def test_in_an_accelerated_call_it_is_the_array_that_it_stands_for():
    found = []

    class Looks:
        def at(self, x):
            found.append((type(x), getattr(x, "_repr_html_", lambda: None)(), repr(x)))
    looks = Looks()

    @frit.accelerate
    def f(x):
        y = np.exp(x) - 1
        looks.at(y)
        return y
    f(np.zeros(3))
    assert found == [(np.ndarray, None, "array([0., 0., 0.])")]
