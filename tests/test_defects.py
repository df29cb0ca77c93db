"""The defects of defects.py are put in by `make soak` only: here they are still where it looks for them."""
import os
import re

import pytest

from .common import ROOT
from .defects import DEFECTS


@pytest.mark.parametrize("name", DEFECTS)
def test_there_is_one_place_for_each(name):
    with open(os.path.join(ROOT, "csrc", DEFECTS[name].path)) as f:
        assert len(re.findall(DEFECTS[name].pattern, f.read(), re.M)) == 1
