"""The arm in MuJoCo, and pictures of it."""
