"""What the tests of data sets share: small pictures and rows of the table of labels."""

import numpy as np

HEADER = 'frame,q1,q2,q3,q4,q5,q6,q7\n'


def picture(level=0, size=(16, 24)):
    """A flat picture of one grey level, which JPEG keeps exactly."""
    return np.full((*size, 3), level, np.uint8)


def noise(seed=0, size=(16, 24)):
    return np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)


def row(frame, first=0.5):
    return f'{frame},{first},0,0,0,0,0,0\n'


def levels(images):
    """The grey levels of flat pictures."""
    return [int(image[0, 0, 0]) for image in images]
