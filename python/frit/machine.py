"""What a machine is taken to be where time is estimated: python -m frit.machine calibrate measures this one (_machine.py)."""
import sys

from ._machine import FIELDS as FIELDS, calibrate as calibrate, gpu as gpu, load as load, main, path as path
from ._machine import save as save, use as use

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
