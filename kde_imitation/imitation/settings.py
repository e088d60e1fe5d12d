"""What training may choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kde_imitation.errors import BadInput

__all__ = ['Settings']


@dataclass(frozen=True)
class Settings:
    """What training may choose from; cross-validation picks among several values.

    Attributes
    ----------
    features : 'arm' or 'thesis'
    weights : weights of the families of the 'arm' features, or None for theirs
    scales : factors of the squared distances in the input kernel ('arm' features only)
    ridges : λ of the regression
    input_components : share of the variance that the input kernel PCA keeps
    pull : λ of the pre-image, square metres a square radian
    folds : number of folds
    max_error : relative error that compression may cause
    familiar_quantile : share of held-out pictures that count as familiar
    """

    features: str = 'arm'
    weights: Mapping[str, float] | None = None
    scales: tuple[float, ...] = (0.7, 1.0, 1.4)
    ridges: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    input_components: float = 0.9999
    pull: float = 3e-3
    folds: int = 5
    max_error: float = 0.02
    familiar_quantile: float = 0.99

    def __post_init__(self) -> None:
        if self.features not in ('arm', 'thesis'):
            raise BadInput(f"features is {self.features!r}; choose 'arm' or 'thesis'.")
        for name in ('scales', 'ridges'):
            values = getattr(self, name)
            if not values or min(values) <= 0:
                raise BadInput(f'{name} are {values}; give one or more numbers above 0.')
        if not (isinstance(self.folds, int) and self.folds >= 2):
            raise BadInput(f'folds is {self.folds}; it must be 2 or more.')
        for name in ('input_components', 'max_error', 'familiar_quantile'):
            value = getattr(self, name)
            if not 0 < value < 1:
                raise BadInput(f'{name} is {value}; it must be between 0 and 1.')
        if not self.pull >= 0:
            raise BadInput(f'pull is {self.pull}; it must be zero or positive.')
