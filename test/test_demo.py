"""The demonstration: all nodes on the bundled clip and model, its report, pictures, recording."""

import json

import numpy as np
import pytest
from node_bench import own_domain
from PIL import Image

from kde_imitation import cli
from kde_imitation.errors import BadInput
from kde_imitation.imitation import Robot
from kde_imitation.kinematics.description import joint_limits
from kde_imitation.nodes import demo
from kde_imitation.nodes.following import Heard, measure
from kde_imitation.nodes.sources import Folder
from kde_imitation.resources import share_file

PERIOD = 0.01


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    """One run of twelve seconds: its folder and its report."""
    folder = tmp_path_factory.mktemp('demo')
    words = ['demo', '--headless', '--seconds', '12', '--report', folder / 'r.json']
    words += ['--output', folder / 'out', '--record', folder / 'bag']
    with own_domain() as domain, pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROS_DOMAIN_ID', str(domain))
        assert cli.main([str(word) for word in words]) == 0
    return folder, json.loads((folder / 'r.json').read_text())


def test_pictures_become_commands_inside_all_limits(finished):
    _, report = finished
    assert report['pictures'] > 200
    assert report['goals'] > 100
    assert report['commands'] > 500
    assert report['samples_outside_limits'] == 0
    assert 0 < report['largest_speed_share'] <= 1.000001
    assert 0 < report['latency_p50_ms'] <= report['latency_p95_ms'] <= report['latency_max_ms']


def test_the_arm_reaches_the_goal_where_it_rests(finished):
    _, report = finished
    assert report['rests'] >= 1
    assert report['rest_error_max_mm'] < 50


def test_the_report_says_what_each_node_took(finished):
    _, report = finished
    names = {'camera_node', 'pose_feature_node', 'kde_regression_node', 'preimage_node'}
    names |= {'arm_controller_node', 'arm_sim_node', 'other'}
    assert names <= set(report['cpu_shares'])
    assert all(share >= 0 for share in report['cpu_shares'].values())
    assert 0.05 < report['cpu_total'] < 3


def test_pictures_show_person_and_arm_side_by_side(finished):
    folder, report = finished
    assert report['pictures_written'] == [
        str(folder / 'out' / name) for name in ('demo.gif', 'demo.png')
    ]
    with Image.open(folder / 'out' / 'demo.gif') as film:
        first = np.asarray(film.convert('RGB'), dtype=float)
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert('RGB'), dtype=float)
    assert first.shape == (240, 640, 3)
    moved = np.abs(first - last).max(axis=-1) > 40
    assert moved[:, :320].mean() > 0.002
    assert moved[:, 320:].mean() > 0.002
    with Image.open(folder / 'out' / 'demo.png') as sheet:
        assert np.asarray(sheet.convert('L')).std() > 20


def test_the_recording_is_read_by_another_library(finished):
    rosbag2 = pytest.importorskip('rosbags.rosbag2')
    from rosbags.typesys import Stores, get_typestore

    folder, report = finished
    store = get_typestore(Stores.ROS2_JAZZY)
    counts = {}
    with rosbag2.Reader(folder / 'bag') as reader:
        for connection, _, content in reader.messages():
            counts[connection.topic] = counts.get(connection.topic, 0) + 1
            if connection.topic == '/joint_states':
                state = store.deserialize_cdr(content, connection.msgtype)
    assert counts['/position_controller/commands'] > 0.8 * report['commands']
    assert counts['/image_raw'] > 100
    assert counts['/robot_description'] == 1
    assert len(state.position) == 7


@pytest.mark.parametrize('seconds', [0.5, 4000, float('nan')])
def test_a_length_that_makes_no_sense_is_refused(seconds):
    with pytest.raises(BadInput, match='seconds must be from 1 to 3600'):
        demo.run(seconds)


def test_a_recording_never_overwrites_another(tmp_path, capsys):
    (tmp_path / 'bag').mkdir()
    with own_domain() as domain, pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROS_DOMAIN_ID', str(domain))
        words = ['demo', '--headless', '--seconds', '1', '--record', str(tmp_path / 'bag')]
        assert cli.main(words) == 1
    assert 'is there already' in capsys.readouterr().err


def test_the_playlist_of_a_folder_says_what_is_shown(tmp_path):
    clip = Folder(share_file('clip'))
    lines = (share_file('clip') / 'playlist.txt').read_text().split()
    count = 0
    while clip.read() is not None:
        count += 1
    assert count == len(lines) > 1000
    (tmp_path / '0000.jpg').write_bytes((share_file('clip') / '0000.jpg').read_bytes())
    (tmp_path / 'playlist.txt').write_text('0000.jpg 0000.jpg 0001.jpg')
    with pytest.raises(BadInput, match=r'names 0001\.jpg'):
        Folder(tmp_path)


# --- what the numbers mean ----------------------------------------------------------------------


def heard(commands, goals=None, states=None, stamps=None):
    """Return what a watcher would have heard of commands (n, 7) sent every 10 ms."""
    times = PERIOD * np.arange(len(commands))
    goals = commands if goals is None else goals
    states = commands if states is None else states
    stamps = times - 0.012 if stamps is None else stamps
    return Heard(times, stamps, commands, times, states, times, goals, times, [], 0)


def measured(*arguments, **options):
    return measure(heard(*arguments, **options), joint_limits(), Robot.pa10(), PERIOD)


def test_a_still_arm_keeps_all_limits_and_has_arrived():
    record = measured(np.zeros((400, 7)))
    assert record['samples_outside_limits'] == 0
    assert record['rests'] == 1
    assert record['rest_error_max_mm'] == pytest.approx(0, abs=1e-9)
    assert record['command_rate_hz'] == pytest.approx(100)
    assert record['latency_p95_ms'] == pytest.approx(12)


@pytest.mark.parametrize(
    ('joint', 'row', 'value'), [(0, 100, 0.02), (3, 50, 0.0105), (1, 399, 1.7)]
)
def test_one_command_too_far_is_seen(joint, row, value):
    commands = np.zeros((400, 7))
    commands[row:, joint] = value
    assert measured(commands)['samples_outside_limits'] > 0


def test_latency_counts_the_first_command_of_a_picture_only():
    stamps = np.repeat(np.arange(40) * 0.1, 10) - 0.02
    assert measured(np.zeros((400, 7)), stamps=stamps)['latency_max_ms'] == pytest.approx(20)


def test_an_arm_that_stays_away_from_a_resting_goal_is_seen():
    goals = np.zeros((400, 7))
    states = goals.copy()
    states[:, 1] = 0.1
    # The elbow is 0.45 m away, the wrist 0.95 m, the hand 1.03 m.
    wanted = 1000 * 2 * np.sin(0.05) * (0.45 + 0.95 + 1.03) / 3
    record = measured(states, goals=goals, states=states)
    assert record['rest_error_max_mm'] == pytest.approx(wanted, rel=0.01)


def test_a_goal_that_moves_has_no_rests():
    moving = np.zeros((400, 7))
    moving[:, 1] = np.cumsum(np.full(400, 0.02))
    assert measured(np.zeros((400, 7)), goals=moving)['rests'] == 0


def test_nothing_heard_is_no_number():
    nothing = np.zeros((0, 7))
    record = measured(nothing)
    assert record['command_rate_hz'] is None
    assert record['latency_p95_ms'] is None
    assert record['rests'] == 0
