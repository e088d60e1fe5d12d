"""Dexterity measures: held to closed forms of small arms, and to Pinocchio."""

import numpy as np
import pinocchio as pin
import pytest

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import dexterity, pa10
from kde_imitation.kinematics.chain import Chain
from kde_imitation.kinematics.description import urdf


class TwoLinks:
    """A planar arm of two massless links with a point mass at the end of each."""

    lower = np.array([-1.0, 0.5])
    upper = np.array([3.0, 2.5])

    def __init__(self, first=0.7, second=0.4, masses=(2.0, 1.5)):
        self.lengths, self.masses = (first, second), masses

    def _points(self, q):
        first = self.lengths[0] * np.exp(1j * q[..., 0])
        return first, first + self.lengths[1] * np.exp(1j * (q[..., 0] + q[..., 1]))

    def _linear(self, q):
        """Derivatives of elbow and tip by the joints, complex, (…, 2) each."""
        elbow, tip = self._points(q)
        zero = np.zeros_like(elbow)
        return (
            np.stack([1j * elbow, zero], axis=-1),
            np.stack([1j * tip, 1j * (tip - elbow)], axis=-1),
        )

    def jacobian(self, q):
        tip = self._linear(np.asarray(q))[1]
        zero = np.zeros(tip.shape)
        return np.stack([tip.real, tip.imag, zero, zero, zero, zero + 1], axis=-2)

    def mass_matrix(self, q):
        parts = zip(self.masses, self._linear(np.asarray(q)), strict=True)
        return sum(m * (d[..., :, None] * d[..., None, :].conj()).real for m, d in parts)


class Planar:
    """The plane's part of a Jacobian, as an arm whose task is two numbers."""

    def __init__(self, arm):
        self.arm = arm

    def jacobian(self, q):
        return self.arm.jacobian(q)[..., :2, :]


@pytest.fixture(scope='module')
def chain():
    return Chain.from_urdf(urdf(), tip='flange')


def random_postures(*shape, seed=0):
    return np.random.default_rng(seed).uniform(pa10.LOWER, pa10.UPPER, (*shape, 7))


def test_joint_limit_vector_is_a_half_at_the_limits_and_zero_between():
    arm = TwoLinks()
    np.testing.assert_allclose(dexterity.joint_limit_vector(arm, arm.lower), [-0.5, -0.5])
    np.testing.assert_allclose(dexterity.joint_limit_vector(arm, arm.upper), [0.5, 0.5])
    np.testing.assert_allclose(dexterity.joint_limit_vector(arm, [1.0, 1.5]), [0, 0], atol=1e-16)
    np.testing.assert_allclose(dexterity.joint_limit_vector(arm, [2.0, 1.0]), [0.25, -0.25])


def test_joint_limit_vector_is_the_printed_one_for_ranges_that_begin_at_zero():
    arm = TwoLinks()
    arm.lower, arm.upper = np.zeros(2), np.array([2.0, 3.0])
    q = np.array([[0.3, 2.0], [1.9, 0.1]])
    printed = (q - arm.upper / 2) / arm.upper
    np.testing.assert_allclose(dexterity.joint_limit_vector(arm, q), printed)


def test_joint_limit_distance_is_least_in_the_middle_and_greatest_in_a_corner(chain):
    q = random_postures(200)
    distance = dexterity.joint_limit_distance(chain, q)
    assert distance.shape == (200,)
    assert dexterity.joint_limit_distance(chain, np.zeros(7)) == 0
    corner = dexterity.joint_limit_distance(chain, chain.upper * [1, -1, 1, 1, -1, 1, 1])
    assert corner == pytest.approx(np.sqrt(7) / 2)
    assert ((distance > 0) & (distance < corner)).all()


def test_a_joint_without_stops_is_always_in_the_middle():
    arm = TwoLinks()
    arm.lower, arm.upper = np.array([-np.inf, -1.0]), np.array([np.inf, 1.0])
    np.testing.assert_array_equal(dexterity.joint_limit_vector(arm, [123.0, 0.5]), [0, 0.25])
    arm.lower, arm.upper = np.array([0.0, -1.0]), np.array([np.inf, 1.0])
    np.testing.assert_array_equal(dexterity.joint_limit_vector(arm, [123.0, 0.5]), [0, 0.25])


def test_limits_the_wrong_way_round_are_refused():
    arm = TwoLinks()
    arm.lower, arm.upper = arm.upper, arm.lower
    with pytest.raises(BadInput, match='less than the upper'):
        dexterity.joint_limit_vector(arm, [0.0, 0.0])


def test_singular_values_are_those_of_the_planar_closed_form():
    """Of a 2 × 2 matrix: σ1 σ2 = |det| = l1 l2 |sin q2|, and σ1² + σ2² = the sum of squares."""
    arm = TwoLinks()
    q = np.random.default_rng(1).uniform(-3, 3, (50, 2))
    product = 0.7 * 0.4 * np.abs(np.sin(q[:, 1]))
    squares = np.square(arm.jacobian(q)[:, :2]).sum(axis=(-2, -1))
    gap = np.sqrt(np.maximum(squares**2 - 4 * product**2, 0))
    largest = np.sqrt((squares + gap) / 2)
    smallest = dexterity.smallest_singular_value(Planar(arm), q)
    np.testing.assert_allclose(smallest, product / largest, rtol=1e-9)
    np.testing.assert_allclose(
        dexterity.condition_number(Planar(arm), q), largest**2 / product, rtol=1e-9
    )


def test_an_isotropic_posture_has_condition_number_one():
    """With l1 = √2 l2 and the elbow at 135°, the tip moves equally easily everywhere."""
    arm = Planar(TwoLinks(first=np.sqrt(2), second=1.0))
    assert dexterity.condition_number(arm, [0.4, 3 * np.pi / 4]) == pytest.approx(1, abs=1e-12)


def test_straight_arm_is_singular(chain):
    straight = [0.3, 0.5, 0.2, 0.0, 0.1, 0.6, 0.0]
    bent = [0.3, 0.5, 0.2, 1.2, 0.1, 0.6, 0.0]
    assert dexterity.smallest_singular_value(chain, straight) < 1e-15
    assert dexterity.condition_number(chain, straight) > 1e15
    assert dexterity.smallest_singular_value(chain, bent) > 0.05
    assert dexterity.condition_number(chain, bent) < 100


def test_condition_number_at_an_exact_singularity_is_infinite_without_a_warning():
    class Stuck:
        def jacobian(self, q):
            return np.zeros((*np.shape(q)[:-1], 6, 7)) + np.eye(6, 7) * [1, 1, 1, 1, 1, 0, 0]

    assert dexterity.condition_number(Stuck(), np.zeros(7)) == np.inf


def test_smallest_singular_value_bounds_the_speed_of_the_tip_from_below(chain):
    rng = np.random.default_rng(2)
    for q in random_postures(20, seed=3):
        jacobian = chain.jacobian(q)
        twist = rng.normal(size=(50, 6))
        twist /= np.linalg.norm(twist, axis=1, keepdims=True)
        gains = np.linalg.norm(twist @ jacobian, axis=1)
        least = dexterity.smallest_singular_value(chain, q)
        assert least <= gains.min() + 1e-12
        assert dexterity.condition_number(chain, q) >= gains.max() / gains.min() - 1e-9
        assert np.linalg.matrix_rank(jacobian, tol=least / 2) == 6


def test_position_alone_takes_the_rows_of_velocity(chain):
    q = random_postures(30, seed=4)
    rows = chain.jacobian(q)[:, :3]
    manipulability = np.sqrt(np.linalg.det(rows @ np.swapaxes(rows, -1, -2)))
    smallest = dexterity.smallest_singular_value(chain, q, task='position')
    condition = dexterity.condition_number(chain, q, task='position')
    np.testing.assert_allclose(condition, np.linalg.cond(rows), rtol=1e-9)
    middle = manipulability / (smallest**2 * condition)
    assert ((middle >= smallest - 1e-9) & (middle <= smallest * condition + 1e-9)).all()


def test_an_unknown_task_is_refused(chain):
    with pytest.raises(BadInput, match="'force'"):
        dexterity.condition_number(chain, np.zeros(7), task='force')


def test_kinetic_energy_is_that_of_the_moving_point_masses():
    arm = TwoLinks()
    rng = np.random.default_rng(5)
    q, v = rng.uniform(-3, 3, (2, 40, 2))
    step = 1e-6
    speeds = [
        (after - before) / (2 * step)
        for after, before in zip(arm._points(q + step * v), arm._points(q - step * v), strict=True)
    ]
    expected = sum(m * np.abs(s) ** 2 / 2 for m, s in zip(arm.masses, speeds, strict=True))
    np.testing.assert_allclose(dexterity.kinetic_energy(arm, q, v), expected, rtol=1e-7)


def test_kinetic_energy_of_the_pa10_is_pinocchios(chain):
    data = chain.model.createData()
    q, v = random_postures(25, seed=6), np.random.default_rng(7).normal(size=(25, 7))
    expected = [
        pin.computeKineticEnergy(chain.model, data, a, b) for a, b in zip(q, v, strict=True)
    ]
    np.testing.assert_allclose(dexterity.kinetic_energy(chain, q, v), expected, rtol=1e-12)


def test_measures_take_any_leading_shape(chain):
    q = random_postures(2, 3, seed=8)
    v = np.random.default_rng(9).normal(size=7)
    for measure in (
        lambda q: dexterity.joint_limit_distance(chain, q),
        lambda q: dexterity.smallest_singular_value(chain, q),
        lambda q: dexterity.condition_number(chain, q),
        lambda q: dexterity.kinetic_energy(chain, q, v),
    ):
        together = measure(q)
        assert together.shape == (2, 3)
        for i in np.ndindex(2, 3):
            assert measure(q[i]) == pytest.approx(together[i], rel=1e-12)


def test_postures_and_speeds_that_do_not_fit_are_refused(chain):
    with pytest.raises(BadInput, match='7 joint values'):
        dexterity.joint_limit_distance(chain, np.zeros(6))
    with pytest.raises(BadInput, match='q holds nan'):
        dexterity.smallest_singular_value(chain, [np.nan] * 7)
    with pytest.raises(BadInput, match='7 joint values'):
        dexterity.condition_number(chain, np.zeros(6))
    with pytest.raises(BadInput, match='velocity must end in an axis of 7'):
        dexterity.kinetic_energy(chain, np.zeros(7), np.zeros(6))
    with pytest.raises(BadInput, match='velocity holds inf'):
        dexterity.kinetic_energy(chain, np.zeros(7), np.full(7, np.inf))
    with pytest.raises(BadInput, match='does not go with'):
        dexterity.kinetic_energy(chain, np.zeros((3, 7)), np.zeros((2, 7)))
