"""The compiled chain against the chain it was made from."""

import numpy as np
import pytest

from kde_imitation.errors import BadInput
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.chain_map import chain_map
from kde_imitation.kinematics.description import urdf

SKEW = """<robot name="skew">
<link name="world"/><link name="base"/><link name="a"/><link name="b"/><link name="hand"/>
<joint name="mount" type="fixed"><parent link="world"/><child link="base"/>
  <origin xyz="0.3 -0.2 1.1" rpy="0.4 -0.9 0.2"/></joint>
<joint name="one" type="revolute"><parent link="base"/><child link="a"/>
  <origin xyz="0.1 0.2 0.3" rpy="1.0 0.5 -0.3"/><axis xyz="0.6 0 0.8"/>
  <limit lower="-2" upper="2" velocity="1" effort="1"/></joint>
<joint name="two" type="{kind}"><parent link="a"/><child link="b"/>
  <origin xyz="-0.2 0.4 0.1" rpy="-0.2 0.1 2.0"/><axis xyz="0 -1 0"/>
  <limit lower="-2" upper="2" velocity="1" effort="1"/></joint>
<joint name="three" type="continuous"><parent link="b"/><child link="hand"/>
  <origin xyz="0.5 0 0.2" rpy="0.7 0 0"/><axis xyz="1 2 2"/></joint>
</robot>"""
CHAINS = {
    'pa10': Chain.from_urdf(urdf()),
    'skew': Chain.from_urdf(SKEW.format(kind='revolute')),
    'skew from the world': Chain.from_urdf(SKEW.format(kind='revolute'), base='world'),
}


@pytest.mark.parametrize('name', CHAINS)
def test_positions_and_slopes_are_those_of_the_chain(name):
    chain = CHAINS[name]
    joints = len(chain.names)
    q = np.random.default_rng(0).uniform(-2, 2, (30, joints))
    values, slopes = chain_map(chain).evaluate(q, True)
    assert values.reshape(30, joints, 3) == pytest.approx(chain.link_positions(q), abs=1e-12)
    expected = chain.position_jacobians(q)
    assert slopes.reshape(30, joints, 3, joints) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize('points', [[2], [6, 0], range(2, 7), [-1, 3]])
def test_points_are_chosen_and_ordered(points):
    chain = CHAINS['pa10']
    q = np.random.default_rng(1).uniform(-1, 1, (5, 7))
    values = chain_map(chain, points).evaluate(q)[0]
    expected = chain.link_positions(q)[:, list(points)]
    assert values.reshape(5, -1, 3) == pytest.approx(expected, abs=1e-12)


def test_sliding_joints_are_refused_by_name():
    with pytest.raises(BadInput, match="Joint 'two' slides"):
        chain_map(Chain.from_urdf(SKEW.format(kind='prismatic')))


@pytest.mark.parametrize('points', [[7], [-8], [0.5], ['hand']])
def test_points_that_do_not_exist_are_refused(points):
    with pytest.raises(BadInput, match='link positions 0 to 6'):
        chain_map(CHAINS['pa10'], points)


def test_no_points_are_refused():
    with pytest.raises(BadInput, match='points is empty'):
        chain_map(CHAINS['pa10'], [])
