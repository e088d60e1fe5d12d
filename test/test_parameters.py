"""Parameters without scikit-learn, held against scikit-learn's own."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from kde_imitation.errors import BadInput
from kde_imitation.kernels import Gaussian, Linear
from kde_imitation.kernels.parameters import Parametric, check_fitted


class Shift:
    def __init__(self, by: float = 0.0, kernel: Any = None, kind: type = float) -> None:
        self.by = by
        self.kernel = kernel
        self.kind = kind

    def fit(self, X: Any, y: Any = None) -> Any:
        self.mean_ = np.mean(X, axis=0)
        return self

    def transform(self, X: Any) -> Any:
        check_fitted(self, 'mean_')
        return np.tanh(X - self.mean_ + self.by)


class Ours(Shift, Parametric):
    pass


class Theirs(Shift, TransformerMixin, BaseEstimator):
    pass


both = pytest.mark.parametrize('cls', [Ours, Theirs])
VALUES = [{}, {'by': 2.0}, {'kernel': Gaussian(0.5)}, {'by': 1.0, 'kernel': Linear(), 'kind': int}]


@pytest.mark.parametrize('values', VALUES, ids=str)
@pytest.mark.parametrize('deep', [False, True])
def test_parameters_have_the_names_of_scikit_learn(values: dict[str, Any], deep: bool) -> None:
    assert Ours(**values).get_params(deep) == Theirs(**values).get_params(deep)


@pytest.mark.parametrize('values', VALUES, ids=str)
def test_only_parameters_that_were_chosen_are_shown(values: dict[str, Any]) -> None:
    theirs = repr(Theirs(**values)).replace('Theirs', 'Ours')
    assert repr(Ours(**values)) == ' '.join(theirs.split())


@both
def test_parameters_are_set_also_inside_of_parameters(cls: type[Any]) -> None:
    inner = Gaussian(0.5)
    made = cls(kernel=inner)
    assert made.set_params(by=3.0, kernel__gamma=0.25) is made
    assert (made.by, made.kernel, inner.gamma) == (3.0, inner, 0.25)
    # What is inside belongs to the new parameter, whichever is named first.
    made.set_params(kernel__gamma=7.0, kernel=Gaussian(1.0))
    assert (made.kernel.gamma, inner.gamma) == (7.0, 0.25)
    assert made.set_params() is made


@both
def test_a_clone_has_copies_of_the_parameters_and_nothing_learned(cls: type[Any]) -> None:
    made = cls(2.0, Gaussian(0.5)).fit(np.eye(3))
    copy = clone(made)
    assert type(copy) is cls
    assert copy.by == 2.0
    assert copy.kernel is not made.kernel
    assert copy.kernel.gamma == 0.5
    assert not hasattr(copy, 'mean_')
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).mean_, made.mean_)


def test_it_is_piped_and_searched_with_the_same_result() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.tanh(X + 1.0).sum(axis=1)
    scores = {}
    for cls in (Ours, Theirs):
        pipe = make_pipeline(cls(), Ridge(1e-6))
        name = f'{cls.__name__.lower()}__by'
        search = GridSearchCV(pipe, {name: [0.0, 0.5, 1.0]}, cv=4).fit(X, y)
        scores[cls] = search.cv_results_['mean_test_score']
        assert search.best_estimator_.predict(X).shape == (40,)
        assert search._repr_html_()
    np.testing.assert_array_equal(scores[Ours], scores[Theirs])


@pytest.mark.parametrize(
    ('made', 'name', 'message'),
    [
        (Ours(), 'bye', "Ours has no parameter 'bye'; it has by, kernel, kind."),
        (Ours(), 'by__more', "Ours has no parameter 'by__more'; it has by, kernel, kind."),
        (
            Ours(kernel=Gaussian()),
            'kernel__gama',
            "Gaussian has no parameter 'gama'; it has gamma.",
        ),
        (Linear(), 'slope', "Linear has no parameter 'slope'; it has none."),
    ],
)
def test_an_unknown_parameter_is_refused(made: Any, name: str, message: str) -> None:
    before = made.get_params()
    with pytest.raises(BadInput) as error:
        made.set_params(**{name: 1.0})
    assert str(error.value) == message
    assert made.get_params() == before


@both
def test_what_is_not_fitted_says_so_in_the_way_of_scikit_learn(cls: type[Any]) -> None:
    with pytest.raises(NotFittedError, match=f'This {cls.__name__} is not fitted; call its fit'):
        cls().transform(np.eye(2))
    assert cls().fit(np.eye(2)).transform(np.eye(2)).shape == (2, 2)
