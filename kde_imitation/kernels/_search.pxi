# A map with its Jacobian, and the bounded search for the input that meets a target.

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
        cdef size_t size = self._work_size() + 2 * d + 3 * d * m + 1
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
    cdef double* jac_new = jac_old + d * m
    cdef double* inner = jac_new + d * m
    cdef double* swap
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
            # Most trials are accepted, and then the Jacobian is wanted.
            model._eval(x_new, f_new, jac_new, inner)
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
        value = trial
        swap = f
        f = f_new
        f_new = swap
        swap = jac_old
        jac_old = jac
        jac = jac_new
        jac_new = swap
    cost[0] = value
    return False
