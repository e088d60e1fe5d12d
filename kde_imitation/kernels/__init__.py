"""What "similar" means, and the hot loops that compute it (compiled, with a NumPy twin)."""
