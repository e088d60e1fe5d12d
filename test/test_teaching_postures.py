"""Which postures a teach-in shows, and the ways between them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kde_imitation.control import SelfCollisionGuard
from kde_imitation.errors import BadInput
from kde_imitation.kinematics import description
from kde_imitation.kinematics.chain import Chain
from kde_imitation.simulation.arm import SimulatedArm
from kde_imitation.teaching import Router, Workspace, read_postures, spread
from kde_imitation.teaching.postures import farthest_first

URDF = description.urdf(mount='wall')
CHAIN = Chain.from_urdf(URDF)
GUARD = SelfCollisionGuard(URDF)


@pytest.fixture(scope='module')
def router() -> Router:
    return Router(CHAIN, Workspace.of_pa10().middle, GUARD)


# --- the order -------------------------------------------------------------------------------


def radius(points: np.ndarray, chosen: list[int]) -> float:
    """Return how far the worst point is from the nearest chosen one."""
    apart = np.linalg.norm(points[:, None] - points[chosen][None], axis=2)
    return float(apart.min(axis=1).max())


@st.composite
def clouds(draw: st.DrawFn) -> np.ndarray:
    count, seed = draw(st.integers(2, 40)), draw(st.integers(0, 10**6))
    points = np.random.default_rng(seed).normal(size=(count, draw(st.integers(1, 4))))
    if draw(st.booleans()):
        points = points.round(0)
    return points


@given(clouds(), st.integers(0, 10**6))
def test_however_many_are_taken_from_the_front_they_cover_the_range(
    points: np.ndarray, seed: int
) -> None:
    order = farthest_first(points, len(points))
    assert len(set(order)) == len(order)
    assert len(order) == len(np.unique(points, axis=0)), 'all that differ are ordered'
    covers = [radius(points, order[:k]) for k in range(1, len(order) + 1)]
    assert covers == sorted(covers, reverse=True)
    rng = np.random.default_rng(seed)
    for k, cover in enumerate(covers, start=1):
        other = rng.choice(len(points), k, replace=False).tolist()
        assert cover <= 2.0 * radius(points, other) + 1e-9
        if k < len(order):
            newest = np.linalg.norm(points[order[:k]] - points[order[k]], axis=1).min()
            assert newest == pytest.approx(cover), 'the worst covered point comes next'


@given(clouds(), st.integers(0, 10**6))
def test_what_cannot_be_used_is_left_out_and_only_that(points: np.ndarray, seed: int) -> None:
    usable = np.random.default_rng(seed).random(len(points)) < 0.6
    order = farthest_first(points, len(points), lambda index: bool(usable[index]))
    assert usable[order].all()
    assert {tuple(p) for p in points[order]} == {tuple(p) for p in points[usable]}


# --- spread over a workspace -----------------------------------------------------------------


def test_spread_postures_lie_in_the_workspace_and_more_begin_with_the_same(
    router: Router,
) -> None:
    workspace = Workspace.of_pa10()
    postures = spread(60, workspace, router)
    assert postures.shape == (60, 7)
    assert (postures >= workspace.lower - 1e-12).all()
    assert (postures <= workspace.upper + 1e-12).all()
    np.testing.assert_array_equal(spread(20, workspace, router), postures[:20])


def test_spread_postures_cover_the_arms_range_better_than_drawn_ones(router: Router) -> None:
    workspace = Workspace.of_pa10()
    every = CHAIN.link_positions(workspace.fill(10)).reshape(1024, -1)
    chosen = CHAIN.link_positions(spread(50, workspace, router)).reshape(50, -1)

    def worst(points: np.ndarray) -> float:
        return float(np.linalg.norm(every[:, None] - points[None], axis=2).min(axis=1).max())

    rng = np.random.default_rng(0)
    for _ in range(5):
        drawn = rng.uniform(workspace.lower, workspace.upper, (50, 7))
        assert worst(chosen) < worst(CHAIN.link_positions(drawn).reshape(50, -1))


def test_the_arm_touches_nothing_in_spread_postures_nor_on_the_way(router: Router) -> None:
    arm = SimulatedArm(URDF)
    postures = spread(40, Workspace.of_pa10(), router)
    last = router.home
    for goal in postures:
        route = router.route(last, goal)
        assert route is not None
        np.testing.assert_array_equal(route[[0, -1]], [last, goal])
        for a, b in pairwise(route):
            for share in np.linspace(0.0, 1.0, 40):
                arm.data.qpos[:] = a + share * (b - a)
                mujoco.mj_forward(arm.model, arm.data)
                assert arm.data.ncon == 0
        last = goal


def test_a_posture_that_reaches_into_the_wall_is_a_fault(router: Router) -> None:
    into_the_wall = np.radians([4, 88, -14, 53, 0, 0, 0])
    assert 'from the plane that it is mounted on' in router.fault(into_the_wall)
    assert Router(CHAIN, router.home, GUARD, clearance=0.0).fault(into_the_wall) == ''
    off_the_wall = SelfCollisionGuard(URDF, keep_off_mount=True)
    fault = Router(CHAIN, router.home, off_the_wall, clearance=0.0).fault(into_the_wall)
    assert 'and the mounting wall would be -' in fault


@pytest.mark.parametrize(
    ('count', 'lower', 'upper', 'said'),
    [
        (0, [0.0] * 7, [0.1] * 7, 'count is 0'),
        (5, [0.0] * 7, [0.0] * 7, 'only 1 different postures'),
        (5, [0.1] * 7, [0.0] * 7, 'must rise'),
        (5, [-9.0] * 7, [0.0] * 7, 'must rise and lie inside'),
        (5, [np.nan] * 7, [0.0] * 7, 'finite'),
        (5, [0.0] * 6, [0.1] * 6, 'shape'),
    ],
)
def test_a_workspace_that_cannot_be_is_one_sentence(
    count: int, lower: list[float], upper: list[float], said: str
) -> None:
    def attempt() -> None:
        box = Workspace.of(CHAIN, lower, upper)
        spread(count, box, Router(CHAIN, box.middle, GUARD))

    with pytest.raises(BadInput, match=said):
        attempt()


# --- ways ------------------------------------------------------------------------------------


class Blocked(SelfCollisionGuard):
    """A guard of a made-up arm that must not bend its second joint less than so far."""

    def __init__(self, least: float) -> None:
        self.least, self.margin = least, 0.02

    def safe(self, q: np.ndarray) -> bool:
        return bool(abs(q[0]) > 0.3 or q[1] > self.least)

    def clear_line(self, start: np.ndarray, end: np.ndarray) -> bool:
        return all(self.safe(start + s * (end - start)) for s in np.linspace(0, 1, 200))


@given(st.integers(0, 10**6))
@settings(max_examples=50)
def test_a_blocked_way_goes_by_the_home_posture_or_not_at_all(seed: int) -> None:
    guard = Blocked(0.5)
    rng = np.random.default_rng(seed)
    start, goal = rng.uniform(-1.0, 1.0, (2, 7))
    router = Router(CHAIN, [0.0, 1.0, 0, 0.2, 0, 0, 0], guard, clearance=0.0)
    route = router.route(start, goal)
    if guard.clear_line(start, goal):
        assert route is not None
        assert len(route) == 2
    elif route is not None:
        np.testing.assert_array_equal(route[1], router.home)
    if route is not None:
        assert all(guard.clear_line(a, b) for a, b in pairwise(route))


def test_a_home_posture_that_cannot_be_taken_is_refused() -> None:
    with pytest.raises(BadInput, match='home posture cannot be taken'):
        Router(CHAIN, np.radians([0, 90, 0, 90, 0, 0, 0]), GUARD)


# --- from a file -----------------------------------------------------------------------------

HEADER = 'frame,q1,q2,q3,q4,q5,q6,q7\n'


def test_postures_are_read_from_a_table_whatever_else_is_in_it(
    tmp_path: Path, router: Router
) -> None:
    file = tmp_path / 'postures.csv'
    file.write_text(f'{HEADER}a,0.1,0.2,0,0.4,0,0,0\nb,0,-0.5,0,1e-1,0,0,0\n')
    np.testing.assert_array_equal(
        read_postures(file, router), [[0.1, 0.2, 0, 0.4, 0, 0, 0], [0, -0.5, 0, 0.1, 0, 0, 0]]
    )


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('', 'must name the columns q1'),
        (HEADER, 'has 0 postures'),
        ('q1,q2\n0,0\n', 'must name the columns'),
        (f'{HEADER}a,0,0,0,nan,0,0,0\n', 'line 2: q4 is "nan"'),
        (f'{HEADER}a,0,0,0,x,0,0,0\n', 'line 2: q4 is "x"'),
        (f'{HEADER}a,0,0,0,0,0,0\n', 'line 2, has 7 values'),
        (f'{HEADER}a,0,0,0,0,0,0,0\na,0,3,0,0,0,0,0\n', 'line 3: q2 is 3.000 rad, but joint s2'),
        (f'{HEADER}a,0,1.55,0,0.9,0,0,0\n', 'line 2: the arm would be'),
    ],
)
def test_a_table_that_cannot_be_shown_is_one_sentence(
    tmp_path: Path, router: Router, text: str, said: str
) -> None:
    file = tmp_path / 'postures.csv'
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        read_postures(file, router)
    with pytest.raises(BadInput, match='cannot be read'):
        read_postures(tmp_path / 'none.csv', router)
