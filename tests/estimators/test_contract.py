"""scikit-learn's own checks of an estimator, all of them, with nothing expected to fail.

Nearly all of their time is compilation, which each number of columns needs anew. Checks that fit nothing, or 20 to 30 rows of three
columns, run by default; the rest of them are slow tests.
"""

import functools

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

import harmix as hx

pytestmark = [
    # The checks predict far away from the data, on purpose.
    pytest.mark.filterwarnings("ignore::harmix.ExtrapolationWarning"),
]

FIT_OTHER_SHAPES = {
    "check_estimators_overwrite_params",
    "check_estimators_fit_returns_self",
    "check_readonly_memmap_input",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_estimators_dtypes",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",  # test_weights_count_rows has the same with one column
    "check_dtype_object",
    "check_pipeline_consistency",
    "check_estimators_nan_inf",
    "check_regressors_train",
    "check_regressor_data_not_an_array",
    "check_regressors_no_decision_function",
    "check_regressors_int",
    "check_classifiers_train",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_decision_proba_consistency",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",  # test_copies_and_pickles_keep_every_bit
    "check_fit2d_1feature",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_n_features_in",
}
DEFAULTS = [hx.HarmonizableGPRegressor(), hx.HarmonizableGPClassifier()]
QUICK = [hx.HarmonizableGPRegressor(n_restarts=1, inference="map"), hx.HarmonizableGPClassifier(n_restarts=1)]


def checks(estimators, wanted):
    found = []
    for estimator in estimators:
        for one, check in estimator_checks_generator(estimator, mark="skip"):
            name = check.func.__name__ if isinstance(check, functools.partial) else check.__name__
            if wanted(name):
                words = [type(one).__name__, name, *(f"{k}={v}" for k, v in check.keywords.items())]
                found.append(pytest.param(one, check, id="-".join(words)))
    return found


@pytest.mark.parametrize(("estimator", "check"), checks(QUICK, lambda name: name not in FIT_OTHER_SHAPES))
def test_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), checks(DEFAULTS, lambda name: True))
def test_contract_with_every_setting_as_it_comes(estimator, check):
    check(estimator)
