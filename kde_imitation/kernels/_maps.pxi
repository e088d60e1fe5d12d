# The maps: tensor products, the arm in two parts, exact chains, linear images.

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

    def __reduce__(self):
        return TensorMap, (self.core, self.factors, self.centre, self.half)

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

    def __reduce__(self):
        return ArmMap, (self.near, self.far, self.idle)

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

    def __reduce__(self):
        return ChainMap, (self.turns, self.origins, self.axes, self.points, self.carriers)

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

    def __reduce__(self):
        return ProjectedMap, (self.inner, self.matrix, self.offset)

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
