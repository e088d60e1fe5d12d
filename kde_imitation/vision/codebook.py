"""A codebook of shape contexts, and pictures as histograms over its words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels.backend import core
from kde_imitation.kernels.parameters import Parametric, check_fitted
from kde_imitation.kernels.vectors import TotalVariation

MAX_BINS = 2048


class Codebook(Parametric):
    """Vector quantisation of histograms under the total-variation distance, by medoids.

    The words are histograms of the sample themselves, chosen so that the mean distance to the
    nearest word is small: d(p, q) = ½ Σ |p_i − q_i|, which is 1 − Σ min(p_i, q_i) for histograms
    that sum to one (Bakır 2006, sections 6.1.3 and 6.3.1).

    Parameters
    ----------
    n_words : int
    n_samples : int
        At most so many histograms, drawn at random, are looked at; all pairs are compared.
    softness : float
        0 gives a histogram to the nearest word. Above, words that are further by less than this
        have a share, falling to nothing at that distance: a small change of shape then always
        changes the shares by little.
    max_rounds : int
    random_state : int

    Attributes
    ----------
    words_ : (n_words, b) array
    cost_ : float
        Mean distance to the nearest word.
    costs_ : (rounds,) array
        The same after each round; it never rises.
    """

    def __init__(
        self,
        n_words: int = 80,
        n_samples: int = 2000,
        softness: float = 0.0,
        max_rounds: int = 50,
        random_state: int = 0,
    ) -> None:
        self.n_words = n_words
        self.n_samples = n_samples
        self.softness = softness
        self.max_rounds = max_rounds
        self.random_state = random_state

    def fit(self, X: npt.ArrayLike, y: object = None) -> Codebook:
        """Choose the words among histograms X (n, b)."""
        histograms = _histograms('X', X)
        if self.n_words < 1 or self.n_samples < self.n_words:
            raise BadInput(
                f'n_words is {self.n_words} and n_samples {self.n_samples}; take one word or '
                'more, and no fewer samples than words.'
            )
        rng = np.random.default_rng(self.random_state)
        if len(histograms) > self.n_samples:
            chosen = np.sort(rng.choice(len(histograms), self.n_samples, replace=False))
            histograms = histograms[chosen]
        different = np.unique(histograms, axis=0)
        if len(different) < self.n_words:
            raise BadInput(
                f'There are {len(different)} different histograms for {self.n_words} words; give '
                'more pictures, or ask for fewer words.'
            )
        distances = total_variation(histograms, histograms)
        words = _spread(distances, self.n_words, rng)
        costs = [float(distances[:, words].min(axis=1).mean())]
        for _ in range(self.max_rounds):
            better = _centre(distances, words)
            if np.array_equal(better, words):
                break
            words = better
            costs.append(float(distances[:, words].min(axis=1).mean()))
        self.words_ = histograms[words]
        self.cost_, self.costs_ = costs[-1], np.array(costs)
        self.n_features_in_ = histograms.shape[1]
        self._coder = core.Coder(self.words_)
        return self

    @classmethod
    def of_words(cls, words: npt.ArrayLike, softness: float = 0.0) -> Codebook:
        """Return a codebook of given words (n_words, b)."""
        book = cls(n_words=len(np.asarray(words)), softness=softness)
        book.words_ = _histograms('words', words)
        book.n_features_in_ = book.words_.shape[1]
        book._coder = core.Coder(book.words_)
        return book

    def nearest(self, X: npt.ArrayLike) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the word nearest to each histogram X (n, b) and its distance, both (n,)."""
        check_fitted(self, 'words_')
        found: tuple[npt.NDArray[np.intp], Floats] = self._coder.nearest(self._checked(X))
        return found

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return the share of each word in the histograms X (n, b) of one picture: (n_words,).

        The shares sum to one, or are all zero if there is no histogram.
        """
        check_fitted(self, 'words_')
        shares: Floats = self._coder.shares(self._checked(X), float(self.softness))
        return shares

    def _checked(self, X: npt.ArrayLike) -> Floats:
        histograms = _histograms('X', X)
        if histograms.shape[1] != self.n_features_in_:
            raise BadInput(
                f'X has {histograms.shape[1]} bins, but the words have {self.n_features_in_}.'
            )
        return histograms

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled comparison, which is made again from the words."""
        state = {**self.__dict__}
        state.pop('_coder', None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the words, and what compares with them."""
        self.__dict__.update(state)
        if hasattr(self, 'words_'):
            self._coder = core.Coder(self.words_)


def total_variation(X: Floats, Y: Floats) -> Floats:
    """Return ½ Σ |x_i − y_i| between rows of X (n, b) and of Y (m, b): (n, m)."""
    overlap = TotalVariation()(X, Y)
    distances: Floats = 0.5 * (X.sum(axis=1)[:, None] + Y.sum(axis=1)) - overlap
    # Rounding may leave a little less than nothing.
    return np.maximum(distances, 0.0)


def _histograms(name: str, X: npt.ArrayLike) -> Floats:
    """Check rows that are not negative and sum to one at most."""
    rows = as_floats(name, X, (None, None))
    if rows.shape[1] == 0 or rows.shape[1] > MAX_BINS:
        raise BadInput(f'{name} has {rows.shape[1]} bins; histograms have 1 to {MAX_BINS}.')
    if (rows < 0).any() or (rows.sum(axis=1) > 1 + 1e-9).any():
        raise BadInput(
            f'{name} must hold histograms: no entry below 0, and no row with a sum above 1.'
        )
    return rows


def _spread(distances: Floats, count: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Draw words one after the other, each in proportion to its distance from those before."""
    words = np.empty(count, dtype=np.intp)
    words[0] = rng.integers(len(distances))
    nearest = distances[words[0]].copy()
    for k in range(1, count):
        nearest[words[:k]] = 0.0
        if nearest.sum() == 0.0:
            raise BadInput(f'There are only {k} clearly different histograms for {count} words.')
        words[k] = rng.choice(len(distances), p=nearest / nearest.sum())
        np.minimum(nearest, distances[words[k]], out=nearest)
    return words


def _centre(distances: Floats, words: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Move each word to the member of its group that is nearest to all others."""
    group = distances[:, words].argmin(axis=1)
    # Where a word has an equal it stays in its own group.
    group[words] = np.arange(len(words))
    moved = words.copy()
    for k in range(len(words)):
        members = np.flatnonzero(group == k)
        costs = distances[np.ix_(members, members)].sum(axis=1)
        own = costs[members == words[k]][0]
        best = int(costs.argmin())
        if costs[best] < own - 1e-12:
            moved[k] = members[best]
    return moved
