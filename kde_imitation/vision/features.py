"""The features of Bakır (2006): shape contexts over a codebook, and skin over rows and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels import TotalVariation, WeightedSum
from kde_imitation.kernels.parameters import Parametric, check_fitted
from kde_imitation.vision.background import Background, as_pictures
from kde_imitation.vision.codebook import Codebook
from kde_imitation.vision.edges import WorkingImage, edgels, working_image
from kde_imitation.vision.shape_context import shape_contexts
from kde_imitation.vision.silhouette import PersonFinder, Silhouette
from kde_imitation.vision.skin import SkinModel, as_skin, skin_histograms

SKIN_BINS = 10


@dataclass(frozen=True)
class Seen:
    """Everything that was made of one picture, for learning from it and for showing it."""

    found: bool
    """whether there is a person; without one `vector` is zero"""
    vector: Floats
    """(n_words + 20,): shares of shapes, of skin over columns, of skin over rows"""
    silhouette: Silhouette = field(repr=False)
    working: WorkingImage | None = field(repr=False)
    edgels: Floats = field(repr=False)
    """(r, 2): x and y in the working image"""
    skin: npt.NDArray[np.float32] | None = field(repr=False)
    """(100, 100): likelihood of skin in the working image"""

    @property
    def reason(self) -> str:
        """Why there is no person."""
        return self.silhouette.reason


class ThesisFeatures(Parametric):
    """Pictures as vectors [h_S, h_x, h_y]: where code words of shape occur, and where skin is.

    The baseline: what Bakır (2006, sections 6.1 and 6.3.1) used. Neither where the person stands
    nor how large they are changes the vector, but for the raster of the picture.

    Parameters
    ----------
    background : Background or (h, w, 3) uint8 array
        The room without a person.
    skin : SkinModel, (n, 3) array of picked pixels, or None
        None takes the colour of skin from the faces in the pictures of `fit`.
    n_words, n_contexts : int
        Size of the codebook, and how many shape contexts it is learned from.
    n_edgels : int
        At most so many points of the outline are used.
    softness : float
        See `Codebook`; 0 is the histogram of the thesis.
    skin_threshold : float or None
        Likelihood above which a pixel counts as skin; None adds up likelihoods.
    relit : bool
        Whether colours are brought to the light of the background picture first.
    weights : (float, float, float)
        Of shape, of skin over columns and of skin over rows in `kernel`.
    random_state : int

    Attributes
    ----------
    codebook_ : Codebook
    skin_ : SkinModel
    n_features_out_ : int
    """

    def __init__(
        self,
        background: Background | npt.ArrayLike,
        skin: SkinModel | npt.ArrayLike | None = None,
        *,
        n_words: int = 80,
        n_contexts: int = 2000,
        n_edgels: int = 100,
        softness: float = 0.05,
        skin_threshold: float | None = None,
        relit: bool = True,
        weights: tuple[float, float, float] = (1.0, 1.0, 1.0),
        random_state: int = 0,
    ) -> None:
        self.background = background
        self.skin = skin
        self.n_words = n_words
        self.n_contexts = n_contexts
        self.n_edgels = n_edgels
        self.softness = softness
        self.skin_threshold = skin_threshold
        self.relit = relit
        self.weights = weights
        self.random_state = random_state

    def fit(self, images: Any, y: object = None) -> ThesisFeatures:
        """Learn the codebook, and the colour of skin if none was given, from pictures.

        Pictures without a person are passed over. `BadInput` if there are too few with one.
        """
        pictures = as_pictures('images', images)
        background = self.background
        room = background if isinstance(background, Background) else Background(background)
        finder = PersonFinder(room)
        return self.fit_people(finder, [finder(picture) for picture in pictures])

    def fit_people(self, finder: PersonFinder, people: Sequence[Silhouette]) -> ThesisFeatures:
        """Do the same as `fit`, given the silhouettes and what found them."""
        self.finder_ = finder
        count = len(people)
        people = [person for person in people if person.found]
        if not people:
            raise BadInput(
                f'There is no person in any of the {count} pictures; is the background '
                'that of the same camera?'
            )
        self.skin_ = (
            SkinModel.from_faces(people, self.relit) if self.skin is None else as_skin(self.skin)
        )
        contexts = [
            shape_contexts(edgels(working_image(person, self.relit), self.n_edgels))
            for person in people
        ]
        self.codebook_ = Codebook(
            self.n_words, self.n_contexts, self.softness, random_state=self.random_state
        ).fit(np.concatenate(contexts))
        self.n_features_out_ = self.n_words + 2 * SKIN_BINS
        return self

    def look(self, image: npt.ArrayLike) -> Seen:
        """Return the features of one picture, with all that they were made of."""
        check_fitted(self, 'codebook_')
        return self.look_at(self.finder_(image))

    def look_at(self, person: Silhouette) -> Seen:
        """Return the same, given the silhouette."""
        vector = np.zeros(self.n_features_out_)
        if not person.found:
            return Seen(False, vector, person, None, np.zeros((0, 2)), None)
        working = working_image(person, self.relit)
        points = edgels(working, self.n_edgels)
        likely = self.skin_.likelihood(working.picture)
        vector[: self.n_words] = self.codebook_.transform(shape_contexts(points))
        vector[self.n_words :] = skin_histograms(
            likely, working.mask, SKIN_BINS, self.skin_threshold
        )
        return Seen(True, vector, person, working, points, likely)

    def transform(self, images: Any) -> Floats:
        """Return the vectors (n, n_words + 20) of one picture or several.

        A picture without a person has a vector of zeros, whose kernel with all others is zero;
        `look` says why.
        """
        check_fitted(self, 'codebook_')
        pictures = as_pictures('images', images)
        vectors = np.zeros((len(pictures), self.n_features_out_))
        for i, picture in enumerate(pictures):
            vectors[i] = self.look(picture).vector
        return vectors

    def fit_transform(self, images: Any, y: object = None) -> Floats:
        """Fit, and return the vectors (n, n_words + 20) of the same pictures."""
        return self.fit(images, y).transform(images)

    doubts = 0

    def split(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return the vectors (n, d) as they are, and no doubt (n,) about any of them."""
        return vectors, np.zeros(len(vectors))

    def arrays(self) -> dict[str, Any]:
        """Return the plain arrays that determine the features, for saving."""
        check_fitted(self, 'codebook_')
        background = self.finder_.background
        return {
            'background': background.picture,
            'full_size': background.full_size,
            'tolerances': [background.colour, background.brighter, background.darker],
            'words': self.codebook_.words_,
            'softness': self.softness,
            'n_edgels': self.n_edgels,
            'relit': self.relit,
            'skin_threshold': -1.0 if self.skin_threshold is None else self.skin_threshold,
            'weights': self.weights,
            'skin_mean': self.skin_.mean,
            'skin_covariance': self.skin_.covariance,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> ThesisFeatures:
        """Make features of what `arrays` returned."""
        room = Background.from_arrays(
            arrays['background'], arrays['full_size'], arrays['tolerances']
        )
        words = as_floats('words', arrays['words'], (None, None))
        threshold = float(arrays['skin_threshold'])
        shape, columns, rows = (float(weight) for weight in arrays['weights'])
        features = cls(
            room,
            SkinModel(arrays['skin_mean'], arrays['skin_covariance']),
            n_words=len(words),
            n_edgels=int(arrays['n_edgels']),
            softness=float(arrays['softness']),
            skin_threshold=None if threshold < 0 else threshold,
            relit=bool(arrays['relit']),
            weights=(shape, columns, rows),
        )
        features.finder_ = PersonFinder(room)
        features.skin_ = SkinModel(arrays['skin_mean'], arrays['skin_covariance'])
        features.codebook_ = Codebook.of_words(words, features.softness)
        features.n_features_out_ = len(words) + 2 * SKIN_BINS
        return features

    def familiar_kernel(self) -> WeightedSum:
        """Return the kernel by which pictures are judged to be like others."""
        return self.kernel()

    def kernel(self) -> WeightedSum:
        """Return k_S + k_C, total variation on each of the three histograms, with the weights."""
        shape, columns, rows = self.weights
        middle = self.n_words + SKIN_BINS
        return WeightedSum(
            [
                (TotalVariation(), shape, slice(0, self.n_words)),
                (TotalVariation(), columns, slice(self.n_words, middle)),
                (TotalVariation(), rows, slice(middle, middle + SKIN_BINS)),
            ]
        )
