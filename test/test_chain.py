"""Any arm from its URDF: held to the PA-10's published matrices, Pinocchio, and differences."""

import mujoco
import numpy as np
import pinocchio as pin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import pa10 as closed_form
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import joint_limits, urdf

LENGTHS = {'A': (0.450, 0.480, 0.070), 'B': (0.450, 0.500, 0.080)}


def published_positions(q, lengths):
    """p1 to p7 of one posture by the product of the seven published matrices, millimetres there.

    Modified Denavit-Hartenberg: odd joints turn about the arm, even ones across it. The printed
    third row of the first matrix is read as 0 0 1 0, the only one that makes it a motion.
    """
    upper, lower, hand = (1000 * length for length in lengths)
    motion = np.eye(4)
    positions = []
    for i, (angle, offset) in enumerate(zip(q, (0, 0, upper, 0, lower, 0, hand), strict=True)):
        c, s = np.cos(angle), np.sin(angle)
        if i == 0:
            step = [[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
        elif i % 2:
            step = [[c, -s, 0, 0], [0, 0, 1, 0], [-s, -c, 0, 0], [0, 0, 0, 1]]
        else:
            step = [[c, -s, 0, 0], [0, 0, -1, -offset], [s, c, 0, 0], [0, 0, 0, 1]]
        motion = motion @ np.array(step)
        positions.append(motion[:3, 3] / 1000)
    return np.array(positions)


def random_postures(count, seed=0):
    limits = joint_limits()
    return np.random.default_rng(seed).uniform(limits.lower, limits.upper, (count, 7))


def differences(function, q, step=1e-6):
    """Central differences by the last axis of q, appended as a new last axis."""
    columns = []
    for j in range(q.shape[-1]):
        shift = np.zeros(q.shape[-1])
        shift[j] = step
        columns.append((function(q + shift) - function(q - shift)) / (2 * step))
    return np.stack(columns, axis=-1)


# A gantry with a turret: sliding and endless joints, a slanted axis, a bend, a side branch.
GANTRY = """<?xml version="1.0"?>
<robot name="gantry">
  <link name="room"/> <link name="rail"/>
  <link name="cart"><inertial><origin xyz="0.1 0 0"/><mass value="2"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
  <link name="turret"><inertial><origin xyz="0 0.2 0.1"/><mass value="3"/>
    <inertia ixx="0.2" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.2"/></inertial></link>
  <link name="stick"><inertial><origin xyz="0 0 0.3"/><mass value="1"/>
    <inertia ixx="0.05" ixy="0" ixz="0" iyy="0.05" iyz="0" izz="0.01"/></inertial></link>
  <link name="nail"/> <link name="lamp"/>
  <joint name="hang" type="fixed"><parent link="room"/><child link="rail"/>
    <origin xyz="0 0 2" rpy="0.3 0.2 -0.4"/></joint>
  <joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/>
    <origin xyz="0.1 0.2 0" rpy="0 0.5 0"/><axis xyz="0.6 0.8 0"/>
    <limit lower="-1" upper="1.5" velocity="0.5" effort="100"/></joint>
  <joint name="spin" type="continuous"><parent link="cart"/><child link="turret"/>
    <origin xyz="0 0 -0.3" rpy="1 0 0.2"/><axis xyz="0 0 1"/></joint>
  <joint name="lift" type="revolute"><parent link="turret"/><child link="stick"/>
    <origin xyz="0.3 0 0.1"/><axis xyz="0 0.8 0.6"/>
    <limit lower="-2" upper="1" velocity="3" effort="20"/></joint>
  <joint name="end" type="fixed"><parent link="stick"/><child link="nail"/>
    <origin xyz="0 0.1 0.6" rpy="0 0.7 0"/></joint>
  <joint name="arm" type="revolute"><parent link="turret"/><child link="lamp"/>
    <axis xyz="1 0 0"/><limit lower="0" upper="1" velocity="1" effort="1"/></joint>
</robot>
"""


@pytest.fixture(scope='module')
def pa10():
    return Chain.from_urdf(urdf())


@pytest.fixture(scope='module')
def gantry():
    return Chain.from_urdf(GANTRY, tip='nail', base='rail')


CHAINS = pytest.mark.parametrize('name', ['pa10', 'gantry'])


@pytest.mark.parametrize('mount', ['floor', 'wall'])
@pytest.mark.parametrize('lengths', ['A', 'B'])
def test_pa10_link_positions_are_those_of_the_published_matrices(lengths, mount):
    chain = Chain.from_urdf(urdf(lengths=lengths, mount=mount))
    postures = random_postures(1000)
    published = np.array([published_positions(q, LENGTHS[lengths]) for q in postures])
    ours = chain.link_positions(postures, origin='link1')
    np.testing.assert_allclose(ours, published, rtol=0, atol=1e-9)


def test_pa10_link_positions_are_those_of_the_closed_form():
    postures = random_postures(1000, seed=1)
    ours = Chain.from_urdf(urdf()).link_positions(postures, origin='link1')
    np.testing.assert_allclose(ours, closed_form.link_positions(postures), rtol=0, atol=1e-9)


def test_pa10_positions_without_origin_are_those_of_the_base(pa10):
    positions = pa10.link_positions(np.zeros(7))
    assert positions[:, 2] == pytest.approx([0.315, 0.315, 0.765, 0.765, 1.265, 1.265, 1.345])
    np.testing.assert_allclose(positions[:, :2], 0, atol=1e-12)


def test_pa10_chain_describes_itself(pa10):
    limits = joint_limits()
    assert (pa10.base, pa10.tip, pa10.names) == ('base_link', 'tool0', limits.names)
    assert pa10.links == ('link1', 'link2', 'link3', 'link4', 'link5', 'link6', 'link7')
    np.testing.assert_allclose(pa10.lower, limits.lower)
    np.testing.assert_allclose(pa10.upper, limits.upper)
    np.testing.assert_allclose(pa10.velocity, limits.velocity)
    np.testing.assert_allclose(pa10.effort, limits.effort)


def test_the_names_carry_the_prefix():
    chain = Chain.from_urdf(urdf(prefix='r_'))
    assert chain.names[0] == 'r_s1'
    assert (chain.base, chain.tip) == ('r_base_link', 'r_tool0')


@CHAINS
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_kinematics_agree_with_pinocchio(name, data):
    chain = {'pa10': Chain.from_urdf(urdf()), 'gantry': Chain.from_urdf(GANTRY, 'nail', 'rail')}[
        name
    ]
    n = len(chain.names)
    q = np.array(data.draw(st.lists(st.floats(-6, 6), min_size=n, max_size=n)))
    model, state = chain.model, chain.model.createData()
    pin.computeJointJacobians(model, state, q)
    pin.updateFramePlacements(model, state)
    base = state.oMf[model.getFrameId(chain.base)].inverse()
    tip = model.getFrameId(chain.tip)
    np.testing.assert_allclose(chain.pose(q), (base * state.oMf[tip]).homogeneous, atol=1e-12)
    positions = [(base * state.oMi[i + 1]).translation for i in range(n)]
    np.testing.assert_allclose(chain.link_positions(q), positions, atol=1e-12)
    world = pin.getFrameJacobian(model, state, tip, pin.LOCAL_WORLD_ALIGNED)
    turned = np.vstack([base.rotation @ world[:3], base.rotation @ world[3:]])
    np.testing.assert_allclose(chain.jacobian(q), turned, atol=1e-12)


def test_pa10_poses_agree_with_mujoco(pa10):
    model = mujoco.MjModel.from_xml_string(
        urdf().replace('</robot>', '<mujoco><compiler fusestatic="false"/></mujoco></robot>')
    )
    data = mujoco.MjData(model)
    for q in random_postures(20):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        pose = pa10.pose(q)
        tool = data.body('tool0')
        np.testing.assert_allclose(pose[:3, :3], tool.xmat.reshape(3, 3), atol=1e-9)
        np.testing.assert_allclose(pose[:3, 3], tool.xpos, atol=1e-9)


@CHAINS
@pytest.mark.parametrize('origin', [None, 'first', 'tip'])
def test_position_jacobians_are_the_derivatives_of_the_positions(name, origin, request):
    chain = request.getfixturevalue(name)
    origin = {None: None, 'first': chain.links[0], 'tip': chain.tip}[origin]
    q = np.random.default_rng(2).uniform(-2, 2, (5, len(chain.names)))
    exact = chain.position_jacobians(q, origin)
    assert exact.shape == (5, q.shape[1], 3, q.shape[1])
    numeric = differences(lambda q: chain.link_positions(q, origin), q)
    # The truncation of central differences is about step², their rounding about 1e-16 / step.
    np.testing.assert_allclose(exact, numeric, rtol=0, atol=1e-8)


def test_links_do_not_move_with_the_joints_after_them(pa10):
    jacobians = pa10.position_jacobians(random_postures(10))
    for link in range(7):
        assert not jacobians[:, link, :, link:].any()
    assert not jacobians[:, :2].any()


@CHAINS
def test_the_tips_jacobian_is_the_derivative_of_its_pose(name, request):
    chain = request.getfixturevalue(name)
    q = np.random.default_rng(3).uniform(-2, 2, (4, len(chain.names)))
    exact = chain.jacobian(q)
    np.testing.assert_allclose(
        exact[:, :3], differences(lambda q: chain.pose(q)[..., :3, 3], q), rtol=0, atol=1e-8
    )
    # dR/dq Rᵀ is the cross-product matrix of the angular velocity.
    spin = np.einsum(
        'bijn,bkj->bnik',
        differences(lambda q: chain.pose(q)[..., :3, :3], q),
        chain.pose(q)[:, :3, :3],
    )
    angular = np.stack([spin[..., 2, 1], spin[..., 0, 2], spin[..., 1, 0]], axis=1)
    np.testing.assert_allclose(exact[:, 3:], angular, rtol=0, atol=1e-8)


@CHAINS
def test_batches_of_any_shape_give_what_single_postures_give(name, request):
    chain = request.getfixturevalue(name)
    n = len(chain.names)
    q = np.random.default_rng(4).uniform(-2, 2, (2, 3, n))
    shapes = {
        'link_positions': (n, 3), 'position_jacobians': (n, 3, n), 'pose': (4, 4),
        'jacobian': (6, n), 'mass_matrix': (n, n), 'gravity': (n,),
    }  # fmt: skip
    for method, shape in shapes.items():
        function = getattr(chain, method)
        batch = function(q)
        assert batch.shape == (2, 3, *shape)
        np.testing.assert_allclose(batch[1, 2], function(q[1, 2]), atol=1e-14)
        assert function(q[:0]).shape == (0, 3, *shape)


@CHAINS
def test_mass_matrices_are_symmetric_and_positive_definite(name, request):
    chain = request.getfixturevalue(name)
    q = np.random.default_rng(5).uniform(-2, 2, (50, len(chain.names)))
    inertia = chain.mass_matrix(q)
    np.testing.assert_array_equal(inertia, np.swapaxes(inertia, -1, -2))
    assert np.linalg.eigvalsh(inertia).min() > 0


def test_pa10_dynamics_agree_with_mujoco():
    for mount in ('floor', 'wall'):
        chain = Chain.from_urdf(urdf(mount=mount))
        model = mujoco.MjModel.from_xml_string(urdf(mount=mount))
        data = mujoco.MjData(model)
        column = np.zeros(7)
        for q in random_postures(20, seed=6):
            data.qpos[:] = q
            mujoco.mj_forward(model, data)
            columns = []
            for unit in np.eye(7):
                mujoco.mj_mulM(model, data, column, unit)
                columns.append(column.copy())
            np.testing.assert_allclose(chain.mass_matrix(q), columns, rtol=0, atol=1e-9)
            np.testing.assert_allclose(chain.gravity(q), data.qfrc_bias, rtol=0, atol=1e-9)


def test_pa10_gravity_is_the_slope_of_the_potential_energy(pa10):
    def energy(q):
        state = pa10.model.createData()
        return np.array([pin.computePotentialEnergy(pa10.model, state, one) for one in q])

    q = random_postures(5, seed=7)
    # Energies of some 200 J and a step of 1e-6: rounding leaves about 2e-8.
    np.testing.assert_allclose(pa10.gravity(q), differences(energy, q), rtol=0, atol=1e-6)


def test_the_straight_horizontal_arm_weighs_what_its_masses_say():
    """Masses times their distances from the shoulder, from the published tables."""
    chain = Chain.from_urdf(urdf(mount='wall'))
    levers = [0.062, 0.359, 0.495, 0.785, 0.920, 1.000]
    masses = [8.41, 3.52, 4.31, 3.45, 1.46, 0.24]
    torque = chain.gravity(np.zeros(7))
    assert torque[1] == pytest.approx(-9.81 * np.dot(masses, levers), rel=1e-9)
    assert np.abs(torque[[0, 2, 4, 6]]).max() < 1e-12


def test_the_gantrys_sliding_and_endless_joints_are_of_one_number_each(gantry):
    assert gantry.names == ('slide', 'spin', 'lift')
    assert gantry.links == ('cart', 'turret', 'stick')
    np.testing.assert_array_equal(gantry.lower, [-1, -np.inf, -2])
    np.testing.assert_array_equal(gantry.upper, [1.5, np.inf, 1])
    np.testing.assert_array_equal(gantry.velocity, [0.5, np.inf, 3])
    np.testing.assert_array_equal(gantry.effort, [100, np.inf, 20])
    whole_turn = np.array([0.0, 2 * np.pi, 0.0])
    np.testing.assert_allclose(
        gantry.pose(np.ones(3) + whole_turn), gantry.pose(np.ones(3)), atol=1e-12
    )


def test_a_chain_may_have_one_joint():
    chain = Chain.from_urdf(GANTRY, tip='stick', base='rail', joints=['lift'])
    whole = Chain.from_urdf(GANTRY, tip='stick', base='rail')
    q, full = np.array([[0.4]]), np.array([[0.0, 0.0, 0.4]])
    np.testing.assert_allclose(chain.jacobian(q), whole.jacobian(full)[..., 2:], atol=1e-12)
    np.testing.assert_allclose(chain.mass_matrix(q), whole.mass_matrix(full)[:, 2:, 2:])
    np.testing.assert_allclose(chain.gravity(q), whole.gravity(full)[:, 2:])


def test_joints_left_out_stay_at_zero(gantry):
    part = Chain.from_urdf(GANTRY, tip='nail', base='rail', joints=['slide', 'lift'])
    assert part.names == ('slide', 'lift')
    np.testing.assert_allclose(
        part.pose([0.3, -0.4]), gantry.pose([0.3, 0.0, -0.4]), atol=1e-12
    )  # fmt: skip
    np.testing.assert_allclose(
        part.mass_matrix([0.3, -0.4]),
        gantry.mass_matrix([0.3, 0.0, -0.4])[np.ix_([0, 2], [0, 2])],
        atol=1e-12,
    )


def test_the_base_may_be_any_link_above_the_tip(gantry):
    from_room = Chain.from_urdf(GANTRY, tip='nail', base='room')
    from_cart = Chain.from_urdf(GANTRY, tip='nail', base='cart')
    assert from_cart.names == ('spin', 'lift')
    room_rail = pin.SE3(pin.rpy.rpyToMatrix(0.3, 0.2, -0.4), np.array([0, 0, 2.0])).homogeneous
    q = np.array([0.0, 0.7, -0.2])
    np.testing.assert_allclose(from_room.pose(q), room_rail @ gantry.pose(q), atol=1e-12)
    rail_cart = pin.SE3(pin.rpy.rpyToMatrix(0, 0.5, 0), np.array([0.1, 0.2, 0])).homogeneous
    np.testing.assert_allclose(rail_cart @ from_cart.pose(q[1:]), gantry.pose(q), atol=1e-12)


def test_without_a_base_coordinates_are_those_of_the_link_before_the_first_joint(gantry):
    assert Chain.from_urdf(GANTRY, tip='nail').base == 'rail'


def test_a_file_serves_as_well_as_its_text(tmp_path, pa10):
    path = tmp_path / 'arm.urdf'
    path.write_text(urdf())
    q = random_postures(1)[0]
    for source in (path, str(path)):
        np.testing.assert_array_equal(Chain.from_urdf(source).pose(q), pa10.pose(q))


FLOATING = GANTRY.replace('type="continuous"', 'type="floating"')
MIMIC = GANTRY.replace('<axis xyz="0 0 1"/>', '<axis xyz="0 0 1"/><mimic joint="slide"/>')
LOOP = GANTRY.replace(
    '</robot>',
    '<joint name="again" type="fixed"><parent link="room"/><child link="nail"/></joint></robot>',
)
CIRCLE = """<robot name="r"><link name="a"/><link name="b"/><link name="c"/>
  <joint name="ab" type="fixed"><parent link="a"/><child link="b"/></joint>
  <joint name="ba" type="fixed"><parent link="b"/><child link="a"/></joint></robot>"""


@pytest.mark.parametrize(
    ('source', 'options', 'sentence'),
    [
        ('no_such_folder/arm.urdf', {}, "'no_such_folder/arm.urdf' cannot be read"),
        ('<robot name="x">', {}, 'not well-formed XML'),
        ('<mujoco/>', {}, 'must begin with <robot>, not <mujoco>'),
        (GANTRY, {}, r'branches and ends in 2 links \(lamp, nail\); say with tip='),
        (GANTRY, {'tip': 'hand'}, "no link 'hand' for the tip"),
        (GANTRY, {'tip': 'nail', 'base': 'floor'}, "no link 'floor' for the base"),
        (GANTRY, {'tip': 'nail', 'base': 'lamp'}, "'nail' does not hang below link 'lamp'"),
        (GANTRY, {'tip': 'nail', 'joints': ['slide', 'twist']}, "no joint 'twist'"),
        (GANTRY, {'tip': 'nail', 'joints': ['spin', 'slide']}, 'named once each, base to tip'),
        (GANTRY, {'tip': 'nail', 'joints': ['slide', 'slide']}, 'named once each'),
        (GANTRY, {'tip': 'nail', 'joints': ['arm']}, 'from slide, spin, lift'),
        (GANTRY, {'tip': 'nail', 'joints': []}, 'No joint moves'),
        (GANTRY, {'tip': 'rail'}, 'No joint moves'),
        (FLOATING, {'tip': 'nail'}, "'spin' is 'floating'; only revolute, continuous"),
        (MIMIC, {'tip': 'nail'}, "'spin' mimics another"),
        (LOOP, {'tip': 'nail'}, "'nail' hangs on two joints, 'end' and 'again'"),
        (CIRCLE, {'tip': 'a'}, 'go round in a circle'),
        (GANTRY.replace('child link="nail"', 'child link="nial"'), {}, "'nial' as its child"),
    ],
)
def test_a_urdf_that_makes_no_chain_is_refused_with_a_sentence(source, options, sentence):
    with pytest.raises(BadInput, match=sentence):
        Chain.from_urdf(source, **options)


def test_a_binary_file_is_refused_with_a_sentence(tmp_path):
    path = tmp_path / 'arm.urdf'
    path.write_bytes(b'\xff\xfe\x00')
    with pytest.raises(BadInput, match='cannot be read'):
        Chain.from_urdf(path)


@pytest.mark.parametrize(
    ('q', 'sentence'),
    [
        (np.zeros(6), 'q must end in an axis of 7 joint values'),
        (np.zeros((7, 1)), 'q must end in an axis of 7 joint values'),
        ([0, 0, np.nan, 0, 0, 0, 0], 'q holds nan at index'),
        ('posture', 'q must be an array of numbers'),
    ],
)
@pytest.mark.parametrize(
    'method', ['link_positions', 'pose', 'jacobian', 'mass_matrix', 'gravity']
)
def test_bad_postures_are_refused_with_a_sentence(pa10, method, q, sentence):
    with pytest.raises(BadInput, match=sentence):
        getattr(pa10, method)(q)


def test_an_unknown_origin_is_refused_with_a_sentence(pa10):
    with pytest.raises(BadInput, match="no link 'shoulder'"):
        pa10.link_positions(np.zeros(7), origin='shoulder')
