"""Other projects' own tests with frit as the array library: python -m tests.suites [sklearn] [scipy]

scikit-learn: the checks that its estimators and metrics run on every library of the Array API.  SciPy: the tests of functions
that take arrays of any library, in which frit stands where array-api-strict would.  Both come with the wheels.  Each failure
is printed with its reason, if one is known; the exit status tells whether all are.

For SciPy this file is a plugin of pytest too."""
import collections
import functools
import os
import subprocess
import sys
import tempfile
import types
import warnings
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STRICT = "array_api_strict"

KNOWN = {
    "GaussianMixture full float32": "float32 covariances of condition 3e6: NumPy's own result differs as much for X one ULP off",
    "TestGetWindow::test_xp_default": "asks that a result is no np.ndarray: isinstance says of a tensor what NumPy's array is",
    "average_precision_score check": "array_api_extra looks up the type of what isinstance has as a float; it is frit.Number's",
}

SCIPY = """cluster/tests/test_hierarchy cluster/tests/test_vq fft/tests/test_basic fft/tests/test_helper integrate/tests/test_quadrature
signal/tests/test_filter_design signal/tests/test_fir_filter_design signal/tests/test_savitzky_golay signal/tests/test_signaltools
signal/tests/test_upfirdn signal/tests/test_windows spatial/transform/tests/test_rotation stats/tests/test_entropy
stats/tests/test_morestats stats/tests/test_quantile stats/tests/test_rank stats/tests/test_variation""".split()


class InPlaceOfStrict(types.ModuleType):
    """What SciPy's fixture imports as array_api_strict and asks for its version and flags."""
    __version__ = "2.5"

    def set_array_api_strict_flags(self, **flags):
        pass

    def __getattr__(self, name):
        import frit
        return getattr(frit, name)


if STRICT in os.environ.get("SCIPY_ARRAY_API", ""):
    sys.modules[STRICT] = InPlaceOfStrict(STRICT)


def scipy():
    """Yields (test, None or what went wrong)."""
    import scipy
    folder = os.path.dirname(scipy.__file__)
    with tempfile.TemporaryDirectory() as empty:        # not where something is called scipy or frit
        report = os.path.join(empty, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.suites", "-m", "array_api_backends",
                   "--rootdir", folder, "--junitxml", report, *(os.path.join(folder, f"{name}.py") for name in SCIPY)]
        env = {**os.environ, "SCIPY_ARRAY_API": f'["{STRICT}"]',
               "PYTHONPATH": os.pathsep.join([ROOT, os.path.join(ROOT, "python")])}
        said = subprocess.run(command, cwd=empty, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(report):
            raise SystemExit(said.stdout)
        cases = list(xml.etree.ElementTree.parse(report).iter("testcase"))
    for case in cases:
        wrong = next((e for e in case if e.tag in ("failure", "error")), None)
        if case.find("skipped") is None:
            place = case.get("classname").rpartition("tests.")[2]
            yield "::".join([*place.split("."), case.get("name")]), None if wrong is None else wrong.get("message")


def estimators():
    from sklearn import decomposition, discriminant_analysis, kernel_approximation, linear_model, mixture, naive_bayes, preprocessing
    from sklearn.model_selection import GridSearchCV
    mixed = functools.partial(mixture.GaussianMixture, n_components=2, init_params="random_from_data", random_state=0)
    yield from (decomposition.PCA(2, svd_solver=solver, random_state=0, power_iteration_normalizer="QR", whiten=whiten)
                for solver in ("full", "covariance_eigh", "randomized") for whiten in (False, True))
    yield from (linear_model.Ridge(solver="svd"), linear_model.RidgeCV(), linear_model.RidgeClassifierCV(),
                linear_model.LogisticRegression(), linear_model.PoissonRegressor(), GridSearchCV(linear_model.Ridge(solver="svd"),
                                                                                               {"alpha": [0.1, 1]}, cv=2))
    yield from (discriminant_analysis.LinearDiscriminantAnalysis(), naive_bayes.GaussianNB(), mixed(), mixed(covariance_type="diag"))
    yield from (preprocessing.Normalizer(norm=norm) for norm in ("l1", "l2", "max"))
    yield from (scaler(clip=clip) for scaler in (preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler) for clip in (False, True))
    yield from (preprocessing.StandardScaler(), preprocessing.Binarizer(), preprocessing.KernelCenterer(),
                preprocessing.PolynomialFeatures(), kernel_approximation.Nystroem(random_state=0))


def sklearn():
    """Yields (check, None or what went wrong)."""
    os.environ["SCIPY_ARRAY_API"] = "1"     # before SciPy is imported, without which every check passes itself over
    warnings.simplefilter("ignore")
    from sklearn.metrics.tests.test_common import array_api_metric_checkers
    from sklearn.utils.estimator_checks import check_array_api_input
    checks = {}
    for dtype in ("float64", "float32"):
        for e in estimators():
            kind = getattr(e, "covariance_type", "")
            checks[" ".join(filter(None, [repr(e) if not kind else type(e).__name__, kind, dtype]))] = functools.partial(
                check_array_api_input, type(e).__name__, e, "frit", None, dtype, check_values=True)
        for metric, checkers in array_api_metric_checkers.items():
            name = getattr(metric, "__name__", None) or getattr(metric, "func", metric).__name__
            for check in checkers:
                checks[f"{name} {check.__name__} {dtype}"] = functools.partial(check, metric, "frit", None, dtype)
    for name, check in checks.items():
        try:
            check()
            yield name, None
        except BaseException as e:          # pytest's own failures are none of Exception
            if type(e).__name__ not in ("Skipped", "SkipTest"):
                yield name, f"{type(e).__name__}: {e}"


def main(chosen):
    unknown = 0
    for suite in (sklearn, scipy):
        if chosen and suite.__name__ not in chosen:
            continue
        counts = collections.Counter()
        for name, wrong in suite():
            counts[wrong is None] += 1
            if wrong is not None:
                reason = next((r for part, r in KNOWN.items() if part in name), None)
                unknown += reason is None
                print(f"{suite.__name__}: {name} failed: {reason or ' '.join(wrong.split())[:200]}", flush=True)
        print(f"{suite.__name__}: {counts[True]} passed, {counts[False]} failed", flush=True)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
