"""MediaPipe Pose in an environment of its own, asked through a pipe.

It is a peer to measure against, not a part of this package. Make the environment with
`python -m venv ENV && ENV/bin/pip install mediapipe==0.10.14`, and set
`KDE_IMITATION_MEDIAPIPE=ENV/bin/python`.
"""

from __future__ import annotations

import os
import struct
import subprocess

import numpy as np

from kde_imitation.dataset.pictures import Image
from kde_imitation.errors import BadInput

VARIABLE = 'KDE_IMITATION_MEDIAPIPE'

# What runs there: takes height, width and pixels, answers with the seconds of one call.
WORKER = """
import os, struct, sys, time
answers = os.fdopen(os.dup(1), 'wb')
os.dup2(2, 1)
import numpy as np
import cv2
cv2.setNumThreads(1)
import mediapipe as mp
pose = mp.solutions.pose.Pose(static_image_mode=False, model_complexity=1)
pose.process(np.zeros((240, 320, 3), dtype=np.uint8))
answers.write(b'ready')
answers.flush()
while True:
    size = sys.stdin.buffer.read(8)
    if len(size) < 8:
        break
    height, width = struct.unpack('<II', size)
    data = sys.stdin.buffer.read(height * width * 3)
    picture = np.frombuffer(data, dtype=np.uint8).reshape(height, width, 3)
    start = time.perf_counter()
    pose.process(picture)
    answers.write(struct.pack('<d', time.perf_counter() - start))
    answers.flush()
"""


class SkeletonNetwork:
    """A running worker; `seconds` times it on a picture."""

    MISSING = (
        'MediaPipe Pose was not timed: make an environment with mediapipe==0.10.14 and set '
        f'{VARIABLE} to its python.'
    )

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls) -> SkeletonNetwork | None:
        """Start the worker; None where no environment is named."""
        python = os.environ.get(VARIABLE)
        if not python:
            return None
        environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'GLOG_minloglevel': '3'}
        command = [python, '-c', WORKER]
        if hasattr(os, 'sched_getaffinity'):
            # One thread as for us: the network takes all cores that it may run on.
            core = min(os.sched_getaffinity(0))
            command = ['taskset', '-c', str(core), *command]
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            raise BadInput(f'{VARIABLE} is {python}, which does not start: {error}.') from error
        assert process.stdout is not None
        if process.stdout.read(5) != b'ready':
            process.kill()
            raise BadInput(f'{VARIABLE} is {python}, which has no working mediapipe.')
        return cls(process)

    def seconds(self, picture: Image) -> float:
        """Return how long the network takes for a picture (h, w, 3)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(struct.pack('<II', *picture.shape[:2]))
        self._process.stdin.write(np.ascontiguousarray(picture).tobytes())
        self._process.stdin.flush()
        answer = self._process.stdout.read(8)
        if len(answer) < 8:
            raise BadInput('The environment of MediaPipe Pose ended while it was measured.')
        return float(struct.unpack('<d', answer)[0])

    def stop(self) -> None:
        """End the worker."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
