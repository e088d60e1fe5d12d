"""Facts about the PA-10 from public sources, and its description as the tests read it."""

from xml.etree import ElementTree

from kde_imitation.kinematics.description import urdf
from kde_imitation.resources import share_file

CONFIG = share_file('config', 'pa10')
NAMES = ['s1', 's2', 's3', 'e1', 'e2', 'w1', 'w2']
LINKS = ['base_link', 'link1', 'link2', 'link3', 'link4', 'link5', 'link6', 'link7']
# Degrees, rad/s, N·m, kg.
POSITION = [177, 91, 174, 137, 255, 165, 255]
VELOCITY = [1, 1, 2, 2, 2, 2, 2]
TORQUE = [200, 200, 80, 80, 15, 15, 10]
MASSES = [3.04, 9.78, 8.41, 3.52, 4.31, 3.45, 1.46, 0.24]


def robot(**arguments):
    return ElementTree.fromstring(urdf(**arguments))
