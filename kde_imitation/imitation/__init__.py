"""The trained model end to end: picture in, joints out."""

from kde_imitation.imitation.model import Embedding, ImitationModel, Prediction
from kde_imitation.imitation.robot import Robot
from kde_imitation.imitation.settings import Settings

__all__ = ['Embedding', 'ImitationModel', 'Prediction', 'Robot', 'Settings']
