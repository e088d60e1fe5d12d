"""The ROS 2 nodes: thin, with parameters, topics and diagnostics, and no mathematics.

This package can be imported without ROS; its modules cannot, and say what to install.
"""
