"""Features tied to the body and the arm: where the arm is, and what is seen along it.

The histograms of the thesis forget where things are, and its one Gaussian of skin fits one person
in one light. Here the body gives a frame (`BodyTemplate`), what is not always there gives the arm
(`find_arm`), and the face gives the colour of skin, picture by picture. Along the arm the shading
is read, which tells whether it points towards the camera or away: the outline does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.checks import Floats, as_floats
from kde_imitation.errors import BadInput
from kde_imitation.kernels import Gaussian, WeightedSum
from kde_imitation.kernels.backend import core
from kde_imitation.kernels.parameters import Parametric, check_fitted
from kde_imitation.vision.arm import ArmGeometry, arm_search
from kde_imitation.vision.arm_families import FROM_FACE, WEIGHTS, families_of
from kde_imitation.vision.background import CUT_OFF, DARK, Background, as_pictures
from kde_imitation.vision.body import SIDE, BodyTemplate, Place, Singles
from kde_imitation.vision.silhouette import PersonFinder, Silhouette

# Pictures with more pixels a side are reduced to this many; a cell is about one of them then.
PIXELS = 160
# What is seen at a place in so many of the pictures belongs to the body, not to the arm.
RESTING = 0.7
# Share of the variance of a family of features that is kept.
KEPT = 0.995
# Top, left and right edge of a picture: below, a person may be cut off.
EDGES = (np.s_[0], np.s_[:, 0], np.s_[:, -1])
# Half the thickness of an arm, in cells, in which evidence counts as explained by it.
THICK = 9

# Weight of the trend by the points alone, and the rate of its kernel, which is wide.
TREND, TREND_RATE = 10.0, 0.5
# Rows of the trunk below the shoulder by which its width is judged; how wide it may be against the
# body that was learned; and by how much it must differ, as a logarithm, to be believed.
TRUNK, WIDTHS, SURE_WIDTH = 30, (0.75, 1.45), 0.05
# Cells of skin before the body, to a cell of the arm's length, that may belong to an arm.
MOST_SKIN = 7.0

# What the parts of `doubt` may be at least before a picture counts as novel.
LIMITS = {'fit': 0.35, 'rest': 0.5, 'border': 0.04, 'others': 0.3, 'glare': 0.2}


@dataclass(frozen=True)
class SeenArm:
    """Everything that was made of one picture, for learning from it and for showing it."""

    found: bool
    """whether there is a person; without one `vector` is zero"""
    vector: Floats
    """(d,): the features, then `doubt` as the last number"""
    silhouette: Silhouette = field(repr=False)
    reason: str = ''
    """why there is no person, or what makes the picture doubtful"""
    place: Place | None = None
    arm: Floats | None = None
    """(3, 2): shoulder, elbow and fingertips, x and y in pixels of `silhouette.picture`"""
    evidence: Singles | None = field(default=None, repr=False)
    """(100, 100): where the arm is, in the frame of the body"""
    skin: Singles | None = field(default=None, repr=False)


@dataclass(frozen=True)
class _Look:
    """One picture in the frame of the body."""

    mask: Singles
    colours: Singles
    """(100, 100, 3): logarithms relative to the face"""
    skin: Singles


class ArmFeatures(Parametric):
    """Pictures as vectors of what is seen of an arm, in the frame of the body.

    Five families: `points`, elbow and fingertips; `map`, the arm as a blurred picture; `shape` and
    `shade`, its outline and its colours relative to their mean, read in a strip along it; `line`,
    these colours averaged across the arm. Each is projected to its principal axes, scaled by its
    median distance and weighted, so that one Gaussian kernel (`kernel`) on the whole vector is the
    product of five.

    Parameters
    ----------
    background : Background or (h, w, 3) uint8 array
        The room without a person.
    weights : mapping of str to float, optional
        Weights of the families; `WEIGHTS` unless told.

    Attributes
    ----------
    body_ : BodyTemplate
    geometry_ : ArmGeometry
    vectors_ : (n, d) array
        What was fitted: the vectors of all pictures that show a person, the unpaired ones last.
    n_features_out_ : int
        With `doubt`, the last number of a vector: above 1 the picture is not to be trusted.
    """

    def __init__(
        self,
        background: Background | npt.ArrayLike,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.background = background
        self.weights = weights

    def fit(
        self,
        images: Any,
        directions: npt.ArrayLike,
        tried: npt.ArrayLike,
        unpaired: Sequence[npt.ArrayLike] = (),
    ) -> ArmFeatures:
        """Learn the body, the arm's look, and the axes of the features.

        Parameters
        ----------
        images : pictures, n of them
        directions : (n, 2, 3) array
            Unit vectors along upper arm and forearm in these pictures, in the robot's frame.
        tried : (m, 2, 3) array
            The same for postures among which arms are looked for.
        unpaired : pictures
            More pictures, without directions.
        """
        room = self.background
        if not isinstance(room, Background):
            room = Background(room, side=PIXELS)
        finder = PersonFinder(room)
        paired = [finder(picture) for picture in as_pictures('images', images)]
        more = [finder(picture) for picture in unpaired]
        return self.fit_people(finder, paired, directions, tried, more)

    def fit_people(
        self,
        finder: PersonFinder,
        paired: Sequence[Silhouette],
        directions: npt.ArrayLike,
        tried: npt.ArrayLike,
        unpaired: Sequence[Silhouette] = (),
    ) -> ArmFeatures:
        """Do the same as `fit`, given the silhouettes and what found them."""
        self.finder_ = finder
        known = np.array([person.found for person in paired], dtype=bool)
        people = [person for person in [*paired, *unpaired] if person.found]
        if known.sum() < 3:
            raise BadInput(
                f'There is a person in {known.sum()} of the {len(paired)} demonstrations, which '
                'is too few; is the background that of the same camera?'
            )
        self.body_ = BodyTemplate.learn([person.mask for person in people])
        places = [self.body_.locate(person.mask) for person in people]
        masks = np.stack([self.body_.crop(p.mask, place) for p, place in zip(people, places)])
        self.head_ = _head(masks)
        looks = [self._view(p, place) for p, place in zip(people, places)]
        self.resting_ = np.stack(
            [
                _resting(np.stack([look.mask for look in looks])),
                _resting(np.stack([look.skin for look in looks])),
            ]
        )
        self.usual_width_, self.most_skin_ = 1.0, np.inf
        evidence = np.stack([self._evidence(look, self.resting_) for look in looks])
        count = int(known.sum())
        self.geometry_ = ArmGeometry.fit(evidence[:count], np.asarray(directions)[known])
        # Single precision as in a saved model, so that both see the same.
        self.tried_ = self.geometry_.project(tried).astype(np.float32)
        self._search = arm_search(self.tried_, self.geometry_.lengths)
        self.usual_width_ = float(np.median([self._width(look.mask) for look in looks]))
        self.most_skin_ = MOST_SKIN * float(self.geometry_.lengths.sum())
        arms = np.stack([self._find(each) for each in evidence])
        families = [
            families_of(*each) for each in zip(evidence, (look.colours for look in looks), arms)
        ]
        self._fit_axes(families)
        doubts = np.stack([self._doubts(*each) for each in zip(people, places, evidence, arms)])
        self.limits_ = np.maximum(1.5 * np.quantile(doubts, 0.995, axis=0), list(LIMITS.values()))
        self.vectors_ = np.stack([self._vector(*each) for each in zip(families, doubts)])
        return self

    def _fit_axes(self, families: Sequence[Mapping[str, Floats]]) -> None:
        weights = dict(WEIGHTS if self.weights is None else self.weights)
        unknown = set(weights) - set(WEIGHTS)
        if unknown or min(weights.values(), default=0.0) < 0 or not any(weights.values()):
            raise BadInput(
                f'weights are {weights}; give {", ".join(WEIGHTS)} numbers of 0 or more, '
                'not all 0.'
            )
        self.means_, self.axes_ = {}, {}
        for name in WEIGHTS:
            weight = weights.get(name, 0.0)
            if weight == 0:
                continue
            values = np.stack([each[name] for each in families]).astype(np.float64)
            mean = values.mean(axis=0)
            _, strengths, axes = np.linalg.svd(values - mean, full_matrices=False)
            shares = np.cumsum(strengths**2) / max(float((strengths**2).sum()), 1e-12)
            axes = axes[: int(np.searchsorted(shares, KEPT)) + 1]
            scaled = (values - mean) @ axes.T
            squares = ((scaled[:, None, :] - scaled[None, ::7]) ** 2).sum(axis=-1)
            median = max(float(np.median(squares)), 1e-12)
            self.means_[name] = mean
            # Single precision as in a saved model, so that both see the same.
            self.axes_[name] = (axes * np.sqrt(weight / median)).astype(np.float32)
        self.n_features_out_ = sum(len(axes) for axes in self.axes_.values()) + 1

    doubts = 1
    """how many of the last numbers of a vector are not for the kernel"""

    def split(self, vectors: Floats) -> tuple[Floats, Floats]:
        """Return what the kernel compares (n, d − 1), and doubt (n,), of vectors (n, d)."""
        return np.ascontiguousarray(vectors[:, :-1]), vectors[:, -1]

    def rescale(self, factor: float) -> None:
        """Multiply all squared distances by a factor."""
        root = np.float32(np.sqrt(factor))
        self.axes_ = {name: axes * root for name, axes in self.axes_.items()}

    def arrays(self) -> dict[str, Any]:
        """Return the plain arrays that determine the features, for saving."""
        check_fitted(self, 'axes_')
        background, body = self.finder_.background, self.body_
        named = {'background': background.picture, 'full_size': background.full_size}
        named |= {f'mean_{name}': mean for name, mean in self.means_.items()}
        named |= {f'axes_{name}': axes.astype(np.float32) for name, axes in self.axes_.items()}
        return named | {
            'tolerances': [background.colour, background.brighter, background.darker],
            'body_share': body.share.astype(np.float32),
            'body_ever': body.ever.astype(np.float32),
            'body_numbers': [body.cell, *body.window, body.bias],
            'head': self.head_,
            'resting': self.resting_,
            'shoulder': self.geometry_.shoulder,
            'lengths': self.geometry_.lengths,
            'view': self.geometry_.view,
            'tried': self.tried_.astype(np.float32),
            'limits': self.limits_,
            'usual_width': self.usual_width_,
            'most_skin': self.most_skin_,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> ArmFeatures:
        """Make features of what `arrays` returned."""
        room = Background.from_arrays(
            arrays['background'], arrays['full_size'], arrays['tolerances']
        )
        features = cls(room)
        features.finder_ = PersonFinder(room)
        cell, x, y, bias = (float(number) for number in arrays['body_numbers'])
        features.body_ = BodyTemplate(
            arrays['body_share'], arrays['body_ever'], cell, [x, y], bias
        )
        top, bottom, left, right = (int(edge) for edge in arrays['head'])
        if not (0 <= top < bottom <= SIDE and 0 <= left < right <= SIDE):
            raise BadInput('the head lies outside of the frame of the body')
        features.head_ = (top, bottom, left, right)
        features.resting_ = arrays['resting'].astype(np.float32).reshape(2, SIDE, SIDE)
        features.geometry_ = ArmGeometry(arrays['shoulder'], arrays['lengths'], arrays['view'])
        features.tried_ = as_floats('tried', arrays['tried'], (None, 3, 2))
        features._search = arm_search(features.tried_, features.geometry_.lengths)
        features.limits_ = as_floats('limits', arrays['limits'], (len(LIMITS),))
        features.usual_width_ = float(arrays['usual_width'])
        features.most_skin_ = float(arrays['most_skin'])
        if (features.limits_ <= 0).any() or features.usual_width_ <= 0 or features.most_skin_ <= 0:
            raise BadInput('the limits of doubt, width and skin must be positive')
        features.means_, features.axes_ = {}, {}
        for name in WEIGHTS:
            if f'axes_{name}' in arrays:
                mean = as_floats(f'mean_{name}', arrays[f'mean_{name}'], (None,))
                axes = as_floats(f'axes_{name}', arrays[f'axes_{name}'], (None, len(mean)))
                features.means_[name], features.axes_[name] = mean, axes.astype(np.float32)
        features.n_features_out_ = sum(len(axes) for axes in features.axes_.values()) + 1
        return features

    def familiar_kernel(self) -> Gaussian:
        """Return the kernel by which pictures are judged to be like others."""
        return Gaussian(1.0)

    def kernel(self) -> WeightedSum:
        """Return the kernel on vectors without `doubt`, their last number.

        A wide one on the points carries the trend. A product of all families carries the rest, and
        falls silent where the look of an arm is foreign, so that the trend remains.
        """
        size = self.n_features_out_ - self.doubts
        points = len(self.axes_.get('points', ()))
        whole = (Gaussian(1.0), 1.0, slice(0, size))
        if not points:
            return WeightedSum([whole])
        return WeightedSum([(Gaussian(TREND_RATE), TREND, slice(0, points)), whole])

    def look(self, image: npt.ArrayLike) -> SeenArm:
        """Return the features of one picture, with all that they were made of."""
        check_fitted(self, 'axes_')
        return self.look_at(self.finder_(image))

    def look_at(self, person: Silhouette) -> SeenArm:
        """Return the same, given the silhouette."""
        if not person.found:
            return SeenArm(False, np.zeros(self.n_features_out_), person, person.reason)
        place = self.body_.locate(person.mask)
        view, resting, aside = self._fitted(self._view(person, place))
        evidence = self._evidence(view, resting)
        arm = self._find(evidence)
        families = families_of(evidence, view.colours, arm)
        doubts = self._doubts(person, place, evidence, arm)
        vector = self._vector(families, doubts)
        reason = REASONS[int((doubts / self.limits_).argmax())] if vector[-1] > 1 else ''
        pixels = self._to_pixels(arm + np.array([aside, 0.0]), place)
        return SeenArm(True, vector, person, reason, place, pixels, evidence, view.skin)

    def _vector(self, families: Mapping[str, Floats], doubts: Floats) -> Floats:
        parts = [
            self.axes_[name] @ (families[name] - mean).astype(np.float32)
            for name, mean in self.means_.items()
        ]
        return np.concatenate([*parts, [(doubts / self.limits_).max()]])

    def transform(self, images: Any) -> Floats:
        """Return the vectors (n, d) of one picture or several; zeros where there is nobody."""
        pictures = as_pictures('images', images)
        return np.stack([self.look(picture).vector for picture in pictures])

    def _view(self, person: Silhouette, place: Place) -> _Look:
        light = (1.0 / person.gain).astype(np.float32)
        colours, mask = self.body_.colours(person.picture, person.mask, place, light, DARK)
        cv2.log(colours, dst=colours)
        exponents = core.relative_to_face(colours, mask, self.head_, FROM_FACE)
        skin = np.asarray(cv2.multiply(cv2.exp(exponents), mask), dtype=np.float32)
        return _Look(mask, colours, skin)

    def _width(self, mask: Singles) -> float:
        """Return how wide the trunk is on the side away from the arm, against the resting body."""
        top = min(max(int(self.geometry_.shoulder[1]), 0), SIDE - TRUNK)
        usual, seen = (self._extents(part[top : top + TRUNK]) for part in (self.resting_[0], mask))
        kept = (usual > 2) & (seen > 2)
        return float(np.median(seen[kept] / usual[kept])) if kept.any() else 1.0

    def _extents(self, rows: Singles) -> Floats:
        """Return how far from its axis the body reaches in each row, away from the arm."""
        axis = int(self._axis())
        away = rows[:, axis + 1 :] if self.body_.window[0] <= 0 else rows[:, axis - 1 :: -1]
        # A hole in the silhouette does not matter, only where it ends.
        last = away.shape[1] - np.argmax(away[:, ::-1] > 0.5, axis=1)
        return np.where((away > 0.5).any(axis=1), last, 0).astype(np.float64)

    def _axis(self) -> float:
        """Return the column of the body's axis in its frame."""
        return (SIDE - 1) / 2 - float(self.body_.window[0])

    def _fitted(self, look: _Look) -> tuple[_Look, Singles, float]:
        """Allow for a body that is wider or narrower than the one that was learned.

        Return the look moved so that its shoulder is where it was learned, the resting body as
        wide as this one, and by how many cells the look was moved.
        """
        width = self._width(look.mask) / self.usual_width_
        deviation = float(np.log(np.clip(width, *WIDTHS)))
        trust = float(np.clip((abs(deviation) - SURE_WIDTH) / SURE_WIDTH, 0.0, 1.0))
        if trust == 0.0:
            return look, self.resting_, 0.0
        factor, axis = float(np.exp(trust * deviation)), self._axis()
        aside = (factor - 1.0) * (float(self.geometry_.shoulder[0]) - axis)
        moved = _across(np.dstack([look.mask, look.colours, look.skin]), 1.0, aside)
        first = axis + (aside - axis) / factor
        body = _across(self.resting_.transpose(1, 2, 0), 1.0 / factor, first)
        parts = (moved[..., 0], moved[..., 1:4], moved[..., 4])
        fitted = _Look(*(np.ascontiguousarray(part) for part in parts))
        return fitted, np.ascontiguousarray(body.transpose(2, 0, 1)), aside

    def _evidence(self, look: _Look, resting: Singles) -> Singles:
        body, skin = resting
        raw = core.beside_body(look.mask, look.skin, body, skin)
        before = raw * body
        amount = float(before.sum())
        if amount > self.most_skin_:
            # More than an arm: cloth of the colour of skin, which tells nothing.
            raw -= before * np.float32(min(amount / self.most_skin_ - 1.0, 1.0))
        evidence = cv2.GaussianBlur(raw, (0, 0), 1.0)
        return np.asarray(evidence, dtype=np.float32)

    def _find(self, evidence: Singles) -> Floats:
        return np.asarray(self._search.find(evidence)[0])

    def _doubts(self, person: Silhouette, place: Place, evidence: Singles, arm: Floats) -> Floats:
        beside = np.ones((SIDE, SIDE), dtype=np.uint8)
        cv2.polylines(beside, [np.rint(arm).astype(np.int32)], False, 0, THICK)
        # Evidence beside the arm, in units of a whole arm.
        amount = cv2.mean(evidence, beside)[0] * cv2.countNonZero(beside)
        rest = amount / (float(self.geometry_.lengths.sum()) * THICK)
        edges = sum(int(np.count_nonzero(person.mask[line])) for line in EDGES)
        border = edges / (place.cell * SIDE)
        # A thing and what is behind it are alike where both are brighter than the camera can tell.
        bright = cv2.inRange(person.picture, (CUT_OFF,) * 3, (255.0,) * 3)
        glare = cv2.countNonZero(bright) / bright.size
        return np.array([1.0 - place.fit, rest, border, person.others, glare])

    def _to_pixels(self, points: Floats, place: Place) -> Floats:
        centre = np.array([place.x, place.y]) + self.body_.window * place.cell
        result: Floats = centre + (points - (SIDE - 1) / 2) * place.cell - 0.5
        return result


REASONS = (
    'The silhouette does not look like a person who faces the camera.',
    'More is seen beside the body than one arm.',
    'The person is cut off by the edge of the picture.',
    'There is more than one person.',
    'The picture is overexposed.',
)


def _head(masks: Singles) -> tuple[int, int, int, int]:
    """Return where the face is in the frame of the body: top, bottom, left, right.

    The head is the topmost thing that nearly all masks (n, 100, 100) show.
    """
    always = masks.mean(axis=0) > 0.95
    rows = np.flatnonzero(always.any(axis=1))
    if len(rows) == 0:
        raise BadInput('The silhouettes of the demonstrations have no part of the body in common.')
    top = int(rows[0])
    columns = np.flatnonzero(always[top : top + 6].any(axis=0))
    return top + 3, top + 13, int(columns[0]), int(columns[-1]) + 1


def _resting(maps: Singles) -> Singles:
    """Return what (100, 100) of n maps is there whatever the arm does, a little widened."""
    usual = np.quantile(maps, 1.0 - RESTING, axis=0).astype(np.float32)
    widened = cv2.dilate(usual, np.ones((3, 3), dtype=np.uint8))
    return np.asarray(cv2.GaussianBlur(widened, (0, 0), 1.0), dtype=np.float32)


def _across(maps: Singles, rate: float, start: float) -> Singles:
    """Sample maps (100, 100, c) anew along x: column j of the answer is at start + rate · j."""
    matrix = np.array([[rate, 0.0, start], [0.0, 1.0, 0.0]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(maps, matrix, (SIDE, SIDE), flags=flags), dtype=np.float32)
