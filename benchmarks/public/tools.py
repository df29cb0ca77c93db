"""What the programs of this folder are made with: where one is listed, and how a script or a package is loaded in place."""
import ast
import importlib.util
import itertools
import os
import sys
import types
import warnings

PROGRAMS = {}


class Program:
    """One program: `make` is a function (at) -> (step, state), where step() goes on and state() gives what is compared."""

    def __init__(self, repository, author, licence, folders, steps, compared, make):
        self.repository, self.author, self.licence = repository, author, licence
        self.folders, self.steps, self.compared, self.make = folders or (".",), steps, min(compared, steps), make


def program(repository, author, licence, *folders, steps=60, compared=6):
    """Lists a function of one argument, the checkout's folder; `folders` of it go onto the path. The states are compared
    after `compared` steps: later, what is chaotic differs by its last bits."""
    def add(make):
        PROGRAMS[make.__name__] = Program(repository, author, licence, folders, steps, compared, make)
        return make
    return add


class Anything:
    """A package that is only drawn with, or shows progress."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args, **kwargs):
        return args[0] if args and isinstance(args[0], (range, list)) else Anything()

    def __iter__(self):
        return iter((Anything(), Anything()))

    def __getitem__(self, key):
        return Anything()

    def __setitem__(self, key, value):
        pass

    def __int__(self):
        return 0

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


def without(*names, **having):
    """Stands in for packages that the programs import and these runs do not need."""
    for name in names:
        if name.startswith(("matplotlib", "mpl_toolkits")) or name not in sys.modules and missing(name):
            module = types.ModuleType(name)
            module.__getattr__ = lambda attribute: Anything()
            module.__path__ = []
            vars(module).update(having)
            sys.modules[name] = module
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                setattr(sys.modules[parent], last, module)


def missing(name):
    """Whether there is no such package."""
    try:
        return importlib.util.find_spec(name) is None
    except (ModuleNotFoundError, ValueError):
        return True


def without_plots():
    without("matplotlib", "matplotlib.pyplot", "matplotlib.animation", "matplotlib.gridspec", "matplotlib.table",
            "matplotlib.colors", "matplotlib.cm", "mpl_toolkits", "mpl_toolkits.mplot3d", "tqdm", "pylab")
    tqdm = importlib.import_module("tqdm")
    tqdm.trange = range
    tqdm.tqdm = lambda of, *args, **kwargs: of


def _tree(path):
    with open(path, encoding="utf8") as file:
        source = file.read()
    try:
        return ast.parse(source, path)
    except SyntaxError:         # a Python 2 of its day
        return ast.parse(str(_from_python2().refactor_string(source.rstrip() + "\n", path)), path)


def _from_python2():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from lib2to3.refactor import RefactoringTool, get_fixers_from_package
    return RefactoringTool(get_fixers_from_package("lib2to3.fixes"))


def _module(path):
    found = types.ModuleType(os.path.basename(path)[:-3].replace("-", "_"))
    found.__file__ = path
    sys.modules[found.__name__] = found
    return found


def _run(statements, path, names):
    exec(compile(ast.Module(statements, []), path, "exec"), names)


def script(path, before=None, **names):
    """The module of a script, run under its own name, up to the statement of the module that begins with `before`;
    `names` are constants that are given other values, sizes as a rule."""
    sys.argv[1:] = []
    found, body = _module(path), _tree(path).body
    if before is not None:
        body = body[:next(k for k, s in enumerate(body) if ast.unparse(s).startswith(before))]
    for statement in body:
        _run([statement], path, vars(found))
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name) and statement.targets[0].id in names:
            vars(found)[statement.targets[0].id] = names[statement.targets[0].id]
    return found


def _as_function(statements, found, path):
    """These statements of a script as a function over its own globals."""
    stored = sorted({n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})
    one = ast.parse("def one_round(): pass").body[0]
    one.body = [ast.Global(stored), *statements]
    _run([ast.fix_missing_locations(one)], path, vars(found))
    return found.one_round


def loop(path, **names):
    """A script whose work is a loop of the module: its module, run up to that loop, and one round of the loop as a
    function over the same globals, with the script's own lines."""
    body = _tree(path).body
    whole = [s for s in body if isinstance(s, (ast.While, ast.For))][-1]
    found = script(path, before=ast.unparse(whole), **names)
    head = ast.parse("for _ in (next(__rounds__),): pass").body[0]
    found.__rounds__ = itertools.count()
    if isinstance(whole, ast.For):
        found.__rounds__ = iter(eval(compile(ast.Expression(whole.iter), path, "eval"), vars(found)))
        head.target = whole.target
    head.body = whole.body
    return found, _as_function([head], found, path)


def rest(path, begins, **names):
    """A script that is run up to a statement: its module, and all from there on as a function, to be called again."""
    found, body = script(path, before=begins, **names), _tree(path).body
    return found, _as_function(body[next(k for k, s in enumerate(body) if ast.unparse(s).startswith(begins)):], found, path)


def smaller(function, **sizes):
    """The function with other constants at the first assignments to these names: how long and how fine a main() runs."""
    code = function.__code__
    tree = _tree(code.co_filename)
    source = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function.__name__)
    for statement in ast.walk(source):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            if name in sizes:
                statement.value = ast.copy_location(ast.Constant(sizes.pop(name)), statement.value)
    assert not sizes, sizes
    _run([source], code.co_filename, function.__globals__)
    return function.__globals__[function.__name__]
