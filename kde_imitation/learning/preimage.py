"""Pre-images: from a point of feature space back to a pattern (Bakır 2006, chapter 3).

A prediction of kernel dependency estimation is a point Ψ = m + Σ_j c_j v_j of feature space, given
by its coordinates c in the kernel PCA basis v_j around the mean m. Hardly any such point is the
image φ(x) of a pattern x, so that every method here answers the approximate problem P3.3,

    min_x ‖φ(x) − Ψ‖,

in its own way. All have one contract: `fit` with the basis and examples of patterns, `solve` for
the coordinates; the answer says for each pattern how far from Ψ it remained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Kernel
from kde_imitation.kernels.nearest import nearest
from kde_imitation.learning.kernel_pca import KernelPCA, KernelRows

__all__ = ['NearestPreImage', 'PreImage', 'PreImages', 'nearest']

Ints = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PreImages:
    """The patterns found for m points of feature space.

    Attributes
    ----------
    x : (m, d) array
    steps : (m,) array of int
        Steps of the search, over all its restarts; 0 for closed forms.
    converged : (m,) array of bool
        Whether the method met its own condition for being done.
    distance : (m,) array
        ‖φ(x) − Ψ‖, whichever method found x, so that methods can be compared. It may cost more
        than x did, and is computed when it is first asked for.
    """

    x: Floats
    steps: Ints
    converged: Flags
    measure: Callable[[], Floats] = field(repr=False)

    @cached_property
    def distance(self) -> Floats:
        """How far each pattern is from its point of feature space, (m,)."""
        return self.measure()

    def __getstate__(self) -> dict[str, Any]:
        """Keep the distance, and not what it is computed from."""
        state = {**self.__dict__, 'distance': self.distance}
        del state['measure']
        return state

    def __len__(self) -> int:
        """Return the number of patterns."""
        return len(self.x)


class PreImage(BaseEstimator):  # type: ignore[misc]
    """What all pre-images share: the checks, the examples and the distance.

    Subclasses give `_solve`, and `_prepare` where there is something to learn.

    Attributes
    ----------
    basis_ : KernelPCA
    examples_ : (n, d) array
        The patterns given to `fit`.
    coordinates_ : (n, r) array
        Where the examples lie in the basis.
    """

    basis_: KernelPCA
    examples_: Floats
    coordinates_: Floats
    # Patterns (m, d) and coordinates (m, r) to distances (m,), whatever becomes of this object.
    _measure: Callable[[Floats, Floats], Floats]

    def fit(self, basis: KernelPCA, Y: npt.ArrayLike) -> Self:
        """Take a fitted basis, and patterns Y (n, d) as examples of what pre-images look like.

        Y need not be what the basis was fitted on: more examples can only help.
        """
        expansion = getattr(basis, 'expansion_', None)
        if expansion is None:
            raise BadInput('The basis is not fitted; call its fit(Y) before that of a pre-image.')
        if isinstance(expansion.kernel, KernelRows):
            raise BadInput(
                "A basis with kernel='precomputed' cannot place new patterns; give KernelPCA the "
                'kernel itself.'
            )
        examples = as_floats('Y', Y, (None, expansion.points.shape[1]))
        if len(examples) == 0:
            raise BadInput('Y holds no pattern; give at least one example.')
        self.basis_ = basis
        self.examples_ = examples
        self.coordinates_ = np.asarray(basis.transform(examples))
        self._measure = partial(_distance, basis)
        self._prepare()
        return self

    def solve(self, coordinates: npt.ArrayLike, start: npt.ArrayLike | None = None) -> PreImages:
        """Find a pattern for each row of coordinates.

        Parameters
        ----------
        coordinates : (m, r) array
        start : (m, d) or (d,) array, optional
            Where methods that search begin; the others do not need it. Left out, they begin at
            the example whose coordinates are nearest.
        """
        wanted = self._wanted(coordinates)
        if len(wanted) == 0:
            none = np.empty(0)
            empty = self.examples_[:0]
            return PreImages(empty, none.astype(int), none.astype(bool), none.copy)
        x, steps, converged = self._solve(wanted, self._starts(start, len(wanted)))
        return PreImages(x, steps, converged, partial(self._measure, x, wanted))

    def _prepare(self) -> None:
        pass

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        """Return x (m, d), steps (m,) and converged (m,); start is (m, d) or None."""
        raise NotImplementedError

    @property
    def _kernel(self) -> Kernel:
        return self.basis_.expansion_.kernel

    def _wanted(self, coordinates: npt.ArrayLike) -> Floats:
        if not hasattr(self, 'basis_'):
            raise BadInput(
                f'{type(self).__name__} is not fitted; call fit(basis, Y) before solve.'
            )
        return as_floats('coordinates', coordinates, (None, self.coordinates_.shape[1]))

    def _starts(self, start: npt.ArrayLike | None, count: int) -> Floats | None:
        if start is None:
            return None
        size = self.examples_.shape[1]
        if np.ndim(start) == 1:
            return np.tile(as_floats('start', start, (size,)), (count, 1))
        return as_floats('start', start, (count, size))


def _distance(basis: KernelPCA, x: Floats, coordinates: Floats) -> Floats:
    """Return ‖φ(x) − Ψ‖ (m,): what differs inside the basis, and what lies outside of it."""
    inside = np.linalg.norm(basis.transform(x) - coordinates, axis=1)
    return np.asarray(np.hypot(inside, basis.residual(x)))


class NearestPreImage(PreImage):
    """The example whose coordinates are nearest: for any kernel, and any kind of pattern.

    It cannot leave the examples, and is the start of the methods that can.
    """

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        index = nearest(coordinates, self.coordinates_)[:, 0]
        zeros = np.zeros(len(index), dtype=np.intp)
        return self.examples_[index], zeros, np.ones(len(index), dtype=bool)
