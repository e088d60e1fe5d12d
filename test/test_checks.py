"""The checks at the doors of the library."""

import numpy as np
import pytest

from kde_imitation import resources
from kde_imitation.checks import as_floats, as_postures
from kde_imitation.errors import BadInput


def test_numbers_come_back_as_contiguous_float64():
    array = as_floats('a', np.arange(6, dtype=np.int16).reshape(2, 3).T, (3, None))
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    assert as_floats('a', 3, ()).shape == ()


@pytest.mark.parametrize(
    ('value', 'shape', 'message'),
    [
        ([1, 2], (3,), r'speed must have shape \(3,\), not \(2,\)'),
        ([[1, 2]], (None,), r'speed must have shape \(any,\), not \(1, 2\)'),
        ([1, np.nan], None, r'speed holds nan at index \(1,\)'),
        ([[1], [-np.inf]], None, r'speed holds -inf at index \(1, 0\)'),
        ('fast', None, 'speed must be an array of numbers'),
        ([[1], [1, 2]], None, 'speed must be an array of numbers'),
    ],
)
def test_bad_arrays_are_refused_with_their_name(value, shape, message):
    with pytest.raises(BadInput, match=message):
        as_floats('speed', value, shape)


def test_postures_need_one_value_a_joint():
    assert as_postures('q', np.zeros((2, 3, 7)), 7).shape == (2, 3, 7)
    for bad in (0.0, np.zeros(6), np.zeros((7, 2))):
        with pytest.raises(BadInput, match='axis of 7 joint values'):
            as_postures('q', bad, 7)


def test_share_folder_has_the_arm_and_a_missing_file_is_named():
    assert (resources.share_folder() / 'package.xml').is_file()
    assert resources.share_file('urdf', 'pa10.urdf.xacro').is_file()
    with pytest.raises(BadInput, match=r'nothing\.yaml is missing'):
        resources.share_file('config', 'nothing.yaml')
