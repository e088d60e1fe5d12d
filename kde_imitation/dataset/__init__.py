"""Demonstrations on disk: numbered pictures, and the joint values that belong to some of them.

A data set is a folder that people can read and repair with ordinary tools:

- `0000.jpg`, `0001.jpg`, …: the pictures, all of one size;
- `labels.csv`: `frame,q1,…,q7`, the file name of a picture and its posture in radians;
- `background.jpg`: the scene without the person;
- `skin.csv`: `r,g,b`, picked pixels of skin.

All but the pictures may be missing. A picture without a row is unpaired: it tells what the camera
sees, but not what the arm should do.
"""

from kde_imitation.dataset.folder import Dataset
from kde_imitation.dataset.pictures import read_image
from kde_imitation.dataset.recorder import Recorder

__all__ = ['Dataset', 'Recorder', 'read_image']
