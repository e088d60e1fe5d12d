"""What all nodes share: parameters from one description, the newest message, diagnostics."""

from __future__ import annotations

import os
import re
import threading
from itertools import pairwise
from xml.etree import ElementTree

import pytest
import rclpy
import yaml
from conftest import ROOT
from node_bench import World, lines, status
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import DescribeParameters
from rclpy.parameter import Parameter as RosParameter
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from kde_imitation.errors import BadInput
from kde_imitation.nodes import reference
from kde_imitation.nodes.base import PROFILES, SENSOR, ImitationNode, Newest, start_ros
from kde_imitation.nodes.messages import vector_message
from kde_imitation.nodes.parameters import Parameter


class Example(ImitationNode):
    NAME = 'example_node'
    PARAMETERS = (
        Parameter('speed', 1.0, 'How fast.', 0.0, 2.0, 'm/s', live=True),
        Parameter('least', 0.0, 'How fast at least.', 0.0, 2.0, 'm/s', live=True),
        Parameter('count', 3, 'How many.', 1, 9, live=True),
        Parameter('file', '', 'Which file.'),
        Parameter('side', 'left', 'Which side.', choices=('left', 'right'), live=True),
        Parameter('on', False, 'Whether.', live=True),
        Parameter('start', (0.0,), 'From where.', -3.0, 3.0, 'rad', live=True),
    )

    def __init__(self, *arguments, **options) -> None:
        self.news: list[dict] = []
        super().__init__(*arguments, **options)
        self.taken: list[int] = []
        self.begun, self.gate = False, threading.Event()
        Newest(self, Image, 'input', self.work)

    def agree(self, values) -> None:
        if values['least'] > values['speed']:
            raise BadInput('least is greater than speed.')

    def changed(self, values) -> None:
        self.news.append(dict(values))

    def diagnosis(self):
        return {'colour': 'red'}

    def work(self, message: Image) -> None:
        self.begun = True
        self.gate.wait(30.0)
        self.taken.append(message.header.stamp.sec)
        if message.width == 13:
            raise BadInput('Thirteen values bring bad luck.')
        if message.width == 14:
            raise RuntimeError('a fault of the program')


# --- parameters ------------------------------------------------------------------------------


def test_parameters_have_their_defaults_and_what_was_given(ros: World) -> None:
    node = ros.run(Example({'speed': 0.5, 'start': [1, 2.0]}, context=ros.context))
    found = {one.name: node.value(one.name) for one in Example.PARAMETERS}
    assert found == {
        **{'speed': 0.5, 'least': 0.0, 'count': 3, 'file': '', 'side': 'left', 'on': False},
        'start': (1.0, 2.0),
    }
    assert list(node.get_parameter('start').value) == [1.0, 2.0]


def test_a_whole_number_serves_where_a_number_or_a_text_is_asked_for(ros: World) -> None:
    node = ros.run(Example({'speed': 2, 'file': 0}, context=ros.context))
    assert (node.value('speed'), node.value('file')) == (2.0, '0')
    assert node.get_parameter('speed').type_ == RosParameter.Type.DOUBLE
    assert ros.set('example_node', speed=1) == [(True, '')]
    assert node.get_parameter('speed').value == 1.0


@pytest.mark.parametrize(
    ('given', 'said'),
    [
        ({'speed': 3.0}, 'speed is 3, but must be from 0 to 2 m/s'),
        ({'speed': float('nan')}, 'speed must be a number, not nan'),
        ({'speed': 'fast'}, "speed must be a number, not 'fast'"),
        ({'speed': True}, 'speed must be a number, not True'),
        ({'count': 0}, 'count is 0, but must be from 1 to 9'),
        ({'count': 2.0}, 'count must be a whole number'),
        ({'side': 'up'}, "side is 'up', but must be one of 'left', 'right'"),
        ({'on': 1}, 'on must be true or false'),
        ({'start': [4.0]}, 'start is 4, but must be from -3 to 3 rad'),
        ({'start': ['a']}, 'start must be a list of numbers'),
        ({'start': 1.0}, 'start must be a list of numbers'),
        ({'sped': 1.0}, 'There is no parameter sped; there are speed'),
        ({'least': 1.5}, 'least is greater than speed'),
    ],
)
def test_a_wrong_start_is_one_sentence(ros: World, given: dict, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        Example(given, context=ros.context)


def test_changes_are_taken_or_refused_with_a_reason(ros: World) -> None:
    node = ros.run(Example(context=ros.context))
    answers = ros.set('example_node', speed=0.5, count=4, side='right', on=True, start=[1.0])
    assert answers == [(True, '')] * 5
    assert node.news == [
        *({'speed': 0.5}, {'count': 4}, {'side': 'right'}, {'on': True}),
        {'start': (1.0,)},
    ]
    wrong = ros.set('example_node', speed=9.0, count=99, side='up', file='x', least=0.7)
    assert [taken for taken, _ in wrong] == [False] * 5
    assert [reason for _, reason in wrong] == [
        'speed is 9, but must be from 0 to 2 m/s.',
        'count is 99, but must be from 1 to 9.',
        "side is 'up', but must be one of 'left', 'right'.",
        'file is read at the start only; start the node again with the new value.',
        'least is greater than speed.',
    ]
    assert len(node.news) == 5
    assert (node.value('speed'), node.get_parameter('speed').value) == (0.5, 0.5)
    (undeclared,) = ros.set('example_node', nothing=1)
    assert not undeclared[0]


def test_tools_are_told_type_range_and_meaning(ros: World) -> None:
    ros.run(Example(context=ros.context))
    request = DescribeParameters.Request(names=['speed', 'count', 'file', 'start'])
    found = ros.call(DescribeParameters, '/example_node/describe_parameters', request)
    speed, count, file, start = found.descriptors
    assert [one.type for one in found.descriptors] == [
        *(ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_INTEGER),
        *(ParameterType.PARAMETER_STRING, ParameterType.PARAMETER_DOUBLE_ARRAY),
    ]
    assert (speed.description, speed.read_only, file.read_only) == ('How fast.', False, True)
    (span,) = speed.floating_point_range
    assert (span.from_value, span.to_value) == (0.0, 2.0)
    (whole,) = count.integer_range
    assert (whole.from_value, whole.to_value) == (1, 9)
    assert 'Allowed: -3 to 3 rad.' in start.additional_constraints


# --- one description for files, manual and program -------------------------------------------


@pytest.mark.parametrize('name', reference.NODES)
def test_the_file_of_parameters_is_up_to_date(name: str) -> None:
    text = (ROOT / 'config' / f'{name}.yaml').read_text()
    described = reference.classes()[name].PARAMETERS
    assert text == reference.config(name, described), (
        'run "python -m kde_imitation.nodes.reference ." in the source tree'
    )
    values = yaml.safe_load(text)[f'/**/{name}']['ros__parameters']
    assert {one.name: one.check(values[one.name]) for one in described} == {
        one.name: one.default for one in described
    }


def test_the_manual_is_up_to_date() -> None:
    page = (ROOT / 'docs' / 'nodes.md').read_text()
    assert reference.manual(page) == page, (
        'run "python -m kde_imitation.nodes.reference ." in the source tree'
    )
    for name, kind in reference.classes().items():
        assert f'<!-- parameters of {name} -->' in page
        for one in kind.PARAMETERS:
            assert f'| `{one.name}` | {one.type} |' in page


@pytest.mark.parametrize('name', reference.NODES)
def test_every_parameter_is_described_in_a_sentence_and_its_default_is_allowed(name: str) -> None:
    for one in reference.classes()[name].PARAMETERS:
        assert re.fullmatch(r'[A-Z].{3,}\.', one.description), one.name
        assert one.check(one.default) == one.default


# --- the newest message ----------------------------------------------------------------------


def numbered(number: int, width: int = 1) -> Image:
    header = Header()
    header.stamp.sec = number
    return vector_message([0.0] * width, header)


def test_a_slow_stage_takes_the_newest_message_and_counts_the_others(ros: World) -> None:
    heard = ros.diagnoses()
    node = ros.run(Example(context=ros.context))
    speaker = ros.speak(Image, 'input', SENSOR)
    ros.connected(speaker)
    speaker.publish(numbered(1))
    ros.until(lambda: node.begun)
    for number in range(2, 12):
        speaker.publish(numbered(number))
        ros.pass_time(0.03)
    node.gate.set()
    assert ros.until(lambda: len(node.taken) == 2 and node.taken) == [1, 11]
    found = ros.until(
        lambda: (
            (found := status(heard, 'example_node')) and lines(found)['dropped'] != '0' and found
        )
    )
    assert lines(found)['dropped'] == '9'


def test_a_bad_message_is_said_and_the_next_is_taken(ros: World) -> None:
    heard = ros.diagnoses()
    node = ros.run(Example(context=ros.context))
    node.gate.set()
    speaker = ros.speak(Image, 'input', SENSOR)
    ros.connected(speaker)
    for number, width in enumerate([13, 14, 1]):
        speaker.publish(numbered(number, width))
        ros.until(lambda number=number: number in node.taken)
    found = ros.until(
        lambda: (
            (found := status(heard, 'example_node')) and lines(found)['refused'] == '2' and found
        )
    )
    assert found.level == b'\x01'
    assert 'a fault of the program' in found.message


def test_diagnostics_come_once_a_second_with_rate_age_and_shares(ros: World) -> None:
    heard = ros.diagnoses()
    node = ros.run(Example(context=ros.context))
    node.gate.set()
    ros.until(lambda: status(heard, 'example_node'))
    assert lines(heard[0].status[0])['age (s)'] == 'never'
    speaker = ros.speak(Image, 'input', SENSOR)
    ros.connected(speaker)
    for number in range(30):
        message = numbered(number)
        message.header.stamp = ros.probe.get_clock().now().to_msg()
        speaker.publish(message)
        ros.pass_time(0.04)
    found = lines(heard[-1].status[0])
    assert {'state', 'dropped', 'latency share p50 (ms)', 'latency share p95 (ms)'} <= set(found)
    assert 5.0 < float(found['rate (Hz)']) < 30.0
    assert 0.0 <= float(found['age (s)']) < 1.0
    assert 0.0 < float(found['latency from picture p50 (ms)']) < 1000.0
    assert found['colour'] == 'red'
    assert heard[-1].status[0].hardware_id == 'kde_imitation'
    stamps = [one.header.stamp.sec + 1e-9 * one.header.stamp.nanosec for one in heard]
    assert all(0.5 < b - a < 1.6 for a, b in pairwise(stamps))


# --- the middleware --------------------------------------------------------------------------


def test_nodes_are_found_quickly_unless_the_user_has_settings_of_his_own(
    ros: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROFILES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(PROFILES[1], 'mine.xml')
    context = rclpy.Context()
    start_ros(['test'], context, ros.domain)
    rclpy.shutdown(context=context)
    assert PROFILES[0] not in os.environ
    assert os.environ[PROFILES[1]] == 'mine.xml'
    monkeypatch.delenv(PROFILES[1])
    context = rclpy.Context()
    start_ros(['test'], context, ros.domain)
    rclpy.shutdown(context=context)
    files = {os.environ[name] for name in PROFILES}
    assert len(files) == 1
    calls = ElementTree.parse(files.pop()).find('.//{*}initialAnnouncements/{*}count')
    assert calls is not None
    assert int(calls.text) > 5, 'more than Fast DDS makes by itself'
