# A picture compared with that of the empty room.
cdef extern from *:
    """
    #define KDE_TERMS 7
    #define KDE_SUMS 35
    #define KDE_PIECE 64

    KDE_CLONES void kde_range(Py_ssize_t n, const double* KDE_RESTRICT x, double* range)
    {
        double low[KDE_LANES], high[KDE_LANES];
        Py_ssize_t j;
        int l;
        for (l = 0; l < KDE_LANES; l++) low[l] = high[l] = x[0];
        for (j = 0; j + KDE_LANES <= n; j += KDE_LANES)
            for (l = 0; l < KDE_LANES; l++) {
                low[l] = x[j + l] < low[l] ? x[j + l] : low[l];
                high[l] = x[j + l] > high[l] ? x[j + l] : high[l];
            }
        for (l = 0; j < n; j++, l++) {
            low[l] = x[j] < low[l] ? x[j] : low[l];
            high[l] = x[j] > high[l] ? x[j] : high[l];
        }
        for (l = 1; l < KDE_LANES; l++) {
            low[0] = low[l] < low[0] ? low[l] : low[0];
            high[0] = high[l] > high[0] ? high[l] : high[0];
        }
        range[0] = low[0];
        range[1] = high[0];
    }

    KDE_CLONES Py_ssize_t kde_up_to(Py_ssize_t n, const double* KDE_RESTRICT x, double bound)
    {
        int64_t count = 0;
        Py_ssize_t j;
        for (j = 0; j < n; j++) count += x[j] <= bound;
        return (Py_ssize_t) count;
    }

    /* The number that has k others below it, of x (n,): bisection, then sorting of the few that
       are left, with room (24,). */
    static double kde_order(Py_ssize_t n, const double* x, Py_ssize_t k, double* room)
    {
        double range[2], low, high;
        Py_ssize_t below = 0, within = n, j, i, kept = 0;
        kde_range(n, x, range);
        low = nextafter(range[0], -HUGE_VAL);
        high = range[1];
        while (within - below > 24) {
            const double middle = low + 0.5 * (high - low);
            Py_ssize_t count;
            if (!(middle > low && middle < high)) return high;
            count = kde_up_to(n, x, middle);
            if (count > k) {
                high = middle;
                within = count;
            } else {
                low = middle;
                below = count;
            }
        }
        for (j = 0; j < n; j++)
            if (x[j] > low && x[j] <= high) {
                for (i = kept++; i > 0 && room[i - 1] > x[j]; i--) room[i] = room[i - 1];
                room[i] = x[j];
            }
        return room[k - below];
    }

    KDE_CLONES double kde_greatest_below(Py_ssize_t n, const double* KDE_RESTRICT x, double bound)
    {
        double best[KDE_LANES];
        Py_ssize_t j;
        int l;
        for (l = 0; l < KDE_LANES; l++) best[l] = -HUGE_VAL;
        for (j = 0; j + KDE_LANES <= n; j += KDE_LANES)
            for (l = 0; l < KDE_LANES; l++) {
                const double value = x[j + l] < bound ? x[j + l] : -HUGE_VAL;
                best[l] = value > best[l] ? value : best[l];
            }
        for (; j < n; j++) best[0] = x[j] < bound && x[j] > best[0] ? x[j] : best[0];
        for (l = 1; l < KDE_LANES; l++) best[0] = best[l] > best[0] ? best[l] : best[0];
        return best[0];
    }

    static double kde_median(Py_ssize_t n, const double* x)
    {
        double room[24], upper = kde_order(n, x, n / 2, room), lower;
        if (n % 2) return upper;
        lower = kde_greatest_below(n, x, upper);
        if (lower == -HUGE_VAL || kde_up_to(n, x, lower) < n / 2) return upper;
        return 0.5 * (lower + upper);
    }

    KDE_CLONES void kde_wide(Py_ssize_t n, const double* KDE_RESTRICT x,
                             const double* KDE_RESTRICT guess, double* KDE_RESTRICT wide)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) wide[j] = fabs(x[j] - guess[j]);
    }

    /* Normal equations, matrix (7, 7) and right (7,), of x (n,) as a sum of terms (7, n), weighted
       by Tukey's function of how wide x lies from the guess. Pieces of 64 stay in the cache. */
    KDE_CLONES void kde_normal(Py_ssize_t n, const double* KDE_RESTRICT terms,
                               const double* KDE_RESTRICT x, const double* KDE_RESTRICT wide,
                               double reach, double* KDE_RESTRICT matrix,
                               double* KDE_RESTRICT right)
    {
        double sums[KDE_SUMS][KDE_LANES], weights[KDE_PIECE], product[KDE_PIECE];
        const double scale = 1.0 / reach;
        Py_ssize_t start;
        int i, k, l, j, q;
        for (q = 0; q < KDE_SUMS; q++)
            for (l = 0; l < KDE_LANES; l++) sums[q][l] = 0.0;
        for (start = 0; start < n; start += KDE_PIECE) {
            const int whole = n - start >= KDE_PIECE;
            const int count = whole ? KDE_PIECE : (int) (n - start);
            for (j = 0; j < count; j++) {
                const double share = wide[start + j] * scale, rest = 1.0 - share * share;
                weights[j] = rest > 0.0 ? rest * rest : 0.0;
            }
            for (i = 0, q = 0; i < KDE_TERMS; i++) {
                const double* KDE_RESTRICT one = terms + i * n + start;
                for (j = 0; j < count; j++) product[j] = weights[j] * one[j];
                for (k = i; k <= KDE_TERMS; k++, q++) {
                    const double* KDE_RESTRICT two = (k < KDE_TERMS ? terms + k * n : x) + start;
                    if (whole) {
                        double sum[KDE_LANES];
                        for (l = 0; l < KDE_LANES; l++) sum[l] = sums[q][l];
                        for (j = 0; j < KDE_PIECE; j += KDE_LANES)
                            for (l = 0; l < KDE_LANES; l++) sum[l] += product[j + l] * two[j + l];
                        for (l = 0; l < KDE_LANES; l++) sums[q][l] = sum[l];
                    } else {
                        for (j = 0; j < count; j++) sums[q][0] += product[j] * two[j];
                    }
                }
            }
        }
        for (i = 0, q = 0; i < KDE_TERMS; i++)
            for (k = i; k <= KDE_TERMS; k++, q++) {
                for (l = 1; l < KDE_LANES; l++) sums[q][0] += sums[q][l];
                if (k == KDE_TERMS) right[i] = sums[q][0];
                else matrix[i * KDE_TERMS + k] = matrix[k * KDE_TERMS + i] = sums[q][0];
            }
    }

    KDE_CLONES void kde_combine(Py_ssize_t n, const double* KDE_RESTRICT terms,
                                const double* KDE_RESTRICT found, double* KDE_RESTRICT guess)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++)
            guess[j] = found[0] * terms[j] + found[1] * terms[n + j] + found[2] * terms[2 * n + j]
                     + found[3] * terms[3 * n + j] + found[4] * terms[4 * n + j]
                     + found[5] * terms[5 * n + j] + found[6] * terms[6 * n + j];
    }

    /* Solve a positive definite system (7, 7) in place; right becomes the solution. */
    static void kde_solve(double* matrix, double* right)
    {
        int i, j, k;
        for (j = 0; j < KDE_TERMS; j++) {
            double* row = matrix + j * KDE_TERMS;
            for (k = 0; k < j; k++) row[j] -= row[k] * row[k];
            row[j] = sqrt(row[j]);
            for (i = j + 1; i < KDE_TERMS; i++) {
                double* below = matrix + i * KDE_TERMS;
                for (k = 0; k < j; k++) below[j] -= below[k] * row[k];
                below[j] /= row[j];
            }
        }
        for (i = 0; i < KDE_TERMS; i++) {
            for (k = 0; k < i; k++) right[i] -= matrix[i * KDE_TERMS + k] * right[k];
            right[i] /= matrix[i * KDE_TERMS + i];
        }
        for (i = KDE_TERMS - 1; i >= 0; i--) {
            for (k = i + 1; k < KDE_TERMS; k++) right[i] -= matrix[k * KDE_TERMS + i] * right[k];
            right[i] /= matrix[i * KDE_TERMS + i];
        }
    }

    /* Scores (n,) of deviations in three channels, each (n,). */
    KDE_CLONES void kde_scores(Py_ssize_t n, const float* KDE_RESTRICT a,
                               const float* KDE_RESTRICT b, const float* KDE_RESTRICT c,
                               float colour, float brighter, float darker,
                               float* KDE_RESTRICT score)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) {
            const float mean = (a[j] + b[j] + c[j]) * (1.0f / 3.0f);
            const float x = a[j] - mean, y = b[j] - mean, z = c[j] - mean;
            const float m = mean * (mean > 0.0f ? brighter : darker);
            score[j] = sqrtf((x * x + y * y + z * z) * colour + m * m);
        }
    }

    /* Lines (3, n) of what a row of a picture deviates by from what is expected. */
    static void kde_deviations(Py_ssize_t n, const unsigned char* KDE_RESTRICT seen,
                               const unsigned char* KDE_RESTRICT empty,
                               const float* KDE_RESTRICT shades, const float* KDE_RESTRICT table,
                               const float* KDE_RESTRICT field, float low, float high,
                               float* KDE_RESTRICT lines, float* KDE_RESTRICT rest)
    {
        Py_ssize_t j;
        int c;
        for (j = 0; j < n; j++)
            for (c = 0; c < 3; c++) {
                float wanted = table[3 * empty[3 * j + c] + c] + field[3 * j + c];
                wanted = wanted < low ? low : wanted;
                wanted = wanted > high ? high : wanted;
                lines[c * n + j] = rest[3 * j + c] = shades[seen[3 * j + c]] - wanted;
            }
    }
    """
    double kde_median(Py_ssize_t, const double*) nogil
    void kde_wide(Py_ssize_t, const double*, const double*, double*) nogil
    void kde_normal(
        Py_ssize_t, const double*, const double*, const double*, double, double*, double*
    ) nogil
    void kde_combine(Py_ssize_t, const double*, const double*, double*) nogil
    void kde_solve(double*, double*) nogil
    void kde_scores(
        Py_ssize_t, const float*, const float*, const float*, float, float, float, float*
    ) nogil
    void kde_deviations(
        Py_ssize_t, const unsigned char*, const unsigned char*, const float*, const float*,
        const float*, float, float, float*, float*
    ) nogil

cdef enum:
    TERMS = 7


def median_ratios(
    const unsigned char[:, ::1] now, const unsigned char[:, ::1] before, double cut_off
):
    """Return the median (3,) of (now + 1) / (before + 1), both (n, 3), channel by channel.

    Values now of `cut_off` and more do not count, unless fewer than a twentieth are below.
    """
    cdef Py_ssize_t n = now.shape[0], i, kept, c
    cdef bint whole
    if n == 0 or before.shape[0] != n or now.shape[1] != 3 or before.shape[1] != 3:
        raise ValueError('Two equal numbers of colours are needed, one or more.')
    result = np.empty(3)
    cdef double[::1] ratio = result
    cdef double* room = <double*> malloc(n * sizeof(double))
    if room == NULL:
        raise MemoryError('No memory for the light of a picture.')
    with nogil:
        for c in range(3):
            kept = 0
            for i in range(n):
                kept += now[i, c] + 1.0 < cut_off
            whole, kept = 20 * kept < n, 0
            for i in range(n):
                if whole or now[i, c] + 1.0 < cut_off:
                    room[kept] = (now[i, c] + 1.0) / (before[i, c] + 1.0)
                    kept += 1
            ratio[c] = kde_median(kept, room)
        free(room)
    return result


def fit_light(
    const double[:, :, ::1] terms, const double[:, ::1] values, const double[::1] pull, int rounds
):
    """Fit values (k, c) by sums of terms (k, 7, c), so that what lies far off does not count.

    Tukey's weights, with a scale from the median deviation, `rounds` times over.

    Parameters
    ----------
    terms : (k, 7, c) array
    values : (k, c) array
    pull : (7,) array
        What draws each coefficient to zero.
    rounds : int, 1 or more

    Returns
    -------
    fitted : (k, c) array
    coefficients : (k, 7) array
    middles : (k,) array
        Medians of the fitted values.
    """
    cdef Py_ssize_t lines = values.shape[0], n = values.shape[1], line, i
    cdef double[49] matrix
    cdef double spread
    cdef double* room
    cdef int turn
    if terms.shape[0] != lines or terms.shape[1] != TERMS or terms.shape[2] != n or n == 0:
        raise ValueError(f'The terms must have shape ({lines}, {TERMS}, {n}).')
    if pull.shape[0] != TERMS or rounds < 1:
        raise ValueError(f'{TERMS} pulls and one round or more are needed.')
    fitted, coefficients, middles = np.empty((lines, n)), np.empty((lines, TERMS)), np.empty(lines)
    cdef double[:, ::1] guess = fitted
    cdef double[:, ::1] found = coefficients
    cdef double[::1] middle = middles
    room = <double*> malloc(n * sizeof(double))
    if room == NULL:
        raise MemoryError('No memory for the light of a picture.')
    with nogil:
        for line in range(lines):
            spread = kde_median(n, &values[line, 0])
            for i in range(n):
                guess[line, i] = spread
            for turn in range(rounds):
                kde_wide(n, &values[line, 0], &guess[line, 0], room)
                spread = 1.5 * kde_median(n, room)
                spread = spread if spread > 0.01 else 0.01
                kde_normal(
                    n, &terms[line, 0, 0], &values[line, 0], room, 3.0 * spread, matrix,
                    &found[line, 0],
                )
                for i in range(TERMS):
                    matrix[(TERMS + 1) * i] += pull[i]
                kde_solve(matrix, &found[line, 0])
                kde_combine(n, &terms[line, 0, 0], &found[line, 0], &guess[line, 0])
            middle[line] = kde_median(n, &guess[line, 0])
        free(room)
    return fitted, coefficients, middles


def unlike(
    const unsigned char[:, :, ::1] seen, const unsigned char[:, :, ::1] empty,
    const float[::1] shades, const float[:, ::1] table, const float[:, :, ::1] field,
    const float[::1] tolerances,
):
    """Return what a picture deviates by from that of the empty room, and how unlike that makes it.

    Parameters
    ----------
    seen, empty : (h, w, 3) uint8 arrays
    shades : (256,) float32 array
        Logarithms of the colours of `seen`.
    table : (256, 3) float32 array
        The same that are expected for those of `empty`, channel by channel.
    field : (h, w, 3) float32 array
        Added to what is expected, which then stays within `shades`.
    tolerances : (3,) float32 array
        Deviations that are just too large: in colour, up and down in brightness.

    Returns
    -------
    rest : (h, w, 3) float32 array
    score : (h, w) float32 array
    """
    cdef Py_ssize_t height = seen.shape[0], width = seen.shape[1], row
    cdef float* lines
    _check_sizes(seen.shape, empty.shape, field.shape)
    if shades.shape[0] != 256 or table.shape[0] != 256 or table.shape[1] != 3:
        raise ValueError('The tables must have 256 rows.')
    if tolerances.shape[0] != 3:
        raise ValueError('There are three tolerances.')
    left, score = np.empty((height, width, 3), dtype=np.float32), np.empty((height, width), 'f4')
    cdef float[:, :, ::1] rest = left
    cdef float[:, ::1] scores = score
    lines = <float*> malloc(3 * width * sizeof(float))
    if lines == NULL:
        raise MemoryError('No memory for the rows of a picture.')
    with nogil:
        for row in range(height):
            kde_deviations(
                width, &seen[row, 0, 0], &empty[row, 0, 0], &shades[0], &table[0, 0],
                &field[row, 0, 0], shades[0], shades[255], lines, &rest[row, 0, 0],
            )
            kde_scores(
                width, lines, lines + width, lines + 2 * width,
                1.0 / (tolerances[0] * tolerances[0]), 1.0 / tolerances[1], 1.0 / tolerances[2],
                &scores[row, 0],
            )
        free(lines)
    return left, score


def scores_beyond(
    const float[:, :, ::1] rest, const float[:, :, ::1] shadow, const float[::1] tolerances
):
    """Return how unlike the empty room deviations (h, w, 3) less a shadow are: (h, w)."""
    cdef Py_ssize_t height = rest.shape[0], width = rest.shape[1], row, column, c
    cdef float* lines
    _check_sizes(rest.shape, rest.shape, shadow.shape)
    if tolerances.shape[0] != 3:
        raise ValueError('There are three tolerances.')
    score = np.empty((height, width), dtype=np.float32)
    cdef float[:, ::1] scores = score
    lines = <float*> malloc(3 * width * sizeof(float))
    if lines == NULL:
        raise MemoryError('No memory for the rows of a picture.')
    with nogil:
        for row in range(height):
            for column in range(width):
                for c in range(3):
                    lines[c * width + column] = rest[row, column, c] - shadow[row, column, c]
            kde_scores(
                width, lines, lines + width, lines + 2 * width,
                1.0 / (tolerances[0] * tolerances[0]), 1.0 / tolerances[1], 1.0 / tolerances[2],
                &scores[row, 0],
            )
        free(lines)
    return score


cdef int _check_sizes(
    const Py_ssize_t* one, const Py_ssize_t* two, const Py_ssize_t* three
) except -1:
    cdef int i
    if one[0] == 0 or one[1] == 0 or one[2] != 3:
        raise ValueError('A picture must have three channels and one pixel or more.')
    for i in range(3):
        if one[i] != two[i] or one[i] != three[i]:
            raise ValueError('Pictures and fields must have equal sizes.')
    return 0
