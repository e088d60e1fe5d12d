"""The PA-10 learned in two parts, against its exact kinematics."""

import numpy as np
import pytest

from kde_imitation.errors import BadInput
from kde_imitation.kinematics import pa10
from kde_imitation.kinematics.learned_arm import LearnedArm
from kde_imitation.kinematics.psom import Psom, chebyshev_axis


@pytest.fixture(scope='module')
def arm():
    return LearnedArm.of_pa10()


def postures(count, seed=0):
    return np.random.default_rng(seed).uniform(pa10.LOWER, pa10.UPPER, (count, 7))


def test_hand_is_placed_within_one_and_a_half_millimetres_over_the_whole_range(arm):
    q = postures(5000)
    error = np.linalg.norm(arm.link_positions(q) - pa10.link_positions(q), axis=-1)
    assert error[:, :2].max() == 0
    assert error.mean(axis=0).max() < 1.5e-3
    assert error.max() < 5e-3


def test_jacobians_are_the_exact_derivatives_of_the_learned_map(arm):
    q = postures(20, 1) * 0.95
    h = 1e-6
    differences = [
        (arm.link_positions(q + s) - arm.link_positions(q - s)) / (2 * h) for s in h * np.eye(7)
    ]
    assert arm.position_jacobians(q) == pytest.approx(np.stack(differences, -1), abs=1e-8)


def test_more_nodes_make_it_better():
    q = postures(500, 2)
    truth = pa10.link_positions(q)
    errors = [
        np.linalg.norm(LearnedArm.of_pa10(n).link_positions(q) - truth, axis=-1).mean()
        for n in (6, 8, 10)
    ]
    assert errors[0] > 5 * errors[1] > 25 * errors[2]


def test_limits_are_those_of_the_arm(arm):
    assert arm.lower == pytest.approx(pa10.LOWER)
    assert arm.upper == pytest.approx(pa10.UPPER)


def test_best_match_puts_the_hand_where_it_is_wanted(arm):
    q = postures(300, 3)
    start = np.clip(q + np.random.default_rng(4).normal(0, 0.2, q.shape), arm.lower, arm.upper)
    wanted = arm.link_positions(q)
    found = arm.best_match(wanted, [0, 0, 0, 0, 0, 0, 1], start)
    assert found.converged.all()
    assert np.abs(found.y[:, 6] - wanted[:, 6]).max() < 1e-6
    assert (found.x >= arm.lower).all()
    assert (found.x <= arm.upper).all()


def test_pull_keeps_joints_that_the_points_leave_open(arm):
    start = postures(1, 5)[0] * 0.5
    found = arm.best_match(arm.link_positions(start), np.ones(7), start, pull=1e-3)
    assert found.x == pytest.approx(start, abs=1e-9)
    moved = start.copy()
    moved[6] += 1.0
    found = arm.best_match(arm.link_positions(start), np.ones(7), moved, pull=1e-6)
    assert found.x[6] == moved[6]


def test_noisy_measurements_are_smoothed():
    rng = np.random.default_rng(6)
    noise = 0.01

    def learn(level):
        return LearnedArm.learn(
            lambda q: pa10.link_positions(q) + rng.normal(0, noise, (*q.shape[:-1], 7, 3)),
            lambda q: pa10.forward(q) + rng.normal(0, noise, (*q.shape[:-1], 4, 4)),
            pa10.LOWER,
            pa10.UPPER,
            nodes=6,
            smoothing=level,
        )

    q = postures(300, 7)
    truth = pa10.link_positions(q)
    raw, smoothed = (
        np.linalg.norm(learn(level).link_positions(q) - truth, axis=-1)[:, 2:].mean()
        for level in (0.0, 'cv')
    )
    assert smoothed < raw


@pytest.mark.parametrize(
    ('call', 'message'),
    [
        (lambda a: a.link_positions(np.zeros(6)), 'axis of 7 joint values'),
        (lambda a: a.link_positions([np.nan] * 7), 'q holds nan'),
        (lambda a: a.best_match(np.zeros((7, 2)), np.ones(7), np.zeros(7)), r'shape \(7, 3\)'),
        (lambda a: a.best_match(np.zeros((7, 3)), -np.ones(7), np.zeros(7)), 'zero or positive'),
        (lambda a: a.best_match(np.zeros((7, 3)), np.ones(7), np.full(7, 9.0)), 'outside'),
        (
            lambda a: a.best_match(np.zeros((7, 3)), np.ones(7), np.zeros(7), pull=-1),
            'pull must be',
        ),
    ],
)
def test_bad_calls_are_refused_with_a_sentence(arm, call, message):
    with pytest.raises(BadInput, match=message):
        call(arm)


def test_parts_of_the_wrong_size_are_refused(arm):
    axis = chebyshev_axis(-1, 1, 3)
    wrong = Psom.from_grid([axis], axis[:, None])
    with pytest.raises(BadInput, match='near map must go from 4 joints to 15'):
        LearnedArm(wrong, arm.far, (-1, 1))
    with pytest.raises(BadInput, match='far map must go from 2 joints to 3'):
        LearnedArm(arm.near, wrong, (-1, 1))
