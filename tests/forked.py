"""Python processes that begin with NumPy imported, and not frit: a process that does nothing else forks each of them. Beginning anew
takes two tenths of a second, which is most of what many small programs take."""
import atexit
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Reads a line for each program: its code, environment, and files for what it prints. (The program is the end of this one, at the
# outermost level of __main__.)
STARTER = """
import gc, json, os, signal, sys
exec(sys.argv.pop())
gc.freeze()
for line in sys.stdin:
    if not (pid := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    os._exit(0)
code, env, out, err, seconds = json.loads(line)
signal.alarm(seconds)
os.environ.clear()
os.environ.update(env)
for path, number in (os.devnull, 0), (out, 1), (err, 2):
    opened = os.open(path, os.O_RDWR)
    os.dup2(opened, number)
    os.close(opened)
code = compile(code, "<string>", "exec")
del line, pid, env, out, err, seconds, path, number, opened
exec(code)
"""
_starters = {}


def stop():
    for starter in _starters.values():
        starter.stdin.close()
        starter.wait()
        starter.stdout.close()


atexit.register(stop)


def run(code, env, imported="import ctypes, numpy.random", seconds=600):
    """What subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env) has, where `imported` is already. (Which
    reads the environment of the first process that runs.)"""
    if imported not in _starters:
        _starters[imported] = subprocess.Popen([sys.executable, "-c", STARTER, imported], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                               cwd=ROOT)
    starter = _starters[imported]
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        print(json.dumps([code, env, out.name, err.name, seconds]), file=starter.stdin, flush=True)
        return subprocess.CompletedProcess(["python", "-c", code], int(starter.stdout.readline()), out.read(), err.read())
