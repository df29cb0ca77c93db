"""What do shifted views cost inside a kernel?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("stencil"), ids=lambda c: c.name)
def test_stencil(benchmark, case, library):
    run_case(benchmark, case, library)
