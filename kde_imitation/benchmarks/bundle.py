"""Makes the model and the clip that come with the package: `python -m` this module.

The model is trained on all of teach_A and free_A. The clip shows raise_A and wave_A, slowly enough
for the arm, with rests.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from kde_imitation.benchmarks.actor import actor_folder, train_on
from kde_imitation.resources import share_folder

RATE = 30
# Set, pictures of the clip for each of its own, and where the person rests, for so many seconds.
PARTS = (
    ('raise_A', 8, {0: 5.0, 30: 3.0, 59: 3.0}),
    ('wave_A', 10, {20: 3.0, 59: 3.0}),
)


def make_clip(folder: Path) -> None:
    """Copy the pictures, and write in which order and how often they are shown."""
    folder.mkdir(parents=True, exist_ok=True)
    shown: list[str] = []
    number = 0
    for name, repeats, rests in PARTS:
        for place, path in enumerate(sorted((actor_folder() / name).glob('[0-9]*.jpg'))):
            target = f'{number:04d}.jpg'
            shutil.copyfile(path, folder / target)
            shown += [target] * (repeats + round(rests.get(place, 0.0) * RATE))
            number += 1
    (folder / 'playlist.txt').write_text('\n'.join(shown) + '\n')


def main() -> None:
    """Make both anew."""
    make_clip(share_folder() / 'clip')
    model = train_on(slice(None))
    model.summary.pop('seconds')
    model.save(share_folder() / 'model' / 'pa10_actor.npz')


if __name__ == '__main__':
    main()
