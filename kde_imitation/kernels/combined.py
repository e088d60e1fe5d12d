"""Kernels made of others, and kernels given as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels._twin import Term
from kde_imitation.kernels.base import Kernel

__all__ = ['Precomputed', 'WeightedSum']

Columns = slice | Sequence[int] | npt.NDArray[np.integer[Any]] | None
Part = tuple[Kernel, float, Columns]
Indices = npt.NDArray[np.intp]


def _take(X: Floats, columns: Indices) -> Floats:
    """Return some columns in the layout that the compiled loops read."""
    return np.ascontiguousarray(X[:, columns])


class WeightedSum(Kernel):
    """k(x, y) = Σ_j w_j k_j(x, y), each k_j on its own columns of the input.

    So pictures are compared by shape and by colour (Bakır 2006, section 6.1.3): the sum of one
    kernel on the histogram of shapes and two on the histograms of skin, k_sc = k_S + k_C.

    Parameters
    ----------
    parts : sequence of (kernel, weight, columns)
        A weight is at least zero, and one is above. Columns are a slice, a sequence of column
        numbers, or None for all.

    Notes
    -----
    Besides `parts`, `set_params` and scikit-learn's searches know `weights`, all of them;
    `weight0`, `weight1`, …; `kernel0`, `kernel1`, …; and the parameters of these, as in
    `kernel0__gamma`.

    Examples
    --------
    >>> from kde_imitation.kernels.vectors import Gaussian, TotalVariation
    >>> kernel = WeightedSum([(TotalVariation(), 1.0, slice(0, 2)), (Gaussian(0.5), 3.0, [2])])
    >>> kernel([[0.5, 0.5, 0.0]], [[0.25, 0.75, 0.0]])
    array([[3.75]])
    >>> kernel.set_params(weights=[1.0, 0.0])([[0.5, 0.5, 0.0]], [[0.25, 0.75, 0.0]])
    array([[0.75]])
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with deep those of the parts as well."""
        found: dict[str, Any] = {'parts': self.parts}
        if deep:
            found['weights'] = [weight for _, weight, _ in self.parts]
            for j, (kernel, weight, _) in enumerate(self.parts):
                found[f'weight{j}'], found[f'kernel{j}'] = weight, kernel
                inner = kernel.get_params() if hasattr(kernel, 'get_params') else {}
                found.update({f'kernel{j}__{name}': value for name, value in inner.items()})
        return found

    def set_params(self, **params: Any) -> WeightedSum:
        """Set parameters by the names that `get_params` gives; `parts` itself is not changed."""
        if 'parts' in params:
            self.parts = params.pop('parts')
        parts: list[list[Any]] = [list(part) for part in self.parts]
        if 'weights' in params:
            weights = list(params.pop('weights'))
            if len(weights) != len(parts):
                raise BadInput(
                    f'weights has {len(weights)} values, but there are {len(parts)} parts; give '
                    'one for each.'
                )
            for part, weight in zip(parts, weights):
                part[1] = weight
        inner: dict[int, dict[str, Any]] = {}
        known = {f'{what}{j}': (j, at) for j in range(len(parts)) for what, at in SETTABLE.items()}
        for name, value in params.items():
            outer, _, rest = name.partition('__')
            if outer not in known or (rest and known[outer][1] != 0):
                raise BadInput(
                    f'WeightedSum has no parameter {name!r}; it has parts, weights, '
                    f'{", ".join(known)}, and those of the kernels, as in kernel0__gamma.'
                )
            j, at = known[outer]
            if rest:
                inner.setdefault(j, {})[rest] = value
            else:
                parts[j][at] = value
        for j, changes in inner.items():
            parts[j][0].set_params(**changes)
        self.parts = [(kernel, weight, columns) for kernel, weight, columns in parts]
        return self

    def _checked(self, columns: int) -> Iterator[tuple[Kernel, float, Indices]]:
        """Give kernel, weight and column numbers of each part, for inputs of so many columns."""
        weights = as_floats('weights', [weight for _, weight, _ in self.parts], (None,))
        if (weights < 0).any():
            raise BadInput(
                f'weights are {weights.tolist()}; none may be negative, or the kernel would not '
                'be positive semidefinite.'
            )
        if not (weights > 0).any():
            raise BadInput('weights are all zero; give at least one part a positive weight.')
        for j, ((kernel, _, chosen), weight) in enumerate(zip(self.parts, weights)):
            if not isinstance(kernel, Kernel):
                raise BadInput(f'Part {j} holds {kernel!r} where a Kernel is wanted.')
            yield kernel, float(weight), self._numbers(j, chosen, columns)

    @staticmethod
    def _numbers(part: int, chosen: Columns, columns: int) -> Indices:
        """Return the numbers of the columns that a part uses."""
        every = np.arange(columns, dtype=np.intp)
        if chosen is None:
            return every
        if isinstance(chosen, slice):
            if chosen.stop is not None and chosen.stop > columns:
                raise BadInput(
                    f'Part {part} uses columns up to {chosen.stop}, but the input has {columns}.'
                )
            picked: Indices = every[chosen]
        else:
            numbers = np.asarray(chosen)
            if numbers.ndim != 1 or numbers.dtype.kind not in 'iu':
                raise BadInput(
                    f'Part {part} has columns {chosen!r}; give a slice, a sequence of column '
                    'numbers, or None for all.'
                )
            if ((numbers < -columns) | (numbers >= columns)).any():
                raise BadInput(
                    f'Part {part} uses columns {numbers.tolist()}, but the input has {columns}.'
                )
            picked = every[numbers]
        if not len(picked):
            raise BadInput(f'Part {part} uses no column; leave it out or give it some.')
        return picked

    def _check(self, name: str, X: Floats) -> None:
        for kernel, _, columns in self._checked(X.shape[1]):
            kernel._check(name, _take(X, columns))

    def _terms(self, columns: int) -> list[Term] | None:
        terms = []
        for kernel, weight, chosen in self._checked(columns):
            inner = kernel._terms(len(chosen))
            if inner is None:
                return None
            terms += [
                term._replace(weight=weight * term.weight, columns=chosen[term.columns])
                for term in inner
                if weight > 0
            ]
        return terms

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        if self._terms(X.shape[1]) is not None:
            return super()._gram(X, Y)
        total = np.zeros((len(X), len(Y)))
        for kernel, weight, columns in self._checked(X.shape[1]):
            left = _take(X, columns)
            total += weight * kernel._gram(left, left if Y is X else _take(Y, columns))
        return total

    def _diagonal(self, X: Floats) -> Floats:
        total = np.zeros(len(X))
        for kernel, weight, columns in self._checked(X.shape[1]):
            total += weight * kernel._diagonal(_take(X, columns))
        return total

    def _expand(self, points: Floats, coefficients: Floats, X: Floats) -> Floats:
        if self._terms(X.shape[1]) is not None:
            return super()._expand(points, coefficients, X)
        total = np.zeros((len(X), coefficients.shape[1]))
        for kernel, weight, columns in self._checked(X.shape[1]):
            own = kernel._expand(_take(points, columns), coefficients, _take(X, columns))
            total += weight * own
        return total

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        total = np.zeros(points.shape)
        for kernel, weight, columns in self._checked(len(x)):
            if weight > 0:
                slopes = weight * kernel._gradient(x[columns], _take(points, columns))
                # A column may occur twice.
                np.add.at(total.T, columns, slopes.T)
        return total


# The parameters of a part, and where it holds them.
SETTABLE = {'kernel': 0, 'weight': 1}


class Precomputed(Kernel):
    """A kernel of things known by number: k(i, j) is an entry of a given matrix.

    An input is a row with one number, 0 to n − 1. So strings, graphs or whole recordings can be
    learned from, once they have been compared with each other; folds and searches cut the
    numbers, and the matrix stays whole.

    Parameters
    ----------
    matrix : (n, n) array
        Symmetric and positive semidefinite.

    Examples
    --------
    >>> Precomputed([[1.0, 0.5], [0.5, 1.0]])([[0], [1]], [[1]])
    array([[0.5],
           [1. ]])
    """

    def __init__(self, matrix: npt.ArrayLike) -> None:
        self.matrix = matrix

    def _checked(self) -> Floats:
        # Looking through the whole matrix takes longer than most uses of it: do it once.
        seen, matrix = getattr(self, '_seen', (None, None))
        if matrix is not None and seen is self.matrix:
            return np.asarray(matrix)
        matrix = as_floats('matrix', self.matrix, (None, None))
        if matrix.shape[0] != matrix.shape[1]:
            raise BadInput(f'matrix must be square, not {matrix.shape}.')
        scale = np.abs(matrix).max(initial=0.0)
        if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-8 * scale:
            raise BadInput('matrix must be symmetric: k(i, j) is k(j, i).')
        if np.diagonal(matrix).min(initial=0.0) < 0:
            raise BadInput('matrix has a negative entry on its diagonal, so it is no kernel.')
        self._seen = (self.matrix, matrix)
        return matrix

    def _check(self, name: str, X: Floats) -> None:
        if X.shape[1] != 1:
            raise BadInput(
                f'{name} must have one column, the numbers of things, not {X.shape[1]}.'
            )
        last = len(self._checked()) - 1
        if X.size and (X.min() < 0 or X.max() > last or (X % 1 != 0).any()):
            raise BadInput(f'{name} must hold whole numbers from 0 to {last}.')

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        rows, columns = X[:, 0].astype(np.intp), Y[:, 0].astype(np.intp)
        return np.asarray(self._checked()[np.ix_(rows, columns)])

    def _diagonal(self, X: Floats) -> Floats:
        return np.asarray(np.diagonal(self._checked())[X[:, 0].astype(np.intp)])

    def _gradient(self, x: Floats, points: Floats) -> Floats:
        raise BadInput('Precomputed has no gradient: between two numbered things there is none.')
