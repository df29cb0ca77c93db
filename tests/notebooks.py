"""Runs the notebooks of docs/notebooks/ in a kernel of their own and compares what they show with what is in them.

    python -m tests.notebooks [NAME...]             says what differs
    python -m tests.notebooks --write [NAME...]     writes what they show

A cell with the tag "varies" has times or the like: it has to show something again, whatever that is. Nothing else may differ, and
no cell may raise."""
import difflib
import glob
import os
import re
import subprocess
import sys
import tempfile

from .common import ROOT

FOLDER = os.path.join(ROOT, "docs", "notebooks")
TIMEOUT = 120       # seconds for a cell


def names():
    return sorted(os.path.basename(path)[:-len(".ipynb")] for path in glob.glob(os.path.join(FOLDER, "*.ipynb")))


def read(name):
    import nbformat
    return nbformat.read(os.path.join(FOLDER, f"{name}.ipynb"), 4)


def environment(cache):
    """frit as a user has it, whatever the tests set, with a cache of its own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FRIT_")}
    return {**env, "FRIT_CACHE_DIR": cache, "PYTHONPATH": os.path.join(ROOT, "python"), "IPYTHONDIR": cache}


def executed(notebook):
    """The same with the outputs of a run; raises nbclient's CellExecutionError."""
    from nbclient import NotebookClient

    # (The kernel writes into its folder until it is gone.)
    with tempfile.TemporaryDirectory(prefix="frit-notebook-", ignore_cleanup_errors=True) as cache:
        client = NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3")      # which is this Python's
        client.execute(env=environment(cache), cwd=FOLDER, stderr=subprocess.DEVNULL)
    return tidied(notebook)


def tidied(notebook):
    """Without what differs from run to run in any cell: counts of execution, addresses of files, pieces that one stream came in."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.metadata.pop("execution", None)
        cell.execution_count = None
        outputs = []
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = None
            if output.output_type == "stream" and outputs and outputs[-1].get("name") == output.name:
                outputs[-1].text += output.text
            else:
                outputs.append(output)
        cell.outputs = outputs
    return notebook


def text_of(output):
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback)
    return "\n".join(f"{kind}: {''.join(output.data[kind])}" for kind in sorted(output.data))


def shown(cell):
    """What is compared of a code cell."""
    if "varies" in cell.metadata.get("tags", []):
        return "something" if cell.outputs else "nothing"
    return "\n".join(map(text_of, cell.outputs))


def differences(want, got):
    """(the cell's source, a diff) of each cell that shows something else."""
    for a, b in zip(want.cells, got.cells, strict=True):
        if a.cell_type == "code" and shown(a) != shown(b):
            yield a.source, "\n".join(difflib.unified_diff(shown(a).splitlines(), shown(b).splitlines(), "in the notebook", "shown now",
                                                           lineterm=""))


def write(name, notebook):
    import nbformat
    text = re.sub(r"/tmp/frit-notebook-\w+", "~/.cache/frit", nbformat.writes(notebook, indent=1))
    with open(os.path.join(FOLDER, f"{name}.ipynb"), "w", encoding="utf-8") as file:
        file.write(text.rstrip("\n") + "\n")


def main(arguments):
    writes = "--write" in arguments
    chosen = [a for a in arguments if a != "--write"]
    if unknown := set(chosen) - set(names()):
        sys.exit(f"no such notebook: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    failed = False
    for name in chosen or names():
        want = tidied(read(name))
        got = executed(read(name))
        for source, diff in differences(want, got):
            failed = failed or not writes
            print(f"== {name}:\n{source}\n{diff}\n")
        if writes:
            write(name, got)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
