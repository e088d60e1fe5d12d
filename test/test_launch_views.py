"""The views for RViz, and the stand-in that the launch files are checked with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import launch_stand_in
import pytest
import yaml
from conftest import ROOT
from launch_stand_in import Node, Run, all_topics


def launch(name: str, **given: str) -> Run:
    return launch_stand_in.launch(ROOT / 'launch' / f'{name}.launch.py', **given)


# --- views -----------------------------------------------------------------------------------


def view(name: str) -> dict[str, Any]:
    return dict(yaml.safe_load((ROOT / 'rviz' / name).read_text())['Visualization Manager'])


def shown_topics(name: str) -> dict[str, dict[str, Any]]:
    topics = {}
    for display in view(name)['Displays']:
        for key in ('Topic', 'Description Topic'):
            if key in display:
                topics[display[key]['Value']] = {'class': display['Class'], **display[key]}
    return topics


@pytest.mark.parametrize('name', ['display.rviz', 'imitation.rviz'])
def test_a_view_shows_topics_that_exist_and_follow_the_namespace(name: str) -> None:
    shown = {topic.removeprefix('/') for topic in shown_topics(name)}
    assert shown <= all_topics()
    run = launch('display' if name.startswith('display') else 'imitation', namespace='left')
    rviz = run.named('rviz2')
    assert rviz.arguments == ['-d', str(ROOT / 'rviz' / name)]
    assert {(f'/{topic}', topic) for topic in shown} <= set(rviz.remappings)
    assert view(name)['Global Options']['Fixed Frame'] == 'world'


def test_the_view_of_the_imitation_shows_arm_goal_and_pictures() -> None:
    shown = shown_topics('imitation.rviz')
    kinds = {topic: each['class'].rpartition('/')[2] for topic, each in shown.items()}
    assert kinds == {
        '/robot_description': 'RobotModel',
        '/markers': 'MarkerArray',
        **dict.fromkeys(('/image_raw', '/debug/overlay'), 'Image'),
        **dict.fromkeys(('/debug/silhouette', '/debug/skin'), 'Image'),
    }
    # Publishers of pictures are best effort: a reliable subscriber would hear nothing of them.
    for topic, each in shown.items():
        best_effort = each['class'].endswith('/Image')
        assert each['Reliability Policy'] == ('Best Effort' if best_effort else 'Reliable'), topic
    assert shown['/robot_description']['Durability Policy'] == 'Transient Local'


# --- the stand-in itself ---------------------------------------------------------------------


def test_the_stand_in_is_gone_after_use() -> None:
    before = sys.modules.get('launch_ros')
    launch('display')
    assert sys.modules.get('launch_ros') is before


def test_the_stand_in_ends_a_namespace_with_its_group(tmp_path: Path) -> None:
    file = tmp_path / 'a.launch.py'
    file.write_text(
        'from launch import LaunchDescription\n'
        'from launch.actions import DeclareLaunchArgument, GroupAction, RegisterEventHandler\n'
        'from launch.event_handlers import OnProcessExit\n'
        'from launch_ros.actions import Node, PushRosNamespace\n'
        'def generate_launch_description():\n'
        "    first, then = Node(package='p', executable='a'), Node(package='p', executable='b')\n"
        '    wait = OnProcessExit(target_action=first, on_exit=lambda event, context: [then])\n'
        "    inner = [PushRosNamespace('n'), first, RegisterEventHandler(wait)]\n"
        "    return LaunchDescription([GroupAction(inner), Node(package='p', executable='c')])\n"
    )
    run = launch_stand_in.launch(file)
    assert dict(zip(run.executables, run.spaces)) == {'a': '/n', 'c': '', 'b': ''}
    assert isinstance(run.nodes[0], Node)
    with pytest.raises(AssertionError, match='does not declare'):
        launch_stand_in.launch(file, colour='red')
