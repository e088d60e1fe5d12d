"""Measurements that a reader can repeat: `kde_imitation benchmark NAME`.

Each module has `run(pictures)`, which returns or yields tables; `pictures` is a folder to draw
into, or None for no pictures.
"""
