"""The optimisation problem of rank-constrained regression, in the fewest coordinates.

W need not leave the space that the inputs span: there the data say nothing, and a penalty could
only grow. So p inputs become k = rank X coordinates along the right singular vectors of X, and
XᵀX becomes a diagonal. With the squared loss the samples, too, enter through k × o numbers only.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import qr, svd
from sklearn.cross_decomposition import PLSRegression

from kde_imitation.checks import Floats
from kde_imitation.learning.stiefel import Point, random_point


def singular_form(left: Floats, middle: Floats, right: Floats) -> Point:
    """Write left @ diag(middle) @ rightᵀ as V S Wᵀ with S ≥ 0, descending: (V, S, W)."""
    Q1, R1 = qr(left, mode='economic')
    Q2, R2 = qr(right, mode='economic')
    U, S, Zt = svd((R1 * middle) @ R2.T)
    return np.asarray(Q1 @ U), np.asarray(S), np.asarray(Q2 @ Zt.T)


def orthonormal_span(*blocks: Floats, least: int) -> Floats:
    """Return an orthonormal basis of the columns of all blocks, of at least `least` columns.

    The first block must be orthonormal and comes first, unchanged.
    """
    basis = blocks[0]
    unit = np.eye(basis.shape[0])[:, : 2 * least + basis.shape[1]]
    for block, wanted in [*((b, None) for b in blocks[1:]), (unit, least)]:
        rest = block - basis @ (basis.T @ block)
        rest -= basis @ (basis.T @ rest)
        Q, R, _ = qr(rest, mode='economic', pivoting=True)
        size = np.abs(np.diagonal(R))
        count = int((size > 1e-10 * max(np.linalg.norm(block, axis=0).max(initial=0), 1)).sum())
        if wanted is not None:
            count = min(count, max(wanted - basis.shape[1], 0))
        basis = np.concatenate([basis, Q[:, :count]], axis=1)
    return np.asarray(basis)


@dataclass
class Anchor:
    """The predictor F_prev = V S Wᵀ of earlier blocks and the weight γ of ‖F − F_prev‖² (A2.3)."""

    V: Floats
    S: Floats
    W: Floats
    weight: float


class Problem:
    """Centred data, and all losses and starts in the coordinates of the inputs' span.

    Parameters
    ----------
    X : (n, p) array, Y : (n, o) array
        Centred; samples are rows. The thesis has samples as columns: its X is our Xᵀ, and its
        prediction V S Wᵀ x is our row xᵀ W S Vᵀ.
    rank : int
    ridge : float
    anchor : Anchor, optional
    """

    def __init__(
        self, X: Floats, Y: Floats, rank: int, ridge: float, anchor: Anchor | None = None
    ) -> None:
        self.rank, self.ridge, self.anchor = rank, ridge, anchor
        U, sizes, Pt = svd(X, full_matrices=False)
        kept = sizes > sizes.max(initial=0) * max(X.shape) * np.finfo(float).eps
        blocks = [np.ascontiguousarray(Pt[kept].T)] + ([anchor.W] if anchor else [])
        self.basis = orthonormal_span(*blocks, least=rank)
        k = self.basis.shape[1]
        scale = np.zeros(k)
        scale[: kept.sum()] = sizes[kept]
        self.squares = scale**2
        self.Z = np.zeros((len(X), k))
        self.Z[:, : kept.sum()] = U[:, kept] * sizes[kept]
        self.Y = Y
        self.pull = ridge + (anchor.weight if anchor else 0.0)

    @cached_property
    def _target(self) -> Floats:
        """ZᵀY, and what pulls towards the anchor: (k, o)."""
        return np.asarray(self.Z.T @ self.Y + self._towards)

    @cached_property
    def _towards(self) -> Floats:
        if self.anchor is None:
            return np.zeros((self.Z.shape[1], self.Y.shape[1]))
        a = self.anchor
        return np.asarray(a.weight * (self.basis.T @ a.W * a.S) @ a.V.T)

    @cached_property
    def _constant(self) -> float:
        value = float((self.Y**2).sum())
        if self.anchor is not None:
            value += self.anchor.weight * float((self.anchor.S**2).sum())
        return value

    def squared_loss(self, point: Point) -> tuple[float, Point]:
        """Return ‖Y − Z W S Vᵀ‖² + λ‖S‖² + γ‖F − F_prev‖² and its free gradients (35)-(39).

        The thesis leaves out the factor 2, and from (35) a part V M with symmetric M, which (32)
        takes away anyhow.
        """
        V, S, W = point[:3]
        matched = self._target.T @ W
        spread = self.squares[:, None] * W
        cross = np.einsum('ij,ij->j', matched, V)
        power = np.einsum('ij,ij->j', W, spread) + self.pull
        value = self._constant - 2.0 * float(S @ cross) + float(S**2 @ power)
        free_W = 2.0 * (spread * S - self._target @ V) * S
        return value, (-2.0 * matched * S, 2.0 * (power * S - cross), np.asarray(free_W))

    def absolute_loss(self, point: Point, alpha: float) -> tuple[float, Point]:
        """Return Σ E tanh(αE), E = Y − b − Z W S Vᵀ, with the penalties, and its free gradients.

        The smooth absolute loss of Bakır et al. (2004, section 4.3). The offset b is a fourth
        factor, as the mean is not the centre that this loss wants. The gradients of the sum are
        −DᵀZWS, −diag(WᵀZᵀDV) and −ZᵀDVS with D = tanh(αE) + αE sech²(αE); (4.17) to (4.19) lost
        factors.
        """
        V, S, W, b = point
        features = self.Z @ W
        E = self.Y - b - (features * S) @ V.T
        bent = np.tanh(alpha * E)
        D = bent + alpha * E * (1.0 - bent**2)
        pulled = self._towards.T @ W
        back = D @ V
        cross = np.einsum('ij,ij->j', features, back)
        near = np.einsum('ij,ij->j', pulled, V)
        value = float((E * bent).sum()) + self.pull * float(S @ S) - 2.0 * float(S @ near)
        if self.anchor is not None:
            value += self.anchor.weight * float(self.anchor.S @ self.anchor.S)
        free_V = -(D.T @ features + 2.0 * pulled) * S
        free_S = 2.0 * (self.pull * S - near) - cross
        free_W = -(self.Z.T @ back + 2.0 * self._towards @ V) * S
        return value, (free_V, free_S, free_W, -D.sum(axis=0))

    def predictions(self, point: Point) -> Floats:
        """Return Z W S Vᵀ, (n, o)."""
        V, S, W = point[:3]
        return np.asarray((self.Z @ W * S) @ V.T)

    def closed_form(self) -> Point:
        """Return the global minimum of the squared loss with its penalties.

        With M = XᵀX + (λ + γ)I the loss is a constant plus ‖(F − F*) M^½‖², F* the solution
        without the constraint, so that the best F of rank r is F* projected on the r leading left
        singular vectors of F* M^½. Section 2.3.4 has it for λ = 0 and says that no penalty may be
        added; one of these two may.
        """
        left, middle, right = self._whitened()
        r = self.rank
        return singular_form(left[:, :r], middle[:r], right[:, :r])

    def _whitened(self) -> tuple[Floats, Floats, Floats]:
        """Return F* as left @ diag(middle) @ rightᵀ, best directions first."""
        weight = self.squares + self.pull
        with np.errstate(divide='ignore'):
            root = np.where(weight > 0, 1.0 / np.sqrt(weight), 0.0)
        U, s, Tt = svd(root[:, None] * self._target, full_matrices=False)
        return Tt.T, s, root[:, None] * U

    def path(self, Z: Floats) -> tuple[Floats, Floats]:
        """Return features (m, q) and V (o, q): rank r predicts with the first r columns."""
        left, middle, right = self._whitened()
        return np.asarray(Z @ right * middle), left

    def pls(self) -> Point:
        """Return the predictor of partial least squares with r features (section 2.3.3)."""
        r = min(self.rank, len(self.Z), int((self.squares > 0).sum()))
        coefficients = np.zeros((self.Y.shape[1], self.Z.shape[1]))
        if r > 0 and self.Y.any():
            with warnings.catch_warnings():
                # A start need not be exact.
                warnings.simplefilter('ignore')
                coefficients = PLSRegression(r, scale=False).fit(self.Z, self.Y).coef_
        U, S, Wt = svd(coefficients, full_matrices=False)
        return U[:, : self.rank], S[: self.rank], Wt[: self.rank].T

    def random(self, random: np.random.Generator) -> Point:
        """Return random features (A2.5) and the scales that fit them best."""
        V = random_point(self.Y.shape[1], self.rank, random)
        W = random_point(self.Z.shape[1], self.rank, random)
        power = np.einsum('ij,i,ij->j', W, self.squares, W) + self.pull
        cross = np.einsum('ij,ij->j', self._target.T @ W, V)
        return V, cross / np.where(power > 0, power, 1.0), W
