"""Kernel principal component analysis (Bakır 2006, algorithm A1.3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.lapack import dormqr, dsytrd, dsytrd_lwork
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.vectors import Linear
from kde_imitation.learning.sklearn_versions import validate_data

KernelFunction = Callable[[Floats, Floats], npt.ArrayLike]
Axes = tuple[Floats, Floats, Floats]

# Beyond these shares of the largest eigenvalue an eigenvalue is not rounding any more. A kernel
# computed from differences of large numbers is accurate to half of the digits.
NEGATIVE = 1e-7
RANK = 1e-12


class FunctionKernel(Kernel):
    """A kernel from a function of two sets of rows, as those of `sklearn.metrics.pairwise`.

    Parameters
    ----------
    function : callable
        Takes X (n, d) and Y (m, d), returns the matrix k(x_i, y_j) of shape (n, m).
    """

    def __init__(self, function: KernelFunction) -> None:
        self.function = function

    def _gram(self, X: Floats, Y: Floats) -> Floats:
        values = np.array(self.function(X, Y), dtype=np.float64, order='C')
        if values.shape != (len(X), len(Y)):
            raise BadInput(
                f'The kernel function returned shape {values.shape} for {len(X)} and {len(Y)} '
                f'rows; it must return the matrix of all pairs, ({len(X)}, {len(Y)}). For a '
                'function of two single rows use sklearn.metrics.pairwise_kernels(X, Y, '
                'metric=function).'
            )
        return values

    def _diagonal(self, X: Floats) -> Floats:
        blocks = [X[i : i + 32] for i in range(0, len(X), 32)]
        return np.concatenate([np.diagonal(self._gram(b, b)) for b in blocks])


class KernelRows(Kernel):
    """The kernel of `KernelPCA(kernel='precomputed')`: a row holds its values k(x, x_i) itself."""

    def expand(
        self, points: npt.ArrayLike, coefficients: npt.ArrayLike, X: npt.ArrayLike
    ) -> Floats:
        """Evaluate Σ_i α_i k(x_i, ·) for rows X (m, n) of kernel values: shape (m, r)."""
        weights = as_floats('coefficients', coefficients, (None, None))
        values: Floats = as_floats('X', X, (None, len(weights))) @ weights
        return values


def principal_axes(centred: Floats, choose: Callable[[Floats], int]) -> Axes:
    """Return the leading eigenvectors of a symmetric matrix, their number chosen on the way.

    The matrix is reduced to three diagonals once, in its own place. All eigenvalues follow from
    these at little cost, and only the vectors that `choose` asks for are computed. If they are
    more than a quarter of all, LAPACK needs room for as much again.

    Parameters
    ----------
    centred : (n, n) array
        Overwritten.
    choose : callable
        Gets all eigenvalues, descending, and returns how many vectors are wanted.

    Returns
    -------
    values : (r,) array, vectors : (n, r) array, all_values : (n,) array
        Descending. The first entry of a vector that is as large as any is positive.
    """
    n = len(centred)
    work, _ = dsytrd_lwork(n, lower=1)
    reflectors, diagonal, beside, factors, _ = dsytrd(
        centred.T, lower=1, lwork=int(work), overwrite_a=1
    )
    # Named, because SciPy 1.11 would choose a driver that needs as much room again.
    every = eigh_tridiagonal(diagonal, beside, eigvals_only=True, lapack_driver='sterf')
    all_values = every[::-1]
    r = choose(all_values)
    # For few vectors inverse iteration, which takes no more room than they do.
    driver = 'stebz' if 4 * r <= n else 'stemr'
    values, vectors = eigh_tridiagonal(
        diagonal, beside, select='i', select_range=(n - r, n - 1), lapack_driver=driver
    )
    if n > 1:
        tail = np.asfortranarray(vectors[1:])
        # The reflectors stand below the diagonal. Counted from the second number on, the columns
        # begin with them, so that they need not be copied.
        below = reflectors.ravel('K')[1 : 1 + n * (n - 1)].reshape((n, n - 1), order='F')
        vectors[1:] = dormqr('L', 'N', below, factors, tail, lwork=64 * max(n, r))[0]
    return values[::-1], _signed(vectors)[:, ::-1], all_values


def principal_axes_of_features(features: Floats, choose: Callable[[Floats], int]) -> Axes:
    """Return what `principal_axes` does, for the Gram matrix of few centred features (n, f)."""
    vectors, strengths, _ = np.linalg.svd(features, full_matrices=False)
    all_values = strengths**2
    r = choose(all_values)
    return all_values[:r], _signed(vectors[:, :r]), all_values


def _signed(vectors: Floats) -> Floats:
    """Turn each column so that the first of its entries that are as large as any is positive."""
    size = np.abs(vectors)
    first = (size > (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    turned: Floats = vectors * np.where(vectors[first, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return turned


def _few_features(kernel: Kernel, rows: Floats) -> Floats | None:
    """Return φ (n, f) where the kernel has a feature map with fewer features than points."""
    features = getattr(kernel, 'features', None)
    if features is None:
        return None
    values = np.asarray(features(rows), dtype=np.float64)
    return values if values.shape[1] < len(rows) else None


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Coordinates of points along the directions in which they vary most in feature space.

    With the centred Gram matrix K and K α_j = λ_j α_j, ‖α_j‖ = 1, the directions are
    v_j = λ_j^(−1/2) Σ_i α_ij φ(x_i), orthonormal in feature space (Bakır 2006, A1.3; equation 15
    prints λ_j / N for λ_j, and leaves the centring out). New points are centred with the mean of
    the training points.

    Parameters
    ----------
    kernel : Kernel, callable, 'precomputed' or None
        A callable takes two sets of rows and returns the matrix of all pairs, as the functions of
        `sklearn.metrics.pairwise` do. With 'precomputed', `fit` gets the Gram matrix (n, n) and
        `transform` rows (m, n) of kernel values between new and training points. None is the
        linear kernel: ordinary principal component analysis.
    n_components : float, int or None
        A float from 0 to 1 keeps as many directions as explain this share of the variance; an int
        keeps that many; None keeps every direction with any variance.

    Attributes
    ----------
    points_ : (n, d) array
        The training points (for 'precomputed', their numbers, (n, 1)).
    eigenvalues_ : (r,) array
        Of the centred Gram matrix, descending.
    vectors_ : (n, r) array
        α_j / √λ_j; each column sums to zero.
    expansion_ : Expansion
        The coordinates as a function: `expansion_(X)` is `transform(X)`.
    explained_variance_ratio_ : (r,) array
    n_components_ : int
        The number of directions kept, r.

    Examples
    --------
    >>> import numpy as np
    >>> from kde_imitation.kernels.vectors import Gaussian
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> pca = KernelPCA(Gaussian(0.1), n_components=0.9).fit(X)
    >>> pca.transform(X[:5]).shape == (5, pca.n_components_)
    True
    """

    def __init__(
        self,
        kernel: Kernel | KernelFunction | str | None = None,
        n_components: float | int | None = 0.95,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components

    def fit(self, X: npt.ArrayLike, y: object = None) -> KernelPCA:
        """Find the directions from X (n, d), or from the Gram matrix if 'precomputed'."""
        self._fit(X)
        return self

    def fit_transform(self, X: npt.ArrayLike, y: object = None) -> Floats:
        """Fit, and return the coordinates of the training points, (n, r)."""
        self._fit(X)
        return np.asarray(self.vectors_ * self.eigenvalues_)

    def _fit(self, X: npt.ArrayLike) -> None:
        kernel = self._resolve_kernel()
        self._check_wanted()
        rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if isinstance(kernel, KernelRows):
            self.points_ = np.arange(len(rows), dtype=np.float64)[:, None]
            means, found = self._from_gram(self._check_square(rows).copy())
        else:
            self.points_ = rows.copy()
            features = _few_features(kernel, rows)
            if features is None:
                means, found = self._from_gram(kernel(rows))
            else:
                means, found = self._from_features(features)
        self._mean = float(means.mean())
        values, vectors, every = found
        self.eigenvalues_ = values
        self.vectors_ = vectors / np.sqrt(values)
        self.vectors_ -= self.vectors_.mean(axis=0)
        self.explained_variance_ratio_ = values / every[every > 0].sum()
        self.n_components_ = self._n_features_out = len(values)
        self.expansion_ = Expansion(kernel, self.points_, self.vectors_, -means @ self.vectors_)

    def _from_gram(self, gram: Floats) -> tuple[Floats, Axes]:
        """Return the column means (n,) and the principal axes of a Gram matrix, overwritten."""
        means = gram.mean(axis=0)
        scale = float(np.abs(np.diagonal(gram)).max()) * len(gram)
        gram -= means
        gram -= means[:, None] - means.mean()
        return means, principal_axes(gram, lambda all_: self._count(all_, scale))

    def _from_features(self, features: Floats) -> tuple[Floats, Axes]:
        """Return what `_from_gram` does for the Gram matrix of features (n, f)."""
        centre = features.mean(axis=0)
        scale = float((features**2).sum(axis=1).max()) * len(features)
        axes = principal_axes_of_features(features - centre, lambda all_: self._count(all_, scale))
        return features @ centre, axes

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return the coordinates of X (m, d) along the directions, (m, r)."""
        check_is_fitted(self)
        return self.expansion_(validate_data(self, X, dtype=np.float64, reset=False))

    def residual(self, X: npt.ArrayLike, diagonal: npt.ArrayLike | None = None) -> Floats:
        """Return how far φ(x) lies from the principal subspace: large for what is novel.

        Parameters
        ----------
        X : (m, d) array
        diagonal : (m,) array, optional
            The values k(x, x); needed with 'precomputed', where they cannot be computed.

        Returns
        -------
        (m,) array
            ‖φ(x) − mean − Σ_j c_j v_j‖. A difference of squares, so that values below about 1e-8
            times √k(x, x) are rounding.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        kernel = self.expansion_.kernel
        if diagonal is not None:
            squares = as_floats('diagonal', diagonal, (len(rows),))
        elif isinstance(kernel, KernelRows):
            raise BadInput(
                "With kernel='precomputed' the residual needs the values k(x, x): pass them as "
                'diagonal.'
            )
        else:
            squares = kernel.diagonal(rows)
        n, r = self.vectors_.shape
        both = np.concatenate([self.vectors_, np.full((n, 1), 1.0 / n)], axis=1)
        values = kernel.expand(self.points_, both, rows)
        coordinates = values[:, :r] + self.expansion_.offset
        rest = squares - 2.0 * values[:, r] + self._mean - (coordinates**2).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(rest, 0.0)))

    def weights(self, coordinates: npt.ArrayLike) -> Floats:
        """Write points of the principal subspace as combinations of the training points.

        Parameters
        ----------
        coordinates : (m, r) array
            c, as `transform` gives them.

        Returns
        -------
        (m, n) array
            γ with Σ_i γ_i φ(x_i) = mean + Σ_j c_j v_j. Each row sums to one.
        """
        check_is_fitted(self)
        places = as_floats('coordinates', coordinates, (None, self.n_components_))
        return np.asarray(places @ self.vectors_.T + 1.0 / len(self.vectors_))

    def _resolve_kernel(self) -> Kernel:
        if self.kernel is None:
            return Linear()
        if isinstance(self.kernel, Kernel):
            return self.kernel
        if isinstance(self.kernel, str) and self.kernel == 'precomputed':
            return KernelRows()
        if callable(self.kernel):
            return FunctionKernel(self.kernel)
        raise BadInput(
            f"kernel must be a Kernel, a callable, 'precomputed' or None, not {self.kernel!r}."
        )

    def _check_wanted(self) -> None:
        wanted = self.n_components
        if wanted is None:
            return
        if isinstance(wanted, bool) or not isinstance(wanted, (int, float, np.number)):
            share = False
        elif isinstance(wanted, (int, np.integer)):
            if wanted < 1:
                raise BadInput(f'n_components is {wanted}; at least one direction must be kept.')
            return
        else:
            share = 0 < wanted <= 1
        if not share:
            raise BadInput(
                f'n_components is {wanted!r}; it must be a share of variance between 0 and 1, a '
                'whole number of directions, or None.'
            )

    def _check_square(self, gram: Floats) -> Floats:
        if gram.shape[0] != gram.shape[1]:
            raise BadInput(
                f"With kernel='precomputed' fit needs the square Gram matrix, not {gram.shape}."
            )
        blocks = [slice(i, i + 64) for i in range(0, len(gram), 64)]
        skew = max(np.abs(gram[b] - gram[:, b].T).max() for b in blocks)
        if skew > 1e-8 * max(gram.max(), -gram.min()):
            raise BadInput('The precomputed Gram matrix is not symmetric, so it is no kernel.')
        return gram

    def _count(self, values: Floats, scale: float) -> int:
        """Return how many of all eigenvalues to keep; `scale` is what they were computed from."""
        if values[0] <= RANK * scale:
            raise BadInput(
                'All points are the same in feature space, so that there is no direction to '
                'find; check the data and the kernel.'
            )
        if values[-1] < -max(NEGATIVE * values[0], RANK * scale):
            raise BadInput(
                f'The kernel is not positive: the centred Gram matrix has an eigenvalue of '
                f'{values[-1]:.3g} beside a largest of {values[0]:.3g}. Use a positive '
                'semidefinite kernel.'
            )
        rank = int((values > RANK * max(values[0], scale)).sum())
        wanted = self.n_components
        if wanted is None:
            return rank
        if isinstance(wanted, (int, np.integer)):
            if wanted > rank:
                warnings.warn(
                    f'n_components is {wanted}, but the points span only {rank} directions in '
                    f'feature space; {rank} are kept.',
                    stacklevel=4,
                )
            return min(int(wanted), rank)
        share = np.cumsum(values[:rank]) / values[values > 0].sum()
        return min(int(np.searchsorted(share, float(wanted) - 1e-12)) + 1, rank)

    def __sklearn_tags__(self) -> object:
        """Say that a precomputed kernel comes in pairs, so that folds cut rows and columns."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._more_tags()['pairwise']
        return tags

    def _more_tags(self) -> dict[str, bool]:
        """Say the same to scikit-learn before 1.6."""
        return {'pairwise': isinstance(self.kernel, str) and self.kernel == 'precomputed'}
