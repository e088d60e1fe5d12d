"""Limits of any arm: what its URDF says, accelerations from a file, and nothing wider."""

import math

import numpy as np
import pytest
import yaml

from kde_imitation.control import Tracker
from kde_imitation.errors import BadInput
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import joint_limits, urdf
from kde_imitation.kinematics.limits import read_joint_limits

ARM = """<robot name="two">
<link name="base"/><link name="a"/><link name="b"/>
<joint name="turn" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="2" velocity="3" effort="4"/></joint>
<joint name="spin" type="{kind}"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/>
  {limit}</joint>
</robot>"""
TWO = ARM.format(kind='revolute', limit='<limit lower="-5" upper="5" velocity="6" effort="7"/>')
PLAIN = {'turn': {'max_acceleration': 8}, 'spin': {'max_acceleration': 9.5}}


@pytest.fixture
def write(tmp_path):
    def write(table):
        file = tmp_path / 'limits.yaml'
        file.write_text(table if isinstance(table, str) else yaml.safe_dump(table))
        return file

    return write


def test_the_urdf_gives_all_but_the_accelerations(write):
    limits = read_joint_limits(TWO, write({'joint_limits': PLAIN}))
    assert limits.names == ('turn', 'spin')
    assert limits.lower.tolist() == [-1, -5]
    assert limits.upper.tolist() == [2, 5]
    assert limits.velocity.tolist() == [3, 6]
    assert limits.acceleration.tolist() == [8, 9.5]
    assert limits.effort.tolist() == [4, 7]


def test_a_chain_a_file_and_a_text_give_the_same(write, tmp_path):
    file = write({'joint_limits': PLAIN})
    (tmp_path / 'two.urdf').write_text(TWO)
    for source in (TWO, tmp_path / 'two.urdf', str(tmp_path / 'two.urdf'), Chain.from_urdf(TWO)):
        assert read_joint_limits(source, file).acceleration.tolist() == [8, 9.5]


def test_the_file_may_narrow(write):
    turn = {'max_acceleration': 8, 'min_position': -0.5, 'max_position': 0, 'max_velocity': 1}
    limits = read_joint_limits(TWO, write({'joint_limits': {**PLAIN, 'turn': turn}}))
    assert (limits.lower[0], limits.upper[0], limits.velocity[0]) == (-0.5, 0, 1)


def test_values_that_are_switched_off_are_left_out(write):
    turn = {'max_acceleration': 8, 'has_velocity_limits': False, 'max_velocity': 1, 'max_jerk': 5}
    limits = read_joint_limits(TWO, write({'joint_limits': {**PLAIN, 'turn': turn}}))
    assert limits.velocity[0] == 3


def test_the_pa10_can_be_read_like_any_other_arm(write):
    ours = joint_limits()
    table = {
        name: {'has_acceleration_limits': True, 'max_acceleration': float(value)}
        for name, value in zip(ours.names, ours.acceleration)
    }
    found = read_joint_limits(urdf(), write({'joint_limits': table}))
    for field in ('lower', 'upper', 'velocity', 'acceleration', 'effort'):
        np.testing.assert_allclose(getattr(found, field), getattr(ours, field), atol=1e-15)


def test_a_joint_without_stops_can_be_controlled_if_it_has_a_speed(write):
    endless = ARM.format(kind='continuous', limit='')
    file = write({'joint_limits': {**PLAIN, 'spin': {'max_acceleration': 9, 'max_velocity': 2}}})
    limits = read_joint_limits(endless, file)
    assert (limits.lower[1], limits.upper[1]) == (-math.inf, math.inf)
    tracker = Tracker(limits)
    for _ in range(2000):
        tracker.track([0.0, 20.0])
    np.testing.assert_allclose(tracker.q, [0.0, 20.0], atol=1e-4)


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        ({'turn': None}, "has no limits for joint 'turn'"),
        ({'turn': {}}, "must give joint 'turn' a max_acceleration"),
        (
            {'turn': {'has_acceleration_limits': False, 'max_acceleration': 3}},
            "must give joint 'turn' a max_acceleration",
        ),
        ({'turn': {'max_acceleration': 0}}, 'is 0; it must be above 0'),
        ({'turn': {'max_acceleration': -2.0}}, 'is -2; it must be above 0'),
        ({'turn': {'max_acceleration': math.nan}}, 'is nan; it must be a number'),
        ({'turn': {'max_acceleration': 'fast'}}, "is 'fast'; it must be a number"),
        ({'turn': {'max_acceleration': True}}, 'is True; it must be a number'),
        (
            {'turn': {'max_acceleration': 1, 'max_velocity': 3.5}},
            'wider than the URDF, which has 3',
        ),
        ({'turn': {'max_acceleration': 1, 'min_position': -2}}, 'is -2, wider than the URDF'),
        (
            {'turn': {'max_acceleration': 1, 'min_position': 1, 'max_position': 1}},
            'no room to move',
        ),
        ({'turn': {'max_accelleration': 1}}, "'max_accelleration', which is not known; known are"),
        (
            {'trun': {'max_acceleration': 1}},
            'limits trun, but the joints of the arm are turn, spin',
        ),
    ],
)
def test_a_wrong_entry_is_named(write, change, sentence):
    with pytest.raises(BadInput) as caught:
        read_joint_limits(TWO, write({'joint_limits': {**PLAIN, **change}}))
    assert sentence in str(caught.value)
    assert 'limits.yaml' in str(caught.value)


def test_a_joint_without_any_speed_limit_is_named(write):
    endless = ARM.format(kind='continuous', limit='')
    with pytest.raises(
        BadInput, match=r"Joint 'spin' has no speed limit; give it one in the URDF"
    ):
        read_joint_limits(endless, write({'joint_limits': PLAIN}))


@pytest.mark.parametrize('text', ['', '[1, 2]', 'joint_limits: 3', 'limits: {turn: {}}'])
def test_a_file_without_the_table_is_refused(write, text):
    with pytest.raises(BadInput, match=r'must have a mapping "joint_limits"'):
        read_joint_limits(TWO, write(text))


def test_a_file_that_is_missing_or_no_yaml_is_refused(write, tmp_path):
    with pytest.raises(BadInput, match=r'gone\.yaml.* cannot be read'):
        read_joint_limits(TWO, tmp_path / 'gone.yaml')
    with pytest.raises(BadInput, match=r'limits\.yaml is not YAML'):
        read_joint_limits(TWO, write('a: [b'))
