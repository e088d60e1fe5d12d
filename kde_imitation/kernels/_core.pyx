# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: language_level=3
"""The hot loops, compiled. `_twin.py` holds the same in NumPy; tests keep them together.

A map f: R^m → R^d with its exact Jacobian, and a bounded Levenberg-Marquardt search for the
input whose image is nearest to a target. Gram matrices, and sums of kernels over many points. All
loops run without the GIL on memory taken once a call, so that several threads may use one map or
one sum.
"""

from libc.math cimport cos, fabs, sin, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

import numpy as np

cdef enum:  # sizes of the small arrays kept on the stack
    MAX_INPUTS = 16
    MAX_NODES = 64

# A step that takes off less than this share of the cost is slow.
cdef double FAST = 0.2


cdef class Map:
    """A differentiable map; subclasses fill in `_eval`."""

    cdef readonly int inputs
    cdef readonly int outputs

    cdef size_t _work_size(self) noexcept nogil:
        return 0

    cdef void _eval(self, const double* x, double* f, double* jac, double* work) noexcept nogil:
        """Write f (d,) and, unless jac is NULL, the Jacobian (d, m) at x (m,)."""

    def evaluate(self, const double[:, ::1] x, bint jacobian=False):
        """Return values (s, d) and Jacobians (s, d, m), or None, at points x (s, m)."""
        cdef Py_ssize_t count = x.shape[0], i
        cdef Py_ssize_t d = self.outputs, m = self.inputs
        values = np.empty((count, d))
        jacobians = np.empty((count, d, m)) if jacobian else None
        cdef double[:, ::1] v = values
        cdef double[:, :, ::1] j
        cdef double* jac = NULL
        if count == 0:
            return values, jacobians
        if jacobian:
            j = jacobians
            jac = &j[0, 0, 0]
        cdef double* work = <double*> malloc((self._work_size() + 1) * sizeof(double))
        if work == NULL:
            raise MemoryError('No memory for evaluating the map.')
        with nogil:
            for i in range(count):
                self._eval(&x[i, 0], &v[i, 0], NULL if jac == NULL else jac + i * d * m, work)
        free(work)
        return values, jacobians

    def best_match(
        self,
        const double[:, ::1] targets,
        const double[::1] weights,
        const double[:, ::1] starts,
        const double[::1] lower,
        const double[::1] upper,
        const double[::1] pull,
        int max_steps,
        double tolerance,
    ):
        """Minimise Σ p_i (f_i(x) − y_i)² + Σ λ_j (x_j − s_j)² inside bounds, target by target.

        Parameters
        ----------
        targets : (s, d), weights : (d,) the p_i, starts : (s, m), lower, upper : (m,)
        pull : (m,) the λ_j that hold x near its start
        max_steps : int
        tolerance : float
            Stop when the projected gradient or the step is smaller, relative to the scale.

        Returns
        -------
        x (s, m), cost (s,), steps (s,) int32, converged (s,) bool
        """
        cdef Py_ssize_t count = targets.shape[0], i
        cdef int d = self.outputs, m = self.inputs
        x = np.array(starts, dtype=np.float64)
        cost = np.empty(count)
        steps = np.zeros(count, dtype=np.int32)
        converged = np.zeros(count, dtype=np.uint8)
        if count == 0:
            return x, cost, steps, converged.astype(bool)
        cdef double[:, ::1] xv = x
        cdef double[::1] cv = cost
        cdef int[::1] sv = steps
        cdef unsigned char[::1] kv = converged
        cdef size_t size = self._work_size() + 2 * d + 2 * d * m + 1
        cdef double* work = <double*> malloc(size * sizeof(double))
        if work == NULL:
            raise MemoryError('No memory for the best-match search.')
        with nogil:
            for i in range(count):
                kv[i] = _levenberg_marquardt(
                    self, &targets[i, 0], &weights[0], &xv[i, 0], &lower[0], &upper[0],
                    &pull[0], max_steps, tolerance, &cv[i], &sv[i], work,
                )
        free(work)
        return x, cost, steps, converged.astype(bool)


cdef double _cost(int d, int m, const double* f, const double* y, const double* p,
                  const double* x, const double* rest, const double* pull) noexcept nogil:
    cdef double total = 0.0
    cdef int i
    for i in range(d):
        total += p[i] * (f[i] - y[i]) * (f[i] - y[i])
    for i in range(m):
        total += pull[i] * (x[i] - rest[i]) * (x[i] - rest[i])
    return total


cdef bint _solve(int n, double* a, double* b) noexcept nogil:
    """Solve a·x = b in place by Cholesky, a (n, n) symmetric; False if not positive definite."""
    cdef int i, j, k
    cdef double s
    for i in range(n):
        for j in range(i + 1):
            s = a[i * n + j]
            for k in range(j):
                s -= a[i * n + k] * a[j * n + k]
            if i == j:
                if not s > 0.0:
                    return False
                a[i * n + i] = sqrt(s)
            else:
                a[i * n + j] = s / a[j * n + j]
    for i in range(n):
        s = b[i]
        for k in range(i):
            s -= a[i * n + k] * b[k]
        b[i] = s / a[i * n + i]
    for i in range(n - 1, -1, -1):
        s = b[i]
        for k in range(i + 1, n):
            s -= a[k * n + i] * b[k]
        b[i] = s / a[i * n + i]
    return True


cdef void _normal_equations(
    int d, int m, const double* f, const double* jac, const double* y, const double* p,
    const double* x, const double* rest, const double* pull, double* gradient, double* gauss,
) noexcept nogil:
    """Write half the gradient (m,) and the Gauss-Newton matrix (m, m) of the cost."""
    cdef int i, j, k
    cdef double a
    memset(gauss, 0, m * m * sizeof(double))
    for j in range(m):
        gradient[j] = pull[j] * (x[j] - rest[j])
        gauss[j * m + j] = pull[j]
    for i in range(d):
        if p[i] == 0.0:
            continue
        for j in range(m):
            a = p[i] * jac[i * m + j]
            gradient[j] += a * (f[i] - y[i])
            for k in range(j + 1):
                gauss[j * m + k] += a * jac[i * m + k]
    for j in range(m):
        for k in range(j):
            gauss[k * m + j] = gauss[j * m + k]


cdef void _add_curvature(
    int d, int m, const double* f, const double* y, const double* p, const double* jac,
    const double* jac_old, const double* step, const double* gauss, double* curvature,
) noexcept nogil:
    """Update the curvature (m, m) by the last step, as BFGS does, or reset it to Gauss-Newton.

    The change of the gradient is taken as Gauss-Newton's share plus (J − J_old)ᵀ r, which is
    what large residuals add and Gauss-Newton leaves out.
    """
    cdef double[MAX_INPUTS] change, image
    cdef double along = 0.0, plain = 0.0, bend = 0.0, a
    cdef int i, j, k
    for j in range(m):
        change[j] = 0.0
        image[j] = 0.0
        for k in range(m):
            change[j] += gauss[j * m + k] * step[k]
            image[j] += curvature[j * m + k] * step[k]
        plain += step[j] * change[j]
        bend += step[j] * image[j]
    for i in range(d):
        a = p[i] * (f[i] - y[i])
        for j in range(m):
            change[j] += a * (jac[i * m + j] - jac_old[i * m + j])
    for j in range(m):
        along += step[j] * change[j]
    if along <= 1e-4 * plain or bend <= 0.0:
        memcpy(curvature, gauss, m * m * sizeof(double))
        return
    for j in range(m):
        for k in range(m):
            curvature[j * m + k] += change[j] * change[k] / along - image[j] * image[k] / bend


cdef bint _levenberg_marquardt(
    Map model, const double* y, const double* p, double* x, const double* lower,
    const double* upper, const double* pull, int max_steps, double tolerance, double* cost,
    int* steps, double* work,
) noexcept nogil:
    """Bounded Levenberg-Marquardt: inputs at a bound that the gradient pushes out stay there.

    While the cost falls fast the Gauss-Newton matrix serves; where it falls slowly, which large
    residuals cause, a matrix updated from step to step takes its place (Fletcher and Xu's
    hybrid), and the last steps are fast again.
    """
    cdef int d = model.outputs, m = model.inputs
    cdef double* f = work
    cdef double* f_new = f + d
    cdef double* jac = f_new + d
    cdef double* jac_old = jac + d * m
    cdef double* inner = jac_old + d * m
    cdef double[MAX_INPUTS] gradient, rest, step, x_new
    cdef double[MAX_INPUTS * MAX_INPUTS] gauss, curvature, system
    cdef int[MAX_INPUTS] free_input
    cdef int i, j, k, n, turn
    cdef double damping = 1e-3, value, trial, largest, change, scale
    cdef bint moved, fast = True
    memcpy(rest, x, m * sizeof(double))
    model._eval(x, f, jac, inner)
    value = _cost(d, m, f, y, p, x, rest, pull)
    steps[0] = 0
    for turn in range(max_steps):
        _normal_equations(d, m, f, jac, y, p, x, rest, pull, gradient, gauss)
        if fast:
            memcpy(curvature, gauss, m * m * sizeof(double))
        else:
            _add_curvature(d, m, f, y, p, jac, jac_old, step, gauss, curvature)
        n = 0
        largest = 0.0
        scale = 0.0
        for j in range(m):
            scale = max(scale, gauss[j * m + j])
            if (x[j] <= lower[j] and gradient[j] > 0) or (x[j] >= upper[j] and gradient[j] < 0):
                continue
            free_input[n] = j
            n += 1
            largest = max(largest, fabs(gradient[j]))
        if n == 0 or largest <= tolerance * (scale + 1e-300):
            cost[0] = value
            return True
        moved = False
        while damping < 1e12:
            for j in range(n):
                for k in range(j + 1):
                    system[j * n + k] = curvature[free_input[j] * m + free_input[k]]
                system[j * n + j] += damping * (system[j * n + j] + 1e-9 * scale)
                step[j] = -gradient[free_input[j]]
            if not _solve(n, system, step):
                damping *= 10.0
                continue
            memcpy(x_new, x, m * sizeof(double))
            change = 0.0
            for j in range(n):
                i = free_input[j]
                x_new[i] = min(max(x[i] + step[j], lower[i]), upper[i])
                change = max(change, fabs(x_new[i] - x[i]))
            if change <= tolerance:
                cost[0] = value
                return True
            model._eval(x_new, f_new, NULL, inner)
            trial = _cost(d, m, f_new, y, p, x_new, rest, pull)
            if trial < value:
                moved = True
                break
            damping *= 8.0
        if not moved:
            cost[0] = value
            return True
        steps[0] += 1
        damping = max(damping / 10.0, 1e-12)
        fast = value - trial >= FAST * value
        for j in range(m):
            step[j] = x_new[j] - x[j]
        memcpy(x, x_new, m * sizeof(double))
        memcpy(jac_old, jac, d * m * sizeof(double))
        value = trial
        model._eval(x, f, jac, inner)
    cost[0] = value
    return False


cdef class TensorMap(Map):
    """A tensor-product polynomial f(x) = Σ_k g_k Π_μ φ_{k_μ}(t_μ), φ = Tᵀ C_μ.

    T are Chebyshev polynomials in t_μ = (x_μ − centre_μ) / half_μ, C_μ (n_μ, r_μ) combines them,
    and g (r_1, …, r_m, d) is the core tensor.
    """

    cdef readonly object core, factors, centre, half
    cdef const double[::1] _core
    cdef const double[::1] _factors
    cdef const double[::1] _centre
    cdef const double[::1] _half
    cdef int[MAX_INPUTS] _nodes, _ranks, _offsets
    cdef size_t _rest

    def __init__(self, core, factors, centre, half):
        cdef int axis, offset = 0
        core = np.ascontiguousarray(core, dtype=np.float64)
        self.core, self.factors, self.centre, self.half = core, list(factors), centre, half
        self.inputs = core.ndim - 1
        self.outputs = core.shape[core.ndim - 1]
        if self.inputs > MAX_INPUTS:
            raise ValueError(f'A map may have {MAX_INPUTS} inputs at most, not {self.inputs}.')
        for axis in range(self.inputs):
            factor = self.factors[axis]
            if factor.shape[0] > MAX_NODES:
                raise ValueError(f'An axis may have {MAX_NODES} nodes at most.')
            if factor.shape[1] != core.shape[axis]:
                raise ValueError('A factor does not fit the core tensor.')
            self._nodes[axis] = factor.shape[0]
            self._ranks[axis] = factor.shape[1]
            self._offsets[axis] = offset
            offset += factor.shape[0] * factor.shape[1]
        self._core = core.reshape(-1)
        self._factors = np.concatenate([np.asarray(f, dtype=np.float64).ravel() for f in factors])
        self._centre = np.ascontiguousarray(centre, dtype=np.float64)
        self._half = np.ascontiguousarray(half, dtype=np.float64)
        self._rest = core.size // core.shape[0]

    cdef size_t _work_size(self) noexcept nogil:
        return 2 * (self.inputs + 1) * self._rest

    cdef void _basis(self, int axis, double x, double* phi, double* slope) noexcept nogil:
        """Write φ (r,) and dφ/dx (r,) of one axis."""
        cdef double[MAX_NODES] t, dt
        cdef int n = self._nodes[axis], r = self._ranks[axis], i, k
        cdef double s = (x - self._centre[axis]) / self._half[axis]
        cdef double inverse = 1.0 / self._half[axis]
        cdef const double* factor = &self._factors[self._offsets[axis]]
        t[0] = 1.0
        dt[0] = 0.0
        if n > 1:
            t[1] = s
            dt[1] = 1.0
        for i in range(2, n):
            t[i] = 2.0 * s * t[i - 1] - t[i - 2]
            dt[i] = 2.0 * t[i - 1] + 2.0 * s * dt[i - 1] - dt[i - 2]
        for k in range(r):
            phi[k] = 0.0
            slope[k] = 0.0
        for i in range(n):
            for k in range(r):
                phi[k] += t[i] * factor[i * r + k]
                slope[k] += dt[i] * inverse * factor[i * r + k]

    cdef void _eval(self, const double* x, double* f, double* jac, double* work) noexcept nogil:
        """Contract one axis after another; slot 0 holds the value, slot 1 + μ the slope in x_μ."""
        cdef int m = self.inputs, d = self.outputs, axis, slot, slots, rank, k
        cdef size_t full = self._rest * self._ranks[0], rest, i, stride = self._rest
        cdef double[MAX_NODES] phi, slope
        cdef double* now = work
        cdef double* other = work + (m + 1) * stride
        cdef double* swap
        cdef const double* source
        cdef bint want = jac != NULL
        for axis in range(m):
            self._basis(axis, x[axis], phi, slope)
            rank = self._ranks[axis]
            rest = full // rank
            slots = axis + 1 if want else 1
            for slot in range(slots):
                source = &self._core[0] if axis == 0 else other + slot * stride
                _contract(source, phi, rank, rest, now + slot * stride)
            if want:
                source = &self._core[0] if axis == 0 else other
                _contract(source, slope, rank, rest, now + (axis + 1) * stride)
            swap = now
            now = other
            other = swap
            full = rest
        memcpy(f, other, d * sizeof(double))
        if want:
            for slot in range(m):
                for k in range(d):
                    jac[k * m + slot] = other[(slot + 1) * stride + k]


cdef inline void _contract(
    const double* source, const double* phi, int rank, size_t rest, double* out
) noexcept nogil:
    """Write out[i] = Σ_k phi[k] source[k, i]: long, contiguous, for the vector units."""
    cdef size_t i
    cdef int k
    cdef double a
    cdef const double* row
    a = phi[0]
    for i in range(rest):
        out[i] = a * source[i]
    for k in range(1, rank):
        a = phi[k]
        row = source + k * rest
        for i in range(rest):
            out[i] += a * row[i]


cdef class ArmMap(Map):
    """An arm in two parts: `near` moves a frame, `far` moves a point inside that frame.

    `near` gives (e, w, R): two points and the frame's rotation by rows, 15 numbers; `far` gives
    h (3,). Outputs: e, e, w, w, w + R h, so 15 numbers for the five points of the pose kernel.
    Inputs: those of `near`, then those of `far`, then `idle` ones that move no point.
    """

    cdef readonly TensorMap near
    cdef readonly TensorMap far
    cdef readonly int idle

    def __init__(self, TensorMap near, TensorMap far, int idle=0):
        if near.outputs != 15 or far.outputs != 3:
            raise ValueError('The two parts must have 15 and 3 outputs.')
        self.near, self.far, self.idle = near, far, idle
        self.inputs = near.inputs + far.inputs + idle
        self.outputs = 15
        if self.inputs > MAX_INPUTS:
            raise ValueError(f'A map may have {MAX_INPUTS} inputs at most, not {self.inputs}.')

    cdef size_t _work_size(self) noexcept nogil:
        return (self.near._work_size() + self.far._work_size()
                + 18 + 15 * self.near.inputs + 3 * self.far.inputs)

    cdef void _eval(self, const double* x, double* f, double* jac, double* work) noexcept nogil:
        cdef int m = self.inputs, m1 = self.near.inputs, m2 = self.far.inputs, i, j, k
        cdef double* a = work
        cdef double* h = a + 15
        cdef double* ja = h + 3
        cdef double* jh = ja + 15 * m1
        cdef double* inner = jh + 3 * m2
        cdef bint want = jac != NULL
        cdef double s
        self.near._eval(x, a, ja if want else NULL, inner)
        self.far._eval(x + m1, h, jh if want else NULL, inner + self.near._work_size())
        for i in range(3):
            f[i] = a[i]
            f[3 + i] = a[i]
            f[6 + i] = a[3 + i]
            f[9 + i] = a[3 + i]
            s = a[3 + i]
            for k in range(3):
                s += a[6 + 3 * i + k] * h[k]
            f[12 + i] = s
        if not want:
            return
        memset(jac, 0, 15 * m * sizeof(double))
        for i in range(3):
            for j in range(m1):
                jac[i * m + j] = ja[i * m1 + j]
                jac[(3 + i) * m + j] = ja[i * m1 + j]
                jac[(6 + i) * m + j] = ja[(3 + i) * m1 + j]
                jac[(9 + i) * m + j] = ja[(3 + i) * m1 + j]
                s = ja[(3 + i) * m1 + j]
                for k in range(3):
                    s += ja[(6 + 3 * i + k) * m1 + j] * h[k]
                jac[(12 + i) * m + j] = s
            for j in range(m2):
                s = 0.0
                for k in range(3):
                    s += a[6 + 3 * i + k] * jh[k * m2 + j]
                jac[(12 + i) * m + m1 + j] = s


cdef class ChainMap(Map):
    """The points of a serial arm of revolute joints, exactly, from its fixed transforms.

    Joint j stands at `origins[j]`, turned by `turns[j]`, in the frame before it, and turns about
    the unit vector `axes[j]`. Point k is fixed at `points[k]` in the frame after joint
    `carriers[k]` (-1 is the base). Outputs: the points in the base frame, 3 numbers each.
    """

    cdef readonly object turns, origins, axes, points, carriers
    cdef const double[:, :, ::1] _turns
    cdef const double[:, ::1] _origins
    cdef const double[:, ::1] _axes
    cdef const double[:, ::1] _points
    cdef const int[::1] _carriers

    def __init__(self, turns, origins, axes, points, carriers):
        self.turns = self._turns = np.ascontiguousarray(turns, dtype=np.float64)
        self.origins = self._origins = np.ascontiguousarray(origins, dtype=np.float64)
        self.axes = self._axes = np.ascontiguousarray(axes, dtype=np.float64)
        self.points = self._points = np.ascontiguousarray(points, dtype=np.float64)
        self.carriers = self._carriers = np.ascontiguousarray(carriers, dtype=np.int32)
        self.inputs = self._axes.shape[0]
        self.outputs = 3 * self._points.shape[0]
        if self.inputs > MAX_INPUTS:
            raise ValueError(f'A map may have {MAX_INPUTS} inputs at most, not {self.inputs}.')

    cdef void _eval(self, const double* x, double* f, double* jac, double* work) noexcept nogil:
        cdef double[MAX_INPUTS + 1][9] frame
        cdef double[MAX_INPUTS + 1][3] place
        cdef double[MAX_INPUTS][3] axis
        cdef double[9] fixed, turn
        cdef double[3] a, arm
        cdef int m = self.inputs, j, k, r, c, t, carrier
        cdef double co, si, v
        for r in range(9):
            frame[0][r] = 1.0 if r % 4 == 0 else 0.0
        for r in range(3):
            place[0][r] = 0.0
        for j in range(m):
            for r in range(3):
                place[j + 1][r] = place[j][r]
                for c in range(3):
                    place[j + 1][r] += frame[j][3 * r + c] * self._origins[j, c]
                    v = 0.0
                    for t in range(3):
                        v += frame[j][3 * r + t] * self._turns[j, t, c]
                    fixed[3 * r + c] = v
            for r in range(3):
                a[r] = self._axes[j, r]
            for r in range(3):
                axis[j][r] = (fixed[3 * r] * a[0] + fixed[3 * r + 1] * a[1]
                              + fixed[3 * r + 2] * a[2])
            co = cos(x[j])
            si = sin(x[j])
            v = 1.0 - co
            turn[0] = co + a[0] * a[0] * v
            turn[1] = a[0] * a[1] * v - a[2] * si
            turn[2] = a[0] * a[2] * v + a[1] * si
            turn[3] = a[1] * a[0] * v + a[2] * si
            turn[4] = co + a[1] * a[1] * v
            turn[5] = a[1] * a[2] * v - a[0] * si
            turn[6] = a[2] * a[0] * v - a[1] * si
            turn[7] = a[2] * a[1] * v + a[0] * si
            turn[8] = co + a[2] * a[2] * v
            for r in range(3):
                for c in range(3):
                    v = 0.0
                    for t in range(3):
                        v += fixed[3 * r + t] * turn[3 * t + c]
                    frame[j + 1][3 * r + c] = v
        for k in range(self._points.shape[0]):
            carrier = self._carriers[k] + 1
            for r in range(3):
                v = place[carrier][r]
                for c in range(3):
                    v += frame[carrier][3 * r + c] * self._points[k, c]
                f[3 * k + r] = v
            if jac == NULL:
                continue
            for j in range(m):
                for r in range(3):
                    arm[r] = f[3 * k + r] - place[j + 1][r] if j < carrier else 0.0
                jac[(3 * k) * m + j] = axis[j][1] * arm[2] - axis[j][2] * arm[1]
                jac[(3 * k + 1) * m + j] = axis[j][2] * arm[0] - axis[j][0] * arm[2]
                jac[(3 * k + 2) * m + j] = axis[j][0] * arm[1] - axis[j][1] * arm[0]


cdef class ProjectedMap(Map):
    """A map followed by a linear one: A f(x) + b, with A (r, d) and b (r,)."""

    cdef readonly Map inner
    cdef readonly object matrix, offset
    cdef const double[:, ::1] _matrix
    cdef const double[::1] _offset

    def __init__(self, Map inner, matrix, offset):
        self.inner = inner
        self.matrix = self._matrix = np.ascontiguousarray(matrix, dtype=np.float64)
        self.offset = self._offset = np.ascontiguousarray(offset, dtype=np.float64)
        self.inputs = inner.inputs
        self.outputs = self._matrix.shape[0]
        if self._matrix.shape[1] != inner.outputs or self._offset.shape[0] != self.outputs:
            raise ValueError('The matrix does not fit the map.')

    cdef size_t _work_size(self) noexcept nogil:
        return self.inner._work_size() + self.inner.outputs * (1 + self.inputs)

    cdef void _eval(self, const double* x, double* f, double* jac, double* work) noexcept nogil:
        cdef int d = self.inner.outputs, m = self.inputs, i, j, k
        cdef double* g = work
        cdef double* jg = g + d
        cdef double a
        self.inner._eval(x, g, NULL if jac == NULL else jg, jg + d * m)
        for i in range(self.outputs):
            f[i] = self._offset[i]
            for k in range(d):
                f[i] += self._matrix[i, k] * g[k]
            if jac == NULL:
                continue
            memset(jac + i * m, 0, m * sizeof(double))
            for k in range(d):
                a = self._matrix[i, k]
                for j in range(m):
                    jac[i * m + j] += a * jg[k * m + j]


# Sums over the kernels of an expansion's points.
#
# The points lie in blocks of 32, feature after feature, so that the innermost loop runs over
# neighbouring points: it needs no reordering of sums, and any compiler may vectorise it. Where
# GCC and glibc serve, each loop is compiled for three instruction sets and the machine's own is
# chosen when the module is loaded.
cdef extern from *:
    """
    #include <float.h>
    #include <stdint.h>

    #if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
    #define KDE_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
    #else
    #define KDE_CLONES
    #endif
    #if defined(_MSC_VER)
    #define KDE_INLINE static __forceinline
    #define KDE_RESTRICT __restrict
    #elif defined(__GNUC__)
    #define KDE_INLINE static inline __attribute__((always_inline))
    #define KDE_RESTRICT __restrict__
    #else
    #define KDE_INLINE static inline
    #define KDE_RESTRICT
    #endif

    #define KDE_BLOCK 32
    #define KDE_LANES 8
    enum { KDE_OVERLAP, KDE_GAUSSIAN, KDE_POLYNOMIAL };

    typedef struct {
        int kind, degree;
        Py_ssize_t slots;
        double weight, gamma, offset;
    } kde_term;

    /* exp(-t) for t >= 0 to an ulp, without a branch: exp(-t) = 2^n exp(r), |r| <= ln(2)/2. */
    KDE_INLINE double kde_exp_minus(double t)
    {
        const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
        const double y = t < 708.0 ? -t : -708.0;
        union { double real; int64_t bits; } z, power;
        double n, r, e;
        z.real = y * 1.4426950408889634 + shift;
        n = z.real - shift;
        r = (y - n * 0.69314718036912382) - n * 1.9082149292705877e-10;
        e = 1.0 / 6227020800.0;
        e = e * r + 1.0 / 479001600.0;
        e = e * r + 1.0 / 39916800.0;
        e = e * r + 1.0 / 3628800.0;
        e = e * r + 1.0 / 362880.0;
        e = e * r + 1.0 / 40320.0;
        e = e * r + 1.0 / 5040.0;
        e = e * r + 1.0 / 720.0;
        e = e * r + 1.0 / 120.0;
        e = e * r + 1.0 / 24.0;
        e = e * r + 1.0 / 6.0;
        e = e * r + 0.5;
        e = e * r + 1.0;
        e = e * r + 1.0;
        power.bits = (int64_t) ((uint64_t) (z.bits + 1023) << 52);
        return e * power.real;
    }

    /* sum (32,) = Σ_s of an expression in a = x_s and b = p_s, over `count` slots in runs of RUN:
       single precision adds up no more than that before it goes over to double. */
    #define KDE_SUM(TYPE, RUN, EXPRESSION)                                                      \\
        for (s = 0; s < count; s += RUN) {                                                      \\
            const Py_ssize_t end = count - s < RUN ? count : s + RUN;                           \\
            TYPE part[KDE_BLOCK];                                                               \\
            for (l = 0; l < KDE_BLOCK; l++) part[l] = 0;                                        \\
            for (j = s; j < end; j++) {                                                         \\
                const TYPE a = (TYPE) x[j];                                                     \\
                const TYPE* KDE_RESTRICT q = p + j * KDE_BLOCK;                                 \\
                for (l = 0; l < KDE_BLOCK; l++) {                                               \\
                    const TYPE b = q[l];                                                        \\
                    part[l] += EXPRESSION;                                                      \\
                }                                                                               \\
            }                                                                                   \\
            for (l = 0; l < KDE_BLOCK; l++) sum[l] += part[l];                                  \\
        }
    /* k (32,) = the sum of all terms between one x and one block of points, stored as TYPE.
       x holds the features slot by slot, in the order of the terms. */
    #define KDE_DEFINE_BLOCK(NAME, TYPE, RUN)                                                   \\
    KDE_CLONES void NAME(const kde_term* terms, int n, const TYPE* KDE_RESTRICT p,              \\
                         const double* KDE_RESTRICT x, double* KDE_RESTRICT k)                  \\
    {                                                                                           \\
        double total[KDE_BLOCK], sum[KDE_BLOCK], base[KDE_BLOCK];                               \\
        Py_ssize_t s, j;                                                                        \\
        int t, l, power;                                                                        \\
        for (l = 0; l < KDE_BLOCK; l++) total[l] = 0.0;                                         \\
        for (t = 0; t < n; t++) {                                                               \\
            const Py_ssize_t count = terms[t].slots;                                            \\
            const double weight = terms[t].weight, gamma = terms[t].gamma;                      \\
            for (l = 0; l < KDE_BLOCK; l++) sum[l] = 0.0;                                       \\
            if (terms[t].kind == KDE_OVERLAP) {                                                 \\
                KDE_SUM(TYPE, RUN, b < a ? b : a)                                               \\
            } else if (terms[t].kind == KDE_GAUSSIAN) {                                         \\
                KDE_SUM(TYPE, RUN, (b - a) * (b - a))                                           \\
                for (l = 0; l < KDE_BLOCK; l++) sum[l] = kde_exp_minus(gamma * sum[l]);         \\
            } else {                                                                            \\
                KDE_SUM(TYPE, RUN, b * a)                                                       \\
                for (l = 0; l < KDE_BLOCK; l++) base[l] = sum[l] + terms[t].offset;             \\
                for (l = 0; l < KDE_BLOCK; l++) sum[l] = base[l];                               \\
                for (power = 1; power < terms[t].degree; power++)                               \\
                    for (l = 0; l < KDE_BLOCK; l++) sum[l] *= base[l];                          \\
            }                                                                                   \\
            for (l = 0; l < KDE_BLOCK; l++) total[l] += weight * sum[l];                        \\
            p += count * KDE_BLOCK;                                                             \\
            x += count;                                                                         \\
        }                                                                                       \\
        for (l = 0; l < KDE_BLOCK; l++) k[l] = total[l];                                        \\
    }
    KDE_DEFINE_BLOCK(kde_block_double, double, PY_SSIZE_T_MAX)
    KDE_DEFINE_BLOCK(kde_block_float, float, 16)

    /* sums (columns, 8) += what a block with kernels k (32,) adds; a holds its coefficients,
       (columns, 32). The 8 lanes of a column are added up at the very end. */
    KDE_CLONES void kde_columns(Py_ssize_t columns, const double* KDE_RESTRICT a,
                                const double* KDE_RESTRICT k, double* KDE_RESTRICT sums)
    {
        Py_ssize_t c;
        int l;
        for (c = 0; c < columns; c++, a += KDE_BLOCK, sums += KDE_LANES)
            for (l = 0; l < KDE_LANES; l++)
                sums[l] += (k[l] * a[l] + k[l + 8] * a[l + 8])
                         + (k[l + 16] * a[l + 16] + k[l + 24] * a[l + 24]);
    }

    /* How many of x (d,) are below their least value, infinite or no number. */
    KDE_CLONES int64_t kde_count_bad(Py_ssize_t d, const double* KDE_RESTRICT x,
                                     const double* KDE_RESTRICT least)
    {
        int64_t bad = 0;
        Py_ssize_t j;
        for (j = 0; j < d; j++) bad += !((x[j] >= least[j]) & (x[j] <= DBL_MAX));
        return bad;
    }

    /* What one core can do at most: minima of 4 KiB added up, which stay in the nearest cache,
       and numbers read. */
    KDE_CLONES double kde_probe_overlaps(Py_ssize_t rounds, const double* KDE_RESTRICT few)
    {
        double sum[KDE_BLOCK];
        Py_ssize_t i;
        int l;
        for (l = 0; l < KDE_BLOCK; l++) sum[l] = 0.0;
        for (i = 0; i < rounds; i++) {
            const double* KDE_RESTRICT b = few + (i & 15) * KDE_BLOCK;
            const double a = few[i & 511];
            for (l = 0; l < KDE_BLOCK; l++) sum[l] += b[l] < a ? b[l] : a;
        }
        for (l = 1; l < KDE_BLOCK; l++) sum[0] += sum[l];
        return sum[0];
    }
    KDE_CLONES double kde_probe_reading(Py_ssize_t count, const double* KDE_RESTRICT data)
    {
        double sum[KDE_BLOCK];
        Py_ssize_t i;
        int l;
        for (l = 0; l < KDE_BLOCK; l++) sum[l] = 0.0;
        for (i = 0; i + KDE_BLOCK <= count; i += KDE_BLOCK)
            for (l = 0; l < KDE_BLOCK; l++) sum[l] += data[i + l];
        for (l = 1; l < KDE_BLOCK; l++) sum[0] += sum[l];
        return sum[0];
    }
    """
    ctypedef struct kde_term:
        int kind, degree
        Py_ssize_t slots
        double weight, gamma, offset
    void kde_block_double(const kde_term*, int, const double*, const double*, double*) nogil
    void kde_block_float(const kde_term*, int, const float*, const double*, double*) nogil
    void kde_columns(Py_ssize_t, const double*, const double*, double*) nogil
    long long kde_count_bad(Py_ssize_t, const double*, const double*) nogil
    double kde_probe_overlaps(Py_ssize_t, const double*) nogil
    double kde_probe_reading(Py_ssize_t, const double*) nogil

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)

cdef enum:
    BLOCK = 32
    LANES = 8
    ROWS = 64  # of a batch, evaluated together
    OVERLAP = 0
    GAUSSIAN = 1
    POLYNOMIAL = 2

KINDS = {'overlap': OVERLAP, 'gaussian': GAUSSIAN, 'polynomial': POLYNOMIAL}

cdef object _empty = np.empty


cdef object _aligned(object shape, object dtype):
    """Return zeros that begin at a cache line."""
    cdef Py_ssize_t count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(count + 64, dtype=np.uint8)
    cdef Py_ssize_t start = -room.ctypes.data % 64
    return room[start:start + count].view(dtype).reshape(shape)


cdef class _Blocks:
    """Points in blocks of 32, feature by feature, and the terms of the kernel between them."""

    cdef Py_ssize_t points, blocks, slots
    cdef int count
    cdef bint single
    cdef object _store, _columns, _terms
    cdef const double[:, :, ::1] _doubles
    cdef const float[:, :, ::1] _floats
    cdef const Py_ssize_t[::1] _column
    cdef kde_term* terms

    def __cinit__(self):
        self.terms = NULL

    def __dealloc__(self):
        free(self.terms)

    def __init__(self, terms, points, storage):
        cdef int t
        self.points, self.count = len(points), len(terms)
        self.blocks = (self.points + BLOCK - 1) // BLOCK
        self.terms = <kde_term*> malloc((self.count + 1) * sizeof(kde_term))
        if self.terms == NULL:
            raise MemoryError('No memory for the terms of a kernel.')
        for t, term in enumerate(terms):
            self.terms[t].kind = KINDS[term.kind]
            self.terms[t].slots = len(term.columns)
            self.terms[t].weight = term.weight
            self.terms[t].gamma = term.gamma
            self.terms[t].degree = term.degree
            self.terms[t].offset = term.offset
        columns = np.concatenate([term.columns for term in terms] + [np.empty(0, dtype=np.intp)])
        self._column = columns = np.ascontiguousarray(columns, dtype=np.intp)
        self.slots = len(columns)
        self.single = storage == 'float32'
        packed = _aligned((self.blocks, self.slots, BLOCK), storage)
        for block in range(self.blocks):
            rows = points[block * BLOCK:(block + 1) * BLOCK]
            packed[block, :, :len(rows)] = rows[:, columns].T
        if self.single:
            self._floats = packed
        else:
            self._doubles = packed

    cdef void gather(self, const double* x, double* features) noexcept nogil:
        """Write the features of x (d,) slot by slot."""
        cdef Py_ssize_t s
        for s in range(self.slots):
            features[s] = x[self._column[s]]

    cdef void kernels(self, Py_ssize_t block, const double* features, double* k) noexcept nogil:
        """Write k (32,), the kernels between one x and a block of points."""
        if self.single:
            kde_block_float(self.terms, self.count, &self._floats[block, 0, 0], features, k)
        else:
            kde_block_double(self.terms, self.count, &self._doubles[block, 0, 0], features, k)


def gram(terms, const double[:, ::1] X, const double[:, ::1] Y):
    """Return the Gram matrix (n, m) of a sum of terms between X (n, d) and Y (m, d).

    Where both are the same array, half of the matrix is computed and mirrored.
    """
    cdef Py_ssize_t n = X.shape[0], m = Y.shape[0], i, j, l, block, last, size
    result = np.zeros((n, m))
    cdef _Blocks blocks = _Blocks(terms, np.asarray(Y), 'float64')
    if n == 0 or m == 0:
        return result
    size = blocks.slots
    cdef bint symmetric = n == m and &X[0, 0] == &Y[0, 0]
    cdef double[:, ::1] k = result
    cdef double[BLOCK] values
    cdef double* rows = <double*> malloc((n * size + 1) * sizeof(double))
    if rows == NULL:
        raise MemoryError('No memory for the Gram matrix.')
    with nogil:
        for i in range(n):
            blocks.gather(&X[i, 0], rows + i * size)
        for block in range(blocks.blocks):
            last = min(BLOCK, m - block * BLOCK)
            for i in range(min(n, (block + 1) * BLOCK) if symmetric else n):
                blocks.kernels(block, rows + i * size, values)
                memcpy(&k[i, block * BLOCK], values, last * sizeof(double))
        if symmetric:
            for block in range(blocks.blocks):
                for i in range(block):
                    for j in range(block * BLOCK, min((block + 1) * BLOCK, n)):
                        for l in range(i * BLOCK, (i + 1) * BLOCK):
                            k[j, l] = k[l, j]
        free(rows)
    return result


cdef class Evaluator:
    """f(x) = Σ_i α_i k(p_i, x) + b for many columns of α at once, made ready for many calls.

    Parameters
    ----------
    terms : sequence of Term
        The kernel is their sum. A term that is linear in x folds into one matrix (d, r).
    points : (n, d), coefficients : (n, r), offset : (r,), float64
    storage : 'float64' or 'float32'
        How the points are kept. With 'float32' runs of 16 features are summed in single
        precision, and the rest in double.
    """

    cdef readonly Py_ssize_t inputs, outputs
    cdef _Blocks _blocks
    cdef const double[:, :, ::1] _alpha
    cdef const double[:, ::1] _matrix
    cdef const double[::1] _offset
    cdef const double[::1] _least
    cdef bint _folded

    def __init__(self, terms, points, coefficients, offset, storage='float64'):
        cdef Py_ssize_t block
        self.inputs, self.outputs = points.shape[1], coefficients.shape[1]
        matrix, offset = np.zeros((self.inputs, self.outputs)), np.array(offset, dtype=np.float64)
        least = np.full(self.inputs, -np.finfo(np.float64).max)
        summed = []
        self._folded = False
        for term in terms:
            if term.kind == 'overlap':
                least[term.columns] = 0.0
            if term.kind == 'polynomial' and term.degree == 1:
                slopes = term.weight * (points[:, term.columns].T @ coefficients)
                # A column may occur twice.
                np.add.at(matrix, term.columns, slopes)
                offset += term.weight * term.offset * coefficients.sum(axis=0)
                self._folded = True
            else:
                summed.append(term)
        self._matrix, self._offset, self._least = matrix, offset, least
        self._blocks = _Blocks(summed, points if summed else points[:0], storage)
        alpha = _aligned((self._blocks.blocks, self.outputs, BLOCK), np.float64)
        for block in range(self._blocks.blocks):
            rows = coefficients[block * BLOCK:(block + 1) * BLOCK]
            alpha[block, :, :len(rows)] = rows.T
        self._alpha = alpha

    def __call__(self, X):
        """Return f at X (m, d), shape (m, r), or None where X must be prepared or is no input.

        It takes C-contiguous float64 of finite numbers, none negative in a column of a
        histogram.
        """
        cdef Py_buffer source, target
        cdef bint good
        try:
            PyObject_GetBuffer(X, &source, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT)
        except (BufferError, TypeError, ValueError):
            return None
        if (source.ndim != 2 or source.format[0] != b'd' or source.format[1] != 0
                or source.shape[1] != self.inputs):
            PyBuffer_Release(&source)
            return None
        result = _empty((source.shape[0], self.outputs))
        PyObject_GetBuffer(result, &target, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
        try:
            good = self._evaluate(
                <const double*> source.buf, source.shape[0], <double*> target.buf
            )
        finally:
            PyBuffer_Release(&target)
            PyBuffer_Release(&source)
        return result if good else None

    cdef bint _evaluate(self, const double* X, Py_ssize_t m, double* y) except -1:
        cdef Py_ssize_t start = 0, rows = min(m, ROWS), size
        cdef bint good = True
        size = rows * (self._blocks.slots + LANES * self.outputs)
        cdef double* work = <double*> malloc((size + 1) * sizeof(double))
        if work == NULL:
            raise MemoryError('No memory for evaluating a kernel expansion.')
        with nogil:
            while good and start < m:
                rows = min(m - start, ROWS)
                good = self._some(X + start * self.inputs, rows, y + start * self.outputs, work)
                start += ROWS
            free(work)
        return good

    cdef bint _some(self, const double* X, Py_ssize_t m, double* y, double* work) noexcept nogil:
        """Evaluate f at a few rows; False if one of them is not an input."""
        cdef Py_ssize_t d = self.inputs, r = self.outputs, size = self._blocks.slots
        cdef Py_ssize_t i, j, c, l, block
        cdef double* sums = work + m * size
        cdef double[BLOCK] k
        cdef double a, total
        if d:
            for i in range(m):
                if kde_count_bad(d, X + i * d, &self._least[0]):
                    return False
        for i in range(m):
            for c in range(r):
                y[i * r + c] = self._offset[c]
        if self._folded:
            for i in range(m):
                for j in range(d):
                    a = X[i * d + j]
                    for c in range(r):
                        y[i * r + c] += a * self._matrix[j, c]
        if self._blocks.blocks == 0 or r == 0:
            return True
        for i in range(m):
            self._blocks.gather(X + i * d, work + i * size)
        memset(sums, 0, m * r * LANES * sizeof(double))
        for block in range(self._blocks.blocks):
            for i in range(m):
                self._blocks.kernels(block, work + i * size, k)
                kde_columns(r, &self._alpha[block, 0, 0], k, sums + i * r * LANES)
        for i in range(m):
            for c in range(r):
                total = 0.0
                for l in range(LANES):
                    total += sums[(i * r + c) * LANES + l]
                y[i * r + c] += total
        return True


def probe_overlaps(Py_ssize_t rounds):
    """Add up 32 · rounds minima of numbers in the nearest cache, for timing; return the sum."""
    cdef const double[::1] few = np.linspace(0.0, 1.0, 512)
    cdef double result
    with nogil:
        result = kde_probe_overlaps(rounds, &few[0])
    return result


def probe_reading(const double[::1] data, Py_ssize_t rounds):
    """Read an array several times, for timing; return the sum of its whole blocks of 32."""
    cdef double result = 0.0
    cdef Py_ssize_t i
    with nogil:
        for i in range(rounds):
            result = kde_probe_reading(data.shape[0], &data[0])
    return result
