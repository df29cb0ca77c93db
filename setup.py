"""Builds the extension frit._core and, beside it, the compiler helper frit-cc.

The sources are plain C11, so the build is a list of objects rather than setuptools' own recipe:

    gen            a program of the build machine: prints a C loop for every (operation, dtype)
    kernels_*.c    what it printed, and the folds; compiled once per instruction-set level
    numpy_names    what C reads of the table of NumPy's names, python/frit/_numpy.py
    csrc/**/*.c    everything else, compiled once
    frit-cc        the program that dlopens libgccjit; needs no libgccjit to build

Objects are compiled in parallel and again only when their command or a file they include changed.
Settings: CC, CC_FOR_BUILD (compiles the generator, where CC compiles for another machine), CFLAGS, LDFLAGS,
FRIT_DEBUG_BUILD=1 (-O1 -g and assertions), FRIT_SANITIZE=address,undefined, FRIT_WERROR=1, FRIT_SYMBOLS=1 (for perf),
FRIT_BUILD_JOBS=n, FRIT_SOURCE=dir (another csrc, for tests that change a copy).
"""
import glob
import hashlib
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, os.environ.get("FRIT_SOURCE", "csrc"))
DEBUG = os.environ.get("FRIT_DEBUG_BUILD", "") not in ("", "0")
SANITIZE = os.environ.get("FRIT_SANITIZE", "")
N_KERNEL_FILES = 12     # for each level; each includes what intrinsics are, which is half a second

LEVELS = {"generic": "x86-64", "v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"}


def usable_cpus():
    return int(os.environ.get("FRIT_BUILD_JOBS") or len(os.sched_getaffinity(0)))


def compiler(*variables):
    """The C compiler: the first of these that is set, then cc, gcc, clang."""
    for variable in variables:
        if os.environ.get(variable):
            return shlex.split(os.environ[variable])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    sys.exit("frit: no C compiler found; install one (Debian: apt-get install gcc) or set CC")


def flags():
    f = ["-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fPIC",
         "-fno-builtin-fmod", "-fno-builtin-fmodf",     # x87 loops, without math-errno
         "-fvisibility=hidden", "-ffunction-sections", "-Wall", "-Wextra", "-D_GNU_SOURCE="]
    f += ["-O1", "-g", "-DFR_DEBUG"] if DEBUG else ["-O2"]
    if SANITIZE:
        f += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]
    if os.environ.get("FRIT_WERROR"):
        # What depends on how far this version of the compiler sees stays a warning.
        f += ["-Werror", *("-Wno-error=" + w for w in (
            "maybe-uninitialized", "format-truncation", "stringop-overflow", "stringop-truncation",
            "array-bounds"))]
    return f + shlex.split(os.environ.get("CFLAGS", ""))


def sources(*patterns, root=None):
    out = []
    for p in patterns:
        out += sorted(glob.glob(os.path.join(root or SOURCE, p), recursive=True))
    return out


def run(command):
    """Runs one command of the build; on failure its output and an exception."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.stdout.strip():
        sys.stderr.write(done.stdout)
    if done.returncode:
        raise RuntimeError("frit: this command of the build failed:\n  " + shlex.join(command))


def signature(command):
    """The command without what does not change the object."""
    return shlex.join(a for a in command if not a.startswith(("-Werror", "-Wno-error")))


def is_current(target, command):
    """True if `target` was made by this very command and nothing that it read has changed since."""
    try:
        with open(target + ".cmd") as f:
            if f.read() != signature(command):
                return False
        made = os.stat(target).st_mtime_ns
        with open(target + ".d") as f:
            text = f.read().replace("\\\n", " ")
        return all(os.stat(p).st_mtime_ns <= made for p in text.split(":", 1)[1].split())
    except OSError:
        return False


class Build:
    """One build: where it goes, and the objects that are still to be compiled."""

    def __init__(self, temp, cc):
        self.cc = cc
        self.temp = temp
        self.todo = []

    def object(self, source, *extra, tag=""):
        """The object file of `source`, compiled by the next call of compile() if it is not current."""
        inside = os.path.relpath(source, SOURCE)
        if inside.startswith(".."):
            inside = os.path.relpath(source, self.temp)
        target = os.path.join(self.temp, "obj" + ("-" + tag if tag else ""), inside + ".o")
        # Names of files in messages are those of the map, not of this machine: one compiler then makes one frit-cc wherever it
        # runs, and kernels go from one installation to another (frit.cache.export).
        names = [] if DEBUG else [f"-ffile-prefix-map={folder}/=" for folder in (SOURCE, self.temp)]
        command = [*self.cc, *flags(), *names, "-I" + SOURCE, "-I" + self.temp, *extra, "-MMD", "-MF",
                   target + ".d", "-c", source, "-o", target]
        if not is_current(target, command):
            self.todo.append((target, command))
        return target

    def compile(self, what):
        if self.todo:
            print(f"frit: compiling {len(self.todo)} objects of {what}", flush=True)
        # The largest sources first: the last object then ends soon after the others.
        self.todo.sort(key=lambda t: -os.stat(t[1][-3]).st_size)
        with ThreadPoolExecutor(usable_cpus()) as pool:
            list(pool.map(lambda t: self.compile_one(*t), self.todo))
        self.todo = []

    @staticmethod
    def compile_one(target, command):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        run(command)
        with open(target + ".cmd", "w") as f:
            f.write(signature(command))

    def link(self, target, objects, *extra):
        """Links when an object is newer than `target`; a new file takes the old one's place, so that a
        process which has the old one mapped goes on."""
        os.makedirs(os.path.dirname(target), exist_ok=True)
        made = os.stat(target).st_mtime_ns if os.path.exists(target) else -1
        names = hashlib.sha256("\n".join([*objects, *extra]).encode()).hexdigest()
        stamp = os.path.join(self.temp, os.path.basename(target) + ".link")
        if made >= max(os.stat(o).st_mtime_ns for o in objects) and os.path.exists(stamp):
            with open(stamp) as f:
                if f.read() == names:
                    return
        strip = [] if DEBUG or SANITIZE or os.environ.get("FRIT_SYMBOLS") else ["-s"]
        sanitize = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
        run([*self.cc, "-o", target + ".new", *objects, *extra, *strip, *sanitize,
             "-Wl,--gc-sections", *shlex.split(os.environ.get("LDFLAGS", "")), "-lm", "-lpthread",
             "-ldl"])
        os.replace(target + ".new", target)
        with open(stamp, "w") as f:
            f.write(names)


def levels():
    """The instruction-set levels of the architecture that is compiled for, each with its compiler options."""
    if sysconfig.get_platform().endswith("x86_64"):
        return {name: [f"-march={march}"] for name, march in LEVELS.items()}
    return {"generic": []}


def generate(build):
    """Prints the block kernels with the generator; the file names, which change only when it does."""
    build = Build(build.temp, compiler("CC_FOR_BUILD", "CC"))
    parts = sources("jit/gen/*.c", "jit/emit_text*.c", "jit/micro.c", "jit/recipe*.c", "ir/op.c",
                    "core/dtype.c", "base/*.c")
    objects = [build.object(s, tag="gen" if "CC_FOR_BUILD" in os.environ else "") for s in parts]
    build.compile("the kernel generator")
    program = os.path.join(build.temp, "gen")
    build.link(program, objects)
    out = os.path.join(build.temp, "kernels")
    stamp = os.path.join(build.temp, "gen.done")
    if (not os.path.exists(stamp)
            or os.stat(stamp).st_mtime_ns < os.stat(program).st_mtime_ns):
        fresh = out + ".new"
        shutil.rmtree(fresh, ignore_errors=True)
        os.makedirs(fresh)
        run([program, fresh, str(N_KERNEL_FILES)])
        os.makedirs(out, exist_ok=True)
        keep = set(os.listdir(fresh))
        for name in set(os.listdir(out)) - keep:
            os.remove(os.path.join(out, name))
        for name in keep:       # a kernel file that came out the same keeps its time and its objects
            old, new = os.path.join(out, name), os.path.join(fresh, name)
            if not (os.path.exists(old) and open(old).read() == open(new).read()):
                os.replace(new, old)
        shutil.rmtree(fresh)
        open(stamp, "w").close()
    return sources("*.c", root=out)


def write_names(build):
    """What C reads of the table of NumPy's names; written only when it has changed."""
    text = runpy.run_path(os.path.join(HERE, "python", "frit", "_numpy.py"))["definitions"]()
    path = os.path.join(build.temp, "numpy_names.def")
    if not (os.path.exists(path) and open(path).read() == text):
        with open(path, "w") as f:
            f.write(text)


def extension_objects(build):
    write_names(build)
    kernels = generate(build)
    folds = sources("backends/cpu/*.inc.c")
    # What the heads of gen/main.c and reduce.inc.c ask for, with the measurements.
    for_maps = [] if DEBUG else ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic"]
    for_folds = [] if DEBUG else ["-O3"]
    objects = []
    for level, march in levels().items():
        if level == "v4":       # beyond it, some processors shuffle bytes
            vbmi = [*march, "-mavx512vbmi", "-DFR_LEVEL=v4_vbmi"]
            objects += [build.object(s, *for_folds, *vbmi, tag="v4_vbmi") for s in sources("backends/cpu/shuffle.inc.c")]
        march = [*march, f"-DFR_LEVEL={level}", f"-DFR_LEVEL_{level}=1"]
        wide = ["-mprefer-vector-width=512"] if level == "v4" else []
        objects += [build.object(s, *for_maps, *march, *wide, tag=level) for s in kernels]
        objects += [build.object(s, *for_folds, *march, tag=level) for s in folds]
    helper_only = set(sources("jit/gen/**", "jit/cc/**", "jit/emit_gcc*.c", "tools/**"))
    import numpy
    python = ["-I" + sysconfig.get_path("include"), "-isystem", numpy.get_include(),
              "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION", "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION"]
    if not DEBUG:       # what Python's own headers assert costs a look at the type in each of their macros
        python.append("-DNDEBUG")
    for s in sources("**/*.c"):
        if s.endswith(".inc.c") or s in helper_only:
            continue
        in_bind = os.path.relpath(s, SOURCE).startswith("bind" + os.sep)
        objects.append(build.object(s, *(python if in_bind else [])))
    build.compile("frit._core")
    return objects


def helper_objects(build):
    parts = sources("jit/cc/*.c", "jit/emit_gcc*.c", "jit/loop.c", "jit/micro.c", "jit/recipe*.c",
                    "ir/op.c", "core/dtype.c", "base/*.c")
    objects = [build.object(s) for s in parts]
    build.compile("frit-cc")
    return objects


class BuildFrit(build_ext):
    """setuptools' command with our own way from sources to files."""

    def build_extension(self, ext):
        mode = "debug" if DEBUG else "release"
        if SANITIZE:
            mode += "-" + SANITIZE.replace(",", "-")
        build = Build(os.path.abspath(os.path.join(self.build_temp, mode)), compiler("CC"))
        os.makedirs(build.temp, exist_ok=True)
        target = os.path.abspath(self.get_ext_fullpath(ext.name))
        build.link(target, extension_objects(build), "-shared")
        build.link(os.path.join(os.path.dirname(target), "frit-cc"), helper_objects(build))

    def run(self):
        # With --inplace the files are made where they are wanted, without a copy in between.
        for ext in self.extensions:
            self.build_extension(ext)

    def get_outputs(self):
        outputs = super().get_outputs()
        return outputs + [os.path.join(os.path.dirname(o), "frit-cc") for o in outputs[:1]]


if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("frit: free-threaded Python (3.13t, 3.14t) is not supported: build with the Python that has the GIL")
setup(ext_modules=[Extension("frit._core", sources=[])], cmdclass={"build_ext": BuildFrit})
