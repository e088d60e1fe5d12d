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

    /* sum (32,) of an expression in a = x_s and b = p_s over s, `count` slots in runs of RUN:
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
