"""Settings say what they are, and refuse what cannot be."""

import dataclasses

import numpy as np
import pytest

from kde_imitation.control import ControlSettings
from kde_imitation.control.pursuit import ahead, remaining
from kde_imitation.errors import BadInput

PARAMETERS = ControlSettings.parameters()


@pytest.mark.parametrize('parameter', PARAMETERS, ids=lambda p: p.name)
def test_every_setting_has_a_range_and_a_sentence_and_keeps_to_them(parameter):
    assert parameter.lower <= parameter.default <= parameter.upper
    assert type(parameter.default) is parameter.type
    assert parameter.description.endswith('.')
    assert getattr(ControlSettings(), parameter.name) == parameter.default
    for wrong in (parameter.lower - 1, parameter.upper + 1):
        with pytest.raises(BadInput, match=f'{parameter.name} is .* must be from'):
            ControlSettings(**{parameter.name: wrong})
    for wrong in ('fast', None, True, float('nan'), float('inf')):
        with pytest.raises(BadInput, match=f'{parameter.name} must be a'):
            ControlSettings(**{parameter.name: wrong})


def test_a_count_must_be_whole():
    with pytest.raises(BadInput, match='novel_limit must be a whole number'):
        ControlSettings(novel_limit=1.5)


def test_a_timeout_below_the_period_is_refused():
    with pytest.raises(BadInput, match='hold for ever'):
        ControlSettings(period=0.1, joint_state_timeout=0.05)


def test_a_copy_is_checked_too():
    with pytest.raises(BadInput, match='speed_scale'):
        dataclasses.replace(ControlSettings(), speed_scale=2.0)


PATH = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])


def test_what_remains_of_a_path_begins_beside_the_arm():
    np.testing.assert_allclose(remaining(PATH, np.array([0.4, -0.1])), [[0.4, 0], [1, 0], [1, 1]])
    np.testing.assert_allclose(remaining(PATH, np.array([1.2, 0.5])), [[1, 0.5], [1, 1]])
    np.testing.assert_allclose(remaining(PATH, np.array([5.0, 5.0])), [[1, 1], [1, 1]])


def test_of_two_points_only_the_end_remains():
    np.testing.assert_allclose(remaining(PATH[:2], np.array([0.4, 0.0])), [[1, 0]])
    np.testing.assert_allclose(remaining(PATH[:1], np.array([0.4, 0.0])), [[0, 0]])


def test_equal_points_on_a_path_do_no_harm():
    path = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    way = remaining(path, np.array([0.25, 0.0]))
    np.testing.assert_allclose(ahead(way, 0.5), [0.75, 0.0])
    np.testing.assert_allclose(ahead(way, 5.0), [1.0, 0.0])


@pytest.mark.parametrize(
    ('distance', 'point'), [(0.0, [0, 0]), (0.5, [0.5, 0]), (1.0, [1, 0]), (1.25, [1, 0.25])]
)
def test_the_point_ahead_is_counted_along_the_path(distance, point):
    np.testing.assert_allclose(ahead(PATH, distance), point)
