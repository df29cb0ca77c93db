"""How much does fusing save on chains of element-wise operations, cheap and dear?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("a*b+c", "(a-b)", "gelu", "Black", "polynomial", "40 operations"),
                         ids=lambda c: c.name)
def test_chain(benchmark, case, library):
    run_case(benchmark, case, library)
