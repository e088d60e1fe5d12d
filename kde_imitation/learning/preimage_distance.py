"""Pre-images from distances to a few examples (Bakır 2006, 3.2.3, algorithm A3.2).

How far Ψ is from an example in feature space says how far the pre-image should be from it in input
space, if the kernel can be turned round. From a few such distances the pre-image follows in closed
form, as a position follows from distances to landmarks.
"""

from __future__ import annotations

import numpy as np

from kde_imitation.checks import Floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.vectors import Gaussian, Linear, Polynomial
from kde_imitation.learning.preimage import Flags, Ints, PreImage, nearest

__all__ = ['DistancePreImage']


class DistancePreImage(PreImage):
    """The point at the wanted distances from the nearest examples, in the least-squares sense.

    Serves kernels from which the distance of two patterns can be had: Gaussian (equation 9),
    linear, and polynomial of odd degree (equation 16; the polynomial's offset cancels out).
    Pre-images lie in the affine span of the neighbours, and no kernel value is computed for them.

    Equation (10) takes the distance of an example from Ψ inside the basis alone. The example's
    part outside is known as well, and is counted here; with it the linear kernel is inverted
    exactly, however few directions the basis keeps.

    Parameters
    ----------
    n_neighbors : int ≥ 2
        Fewer give sharper pre-images, more give smoother ones; all examples where there are less.

    Attributes
    ----------
    residuals_ : (n,) array
        Squared distances of the examples from the basis.
    """

    ROUNDING = 1e-10
    """Directions of the neighbours smaller than this share of their largest are none."""
    FARTHEST = 1e-12
    """The least kernel value that is turned into a distance; log(0) would be infinitely far."""

    def __init__(self, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def _prepare(self) -> None:
        if not (isinstance(self.n_neighbors, (int, np.integer)) and self.n_neighbors >= 2):
            raise BadInput(
                f'n_neighbors must be a whole number of at least 2, not {self.n_neighbors!r}.'
            )
        if len(self.examples_) < 2:
            raise BadInput('Y holds one pattern only; distances need at least two examples.')
        kernel = self._kernel
        if isinstance(kernel, Polynomial):
            if kernel.degree % 2 != 1:
                raise BadInput(
                    f'A polynomial kernel of even degree ({kernel.degree}) does not tell x from '
                    '−x, so that distances cannot be had from it; use an odd degree.'
                )
        elif not isinstance(kernel, (Gaussian, Linear)):
            raise BadInput(
                f'Input distances cannot be had from {type(kernel).__name__}; use a Gaussian, '
                'linear or odd polynomial kernel, or LearnedPreImage.'
            )
        self.residuals_ = self.basis_.residual(self.examples_) ** 2

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        count = min(self.n_neighbors, len(self.examples_))
        chosen = nearest(coordinates, self.coordinates_, count)
        inside = ((self.coordinates_[chosen] - coordinates[:, None]) ** 2).sum(axis=2)
        squares, reached = self._input_distances(
            inside + self.residuals_[chosen], chosen, coordinates
        )
        neighbours = self.examples_[chosen]
        centre = neighbours.mean(axis=1, keepdims=True)
        centred = neighbours - centre
        norms = (centred**2).sum(axis=2)
        # (X Xᵀ)† X is the pseudo-inverse of Xᵀ, whose size is that of the neighbours.
        inverse = np.linalg.pinv(centred, rcond=self.ROUNDING)
        x = 0.5 * inverse @ (norms - squares)[..., None]
        return (
            centre[:, 0] + x[..., 0],
            np.zeros(len(x), dtype=np.intp),
            np.asarray(reached.all(axis=1)),
        )

    def _input_distances(
        self, squares: Floats, chosen: Ints, coordinates: Floats
    ) -> tuple[Floats, Flags]:
        """Turn squared distances in feature space into those in input space, both (m, k).

        Also returns which of them the kernel can have: Ψ may be farther from an example than any
        pattern is.
        """
        kernel = self._kernel
        if isinstance(kernel, Gaussian):
            similarity = 1.0 - 0.5 * squares
            reached = similarity > self.FARTHEST
            return -np.log(np.maximum(similarity, self.FARTHEST)) / kernel.gamma, reached
        if isinstance(kernel, Linear):
            return squares, np.ones(squares.shape, dtype=bool)
        own = kernel.diagonal(self.examples_)[chosen]
        norm = self._squared_norm(coordinates)[:, None]
        cross = 0.5 * (own + norm - squares)
        total = self._root(own) + self._root(norm) - 2.0 * self._root(cross)
        return np.maximum(total, 0.0), total >= 0.0

    def _root(self, values: Floats) -> Floats:
        """Return the real root of odd degree."""
        kernel = self._kernel
        assert isinstance(kernel, Polynomial)
        return np.asarray(np.sign(values) * np.abs(values) ** (1.0 / kernel.degree))

    def _squared_norm(self, coordinates: Floats) -> Floats:
        """Return ‖Ψ‖² (m,): the offset of the basis is minus the mean's coordinates."""
        expansion = self.basis_.expansion_
        even = np.full((len(expansion), 1), 1.0 / len(expansion))
        mean = self._kernel.expand(expansion.points, even, expansion.points).mean()
        across = -2.0 * coordinates @ expansion.offset
        return np.asarray(mean + across + (coordinates**2).sum(axis=1))
