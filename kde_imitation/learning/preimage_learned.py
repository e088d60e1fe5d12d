"""Pre-images by learning (Bakır 2006, 3.2.4, algorithm A3.3 and example E3.1).

The pre-image of φ(x) is x: every pattern is an example of the way back. A regression from
coordinates to patterns learns it, so that a pre-image costs one evaluation and looks like the
patterns it was learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.base import Expansion, Kernel
from kde_imitation.kernels.vectors import Gaussian, squared_distances
from kde_imitation.learning.preimage import Flags, Ints, PreImage

__all__ = ['LearnedPreImage']

RIDGES = tuple(10.0 ** np.arange(-8, 1))
WIDTHS = tuple(4.0 ** np.arange(-6, 2))


class LearnedPreImage(PreImage):
    """Kernel ridge regression from coordinates to patterns, Σ_s β_s κ(c_s, ·) around their mean.

    For any kernel of the basis, and as fast for new coordinates as the regression is. What the
    text calls κ may be another kernel than that of the basis. (E3.1 prints a further factor y_s in
    the prediction; the coefficients β = (K + λI)⁻¹ y hold it already.)

    Parameters
    ----------
    kernel : Kernel, optional
        κ, on coordinates. Left out, a Gaussian whose γ is the one of `widths` divided by the mean
        squared distance of the examples with the least leave-one-out error.
    ridge : float ≥ 0, optional
        λ relative to the mean of κ(c, c). Left out, the one of `ridges` with the least error.
    widths, ridges : sequences of float > 0
        What is tried where `kernel` or `ridge` is left out.

    Attributes
    ----------
    expansion_ : Expansion
        The whole map, coordinates (m, r) to patterns (m, d).
    kernel_ : Kernel
    ridge_ : float
    error_ : float
        Root of the mean squared leave-one-out error of a pattern.
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        ridge: float | None = None,
        widths: Sequence[float] = WIDTHS,
        ridges: Sequence[float] = RIDGES,
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.widths = widths
        self.ridges = ridges

    def _prepare(self) -> None:
        places, patterns = self.coordinates_, self.examples_
        offset = patterns.mean(axis=0)
        centred = patterns - offset
        ridges = self._tried('ridges', self.ridges) if self.ridge is None else self._given_ridge()
        compact = _compact(centred)
        best: tuple[float, float, Kernel] | None = None
        for kernel in self._kernels():
            spectrum = _Spectrum.of(kernel, places)
            turned = spectrum.vectors.T @ compact
            for ridge in ridges:
                error = spectrum.leave_one_out(turned, ridge)
                if best is None or error < best[0]:
                    best = error, float(ridge), kernel
        assert best is not None
        self.error_, self.ridge_, self.kernel_ = best
        spectrum = _Spectrum.of(self.kernel_, places)
        beta = spectrum.solve(spectrum.vectors.T @ centred, self.ridge_)
        self.expansion_ = Expansion(self.kernel_, places, beta, offset)

    def _solve(self, coordinates: Floats, start: Floats | None) -> tuple[Floats, Ints, Flags]:
        count = len(coordinates)
        x = self.expansion_(coordinates)
        return x, np.zeros(count, dtype=np.intp), np.ones(count, dtype=bool)

    def _kernels(self) -> list[Kernel]:
        if self.kernel is not None:
            return [self.kernel]
        squares = squared_distances(self.coordinates_, self.coordinates_)
        mean = float(squares.mean())
        if not mean > 0:
            raise BadInput(
                'All examples have the same coordinates, so that no map back can be learned; give '
                'examples that differ.'
            )
        return [Gaussian(width / mean) for width in self._tried('widths', self.widths)]

    def _given_ridge(self) -> Floats:
        ridge = as_floats('ridge', self.ridge, ())  # type: ignore[arg-type]
        if ridge < 0:
            raise BadInput(f'ridge must be zero or positive, not {ridge}.')
        return ridge[None]

    def _tried(self, name: str, values: npt.ArrayLike) -> Floats:
        tried = as_floats(name, values, (None,))
        if len(tried) == 0 or (tried <= 0).any():
            raise BadInput(f'{name} must be positive numbers, at least one of them.')
        return tried


def _compact(rows: Floats) -> Floats:
    """Return rows with the same dot products, (n, d) to (n, min(n, d)).

    Ridge regression treats directions of its targets alike, so that its errors stay the same.
    """
    if rows.shape[1] <= len(rows):
        return rows
    squares, vectors = eigh(rows @ rows.T)
    return np.asarray(vectors * np.sqrt(np.maximum(squares, 0.0)))


@dataclass(frozen=True)
class _Spectrum:
    """The Gram matrix K = U diag(values) Uᵀ: one decomposition serves all λ.

    `scale` is the mean of its diagonal, in which λ is given.
    """

    values: Floats
    vectors: Floats
    scale: float

    @classmethod
    def of(cls, kernel: Kernel, points: Floats) -> _Spectrum:
        gram = kernel(points)
        scale = float(np.trace(gram)) / len(gram)
        if not scale > 0:
            raise BadInput(
                f'{type(kernel).__name__} is zero at every example, so that no map can be '
                'learned with it; use another kernel.'
            )
        values, vectors = eigh(gram)
        # What is below rounding is zero: with λ = 0 it is left out, as the pseudo-inverse asks.
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        return cls(np.where(kept, values, 0.0), vectors, scale)

    def _inverse(self, ridge: float) -> Floats:
        shifted = self.values + ridge * self.scale
        return np.asarray(np.divide(1.0, shifted, np.zeros_like(shifted), where=shifted > 0))

    def solve(self, turned: Floats, ridge: float) -> Floats:
        """Return (K + λI)† Y (n, d) for `turned` = Uᵀ Y."""
        return np.asarray((self.vectors * self._inverse(ridge)) @ turned)

    def leave_one_out(self, turned: Floats, ridge: float) -> float:
        """Return the root mean squared error at examples left out, one at a time.

        Leaving example s out changes the error there to β_s / [(K + λI)⁻¹]_ss.
        """
        beta = self.solve(turned, ridge)
        own = self.vectors**2 @ self._inverse(ridge)
        return float(np.sqrt(((beta / own[:, None]) ** 2).sum(axis=1).mean()))
