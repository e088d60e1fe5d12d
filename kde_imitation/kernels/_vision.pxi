# Shape contexts of edgels, and their nearest code words.
cdef extern from *:
    """
    #include <math.h>

    /* Squared distances (n,) from one point to n others, and the sum of their roots. */
    KDE_CLONES double kde_squares(Py_ssize_t n, double x, double y, const double* KDE_RESTRICT px,
                                  const double* KDE_RESTRICT py, double* KDE_RESTRICT squares)
    {
        double sum[KDE_LANES];
        Py_ssize_t j;
        int l;
        for (l = 0; l < KDE_LANES; l++) sum[l] = 0.0;
        for (j = 0; j < n; j++)
            squares[j] = (px[j] - x) * (px[j] - x) + (py[j] - y) * (py[j] - y);
        for (j = 0; j + KDE_LANES <= n; j += KDE_LANES)
            for (l = 0; l < KDE_LANES; l++) sum[l] += sqrt(squares[j + l]);
        for (l = 0; j < n; j++, l++) sum[l] += sqrt(squares[j]);
        for (l = 1; l < KDE_LANES; l++) sum[0] += sum[l];
        return sum[0];
    }

    /* Bins (n,) of n others around one point; `away` is their bin of it. Products are compared,
       not subtracted: rounding is then the same with fused operations and without. */
    KDE_CLONES void kde_bins(Py_ssize_t n, double x, double y, const double* KDE_RESTRICT px,
                             const double* KDE_RESTRICT py, const double* KDE_RESTRICT squares,
                             int rings, const double* radii, int half, const double* cosines,
                             const double* sines, int64_t* KDE_RESTRICT bins,
                             int64_t* KDE_RESTRICT away)
    {
        Py_ssize_t j;
        int k;
        for (j = 0; j < n; j++) {
            bins[j] = -1;
            away[j] = -2 * (int64_t) half;
        }
        for (k = 0; k < rings; k++)
            for (j = 0; j < n; j++) away[j] += squares[j] >= radii[k] ? 2 * half : 0;
        for (k = 0; k < half; k++) {
            const double c = cosines[k], s = sines[k];
            for (j = 0; j < n; j++) {
                const double dx = px[j] - x, dy = py[j] - y;
                const double sign = (dy < 0.0) | ((dy == 0.0) & (dx < 0.0)) ? -1.0 : 1.0;
                bins[j] += c * (sign * dy) >= s * (sign * dx) ? 1 : 0;
            }
        }
        for (j = 0; j < n; j++) {
            const double dx = px[j] - x, dy = py[j] - y;
            const int64_t first = away[j] + bins[j], second = first + half;
            const int below = (dy < 0.0) | ((dy == 0.0) & (dx < 0.0));
            bins[j] = below ? second : first;
            away[j] = below | (squares[j] == 0.0) ? first : second;
        }
    }

    /* overlap (32,): the sum over j of min(x_j, w_j), for a block of 32 words, (bins, 32). */
    KDE_CLONES void kde_overlaps(Py_ssize_t bins, const uint16_t* KDE_RESTRICT x,
                                 const uint16_t* KDE_RESTRICT words,
                                 uint16_t* KDE_RESTRICT overlap)
    {
        uint16_t sum[KDE_BLOCK];
        Py_ssize_t j;
        int l;
        for (l = 0; l < KDE_BLOCK; l++) sum[l] = 0;
        for (j = 0; j < bins; j++, words += KDE_BLOCK) {
            const uint16_t a = x[j];
            for (l = 0; l < KDE_BLOCK; l++) sum[l] += words[l] < a ? words[l] : a;
        }
        for (l = 0; l < KDE_BLOCK; l++) overlap[l] = sum[l];
    }

    /* share (n,) += one in all, in proportion max(0, reach - (distance - least)). */
    KDE_CLONES void kde_soften(Py_ssize_t n, const int* KDE_RESTRICT distances, int least,
                               double reach, double* KDE_RESTRICT share)
    {
        double sum[KDE_LANES], w;
        Py_ssize_t j;
        int l;
        for (l = 0; l < KDE_LANES; l++) sum[l] = 0.0;
        for (j = 0; j + KDE_LANES <= n; j += KDE_LANES)
            for (l = 0; l < KDE_LANES; l++) {
                w = reach - (distances[j + l] - least);
                sum[l] += w > 0.0 ? w : 0.0;
            }
        for (l = 0; j < n; j++, l++) {
            w = reach - (distances[j] - least);
            sum[l] += w > 0.0 ? w : 0.0;
        }
        for (l = 1; l < KDE_LANES; l++) sum[0] += sum[l];
        for (j = 0; j < n; j++) {
            w = reach - (distances[j] - least);
            share[j] += (w > 0.0 ? w : 0.0) / sum[0];
        }
    }
    """
    ctypedef unsigned short uint16_t
    ctypedef long long int64_t
    double kde_squares(
        Py_ssize_t, double, double, const double*, const double*, double*
    ) nogil
    void kde_bins(
        Py_ssize_t, double, double, const double*, const double*, const double*,
        int, const double*, int, const double*, const double*, int64_t*, int64_t*
    ) nogil
    void kde_soften(Py_ssize_t, const int*, int, double, double*) nogil
    void kde_overlaps(Py_ssize_t, const uint16_t*, const uint16_t*, uint16_t*) nogil

cdef enum:
    MAX_RINGS = 32
    MAX_SECTORS = 64
    WHOLE = 32768  # histograms are compared in multiples of 1 / WHOLE


def shape_contexts(const double[:, ::1] points, const double[::1] rings, int sectors):
    """Return the log-polar histogram of all other points around each point, row by row.

    Parameters
    ----------
    points : (r, 2) array, x and y
    rings : (k,) array
        Inner radii of the rings in units of the mean distance between two points, rising from 0;
        the last ring has no outer radius.
    sectors : int, even
        Number of equal angles, counted from the x axis towards the y axis.

    Returns
    -------
    (r, k · sectors) array
        Ring by ring; each row sums to one. Zeros if there are fewer than two different points.
    """
    cdef Py_ssize_t count = points.shape[0], i, j, rest
    cdef int last = rings.shape[0], bins = last * sectors, half = sectors // 2, k
    cdef double total = 0.0, mean
    cdef double[MAX_RINGS] radii
    cdef double* px
    cdef double* py
    cdef double* squares
    cdef double* pair
    cdef int64_t* near
    cdef int64_t* away
    if last > MAX_RINGS or sectors > MAX_SECTORS:
        raise ValueError(f'At most {MAX_RINGS} rings and {MAX_SECTORS} sectors are possible.')
    result = np.zeros((count, bins))
    if count < 2:
        return result
    angles = np.arange(half) * (2.0 * np.pi / sectors)
    cdef const double[::1] cosines = np.cos(angles), sines = np.sin(angles)
    cdef double[:, ::1] h = result
    near = <int64_t*> malloc(2 * count * sizeof(int64_t))
    px = <double*> malloc((2 * count + count * (count - 1) // 2) * sizeof(double))
    if near == NULL or px == NULL:
        free(near)
        free(px)
        raise MemoryError('No memory for the distances between edgels.')
    with nogil:
        away, py, squares = near + count, px + count, px + 2 * count
        for i in range(count):
            px[i] = points[i, 0]
            py[i] = points[i, 1]
        pair = squares
        for i in range(count):
            rest = count - i - 1
            total += kde_squares(rest, px[i], py[i], px + i + 1, py + i + 1, pair)
            pair += rest
        if total > 0.0:
            mean = 2.0 * total / (count * (count - 1))
            for k in range(last):
                radii[k] = (rings[k] * mean) * (rings[k] * mean)
            pair = squares
            for i in range(count):
                rest = count - i - 1
                kde_bins(
                    rest, px[i], py[i], px + i + 1, py + i + 1, pair, last, radii, half,
                    &cosines[0], &sines[0], near, away,
                )
                pair += rest
                for j in range(rest):
                    h[i, near[j]] += 1.0
                    h[i + 1 + j, away[j]] += 1.0
            for i in range(count):
                for k in range(bins):
                    h[i, k] /= count - 1
        free(near)
        free(px)
    return result


cdef class Coder:
    """Compares histograms with code words by d(x, w) = ½ Σ |x − w|, total variation.

    Entries are rounded to multiples of 2⁻¹⁵ first, so that equal distances are equal and the
    first word wins them, and sixteen words are compared at a time.

    Parameters
    ----------
    words : (w, b) array
        Not negative, each row with a sum of one at most.
    """

    cdef readonly object words
    cdef Py_ssize_t _count, _bins, _blocks
    cdef const uint16_t[:, :, ::1] _packed
    cdef const int[::1] _masses

    def __init__(self, words):
        cdef Py_ssize_t block
        self.words = np.array(words, dtype=np.float64)
        self._count, self._bins = self.words.shape
        self._blocks = (self._count + BLOCK - 1) // BLOCK
        whole = np.floor(self.words * WHOLE + 0.5).astype(np.uint16)
        packed = _aligned((self._blocks, self._bins, BLOCK), np.uint16)
        for block in range(self._blocks):
            rows = whole[block * BLOCK:(block + 1) * BLOCK]
            packed[block, :, :len(rows)] = rows.T
        self._packed = packed
        self._masses = whole.sum(axis=1, dtype=np.intc)

    def __reduce__(self):
        return Coder, (self.words,)

    cdef Py_ssize_t _distances(
        self, const double* x, uint16_t* whole, uint16_t* overlap, int* distances
    ) noexcept nogil:
        """Write 2 · WHOLE · d of x (b,) to all words, and return the nearest."""
        cdef Py_ssize_t block, j, best = 0
        cdef int mass = 0
        for j in range(self._bins):
            # Truncation rounds down, as nothing is negative.
            whole[j] = <uint16_t> <int> (x[j] * WHOLE + 0.5)
            mass += whole[j]
        for block in range(self._blocks):
            kde_overlaps(self._bins, whole, &self._packed[block, 0, 0], overlap + block * BLOCK)
        for j in range(self._count):
            distances[j] = mass + self._masses[j] - 2 * overlap[j]
        for j in range(1, self._count):
            if distances[j] < distances[best]:
                best = j
        return best

    cdef int* _room(self, const double[:, ::1] histograms) except NULL:
        """Return memory for the distances, the rounded histogram and the overlaps."""
        if histograms.shape[1] != self._bins:
            raise ValueError(f'The histograms must have {self._bins} bins.')
        cdef Py_ssize_t padded = self._blocks * BLOCK + 1
        cdef int* room = <int*> malloc(
            padded * sizeof(int) + (padded + self._bins) * sizeof(uint16_t)
        )
        if room == NULL:
            raise MemoryError('No memory for the distances to code words.')
        return room

    def nearest(self, const double[:, ::1] histograms):
        """Return the number of the nearest word, the first of equals, and d, both (n,)."""
        cdef Py_ssize_t n = histograms.shape[0], i
        cdef int* distances = self._room(histograms)
        cdef uint16_t* overlap = <uint16_t*> (distances + self._blocks * BLOCK + 1)
        cdef uint16_t* whole = overlap + self._blocks * BLOCK
        found, reached = np.empty(n, dtype=np.intp), np.empty(n)
        cdef Py_ssize_t[::1] index = found
        cdef double[::1] distance = reached
        with nogil:
            for i in range(n):
                index[i] = self._distances(&histograms[i, 0], whole, overlap, distances)
                distance[i] = distances[index[i]] / (2.0 * WHOLE)
            free(distances)
        return found, reached

    def shares(self, const double[:, ::1] histograms, double softness):
        """Return the share (w,) of each word in histograms (n, b); zeros for none of them.

        A histogram goes to its nearest word, at distance d, and to words up to `softness`
        further in proportion 1 − (d_j − d) / softness. With 0 it goes to the nearest alone.
        """
        cdef Py_ssize_t n = histograms.shape[0], i, j, best
        cdef double reach = 2.0 * WHOLE * softness
        cdef int* distances = self._room(histograms)
        cdef uint16_t* overlap = <uint16_t*> (distances + self._blocks * BLOCK + 1)
        cdef uint16_t* whole = overlap + self._blocks * BLOCK
        result = np.zeros(self._count)
        cdef double[::1] share = result
        with nogil:
            for i in range(n):
                best = self._distances(&histograms[i, 0], whole, overlap, distances)
                if softness <= 0.0:
                    share[best] += 1.0
                    continue
                kde_soften(self._count, distances, distances[best], reach, &share[0])
            if n > 0:
                for j in range(self._count):
                    share[j] /= n
            free(distances)
        return result
