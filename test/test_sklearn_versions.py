"""Inputs are checked alike by every scikit-learn that serves."""

import importlib

import numpy as np
import pytest
import sklearn.utils.validation
from sklearn.base import BaseEstimator

from kde_imitation.learning import sklearn_versions


class Before(BaseEstimator):
    """An estimator of scikit-learn before 1.6, with the method that was taken away later."""

    def _validate_data(self, *args, **kwargs):
        return self, args, kwargs


@pytest.fixture
def before(monkeypatch):
    """Return the module as it is where scikit-learn has no function for the check."""
    with monkeypatch.context() as patch:
        patch.delattr(sklearn.utils.validation, 'validate_data', raising=False)
        yield importlib.reload(sklearn_versions)
    importlib.reload(sklearn_versions)


def test_the_method_of_earlier_versions_gets_all_that_the_function_would(before):
    estimator = Before()
    X, y = [[1.0]], [2.0]
    answer = before.validate_data(estimator, X, y, reset=False, dtype=np.float64)
    assert answer == (estimator, (X, y), {'reset': False, 'dtype': np.float64})


def test_the_number_of_features_is_remembered_and_held():
    estimator = BaseEstimator()
    rows = sklearn_versions.validate_data(estimator, [[1, 2], [3, 4]], dtype=np.float64)
    assert rows.dtype == np.float64
    assert estimator.n_features_in_ == 2
    with pytest.raises(ValueError, match=r'3 features.*expecting 2'):
        sklearn_versions.validate_data(estimator, [[1, 2, 3]], reset=False)
