"""Runs modules of Python's library whose instructions have all been moved, in the running Python: argv[1] is python/frit, and
argv[2] what csrc/bind/accelerate/assemble.c has been compiled to, for the extension may not be there for this Python.

With NOPs before and behind each of those that may stand apart from their neighbours all jumps, protected ranges and lines have to follow; with very many of them
every jump needs prefixes."""
import ctypes as C
import importlib
import importlib.machinery
import sys
import traceback
import types

package = types.ModuleType("frit_bytecode")
package.__path__ = [sys.argv[1]]
sys.modules["frit_bytecode"] = package


class Opcodes(C.Structure):
    _fields_ = [("n_caches", C.c_uint8 * 256), ("jump", C.c_uint8 * 256), ("prefix", C.c_uint8), ("nothing", C.c_uint8)]


class Bytes(C.Structure):
    _fields_ = [("v", C.POINTER(C.c_uint8)), ("n", C.c_size_t), ("cap", C.c_size_t)]


class Code(C.Structure):
    _fields_ = [*((name, C.c_char_p) for name in ("code", "exceptions", "lines")),
                *((name, C.c_size_t) for name in ("n_code", "n_exceptions", "n_lines")),
                ("change", C.POINTER(C.c_int32) * 2), ("n_words", C.c_size_t * 2), ("again", C.c_int32)]


class Result(C.Structure):
    _fields_ = [("code", Bytes), ("exceptions", Bytes), ("lines", Bytes), ("second", C.c_int32)]


class Core(types.ModuleType):
    """The part of frit._core that _assemble.py has."""
    library = C.CDLL(sys.argv[2])
    library.fr_asm_replace.restype = C.c_bool

    def set_opcodes(self, caches, jumps, kinds, prefix, nothing):
        self.opcodes = Opcodes((C.c_uint8 * 256)(*caches), (C.c_uint8 * 256)(*jumps), prefix, nothing)
        self.prefix, self.caches = prefix, caches

    def assembled(self, code, exceptions, lines, changes, again, more):
        words = [[w for at, instead in c for w in (at, len(instead), *(x for two in instead for x in two))] for c in (changes, more)]
        arrays = [(C.c_int32 * (len(w) + 1))(*w) for w in words]
        given = Code(code, exceptions, lines, len(code), len(exceptions), len(lines), again=again)
        for k in range(2):
            given.change[k], given.n_words[k] = C.cast(arrays[k], C.POINTER(C.c_int32)), len(words[k])
        out = Result()
        assert self.library.fr_asm_replace(C.byref(self.opcodes), C.byref(given), C.byref(out))
        found = [bytes(b.v[:b.n]) if b.n else b"" for b in (out.code, out.exceptions, out.lines)]
        second = out.second
        self.library.fr_asm_free(C.byref(out))
        return *found, second


core = package._core = sys.modules["frit_bytecode._core"] = Core("frit_bytecode._core")
assemble = importlib.import_module("frit_bytecode._assemble")
bytecode = importlib.import_module("frit_bytecode._bytecode")
NOP = bytecode.OP["NOP"], 0
APART = bytecode.of("constant", "local", "locals", "global", "attribute", "store", "operator", "item", "build", "setattr")


def decode(code):
    """[(offset, opcode, argument)] without caches and prefixes."""
    found, prefix = [], 0
    for i, (op, arg) in enumerate(zip(code.co_code[::2], code.co_code[1::2])):
        if op == 0:     # CACHE
            continue
        arg |= prefix
        prefix = arg << 8 if op == core.prefix else 0
        if op != core.prefix:
            found.append((2 * i, op, arg))
    return found


class Turns:
    """True every other time."""
    is_true = False

    def __bool__(self):
        self.is_true = not self.is_true
        return self.is_true


def moved(code, before):
    if before == 0:
        return doubled(code)
    changes = {at: [NOP] * before + [assemble.SAME, NOP] for at, op, _ in decode(code) if op in APART}
    consts = tuple(moved(c, before) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return assemble.replace(code, changes, consts)[0]


def doubled(code):
    """Functions that are there twice, and go on in the other copy at half of the turns of their loops."""
    resumed = [at for at, op, arg in decode(code) if op in bytecode.of("resume") and arg == 0]
    consts = tuple(doubled(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    if code.co_flags & 0x2a0 or not resumed:
        return code.replace(co_consts=consts)
    n, first, second = len(consts), {}, {}
    there = bytecode.jump_if(n, assemble.THERE)
    back = bytecode.jump_if(n, assemble.HERE) + bytecode.jump_back(assemble.THERE)
    for at, op, _ in decode(code):
        if op in APART:
            first[at] = [(bytecode.LOAD_CONST, n), (bytecode.OP["POP_TOP"], 0), assemble.SAME]
        elif op in bytecode.LOOPS:
            first[at], second[at] = there + [assemble.SAME], back + [assemble.SAME]
    first[resumed[0]] = [assemble.SAME] + there
    new, begins = assemble.replace(code, first, (*consts, Turns()), 1, (resumed[0], second))
    assert len(code.co_code) < begins < len(new.co_code) - len(code.co_code) // 2
    return new


def module(name, before):
    path = importlib.machinery.PathFinder.find_spec(name).origin
    with open(path, encoding="utf8") as file:
        code = compile(file.read(), path, "exec")
    found = types.ModuleType(name)
    found.__file__, found.__package__ = path, name.rpartition(".")[0]
    sys.modules[name] = found       # (dataclasses, pickle look it up)
    exec(moved(code, before), found.__dict__)
    return found


def lines(f, *args):
    try:
        f(*args)
    except Exception as e:
        return type(e).__name__, str(e), [(t.lineno, t.name) for t in traceback.extract_tb(e.__traceback__)[1:]]


def results():
    """What some functions of library modules give, and where they raise; the modules are imported here."""
    import difflib
    import fractions
    import inspect
    import textwrap
    source = inspect.getsource(textwrap)
    yield str(fractions.Fraction("1.7") ** 5 / 7), hash(fractions.Fraction(2, 9)), str(fractions.Fraction(1.1).limit_denominator(9))
    yield lines(lambda: fractions.Fraction(1) / 0)
    yield lines(fractions.Fraction, "x")
    yield list(difflib.unified_diff(source.split("\n"), source.replace("self", "me").split("\n")))[:60]
    yield textwrap.fill(source, 40)
    yield [getattr(difflib, name).__code__.co_firstlineno for name in ("ndiff", "unified_diff")]


def same(code):
    """Without changes a code object is as it was, to the byte where its jumps and exceptions are concerned."""
    new, _ = assemble.replace(code, {})
    return ((new.co_code, new.co_exceptiontable) == (code.co_code, code.co_exceptiontable)
            and list(new.co_positions()) == list(code.co_positions())
            and all(same(c) for c in code.co_consts if isinstance(c, types.CodeType)))


NAMES = "difflib", "fractions", "textwrap"
expected = list(results())
for before in (0, 1, 90):     # 0: doubled
    for name in NAMES:
        module(name, before)
    assert list(results()) == expected, before
for name in NAMES:
    with open(sys.modules[name].__file__, encoding="utf8") as file:
        assert same(compile(file.read(), name, "exec")), name
print("the same")
