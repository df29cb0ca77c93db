"""Runs a case of functions.py in two equal modules, in one of them under frit.accelerate, and says what differs.

A case is a list of lines, each an item of its kind, so that a failure is made small by leaving lines out (shrink.py):

    m: W = data('f8', (3,), 1)      a line of the module
    c: c0 = W                       a cell: a variable of the function that makes f
    h: def h0(x):                   a line of a helper of the module, indented as it stands
    a: a0 = W[1:]                   an argument of f: its name, and what it is at first
    d: d0 = W                       a parameter with a default, which calls leave alone
    s: v0 = a0 + 1                  a line of f, indented as it stands in f
    t: W[:] = 3                     what is done before the next call, in the namespace of the module
    t: CALL                         a call of f, whose result is r from then on

After every call everything that a caller can reach is compared: the result, the arguments, the module's variables, the
cells, and the results of the calls before; of each its type, bits, dtype, shape and strides, which of them are one object, and
which of them share memory."""
import re
import types
import warnings

import numpy as np

import frit

from ..common import difference

KEPT = 4                # results of earlier calls that are looked at again
MANY = 200              # arrays, lists and so on of which one comparison takes notice
INEXACT = re.compile(r"np\.(exp|log|sin|cos|tanh|log1p|expm1|hypot|arctan2)\(")
ULP = 5                 # NumPy's own error is up to 4, and ours up to 1
# Last places that are not promised, of values with which the function goes on, so that any difference of them may be one of
# what comes out: logarithms, and of complex numbers what does more than add and move.
ROUGH = re.compile(r"np\.log\(")
ROUGH_COMPLEX = re.compile(r"\b(abs|sign|sqrt|mean|std|square|prod)\(|/|reciprocal")
COARSE = (("'f2'", 1e-2), ("'f4'", 1e-4), ("'c8'", 1e-4))  # such a difference beside the largest element, by what is in the case
FINE = 1e-10
STEPS = re.compile(r"\b(floor|ceil|trunc|rint|round|int|sign|astype)\(|//|%|divmod|argm|argsort")     # make anything of a last place
# Of a positive and a negative zero these take one or the other, as NumPy's vectors have it.
EXTREMES = re.compile(r"\b(max|min|fmax|fmin|nanmax|nanmin|ptp)\(")
STARTS_BLOCK = re.compile(r"(if|elif|else|for|while|with|try|except|finally|def|class|match .*|case .*)\b.*:$")


class Box:
    """An object with attributes."""

    def __init__(self, **values):
        vars(self).update(values)

    def scaled(self, x):
        return x * self.w


def data(dtype, shape, seed, order="C"):
    """An array of small numbers, whose sums and products are exact; one in six floating ones has special values."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        a = rng.integers(0, 2, n).astype(bool)
    elif dtype.kind in "iu":
        a = rng.integers(0 if dtype.kind == "u" else -4, 6, n)
    else:
        a = rng.integers(-16, 25, n) / 4
        a = np.where(a == 0, 0.0, a)
        if dtype.kind == "c":
            a = a + 1j * (rng.integers(-8, 9, n) / 4)
        elif seed % 6 == 0:
            s = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
            a = np.where(rng.random(n) < 0.15, s[rng.integers(0, len(s), n)], a)
    return np.array(a.astype(dtype).reshape(shape), order=order)


# ---- from lines to a module

def block(lines, indent):
    """Lines as a block: what lost its header moves out, what lost its lines gets a pass."""
    text, level, opened = [], 0, True
    for line in lines:
        own = (len(line) - len(line.lstrip())) // 4
        line = line.lstrip()
        deepest = level + 1 if opened and text else level
        if opened and text and own <= level:
            text.append("    " * (level + 1) + "pass")
        level, opened = min(own, deepest), bool(STARTS_BLOCK.match(line))
        text.append("    " * level + line)
    if opened:
        text.append("    " * (level + 1 if text else 0) + "pass")
    return "".join(f"{' ' * indent}{line}\n" for line in text)


def of_kind(lines, kind):
    return [line[3:] for line in lines if line[0] == kind]


def names_of(lines, kind):
    return [line.split(" = ")[0] for line in of_kind(lines, kind)]


def module_text(lines):
    """The module: its variables, its helpers, f, and the arguments."""
    body, args, defaults, cells = (of_kind(lines, k) for k in "sadc")
    names = [*names_of(lines, "a"), *defaults]
    stored = {k for line in body for k in re.findall(r"(?<![\w.\[(])([A-Z]\w*|c\d+) (?:=|[-+*/]=)(?!=)", line)}
    declared = [f"global {k}" for k in sorted(stored) if k[0] != "c"] + [f"nonlocal {k}" for k in sorted(stored) if k[0] == "c"]
    helpers = of_kind(lines, "h")
    text = "".join(line + "\n" for line in of_kind(lines, "m")) + (block(helpers, 0) if helpers else "")
    f = f"def f({', '.join(n.replace(' = ', '=') for n in names)}):\n" + block(declared + body, 4)
    if cells:
        cell_names = names_of(lines, "c")
        inner = "".join(f"    {line}\n" for line in f.splitlines())
        setters = "".join(f"    def set_{c}(x):\n        nonlocal {c}\n        {c} = x\n    def get_{c}():\n        return {c}\n"
                          for c in cell_names)
        both = ", ".join(f"set_{c}, get_{c}" for c in cell_names)
        text += (f"def make({', '.join(cell_names)}):\n{inner}{setters}    return f, {both}\n"
                 f"f, {both} = make({', '.join(line.split(' = ', 1)[1] for line in cells)})\n")
    else:
        text += f
    return text + "f = accelerate(f)\n" + "".join(line + "\n" for line in args)


def script(lines):
    """The case as somebody would read it."""
    call = call_text(lines)
    return module_text(lines) + "".join(("r = " + call if line == "CALL" else line) + "\n" for line in of_kind(lines, "t"))


def call_text(lines):
    return f"f({', '.join(names_of(lines, 'a'))})"


FILE = "<function>"
SHARED = {"np": np, "data": data, "Box": Box}


class World:
    """A module in which the case runs."""

    def __init__(self, lines, accelerate):
        self.module = types.ModuleType("case")
        self.names = vars(self.module)
        self.names.update(SHARED, accelerate=accelerate, r=None, kept=[])
        exec(compile(module_text(lines), FILE, "exec"), self.names)
        self.call_code = compile(call_text(lines), "<call>", "eval")
        self.roots = [*names_of(lines, "a"), *names_of(lines, "d"),
                      *(n for n in names_of(lines, "m") if n.isidentifier())]
        self.getters = [f"get_{c}" for c in names_of(lines, "c")]

    def step(self, code):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(code, self.names)

    def call(self):
        """How the call ended: (type of exception or None, its line, what it says)."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                self.names["r"] = eval(self.call_code, self.names)
        except Exception as e:
            line, tb = None, e.__traceback__
            while tb:
                if tb.tb_frame.f_code.co_filename == FILE:
                    line = tb.tb_lineno
                tb = tb.tb_next
            self.names["r"] = None
            return type(e), line, str(e)
        return None, None, ""

    def keep(self):
        kept = self.names["kept"]
        kept.append(self.names["r"])
        del kept[:-KEPT]

    def reachable(self):
        """[(where, object)] of all that a caller can reach, each object once, and {id: number of its place}."""
        found, places = [], {}
        todo = [(n, self.names[n]) for n in ["r", *self.roots, "kept"] if n in self.names]
        for g in self.getters:
            try:
                todo.append((g, self.names[g]()))
            except NameError:       # a cell that was deleted
                pass
        todo.reverse()
        while todo and len(found) < MANY:
            where, x = todo.pop()
            plain = isinstance(x, (int, float, complex, str, type(None), np.generic))
            if not plain and id(x) in places:
                found.append((where, Again(places[id(x)])))
                continue
            if not plain:
                places[id(x)] = len(found)
            found.append((where, x))
            if isinstance(x, (list, tuple)):
                todo += reversed([(f"{where}[{i}]", v) for i, v in enumerate(x)])
            elif isinstance(x, dict):
                todo += reversed([(f"{where}[{k!r}]", v) for k, v in x.items()])
            elif isinstance(x, Box):
                todo += reversed([(f"{where}.{k}", v) for k, v in sorted(vars(x).items())])
        return found


class Again:
    """What was met before at this place."""

    def __init__(self, place):
        self.place = place


# ---- the judge

def roughness(lines):
    """How far results may be off beside the largest of them; 0: not at all."""
    text = "\n".join(lines)
    if not (ROUGH.search(text) or re.search(r"data\('c\d", text) and ROUGH_COMPLEX.search(text)):
        return 0
    if STEPS.search(text):
        return float("inf")
    return max([FINE, *(r for dtype, r in COARSE if dtype in text)])


def is_close(mine, theirs, rough):
    """Whether two arrays of one shape are the same but for what is not promised."""
    with np.errstate(all="ignore"):
        a, b = np.asarray(mine).astype(complex), np.asarray(theirs).astype(complex)
        finite = np.isfinite(b)
        off, most = np.abs(a[finite] - b[finite]), np.abs(b[finite])
        return bool((np.isfinite(a) == finite).all() and (off <= rough * most.max(initial=1)).all())


def wrong_object(mine, theirs, ulp, rough, extremes):
    """What is different between two objects, their members aside; None or (kind, sentence)."""
    if isinstance(theirs, Again) or isinstance(mine, Again):
        a, b = ("a new object" if not isinstance(x, Again) else f"the object number {x.place}" for x in (mine, theirs))
        return None if a == b else ("identity", f"{a} instead of {b}")
    if type(mine) is not type(theirs):
        return "type", f"{type(mine).__name__} instead of {type(theirs).__name__} ({mine!r:.80} for {theirs!r:.80})"
    if isinstance(theirs, (np.ndarray, np.generic)):
        if theirs.dtype.kind not in "biufc":
            return None if repr(mine) == repr(theirs) else ("value", f"{mine!r} instead of {theirs!r}")
        wrong = difference(mine, theirs, ulp, strides=isinstance(theirs, np.ndarray))
        if wrong and extremes and theirs.dtype.kind in "fc" and not difference(mine + 0, theirs + 0, ulp):
            wrong = None
        if wrong and rough and theirs.dtype.kind in "fc" and (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape) and (
                not wrong.startswith("strides")) and is_close(mine, theirs, rough):
            wrong = None
        if wrong:
            return next((k for k in ("dtype", "shape", "strides") if wrong.startswith(k)), "value"), wrong
        if isinstance(theirs, np.ndarray) and mine.flags.writeable != theirs.flags.writeable:
            return "writeable", f"writeable is {mine.flags.writeable} instead of {theirs.flags.writeable}"
    elif isinstance(theirs, (list, tuple)):
        if len(mine) != len(theirs):
            return "value", f"{len(mine)} members instead of {len(theirs)}"
    elif isinstance(theirs, (dict, Box)):
        a, b = ([*(x if isinstance(x, dict) else sorted(vars(x)))] for x in (mine, theirs))
        if repr(a) != repr(b):      # (of NaN no two are equal)
            return "value", f"keys {a} instead of {b}"
    elif isinstance(theirs, (float, complex)):
        wrong = difference(np.asarray(mine), np.asarray(theirs), ulp)
        if wrong and not (extremes and mine == theirs) and not (rough and is_close(mine, theirs, rough)):
            return "value", f"{mine!r} instead of {theirs!r}"
    elif isinstance(theirs, (int, str, type(None))):
        return None if mine == theirs else ("value", f"{mine!r} instead of {theirs!r}")
    return None


def sharing(found):
    """The pairs of places whose arrays share memory."""
    arrays = [(i, x) for i, (_, x) in enumerate(found) if type(x) is np.ndarray and x.size]
    return {(i, j) for k, (i, a) in enumerate(arrays) for j, b in arrays[:k] if np.may_share_memory(a, b) and shares(a, b)}


def shares(a, b):
    try:
        return np.shares_memory(a, b, max_work=10_000)
    except Exception:
        return True


def compare_worlds(mine, theirs, *promised):
    """None or (kind, sentence) about all that can be reached."""
    a, b = mine.reachable(), theirs.reachable()
    for (where, x), (other, y) in zip(a, b):
        wrong = wrong_object(x, y, *promised) if where == other else ("value", f"{where} where NumPy's has {other}")
        if wrong:
            return wrong[0], f"{where}: {wrong[1]}"
    if len(a) != len(b):
        return "value", f"{len(a)} objects instead of {len(b)}"
    wrong = sharing(a) ^ sharing(b)
    if wrong:
        i, j = min(wrong)
        return "sharing", f"{a[i][0]} and {a[j][0]} share memory " + ("with NumPy only" if (i, j) in sharing(b) else "with frit only")
    return None


INVALID = NameError, SyntaxError, AssertionError    # what a case that was shrunk too far raises


def judge(lines, accelerate=frit.accelerate):
    """None when the accelerated function does what the function does, else (kind, sentence). A case that means nothing is a
    ValueError."""
    text = "\n".join(lines)
    promised = ULP if INEXACT.search(text) else 0, roughness(lines), bool(EXTREMES.search(text))
    try:
        steps = [(line, None if line == "CALL" else compile(line, "<step>", "exec")) for line in of_kind(lines, "t")]
        theirs = World(lines, lambda f: f)
    except Exception as e:
        raise ValueError("not a case") from e
    try:
        mine = World(lines, accelerate)
    except Exception as e:
        return "decorating", f"{type(e).__name__}: {e}"
    n = 0
    for line, code in steps:
        if code is not None:
            try:
                theirs.step(code)
            except Exception as e:
                raise ValueError("not a case") from e
            try:
                mine.step(code)
            except Exception as e:
                return "step", f"before call {n}: {line}: {type(e).__name__}: {e}"
            continue
        want = theirs.call()
        if want[0] and issubclass(want[0], INVALID):
            raise ValueError("not a case") from want[0](want[2])
        got = mine.call()
        if got[0] is not want[0]:
            told = [f"{e.__name__} ({what})" if e else "no exception" for e, _, what in (got, want)]
            return "exception", f"call {n}: {told[0]} instead of {told[1]}"
        if got[1] != want[1]:
            return "line", f"call {n}: {got[0].__name__} at line {got[1]} instead of {want[1]} ({got[2]})"
        wrong = compare_worlds(mine, theirs, *promised)
        if wrong:
            return wrong[0], f"call {n}: {wrong[1]}"
        mine.keep(), theirs.keep()
        n += 1
    return None
