"""The arm: from its URDF, in closed form, and learned (PSOM+)."""
