"""From a picture to a vector that says how the person stands."""

from kde_imitation.vision.background import Background, Difference
from kde_imitation.vision.codebook import Codebook
from kde_imitation.vision.edges import WorkingImage, edge_map, edgels, working_image
from kde_imitation.vision.features import Seen, ThesisFeatures
from kde_imitation.vision.shape_context import ring_radii, shape_contexts
from kde_imitation.vision.silhouette import Box, PersonFinder, Silhouette
from kde_imitation.vision.skin import SkinModel, face, skin_histograms

__all__ = [
    'Background',
    'Box',
    'Codebook',
    'Difference',
    'PersonFinder',
    'Seen',
    'Silhouette',
    'SkinModel',
    'ThesisFeatures',
    'WorkingImage',
    'edge_map',
    'edgels',
    'face',
    'ring_radii',
    'shape_contexts',
    'skin_histograms',
    'working_image',
]
