"""Runs a script of scripts.py twice, by NumPy and with frit.accelerate, and says what differs.

A script is a list of lines. It calls what it accelerates in its lines `r = ...`, which do not end it when they raise. After
each of them, and at its end, a portrait of everything that its names lead to is taken: of each object its type and value,
which objects are one, which arrays share memory, and of what was raised type, text and lines. Both portraits are equal,
and no object of frit's is anywhere, neither where the names lead nor in any container that Python knows."""
import collections
import functools
import gc
import io
import queue
import random
import re
import signal
import sys
import types
import warnings
import weakref

import numpy as np

import frit

from .worlds import block, shares

FILE = "<script>"
HEAD = "import numpy as np\nfrom frit import accelerate\n"
MANY = 600                                      # objects of which one portrait takes notice
PRODUCTS = re.compile(r" @ |dot|norm|outer|einsum|inner")   # whose last places are the library's
EXTREMES = re.compile(r"max|min|clip|sort|where|abs")
CLOSE = 1e-9
SECONDS = 10
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")
WRAPPER = type(frit.accelerate(lambda: None))
PLAIN = int, float, complex, str, bytes, type(None), bool, np.generic, np.dtype, range, slice, type(Ellipsis)
SKIPPED = types.ModuleType, types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType
ADDRESS = re.compile(r" at 0x\w+")
SHAPES = re.compile(r"; the shapes are [^'\"]*|(?<=\) )\(\w+\)")      # what frit says beside what NumPy says


def script(lines):
    """The script as somebody would paste it."""
    return HEAD + block(lines, 0)


def segments(lines):
    """[(first line, text, whether it is a call)], or ValueError."""
    out, start = [], 0
    lines = block(lines, 0).splitlines()
    for i, line in enumerate(lines + ["r = "]):
        if line.startswith("r = "):
            if i > start:
                out.append((start, "\n".join(lines[start:i]), False))
            if i < len(lines):
                out.append((i, line, True))
            start = i + 1
    try:
        return [(compile("\n" * first + text, FILE, "exec"), called) for first, text, called in out]
    except SyntaxError as e:
        raise ValueError("not a script") from e


class Shows:
    """What is seen of a value, so that it can be compared when the value is gone."""

    def __init__(self, where, told, value=None):
        self.where, self.told, self.value = where, told, value


class Portrait:
    def __init__(self, names):
        self.shown, self.leaks, self.places, self.arrays, self.alive = [], [], {}, [], []
        todo = [(k, v) for k, v in reversed(names.items()) if not k.startswith("__") and k not in ("accelerate", "np")]
        while todo and len(self.shown) < MANY:
            self.look(*todo.pop(), todo)
        self.bases = [(where, self.places.get(id(a.base)) if type(a.base) is np.ndarray else None) for where, a in self.arrays]
        self.shared = sorted((a, b) for k, (a, x) in enumerate(self.arrays) for b, y in self.arrays[:k]
                             if np.may_share_memory(x, y) and shares(x, y))
        self.arrays, self.alive = [], []

    def say(self, where, told, value=None):
        self.shown.append(Shows(where, told, value))

    def look(self, where, x, todo):
        while type(x) is WRAPPER or isinstance(x, types.FunctionType) and x.__code__.co_filename != FILE and hasattr(x, "__wrapped__"):
            x = x.__wrapped__           # what was decorated
        kind = type(x)
        if is_ours(x):
            self.leaks.append(f"{where} is a {kind.__module__}.{kind.__name__}")
            return
        if isinstance(x, SKIPPED):
            return
        if isinstance(x, PLAIN):
            return self.say(where, kind.__name__, np.asarray(x) if isinstance(x, (np.number, float, complex)) else
                            ADDRESS.sub("", repr(x)))
        if id(x) in self.places:
            return self.say(where, f"object {self.places[id(x)]}")
        self.places[id(x)] = len(self.shown)
        self.alive.append(x)
        if isinstance(x, np.ndarray):
            self.arrays.append((where, x))
            self.say(where, f"{kind.__name__} {x.dtype.str}{x.shape} {strides(x)} {'' if x.flags.writeable else 'read-only'}",
                     np.array(x) if x.dtype.kind in "biufc" else repr(x))
            if x.dtype == object:
                todo += parts(where, enumerate(x.ravel().tolist()))
            return
        text = kind.__name__
        inside = []
        if isinstance(x, types.FunctionType):
            text = f"function {x.__name__}"
            cells = zip(x.__code__.co_freevars, x.__closure__ or ())
            inside = [(f"{where}<{k}>", c.cell_contents) for k, c in cells if has_contents(c)]
            inside += parts(where + "()", enumerate(x.__defaults__ or ())) + parts(where + "()", (x.__kwdefaults__ or {}).items())
        elif isinstance(x, types.MethodType):
            inside = [(where + ".__self__", x.__self__), (where + ".__func__", x.__func__)]
        elif isinstance(x, types.GeneratorType):
            text += " ended" if x.gi_frame is None else f" at {x.gi_frame.f_lineno}"
            inside = [] if x.gi_frame is None else [(f"{where} local {k}", v) for k, v in x.gi_frame.f_locals.items() if k[0] != "."]
        elif isinstance(x, functools.partial):
            inside = parts(where, [("func", x.func), ("args", x.args), ("keywords", x.keywords)])
        elif isinstance(x, (dict, types.MappingProxyType)):
            told = [k if isinstance(k, PLAIN) else type(k).__name__ for k in x]
            text += f" of {told!r}"
            inside = [v for i, (k, value) in enumerate(x.items()) for v in ((f"{where}[{told[i]!r}]", value), (f"{where} key {i}", k))]
        elif isinstance(x, (list, tuple, collections.deque, set, frozenset)):
            text += f" of {len(x)}"
            inside = parts(where, enumerate(x if not isinstance(x, (set, frozenset)) else sorted(x, key=repr)))
        elif isinstance(x, queue.Queue):
            inside = parts(where, enumerate(x.queue))
        elif isinstance(x, BaseException):
            inside = [(where + ".args", x.args), (where + ".__dict__", vars(x))]
            inside += [(where + ".__cause__", x.__cause__)] if x.__cause__ is not None else []
        elif isinstance(x, memoryview):
            return self.say(where, f"memoryview {x.format} {x.shape} {x.strides}", x.tobytes())
        elif isinstance(x, (bytearray, io.StringIO)):
            return self.say(where, text, bytes(x) if isinstance(x, bytearray) else x.getvalue())
        elif isinstance(x, (np.random.RandomState, np.random.Generator)):
            state = [*x.get_state()] if isinstance(x, np.random.RandomState) else [repr(x.bit_generator.state)]
            return self.say(where, text, repr([k.tobytes() if isinstance(k, np.ndarray) else k for k in state]))
        elif isinstance(x, weakref.ref):
            inside = [(where + "()", x())]
        elif isinstance(x, types.SimpleNamespace) or kind.__module__ == "script":
            inside = [(f"{where}.{k}", getattr(x, k)) for c in kind.__mro__ for k in getattr(c, "__slots__", ())
                      if k not in ("__dict__", "__weakref__") and hasattr(x, k)]
            inside += parts_of(where, getattr(x, "__dict__", {}))
        elif isinstance(x, type) and x.__module__ == "script":
            text = f"class {x.__name__}"
            inside = parts_of(where, {k: v for k, v in vars(x).items() if not k.startswith("__") or k in ("__call__", "__getitem__")})
        elif isinstance(x, (classmethod, staticmethod)):
            inside = [(where, x.__func__)]
        elif isinstance(x, property):
            inside = [(where, x.fget), (where, x.fset)]
        self.say(where, text)
        todo += reversed(inside)


def strides(x):
    """As far as elements lie that far apart."""
    return tuple(s if n > 1 else 0 for n, s in zip(x.shape, x.strides)) if x.size else ""


def has_contents(cell):
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def parts(where, items):
    return [(f"{where}[{k!r}]", v) for k, v in items]


def parts_of(where, names):
    return [(f"{where}.{k}", v) for k, v in names.items()]


def is_ours(x):
    """Whether it is of a type of frit's, other than what accelerate makes."""
    t = type(x)
    return t is not WRAPPER and str(t.__module__).split(".")[0] == "frit"


def tensors(x):
    return issubclass(type(x), frit.Tensor)     # (a weak proxy says what it stands for)


def unplain(a, extremes):
    """Of what is promised the same for both: any NaN is one, and zeros that extremes choose among have no sign."""
    if not isinstance(a, np.ndarray) or a.dtype.kind not in "fc":
        return a
    a = np.where(np.isnan(a), a.dtype.type(np.nan), a)
    return a + 0 if extremes else a


def is_close(a, b):
    with np.errstate(all="ignore"):
        a, b = a.astype(complex), b.astype(complex)
        finite = np.isfinite(b)
        return bool((np.isfinite(a) == finite).all() and (abs(a[finite] - b[finite]) <= CLOSE * np.abs(b[finite]).max(initial=1)).all())


def same_text(a, b, extremes, products):
    a = SHAPES.sub("", a)
    if extremes:
        a, b = (re.sub(r"-(0\.(?!\d*[1-9]))", r"\1", k) for k in (a, b))
        a, b = (re.sub(r" +", " ", k) for k in (a, b))
    if a == b or not products:
        return a == b
    x, y = ([float(k) for k in NUMBER.findall(t)] for t in (a, b))
    return re.sub(r"\s+", "", NUMBER.sub("#", a)) == re.sub(r"\s+", "", NUMBER.sub("#", b)) and is_close(np.array(x), np.array(y))


def unlike(mine, theirs, extremes, products, left_out=()):
    """None or (kind, sentence) about two portraits, theirs being NumPy's; kinds in left_out are not looked for."""
    for a, b in zip(mine.shown, theirs.shown):
        if a.where != b.where:
            return "value", f"{a.where} where NumPy has {b.where}"
        if a.told != b.told:
            kind = "read-only" if a.told.replace("read-only", "") == b.told.replace("read-only", "") else "identity" if "object " in a.told + b.told else "value" if a.told.split()[0] == b.told.split()[0] else "type"
            return kind, f"{a.where}: {a.told} instead of {b.told}"
        if isinstance(b.value, np.ndarray):
            x, y = unplain(a.value, extremes), unplain(b.value, extremes)
            if (x.dtype, x.shape) != (y.dtype, y.shape) or x.tobytes() != y.tobytes() and not (products and is_close(x, y)):
                return "value", f"{a.where}: {a.value!r:.150} instead of {b.value!r:.150}"
        elif a.value != b.value and not (isinstance(b.value, str) and same_text(a.value, b.value, extremes, products)):
            if "frit." not in str(a.value):
                return "text", f"{a.where}: {a.value!r:.300} instead of {b.value!r:.300}"
            if "named" not in left_out:
                return "named", f"{a.where}: {a.value!r:.300} instead of {b.value!r:.300}"
    if len(mine.shown) != len(theirs.shown):
        return "value", f"{len(mine.shown)} objects instead of {len(theirs.shown)}"
    if mine.shared != theirs.shared:
        pair = sorted(set(mine.shared) ^ set(theirs.shared))[0]
        return "sharing", f"{pair[0]} and {pair[1]} share memory with {'frit' if pair in mine.shared else 'NumPy'} only"
    for (where, a), (_, b) in zip(mine.bases, theirs.bases):
        if a != b and "bases" not in left_out:
            told = ["no object that is there" if k is None else f"object {k}" for k in (a, b)]
            return "bases", f"{where}.base: {told[0]} instead of {told[1]}"
    return None


def run(lines, accelerate):
    """What happens: [(what was raised or None, portrait)], one for each call and one at the end."""
    code = segments(lines)
    module = types.ModuleType("script")
    names = vars(module)
    names.update(np=np, accelerate=accelerate, r=None)
    before, sys.modules["script"] = sys.modules.get("script"), module
    np.random.seed(5)
    random.seed(5)
    out = []
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for part, called in code:
                try:
                    raised = None
                    exec(part, names)
                except Exception as e:
                    raised, lines_at, tb = e, [], e.__traceback__
                    while tb:
                        if tb.tb_frame.f_code.co_filename == FILE:
                            lines_at.append(tb.tb_lineno)
                        tb = tb.tb_next
                    names["r"] = e.args
                    raised = type(e).__name__, ADDRESS.sub("", str(e)), lines_at
                    e.__traceback__ = None
                    del e, tb
                if raised and not called:
                    out.append((raised, Portrait(names)))
                    return out, names
                if called:
                    out.append((raised, Portrait(names)))
                    if out[-1][1].leaks or in_containers():
                        return out, names
            out.append((None, Portrait(names)))
        return out, names
    finally:
        if before is None:
            del sys.modules["script"]
        else:
            sys.modules["script"] = before


_others = set()   # containers that held tensors before: other tests'


def in_containers():
    """Where Python's collector sees tensors: in containers that are not frit's."""
    return [f"a {type(o).__name__} {sorted(o)[:8] if type(o) is dict else ''}" for o in _containers() if id(o) not in _others]


def _containers():
    objects, found = gc.get_objects(), []
    if not any(issubclass(t, frit.Tensor) for t in {*map(type, gc.get_referents(*objects)), *map(type, objects)}):
        return found
    for o in objects:
        if o is objects:
            continue
        if tensors(o) or not is_ours(o) and type(o) is not WRAPPER and any(map(tensors, gc.get_referents(o))):
            found.append(o)
    return [o for o in found if type(o) is not types.FrameType]


NOT_A_SCRIPT = "NameError", "UnboundLocalError", "SyntaxError"


class Hangs(BaseException):
    """A script that does not end."""


def hangs(*_):
    raise Hangs


def limited(lines, accelerate):
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        return run(lines, accelerate)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(lines, left_out=(), accelerate=frit.accelerate):
    """None when accelerating changes nothing, else (kind, sentence). What means nothing is a ValueError."""
    _others.clear()
    _others.update(map(id, _containers()))
    try:
        theirs, names = limited(lines, lambda f, **kw: f)
    except Hangs:
        raise ValueError("not a script") from None
    if theirs[-1][0] or any(raised and raised[0] in NOT_A_SCRIPT for raised, _ in theirs):
        raise ValueError("not a script") from RuntimeError(next(raised for raised, _ in theirs[::-1] if raised))
    names.clear()
    try:
        mine, names = limited(lines, accelerate)
    except Hangs:
        return "hangs", f"for {SECONDS} seconds"
    text = "\n".join(lines)
    extremes, products = bool(EXTREMES.search(text)), bool(PRODUCTS.search(text))
    try:
        for i, ((raised, portrait), (wanted, original)) in enumerate(zip(mine, theirs)):
            at = f"after call {i}"
            if (raised and raised[0]) != (wanted and wanted[0]):
                told = [f"{w[0]} ({w[1]}) at {w[2]}" if w else "no exception" for w in (raised, wanted)]
                return "exception", f"{at}: {told[0]} instead of {told[1]}"
            if portrait.leaks:
                return "leak", f"{at}: {portrait.leaks[0]}"
            wrong = unlike(portrait, original, extremes, products, left_out)
            if wrong:
                return wrong[0], f"{at}: {wrong[1]}"
            if raised and not same_text(raised[1], wanted[1], extremes, products) and not (
                    "frit." in raised[1] and "named" in left_out):
                return "named" if "frit." in raised[1] else "message", f"{at}: {raised[0]} says {raised[1]!r} instead of {wanted[1]!r}"
            if raised and raised[2] != wanted[2]:
                return "line", f"{at}: {raised[0]} ({raised[1]}) at lines {raised[2]} instead of {wanted[2]}"
        left = in_containers()
        if left:
            gc.collect()
            again = in_containers()
            return ("left", f"after call {len(mine) - 1}: {again[0]} holds a tensor") if again else (
                "left in garbage", f"after call {len(mine) - 1}: {left[0]} holds a tensor")
        if len(mine) != len(theirs):
            return "value", f"{len(mine)} portraits instead of {len(theirs)}"
    finally:
        names.clear()
    return None
