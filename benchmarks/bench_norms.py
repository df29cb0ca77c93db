"""Are layer norm forward and backward one pass over memory?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("layer norm"), ids=lambda c: c.name)
def test_norms(benchmark, case, library):
    run_case(benchmark, case, library)
