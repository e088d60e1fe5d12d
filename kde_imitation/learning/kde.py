"""Kernel dependency estimation: from inputs to outputs through two feature spaces.

Input and output are each described by a kernel. Kernel PCA turns both into coordinates, a
regression joins the coordinates, and a pre-image turns predicted coordinates into an output
(Bakır 2006, sections 1.3 and 6.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.vectors import Linear
from kde_imitation.learning.kernel_pca import KernelPCA
from kde_imitation.learning.landmarks import choose_landmarks
from kde_imitation.learning.mrs import MRS
from kde_imitation.learning.preimage import Flags, Ints, PreImage, PreImages
from kde_imitation.learning.reduced_set import ReductionPath, reduce
from kde_imitation.learning.sklearn_versions import validate_data

# Directions of the regression weaker than this, relative to the strongest, are rounding.
RANK_TOLERANCE = 1e-10


class CombinationPreImage(PreImage):
    """The combination Σ_i γ_i y_i of the examples whose image in feature space is wanted.

    For the linear output kernel this is the pre-image itself, exactly.
    """

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        x = self.basis_.weights(coordinates) @ self.basis_.points_
        exact = np.full(len(x), isinstance(self._kernel, Linear))
        return x, np.zeros(len(x), dtype=np.intp), exact


class KernelDependencyEstimator(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a map between sets that kernels describe.

    Parameters
    ----------
    input_kernel, output_kernel : Kernel, callable or None
        None is the linear kernel.
    regressor : estimator, optional
        Any regressor that is linear in its inputs; by default `MRS` with its rank chosen by
        cross-validation.
    preimage : PreImage, optional
        By default the combination of examples, which is exact for the linear output kernel.
    input_components, output_components : float, int or None
        How many directions kernel PCA keeps, as `KernelPCA` takes it.
    landmarks : int, optional
        With more inputs than this, the input kernel PCA is computed on so many of them, spread
        out in feature space; all pairs still serve the regression. For thousands of inputs.

    Attributes
    ----------
    input_pca_, output_pca_ : KernelPCA
    regressor_ : fitted regressor between the coordinates
    preimage_ : fitted PreImage
    expansion_ : Expansion
        The embedding: all steps up to the pre-image folded into one kernel expansion of r
        columns, r the rank of the regression (6.3.1).
    lift_ : (r, outputs) array
        Turns an embedding into output coordinates, together with `lift_offset_`; its rows are
        orthonormal, so that distances between embeddings are those between coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from kde_imitation.kernels.vectors import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (80, 1))
    >>> Y = np.column_stack([np.sin(X), np.cos(X)])
    >>> model = KernelDependencyEstimator(Gaussian(0.5), input_components=0.999).fit(X, Y)
    >>> bool(abs(model.predict([[0.5]]) - [np.sin(0.5), np.cos(0.5)]).max() < 0.02)
    True
    """

    def __init__(
        self,
        input_kernel: Kernel | Any | None = None,
        output_kernel: Kernel | Any | None = None,
        regressor: Any | None = None,
        preimage: PreImage | None = None,
        input_components: float | int | None = 0.95,
        output_components: float | int | None = 0.95,
        landmarks: int | None = None,
    ) -> None:
        self.input_kernel = input_kernel
        self.output_kernel = output_kernel
        self.regressor = regressor
        self.preimage = preimage
        self.input_components = input_components
        self.output_components = output_components
        self.landmarks = landmarks

    def fit(
        self, X: npt.ArrayLike, Y: npt.ArrayLike, X_unpaired: npt.ArrayLike | None = None
    ) -> KernelDependencyEstimator:
        """Learn from pairs, and from inputs that have no output.

        Parameters
        ----------
        X : (n, d) array
        Y : (n, k) or (n,) array
        X_unpaired : (m, d) array, optional
            More inputs; they serve the input kernel PCA.
        """
        inputs, outputs = validate_data(
            self, X, Y, multi_output=True, y_numeric=True, dtype=np.float64, ensure_min_samples=2
        )
        self._flat_output = outputs.ndim == 1
        outputs = np.asarray(outputs, dtype=np.float64).reshape(len(inputs), -1)
        everything = inputs
        if X_unpaired is not None:
            more = check_array(X_unpaired, dtype=np.float64, input_name='X_unpaired')
            if more.shape[1] != inputs.shape[1]:
                raise BadInput(
                    f'X_unpaired has {more.shape[1]} features, but X has {inputs.shape[1]}; both '
                    'must come from the same feature pipeline.'
                )
            everything = np.vstack([inputs, more])
        self.input_pca_ = KernelPCA(self.input_kernel, self.input_components).fit(
            self._landmarks_of(everything)
        )
        self.output_pca_ = KernelPCA(self.output_kernel, self.output_components).fit(outputs)
        regressor = MRS(rank='cv') if self.regressor is None else clone(self.regressor)
        self.regressor_ = regressor.fit(
            self.input_pca_.transform(inputs), self.output_pca_.transform(outputs)
        )
        self._fold()
        preimage = CombinationPreImage() if self.preimage is None else clone(self.preimage)
        self.preimage_ = preimage.fit(self.output_pca_, outputs)
        return self

    def _landmarks_of(self, X: Floats) -> Floats:
        """Return all inputs, or as many of them as there may be landmarks."""
        if self.landmarks is None:
            return X
        if self.landmarks < 2:
            raise BadInput(f'landmarks must be at least 2, or None, not {self.landmarks}.')
        if len(X) <= self.landmarks:
            return X
        kernel = Linear() if self.input_kernel is None else self.input_kernel
        if not isinstance(kernel, Kernel):
            raise BadInput('landmarks need an input_kernel that is a Kernel, not a function.')
        return np.asarray(X[choose_landmarks(kernel, X, self.landmarks)])

    def _fold(self) -> None:
        """Fold input coordinates and regression into one expansion of as few columns as possible.

        The regression is read off as the affine map that it is, so that any linear regressor
        serves, and cut to its rank by a singular value decomposition.
        """
        size = self.input_pca_.n_components_
        probes = np.vstack([np.zeros((1, size)), np.eye(size), np.ones((1, size))])
        answers = np.asarray(self.regressor_.predict(probes), dtype=np.float64)
        answers = answers.reshape(len(probes), -1)
        offset, matrix = answers[0], answers[1:-1] - answers[0]
        if not np.allclose(answers[-1], offset + matrix.sum(axis=0), rtol=1e-6, atol=1e-9):
            raise BadInput(
                f'{type(self.regressor_).__name__} is not linear, so that its prediction cannot '
                'be folded into a kernel expansion; use MRS, PLS, ridge or another linear one.'
            )
        left, strengths, lift = np.linalg.svd(matrix, full_matrices=False)
        rank = max(int((strengths > RANK_TOLERANCE * strengths[0]).sum()), 1)
        self.lift_ = lift[:rank]
        self.lift_offset_ = offset
        self.full_expansion_ = self.input_pca_.expansion_.fold(left[:, :rank] * strengths[:rank])
        self.expansion_: Expansion = self.full_expansion_

    def _inputs(self, X: npt.ArrayLike) -> Floats:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def embed(self, X: npt.ArrayLike) -> Floats:
        """Return the embedding of X (m, d): shape (m, r)."""
        inputs = self._inputs(X)
        return self.expansion_(inputs)

    def coordinates(self, X: npt.ArrayLike) -> Floats:
        """Return the predicted coordinates in the output's kernel PCA basis, (m, outputs)."""
        result: Floats = self.embed(X) @ self.lift_ + self.lift_offset_
        return result

    def novelty(self, X: npt.ArrayLike) -> Floats:
        """Return how far X (m, d) lies from what the input side has seen: shape (m,)."""
        inputs = self._inputs(X)
        return self.input_pca_.residual(inputs)

    def solve(self, X: npt.ArrayLike, start: npt.ArrayLike | None = None) -> PreImages:
        """Predict with all that the pre-image tells: distance, steps, convergence."""
        wanted = self.coordinates(X)
        return self.preimage_.solve(wanted, start)

    def predict(self, X: npt.ArrayLike, start: npt.ArrayLike | None = None) -> Floats:
        """Predict outputs, (m, k) or (m,), for X (m, d).

        Parameters
        ----------
        X : (m, d) array
        start : (m, k) or (k,) array, optional
            Where a searching pre-image begins, for example the robot's posture now.
        """
        found = self.solve(X, start).x
        return found[:, 0] if self._flat_output else found

    def compress(
        self, n_points: int | None = None, max_error: float | None = None, **options: Any
    ) -> ReductionPath:
        """Replace the expansion by one of fewer points, and return the path of all sizes.

        The coefficients are fitted to the embeddings of all inputs that the full expansion knows.

        Parameters
        ----------
        n_points : int, optional
        max_error : float, optional
            Relative error of the embedding in feature space; one of the two must be given.
        options
            Handed on to `reduce`, such as `method`.
        """
        check_is_fitted(self)
        if (n_points is None) == (max_error is None):
            raise BadInput('Give n_points or max_error, one of the two.')
        path = reduce(self.full_expansion_, **options)
        self.expansion_ = path.at(
            n_points=n_points, max_error=max_error, on=self.full_expansion_.points
        )
        return path
