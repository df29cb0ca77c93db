"""Copies of functions whose calls of NumPy go somewhere else.

A copy has the same globals dictionary, closure cells, defaults and attributes as the function it was
made from, so whatever it writes lands where the original would have written it.  Only its code
differs: where the original loads a global in order to call it,

    np.exp(x)       LOAD_GLOBAL np;  LOAD_METHOD exp    (one instruction, LOAD_ATTR, since 3.12)
    exp(x)          LOAD_GLOBAL NULL + exp
    helper(x)       LOAD_GLOBAL NULL + helper

the copy loads a constant: the namespace, function or copied helper that stands in; _assemble.py makes room for it.
np.float32(x) becomes a call of what converts tensors, too (csrc/bind/accelerate/convert.c), while np.float32 as a value
stays NumPy's type.  In the same way

    rng.shuffle(x)  LOAD_METHOD shuffle

of a name that arrays, containers and NumPy's modules do not have becomes Method("shuffle")[rng], which gives functions
that are written in C arrays for tensors (csrc/bind/accelerate/method.c).  Three other ways were weighed: a second globals
dictionary loses writes; renaming `np` in co_names also renames the attribute in `self.np`; and either needs a name in a
dictionary that is not ours.

A parameter that the function does nothing with but ask it for attributes, or hand it on to a function of which the
same is true, may come as the stand-in instead of NumPy: `xp` in f(xp, x) (`Rewritten.takes_module`), and `np` where such a
function is called with it.

Only calls are redirected.  A function that is used as a value (a key of a dictionary, `f is np.exp`,
a default argument) stays the same object as outside; when it meets a frit.Tensor, NumPy's own
protocols bring it back to us.

Constants do not follow an assignment to the global, so what they were made from is remembered
(`Rewritten.is_current`), as is what may be assigned to a function, its code and its defaults; names that the
functions themselves assign are left alone.
"""
from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy

from . import _assemble, _bytecode, _core, _numpy
from ._membrane import written
from ._bytecode import LOAD_DEREF, LOAD_GLOBAL, NOTHING, Instruction, attr_name, cell_name, global_name, is_attr

_StandIns = dict[int, Any]      # id of an object -> what is loaded instead
_Unwrap = Callable[[Any], Any]
_Outside = Callable[[Any, Any], Any]

MAX_FUNCTIONS = 500     # of one module, reached from one decorated function
MAX_ATTRIBUTES = 10     # of attributes: os.path.join
MAX_HANDED_ON = 20      # times that NumPy is handed on by what it was handed to


class Rewritten:
    """The copy of one function and all that it was made from."""

    __slots__ = ("copy", "copies", "watched", "cells", "stored_globals", "stored_cells", "n_redirected",
                 "globals_read", "all_cells", "takes_module", "functions", "named_defaults", "uncopied")

    def __init__(self) -> None:
        self.copy: types.FunctionType
        self.copies: list[types.FunctionType] = []      # of the function and those of its module that it calls
        self.uncopied: list[types.FunctionType] = []    # functions that NumPy is handed on to, and run as they are
        self.watched: list[tuple[dict[str, Any], str, Any]] = []     # (globals, name, value) that became constants
        self.cells: list[tuple[types.CellType, Any]] = []   # (cell, value) that were replaced
        self.stored_globals: set[str] = set()   # names the functions assign
        self.stored_cells: list[types.CellType] = []
        self.n_redirected = 0
        self.globals_read: set[str] = set()     # names
        self.all_cells: list[types.CellType] = []
        self.takes_module: tuple[str | None, ...] = ()   # the parameters by number: a name, or None if it must come as it is
        # id -> (function, its code, its defaults, those by name), of all that were looked at
        self.functions: dict[int, tuple[types.FunctionType, types.CodeType, Any, Any]] = {}
        self.named_defaults: list[tuple[dict[str, Any], str, Any]] = []     # (the latter, name, value)

    def look_at(self, f: types.FunctionType) -> None:
        """Notes what may be assigned to a function later."""
        if id(f) not in self.functions:
            self.functions[id(f)] = f, f.__code__, f.__defaults__, f.__kwdefaults__
            named = f.__kwdefaults__ or {}
            self.named_defaults += [(named, name, value) for name, value in named.items()]

    def holds_arrays(self, names: Iterable[str], cells: Iterable[types.CellType]) -> bool:
        """Whether one of these globals and cells is an array, or a container of what may be one."""
        outside = self.copy.__globals__
        return any(isinstance(v, (numpy.ndarray, list, tuple, dict))
                   for v in (*(outside.get(n) for n in names), *map(contents, cells)))

    def is_current(self) -> bool:
        for f, code, plain, named in self.functions.values():
            if f.__code__ is not code or f.__defaults__ is not plain or f.__kwdefaults__ is not named:
                return False
        for names, name, value in (*self.watched, *self.named_defaults):
            if names.get(name) is not value:
                return False
        for cell, value in self.cells:
            if contents(cell) is not value:
                return False
        return True

    def is_settled(self) -> bool:
        """Whether everything that the functions look up was there to be looked up."""
        names = self.copy.__globals__
        return (all(n in names or hasattr(builtins, n) for n in self.globals_read)
                and all(map(_is_filled, self.all_cells)))


def written_code(f: types.FunctionType) -> types.CodeType:
    """The code of a function as it was written: open ones run with another (_membrane.py)."""
    return written(f.__code__)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents
    except ValueError:      # not assigned yet
        return False
    return True


def contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:      # not assigned yet
        return None


# Names of methods of which nothing is to be asked.
_JOINED = _numpy.named("joined")
_FAMILIAR = frozenset(
    name for kind in (numpy.ndarray, numpy.float64, numpy.ufunc, list, tuple, dict, set, str, bytes, int, float, complex)
    for name in dir(kind)) | frozenset(
    name for module in (numpy, numpy.linalg, numpy.fft) for name, value in vars(module).items() if callable(value))


_LOCAL, _LOCALS, _STORES, _STORES_TWO = map(_bytecode.of, ("local", "locals", "store", "stores"))
_STORES_GLOBAL, _STORES_CELL, _USES_CELL = map(_bytecode.of, ("setglobal", "setcell", "classcell"))
_USES_CELL |= _STORES_CELL
_LOOKS_UP = {LOAD_GLOBAL, LOAD_DEREF} | _STORES_GLOBAL | _USES_CELL


class _Rewriter:
    """One decorated function, and the functions of its module that it calls."""

    def __init__(self, root: types.FunctionType, modules: _StandIns, functions: _StandIns, values: _StandIns,
                 unwrap: _Unwrap, outside: _Outside) -> None:
        self.root = root
        self.modules = modules          # id of a module of NumPy's -> what stands in for it
        self.functions = functions      # id of a function of NumPy's -> ours
        self.values = values            # the same for what need not be called
        self.unwrap = unwrap            # decorated function -> the function that was decorated
        self.outside = outside          # (what is called, itself or by attributes, root) -> what is instead, or None
        self.out = Rewritten()
        self.copies: dict[int, tuple[types.FunctionType, types.FunctionType]] = {}  # id of a function -> (function, its copy)
        self.stored_cells: dict[int, set[str]] = {}     # id of a function -> names
        # Of code objects, by id: (code object, its instructions), what loads() found, {load: (callee, place)}
        self.decoded: dict[int, tuple[types.CodeType, list[Instruction]]] = {}
        self.looking: dict[int, list[list[Instruction]]] = {}
        self.arguments: dict[int, dict[Instruction, tuple[Instruction, int | str]]] = {}
        self.methods: dict[str, Any] = {}   # name -> its Method
        self.n_looking = 0              # functions, one called by another, whose parameters are being looked at
        self.taken: dict[int, tuple[types.FunctionType, tuple[str | None, ...]]] = {}   # id -> (function, module_parameters)

    def helper(self, value: Any) -> types.FunctionType | None:
        """The plain function behind `value` if it belongs to the module of the decorated one."""
        value = self.unwrap(value)
        if type(value) is types.FunctionType and value.__globals__ is self.root.__globals__:
            return value
        return None

    def instructions(self, code: types.CodeType) -> list[Instruction]:
        known = self.decoded.get(id(code))
        if known is None:
            known = self.decoded[id(code)] = code, _core.decoded(code.co_code)
        return known[1]

    def is_called(self, code: types.CodeType, this: Instruction) -> bool:
        """Whether what a name is looked up for is called, by itself or by an attribute of it or of these."""
        listed = self.instructions(code)
        at = listed.index(this)
        null = _bytecode.has_null(listed[at - 1] if at else NOTHING, this)
        listed = [*listed[at + 1:at + 1 + MAX_ATTRIBUTES], NOTHING]
        after = next(i for i in listed if not is_attr(i, False))
        return is_attr(after, True) or _bytecode.called(null, after)

    def loads(self, code: types.CodeType) -> list[list[Instruction]]:
        """The instructions that look names up, each with the one before it and the two that follow."""
        known = self.looking.get(id(code))
        if known is None:
            listed = [NOTHING, *self.instructions(code), NOTHING, NOTHING]
            known = [listed[i - 1:i + 3] for i, this in enumerate(listed[1:-2], 1) if this[1] in _LOOKS_UP]
            self.looking[id(code)] = known
        return known

    def collect(self) -> list[types.FunctionType]:
        """Every function that will be copied, found through the names by which they are called."""
        todo = [self.root]
        seen: dict[int, types.FunctionType] = {}
        while todo and len(seen) < MAX_FUNCTIONS:
            f = todo.pop()
            if id(f) in seen:
                continue
            seen[id(f)] = f
            self.out.look_at(f)
            self.stored_cells[id(f)] = set()
            cells = dict(zip(written_code(f).co_freevars, f.__closure__ or ()))
            self.out.all_cells += cells.values()
            for code in _bytecode.tree(written_code(f)):
                for _, this, _, _ in self.loads(code):
                    op = this[1]
                    if op == LOAD_GLOBAL:
                        name = global_name(code, this)
                        self.out.globals_read.add(name)
                        h = self.helper(f.__globals__.get(name))
                        if h:
                            todo.append(h)
                    elif op == LOAD_DEREF and cell_name(code, this) in cells:
                        h = self.helper(contents(cells[cell_name(code, this)]))
                        if h:
                            todo.append(h)
                    elif op in _STORES_GLOBAL:
                        self.out.stored_globals.add(code.co_names[this[2]])
                    elif op in _STORES_CELL and cell_name(code, this) in cells:
                        self.stored_cells[id(f)].add(cell_name(code, this))
        return list(seen.values())

    def stand_in(self, f: types.FunctionType, code: types.CodeType, value: Any, this: Instruction,
                 after: Instruction, after2: Instruction) -> Any:
        """What to load instead of the global `value`, or None to leave it."""
        new, null = self.modules.get(id(value)), _bytecode.has_null(NOTHING, this)
        if new is not None:
            joined = is_attr(after, False) and attr_name(code, after) in _JOINED
            if joined or _bytecode.attribute_called(null, after, after2) or self.is_handed_on(f, code, this):
                return new
            # A module of it that knows no tensors: np.random.default_rng(x).
            name = attr_name(code, after) if is_attr(after, False) else ""
            part = self.outside(getattr(value, name, None), self.root)
            return types.SimpleNamespace(**{name: part}) if part is not None and self.is_called(code, this) else None
        new = self.values.get(id(value))
        if new is None and _bytecode.called(null, after):
            new = self.functions.get(id(value))
            if new is None:
                h = self.helper(value)
                new = self.copies[id(h)][1] if h and id(h) in self.copies else None
        if new is None:
            new = self.outside(value, self.root)
            new = new if new is not None and self.is_called(code, this) else None
        return new

    def global_stand_in(self, f: types.FunctionType, code: types.CodeType, this: Instruction,
                        after: Instruction, after2: Instruction) -> Any:
        name, names = global_name(code, this), f.__globals__
        if name in self.out.stored_globals:
            return None
        value = names[name] if name in names else getattr(builtins, name, None)
        new = self.stand_in(f, code, value, this, after, after2)
        if new is not None:
            self.out.watched.append((names, name, names.get(name)))
        return new

    def conversion(self, code: types.CodeType, new: Any, null: bool, after: Instruction,
                   after2: Instruction) -> Any:
        """What is called instead of a number type that a stand-in for NumPy, loaded before `after`, is asked for and that is
        called at once; or None."""
        if not isinstance(new, types.ModuleType) or not _bytecode.attribute_called(null, after, after2):
            return None
        found = getattr(new, "_conversions", {}).get(attr_name(code, after))
        return found if found is not None and after[0] not in _bytecode.labels(self.instructions(code)) else None

    def rewrite_code(self, f: types.FunctionType, code: types.CodeType) -> types.CodeType:
        consts = list(code.co_consts)
        changed = False
        for i, c in enumerate(consts):
            if isinstance(c, types.CodeType):
                consts[i] = self.rewrite_code(f, c)
                changed = changed or consts[i] is not c
        changes: dict[int, _bytecode.Instead] = {}
        where: dict[int, int] = {}      # id of a stand-in -> its index among the constants

        def place(new: Any) -> int:
            index = where.setdefault(id(new), len(consts))
            if index == len(consts):
                consts.append(new)
            return index

        for _, this, after, after2 in self.loads(code):
            if this[1] != LOAD_GLOBAL:
                continue
            new = self.global_stand_in(f, code, this, after, after2)
            if new is None:
                continue
            convert = self.conversion(code, new, _bytecode.has_null(NOTHING, this), after, after2)
            if convert is not None:
                changes[this[0]], changes[after[0]] = _bytecode.load_callable(after, place(convert))
            else:
                changes[this[0]] = _bytecode.load_constant(this, place(new))
            self.out.n_redirected += 1
        for this in self.instructions(code):
            if is_attr(this, True) and (name := attr_name(code, this)) not in _FAMILIAR and not name.startswith("__"):
                changes[this[0]] = _bytecode.load_item(place(self.methods.setdefault(name, _core._Method(name))))
        return _assemble.replace(code, changes, tuple(consts), more_stack=1)[0] if changed or changes else code

    def redirects_cell(self, f: types.FunctionType, name: str, as_module: bool,
                       is_called: Callable[[types.CodeType, Instruction], bool] | None = None) -> bool:
        """Whether every use of the free variable `name` in `f` is a call, and nothing assigns it."""
        for code in _bytecode.tree(written_code(f)):
            for before, this, after, after2 in self.loads(code):
                if this[1] in _USES_CELL and cell_name(code, this) == name:
                    return False
                if this[1] == LOAD_DEREF and cell_name(code, this) == name:
                    null = _bytecode.has_null(before, this)
                    if not (is_called(code, this) if is_called else _bytecode.attribute_called(null, after, after2)
                            or self.is_handed_on(f, code, this) if as_module else _bytecode.called(null, after)):
                        return False
        return True

    def cells_of(self, f: types.FunctionType, fill: list[tuple[types.CellType, types.FunctionType]]
                 ) -> tuple[types.CellType, ...] | None:
        """The closure of the copy of `f`; appends (cell, function to be copied) to `fill`."""
        cells = []
        for name, cell in zip(written_code(f).co_freevars, f.__closure__ or ()):
            value = contents(cell)
            new = self.modules.get(id(value))
            as_module = new is not None
            if new is None:
                new = self.functions.get(id(value))
            h = self.helper(value) if new is None else None
            theirs = self.outside(value, self.root) if new is None and h is None else None
            if theirs is not None and self.redirects_cell(f, name, False, self.is_called):
                self.out.cells.append((cell, value))
                cell = types.CellType(theirs)
                self.out.n_redirected += 1
            elif (new is not None or h) and self.redirects_cell(f, name, as_module):
                self.out.cells.append((cell, value))
                cell = types.CellType(new)
                if h:
                    fill.append((cell, h))
                self.out.n_redirected += 1
            cells.append(cell)
        return tuple(cells) if cells else None

    def asks_attribute(self, code: types.CodeType, after: Instruction, after2: Instruction) -> bool:
        """Whether a module of NumPy's loaded before `after` is asked for an attribute that is the stand-in's, too, or
        is called at once."""
        if is_attr(after, False):
            value = getattr(numpy, attr_name(code, after), None)
            return value is numpy.ndarray or id(value) not in self.functions and id(value) not in self.values
        return _bytecode.attribute_called(False, after, after2)

    def callee(self, f: types.FunctionType, code: types.CodeType, load: Instruction
               ) -> tuple[types.FunctionType, Any, tuple[Any, str | None]] | None:
        """(function, what the name was found to be, where: (globals, name) or (cell, None)) of what is called after this
        load, or None."""
        where: tuple[Any, str | None]
        if load[1] == LOAD_GLOBAL:
            name = global_name(code, load)
            where = f.__globals__, name
            value = None if name in self.out.stored_globals else f.__globals__.get(name)
        elif load[1] == LOAD_DEREF and code is written_code(f) and cell_name(code, load) in code.co_freevars:
            where = dict(zip(code.co_freevars, f.__closure__ or ()))[cell_name(code, load)], None
            value = contents(where[0])
        else:
            return None
        g = self.unwrap(value)
        return (g, value, where) if type(g) is types.FunctionType else None

    def arguments_of(self, code: types.CodeType) -> dict[Instruction, tuple[Instruction, int | str]]:
        """{load: (callee, place)}"""
        known = self.arguments.get(id(code))
        if known is None:
            found = {load: (callee, place) for load, callee, place in _bytecode.arguments(code, self.instructions(code))}
            known = self.arguments[id(code)] = found
        return known

    def is_handed_on(self, f: types.FunctionType, code: types.CodeType, load: Instruction) -> bool:
        """Whether what this instruction of `f` loads becomes an argument that may be a stand-in."""
        known = self.arguments_of(code).get(load)
        callee = self.callee(f, code, known[0]) if known else None
        if known is None or callee is None:
            return False
        place: int | str | None = known[1]
        g, value, (where, name) = callee
        if isinstance(place, int):
            place = written_code(g).co_varnames[place] if place < written_code(g).co_argcount else None
        by_itself = g is f and (load[1] in _LOCAL or load[1] in _LOCALS) and code.co_varnames[load[2]] == place
        if place is None or not (by_itself or place in self.module_parameters(g)):
            return False
        if name is None:
            self.out.cells.append((where, value))
        else:
            self.out.watched.append((where, name, value))
        return True

    def module_parameters(self, f: types.FunctionType) -> tuple[str | None, ...]:
        """The parameters by number: a name, or None if a module must come by it as it is."""
        known = self.taken.get(id(f))
        if known is None:
            known = self.taken[id(f)] = f, ()       # while it is being looked at
            if self.n_looking < MAX_HANDED_ON:
                self.n_looking += 1
                known = self.taken[id(f)] = f, self.find_module_parameters(f)
                self.n_looking -= 1
        return known[1]

    def find_module_parameters(self, f: types.FunctionType) -> tuple[str | None, ...]:
        self.out.look_at(f)
        code = written_code(f)
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        good = {i for i, name in enumerate(names) if name not in code.co_cellvars}
        if code.co_flags & inspect.CO_VARARGS:          # what is number i of the arguments may be another's
            good -= set(range(code.co_argcount, len(names)))
        if code.co_flags & inspect.CO_VARKEYWORDS:      # and what has the name
            good -= set(range(code.co_posonlyargcount))
        listed = [*self.instructions(code), NOTHING, NOTHING]
        others: list[Instruction] = []
        for this, after, after2 in zip(listed, listed[1:], listed[2:]) if good else ():
            op, arg = this[1:]
            if op in _LOCAL or op in _LOCALS:
                last = arg if op in _LOCAL else _bytecode.locals_of(this)[1]
                if not self.asks_attribute(code, after, after2):
                    others.append((*this[:2], last))
                if op in _LOCALS:
                    others.append((*this[:2], _bytecode.locals_of(this)[0]))
            elif op in _STORES:
                good.discard(arg)
            elif op in _STORES_TWO:
                good.difference_update(_bytecode.locals_of(this))
            elif op in _bytecode.HAS_LOCAL:      # of a Python that we do not know
                good.clear()
        others = [load for load in others if load[2] in good]
        # First those that are no arguments, of which there is nothing to ask.
        good -= {load[2] for load in others if load not in self.arguments_of(code)}
        for load in others:
            if load[2] in good and not self.is_handed_on(f, code, load):
                good.discard(load[2])
        return tuple(name if i in good else None for i, name in enumerate(names))

    def defaults(self, f: types.FunctionType) -> tuple[tuple[Any, ...] | None, dict[str, Any] | None]:
        """The defaults of `f` for parameters by place and by name, with the stand-in for NumPy where it may be taken."""
        plain, named, n = f.__defaults__, f.__kwdefaults__, written_code(f).co_argcount
        if not any(id(value) in self.modules for value in (*(plain or ()), *(named or {}).values())):
            return plain, named
        takes = self.module_parameters(f)

        def stand_in(name: str, value: Any) -> Any:
            return self.modules.get(id(value), value) if name in takes else value
        if plain:
            plain = tuple(map(stand_in, written_code(f).co_varnames[n - len(plain):n], plain))
        # (One dictionary, if it can be: what is changed in it later holds for the copy, too.)
        if named and any(stand_in(*item) is not item[1] for item in named.items()):
            named = {name: stand_in(name, value) for name, value in named.items()}
        return plain, named

    def run(self) -> Rewritten:
        fill: list[tuple[types.CellType, types.FunctionType]] = []
        self.out.takes_module = self.module_parameters(self.root)
        for f in self.collect():
            plain, named = self.defaults(f)
            copy = types.FunctionType(written_code(f), f.__globals__, f.__name__, plain, self.cells_of(f, fill))
            copy.__kwdefaults__ = named
            copy.__qualname__ = f.__qualname__
            copy.__module__ = f.__module__
            copy.__annotations__ = f.__annotations__
            copy.__dict__ = f.__dict__      # the same dictionary: attributes are shared
            self.copies[id(f)] = f, copy
        # Functions call each other, so all of them exist before the first code is rewritten.
        for cell, h in fill:
            cell.cell_contents = self.copies[id(h)][1] if id(h) in self.copies else h
        for f, copy in self.copies.values():
            copy.__code__ = self.rewrite_code(f, written_code(f))
            stored = self.stored_cells[id(f)]
            self.out.stored_cells += [cell for name, cell in
                                      zip(written_code(f).co_freevars, f.__closure__ or ()) if name in stored]
        self.out.copy = self.copies[id(self.root)][1]
        self.out.copies = [copy for _, copy in self.copies.values()]
        self.out.watched = list({(id(names), name): (names, name, value)
                                 for names, name, value in self.out.watched}.values())
        self.out.uncopied = [value for _, _, value in self.out.watched
                             if type(value) is types.FunctionType and id(value) not in self.copies]
        return self.out


def rewrite(function: types.FunctionType, modules: _StandIns, functions: _StandIns, values: _StandIns | None = None,
            unwrap: _Unwrap = lambda f: f, outside: _Outside = lambda value, root: None) -> Rewritten:
    """A Rewritten of `function`: a copy in which calls of the modules' attributes and of the functions
    (dictionaries from id to stand-in) are redirected, also in the functions of its module that
    it calls.  A Python that we do not know gives the function as it was."""
    rewriter = _Rewriter(function, modules, functions, values or {}, unwrap, outside)
    if not _works:
        rewriter.out.copy = function
        return rewriter.out
    return rewriter.run()


def _probe(x: Any) -> Any:
    return types.SimpleNamespace(a=x), inspect.getdoc(x), contents(x), x.swaps(x, b=x.other().c)


class _Other:
    c = 2

    def other(self) -> _Other:
        return self

    def swaps(self, a: Any, b: Any) -> tuple[bool, Any]:
        return a is self, b


def _self_test() -> bool:
    """Whether the rewriting above is right for the running interpreter."""
    fakes = {id(types): types.SimpleNamespace(SimpleNamespace=lambda a: ("types", a)),
             id(inspect): types.SimpleNamespace(getdoc=lambda x: ("inspect", x))}
    x = _Other()
    try:
        r = _Rewriter(cast(types.FunctionType, _probe), fakes, {id(contents): lambda x: ("contents", x)}, {}, lambda f: f,
                      lambda value, root: None).run()
        return r.copy(x) == (("types", x), ("inspect", x), ("contents", x), (True, 2)) and r.is_current()
    except Exception:
        return False


_works = _bytecode.CAN_REWRITE and _self_test()
