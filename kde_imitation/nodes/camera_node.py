"""Pictures from a camera, a stream, a video, a folder or the bundled clip."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from kde_imitation.errors import BadInput
from kde_imitation.nodes.base import SENSOR, ImitationNode
from kde_imitation.nodes.diagnostics import ERROR, OK
from kde_imitation.nodes.messages import picture_message, time_message
from kde_imitation.nodes.parameters import Parameter
from kde_imitation.nodes.ros import CameraInfo, Header, Image
from kde_imitation.nodes.sources import Device, Recorded, open_source

__all__ = ['CameraNode']

_USUAL_RATE = 30.0


class CameraNode(ImitationNode):
    """Gives pictures, each with the time at which it was taken.

    Reading is done in a thread of its own. A device that is lost is tried again until it is back;
    recorded pictures come with the node's clock.
    """

    NAME = 'camera_node'
    PARAMETERS = (
        Parameter(
            'source',
            'demo',
            "Where pictures come from: 'demo' (the bundled clip), the index or path of a camera, "
            'an address (http://, rtsp://), a video file, or a folder of numbered pictures.',
        ),
        Parameter(
            'frame_rate',
            0.0,
            'Pictures a second; 0 is as recorded, or as the camera gives them.',
            *(0.0, 240.0, 'Hz'),
            live=True,
        ),
        Parameter('loop', True, 'Whether recorded pictures begin anew at their end.', live=True),
        Parameter('width', 0, 'Width of the pictures; 0 leaves it.', 0, 8192, 'pixels'),
        Parameter('height', 0, 'Height of the pictures; 0 leaves it.', 0, 8192, 'pixels'),
        Parameter('frame_id', 'camera', 'Frame of the camera, in the header of its pictures.'),
        Parameter(
            'focal_length',
            0.0,
            'For camera_info; 0 says that the camera is not calibrated.',
            *(0.0, 100000.0, 'pixels'),
            live=True,
        ),
        Parameter(
            'retry_period',
            1.0,
            'A lost camera is tried again after this time.',
            *(0.1, 60.0, 's'),
            live=True,
        ),
    )

    def __init__(self, parameters: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._source = open_source(
            *(self.value(name) for name in ('source', 'width', 'height', 'frame_rate'))
        )
        self._pictures = self.create_publisher(Image, 'image_raw', SENSOR)
        self._info = self.create_publisher(CameraInfo, 'camera_info', SENSOR)
        self._closed = threading.Event()
        self._due = threading.Semaphore(0)
        self._due_at, self._late, self._lost = 0, 0, 0
        self._next: npt.NDArray[np.uint8] | None = None
        self._ended = False
        self._pace: Any = None
        if not isinstance(self._source, Device):
            self._pace = self.create_timer(1.0 / self._rate(), self._tick)
        name = f'{self.get_name()} worker'
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _rate(self) -> float:
        recorded = getattr(self._source, 'frame_rate', 0.0)
        return float(self.value('frame_rate') or recorded or _USUAL_RATE)

    def agree(self, values: Mapping[str, Any]) -> None:
        """Refuse another rate for a camera, which is asked for it only when it is opened."""
        there = isinstance(getattr(self, '_source', None), Device)
        if there and values['frame_rate'] != self.value('frame_rate'):
            raise BadInput(
                'frame_rate of a camera is read at the start only; start the node again with the '
                'new value.'
            )

    def changed(self, values: Mapping[str, Any]) -> None:
        """Take a new rate at once."""
        if 'frame_rate' in values and self._pace is not None:
            self._pace.timer_period_ns = round(1e9 / self._rate())
            self._pace.reset()

    def diagnosis(self) -> Mapping[str, str]:
        """Return where the pictures come from, and how often that was lost."""
        return {'source': self._source.name, 'times lost': str(self._lost)}

    # --- recorded pictures ---

    def _tick(self) -> None:
        """Let the thread give the next picture, unless it has not come to the last."""
        if self._due_at:
            self._late += 1
            return
        self._due_at = self.now()
        self._due.release()

    def _run(self) -> None:
        work = self._watch if isinstance(self._source, Device) else self._replay
        self.guarded(work)()
        self._source.close()

    def _replay(self) -> None:
        source = self._source
        assert not isinstance(source, Device)
        self.report.state(OK, f'Playing {source.name}.')
        give, fetch = self.guarded(self._give), self.guarded(self._fetch)
        while True:
            # What is recorded can be read before it is due.
            fetch(source)
            self._due.acquire()
            if self._closed.is_set():
                return
            give(source)
            self._due_at = 0
            # The processor is left to those who now work on the picture.
            self._closed.wait(0.5 / self._rate())

    def _fetch(self, source: Recorded) -> None:
        """Read the next picture, from the start again if that is wanted."""
        self._next, self._ended = None, False
        picture = source.read()
        if picture is None and self.value('loop'):
            source.rewind()
            picture = source.read()
        self._next, self._ended = picture, picture is None

    def _give(self, source: Recorded) -> None:
        """Give the picture that is due."""
        began, stamp, picture = time.perf_counter(), self._due_at, self._next
        if picture is None and not self._ended:
            # A damaged picture, which was said when it was read.
            return
        if picture is None:
            self._pace.cancel()
            self.report.state(OK, f'{source.name} has come to its end.')
            self.get_logger().info(f'{source.name} has come to its end.')
            return
        late, self._late = self._late, 0
        self._publish(picture, stamp, began, late)

    # --- a camera ---

    def _watch(self) -> None:
        device = self._source
        assert isinstance(device, Device)
        while self._open(device):
            self._stream(device)
            if self._closed.is_set():
                return
            self._lost += 1
            self._say(f'The camera {device.name} was lost; {self._again()}')
            self._closed.wait(self.value('retry_period'))

    def _open(self, device: Device) -> bool:
        """Try until the camera is there; False if the node is closed before."""
        failed = False
        while not self._closed.is_set():
            if device.open():
                self.report.state(OK, f'The camera {device.name} gives pictures.')
                self.get_logger().info(f'The camera {device.name} is there.')
                return True
            if not failed:
                self._say(f'The camera {device.name} cannot be opened; {self._again()}')
            failed = True
            self._closed.wait(self.value('retry_period'))
        return False

    def _stream(self, device: Device) -> None:
        """Give pictures until the camera is lost."""
        while not self._closed.is_set() and device.wait():
            began, stamp = time.perf_counter(), self.now()
            picture = device.picture()
            if picture is None:
                self.trouble(f'The camera {device.name} gave a damaged picture.')
            else:
                self._publish(picture, stamp, began, 0)

    def _again(self) -> str:
        return f'it is tried again every {self.value("retry_period"):g} s.'

    def _say(self, sentence: str) -> None:
        self.report.state(ERROR, sentence)
        self.get_logger().warning(sentence)

    # --- both ---

    def _publish(
        self, picture: npt.NDArray[np.uint8], stamp: int, began: float, dropped: int
    ) -> None:
        height, width = picture.shape[:2]
        size = self.value('width') or width, self.value('height') or height
        if size != (width, height):
            picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
        header = Header(stamp=time_message(stamp), frame_id=self.value('frame_id'))
        self._pictures.publish(picture_message(picture, header))
        self._info.publish(self._camera_info(header, size))
        share = time.perf_counter() - began
        self.report.done(share, 1e-9 * (self.now() - stamp), dropped)

    def _camera_info(self, header: Header, size: tuple[int, int]) -> CameraInfo:
        info = CameraInfo(header=header, width=size[0], height=size[1])
        f, (x, y) = self.value('focal_length'), (size[0] / 2.0, size[1] / 2.0)
        if f > 0.0:
            info.distortion_model = 'plumb_bob'
            info.d = [0.0] * 5
            info.k = [f, 0.0, x, 0.0, f, y, 0.0, 0.0, 1.0]
            info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
            info.p = [f, 0.0, x, 0.0, 0.0, f, y, 0.0, 0.0, 0.0, 1.0, 0.0]
        return info

    def close(self) -> None:
        """End the thread, and take the node down."""
        self._closed.set()
        self._due.release()
        self._thread.join(10.0)
        super().close()
