# Body and arm looked for in maps: a template moved over one, an arm of two parts laid on one.
cdef extern from *:
    """
    /* totals (n,) = up[i] * sum of the first `first` cells of arm i + fore[i] * sum of the rest of
       its `width` cells - base[i], in whole numbers. */
    static void kde_bank(Py_ssize_t n, int first, int width, const uint16_t* KDE_RESTRICT cells,
                         const unsigned char* KDE_RESTRICT map, const int* up, const int* fore,
                         const int64_t* base, int64_t* totals)
    {
        Py_ssize_t i;
        int j;
        for (i = 0; i < n; i++, cells += width) {
            int one = 0, two = 0;
            for (j = 0; j < first; j++) one += map[cells[j]];
            for (; j < width; j++) two += map[cells[j]];
            totals[i] = (int64_t) up[i] * one + (int64_t) fore[i] * two - base[i];
        }
    }

    /* Values between 0 and 1 in 255 shades. Products of a float and 255 are exact doubles, and so
       rounding is the same everywhere. */
    KDE_CLONES void kde_shades(Py_ssize_t n, const float* KDE_RESTRICT values,
                               unsigned char* KDE_RESTRICT shades)
    {
        Py_ssize_t i;
        for (i = 0; i < n; i++) {
            const double v = 255.0 * (double) values[i] + 0.5;
            shades[i] = (unsigned char) (int) (v > 0.0 ? (v < 255.0 ? v : 255.0) : 0.0);
        }
    }

    /* out (rows, columns) = sums of a template (h, w) over a map of the given width. Rows of the
       template are padded by zeros to multiples of 16, those of the map by 16 numbers. */
    KDE_CLONES void kde_correlate(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t width,
                                  const float* KDE_RESTRICT map, Py_ssize_t h, Py_ssize_t w,
                                  const float* KDE_RESTRICT weights, float* KDE_RESTRICT out)
    {
        Py_ssize_t row, column, i, j;
        int l;
        for (row = 0; row < rows; row++)
            for (column = 0; column < columns; column += 2) {
                float one[16], two[16];
                for (l = 0; l < 16; l++) one[l] = two[l] = 0.0f;
                for (i = 0; i < h; i++) {
                    const float* KDE_RESTRICT at = map + (row + i) * width + column;
                    const float* KDE_RESTRICT weight = weights + i * w;
                    for (j = 0; j < w; j += 16)
                        for (l = 0; l < 16; l++) {
                            one[l] += weight[j + l] * at[j + l];
                            two[l] += weight[j + l] * at[j + l + 1];
                        }
                }
                for (l = 1; l < 16; l++) {
                    one[0] += one[l];
                    two[0] += two[l];
                }
                out[row * columns + column] = one[0];
                if (column + 1 < columns) out[row * columns + column + 1] = two[0];
            }
    }
    """
    void kde_correlate(
        Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, Py_ssize_t, const float*,
        float*
    ) nogil
    void kde_shades(Py_ssize_t, const float*, unsigned char*) nogil
    void kde_bank(
        Py_ssize_t, int, int, const uint16_t*, const unsigned char*, const int*, const int*,
        const int64_t*, int64_t*
    ) nogil

cdef enum:
    MAX_REFINED = 64
    MOVES = 12

# A move must gain more than rounding does, so that the same one is taken everywhere.
cdef double GAIN = 1e-9
# Which points move, elbow and fingertips, and where to.
cdef int[12][4] STEPS_TO = [
    [1, 0, 0, 0], [-1, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0],
    [0, 0, 1, 0], [0, 0, -1, 0], [0, 0, 0, 1], [0, 0, 0, -1],
    [1, 0, 1, 0], [-1, 0, -1, 0], [0, 1, 0, 1], [0, -1, 0, -1],
]


cdef double _cell(
    const float* values, Py_ssize_t height, Py_ssize_t width, Py_ssize_t row, Py_ssize_t column
) noexcept nogil:
    if row < 0 or column < 0 or row >= height or column >= width:
        return 0.0
    return values[row * width + column]


cdef double _covered(
    const float* values, Py_ssize_t height, Py_ssize_t width, const double* start,
    const double* end, const double* stations, int count, double even
) noexcept nogil:
    """Return how well one part of an arm covers a map: length times mean value above `even`."""
    cdef double dx = end[0] - start[0], dy = end[1] - start[1], total = 0.0, x, y, right, low
    cdef Py_ssize_t column, row
    cdef const float* at
    cdef int k
    for k in range(count):
        x, y = start[0] + stations[k] * dx, start[1] + stations[k] * dy
        if not (x > -1.0 and y > -1.0 and x < width and y < height):
            continue
        # Truncation of what is above -1 after a shift by one rounds down.
        column, row = <Py_ssize_t> (x + 1.0) - 1, <Py_ssize_t> (y + 1.0) - 1
        right, low = x - column, y - row
        if column >= 0 and row >= 0 and column < width - 1 and row < height - 1:
            at = values + row * width + column
            total += (at[0] * (1.0 - right) + at[1] * right) * (1.0 - low) + (
                at[width] * (1.0 - right) + at[width + 1] * right
            ) * low
        else:
            total += (
                _cell(values, height, width, row, column) * (1.0 - right)
                + _cell(values, height, width, row, column + 1) * right
            ) * (1.0 - low) + (
                _cell(values, height, width, row + 1, column) * (1.0 - right)
                + _cell(values, height, width, row + 1, column + 1) * right
            ) * low
    return sqrt(dx * dx + dy * dy) * (total / count - even)


def coverage(
    const float[:, :, ::1] maps, const double[:, :, ::1] arms, const double[::1] upper,
    const double[::1] fore, double even
):
    """Return how well each arm covers its own map.

    Each cell of length counts what the map shows on it above `even`.

    Parameters
    ----------
    maps : (n, h, w) float32 array
        Read bilinearly; zero outside.
    arms : (n, 3, 2) array
        Shoulder, elbow and fingertips, x and y in cells.
    upper, fore : (k,) and (l,) arrays
        Places where a part of the arm is read, as shares of its length.
    even : float

    Returns
    -------
    (n,) array
    """
    cdef Py_ssize_t n = arms.shape[0], i, height = maps.shape[1], width = maps.shape[2]
    if maps.shape[0] != n or arms.shape[1] != 3 or arms.shape[2] != 2:
        raise ValueError('There must be one map for each arm, and an arm has shape (3, 2).')
    if upper.shape[0] == 0 or fore.shape[0] == 0:
        raise ValueError('Each part of an arm must be read in one place or more.')
    result = np.empty(n)
    if n == 0 or height == 0 or width == 0:
        raise ValueError('There must be one map or more, and none may be empty.')
    cdef double[::1] total = result
    with nogil:
        for i in range(n):
            total[i] = _covered(
                &maps[i, 0, 0], height, width, &arms[i, 0, 0], &arms[i, 1, 0], &upper[0],
                <int> upper.shape[0], even,
            ) + _covered(
                &maps[i, 0, 0], height, width, &arms[i, 1, 0], &arms[i, 2, 0], &fore[0],
                <int> fore.shape[0], even,
            )
    return result


def correlate(
    const float[:, ::1] values, const float[:, ::1] weights, double x, double y, double rate,
    Py_ssize_t reach
):
    """Return the sums of a template times a map, up to `reach` of its cells around a place.

    Parameters
    ----------
    values : (h, w) float32 array
        Read bilinearly; zero outside.
    weights : (k, k) float32 array
    x, y : float
        Where the centre of the template is first, in cells of the map.
    rate : float
        Cells of the map to a cell of the template.
    reach : int

    Returns
    -------
    (2 · reach + 1, 2 · reach + 1) float32 array
    """
    cdef Py_ssize_t size = weights.shape[0], side = size + 2 * reach, count = 2 * reach + 1
    cdef Py_ssize_t width = side + 16, wide = (size + 15) // 16 * 16, row, column
    cdef Py_ssize_t rows = side * width, height = values.shape[0], breadth = values.shape[1]
    cdef Py_ssize_t[2] place
    cdef float[2] share
    cdef float* padded
    cdef float* template
    cdef float* weight
    cdef const float* one
    cdef const float* two
    cdef Py_ssize_t* places
    if size == 0 or weights.shape[1] != size or height == 0 or breadth == 0 or reach < 0:
        raise ValueError('A square template, a map, and a reach of zero or more are needed.')
    result = np.empty((count, count), dtype=np.float32)
    cdef float[:, ::1] out = result
    places = <Py_ssize_t*> malloc(
        2 * side * sizeof(Py_ssize_t) + (2 * side + rows + size * wide) * sizeof(float)
    )
    if places == NULL:
        raise MemoryError('No memory for the map.')
    with nogil:
        weight = <float*> (places + 2 * side)
        padded = weight + 2 * side
        template = padded + rows
        memset(padded, 0, (rows + size * wide) * sizeof(float))
        for row in range(size):
            memcpy(template + row * wide, &weights[row, 0], size * sizeof(float))
        x, y = x - rate * (side - 1) / 2, y - rate * (side - 1) / 2
        for column in range(side):
            _neighbours(x + rate * column, breadth, places + 2 * column, weight + 2 * column)
        for row in range(side):
            _neighbours(y + rate * row, height, place, share)
            one, two = &values[place[0], 0], &values[place[1], 0]
            for column in range(side):
                padded[row * width + column] = share[0] * (
                    weight[2 * column] * one[places[2 * column]]
                    + weight[2 * column + 1] * one[places[2 * column + 1]]
                ) + share[1] * (
                    weight[2 * column] * two[places[2 * column]]
                    + weight[2 * column + 1] * two[places[2 * column + 1]]
                )
        kde_correlate(count, count, width, padded, size, wide, template, &out[0, 0])
        free(places)
    return result


cdef void _neighbours(
    double at, Py_ssize_t size, Py_ssize_t* places, float* weights
) noexcept nogil:
    """Write the two cells around a place and their shares, 0 for those outside."""
    cdef double low
    cdef Py_ssize_t i, cell
    if not -1.0 < at < size:
        places[0] = places[1] = 0
        weights[0] = weights[1] = 0.0
        return
    # Truncation of what is above -1 after a shift by one rounds down.
    cell = <Py_ssize_t> (at + 1.0) - 1
    low = at - cell
    weights[0], weights[1] = 1.0 - low, low
    for i in range(2):
        places[i] = cell + i
        if places[i] < 0 or places[i] >= size:
            places[i], weights[i] = 0, 0.0


cdef class ArmSearch:
    """Looks for the arm that covers a map best, among tried ones and then in small steps.

    For a first look the map is rounded to 255 shades and read at the nearest cells; sums are
    whole numbers, so that equal arms are equal and the first wins. The best `refined` arms are
    moved on, elbow, fingertips or both, as long as that helps, by each of the `steps` in turn.

    Parameters
    ----------
    tried : (m, 3, 2) array
        Shoulder, elbow and fingertips, x and y in cells.
    lengths : (2,) array
        What upper arm and forearm may measure in the map; each cell more costs its square.
    shape : (h, w)
        Of the maps.
    upper, fore : (k,) and (l,) arrays
        Places where a part of the arm is read, as shares of its length.
    even : float
        Value from which a piece of the arm is more likely there than not.
    refined : int
    steps : (s,) array
        Cells.
    rounds : int
        How often a step may be taken.
    """

    cdef readonly tuple arguments
    cdef Py_ssize_t _height, _width, _count
    cdef int _refined, _rounds
    cdef double _even
    cdef const double[:, :, ::1] _tried
    cdef const double[::1] _lengths, _upper, _fore, _steps
    cdef const uint16_t[:, ::1] _cells
    cdef const int[:, ::1] _weights
    cdef const int64_t[::1] _base

    def __init__(self, tried, lengths, shape, upper, fore, even, refined, steps, rounds):
        self.arguments = (tried, lengths, shape, upper, fore, even, refined, steps, rounds)
        self._tried = np.array(tried, dtype=np.float64)
        self._lengths, self._upper, self._fore, self._steps = (
            np.array(each, dtype=np.float64) for each in (lengths, upper, fore, steps)
        )
        self._height, self._width = shape
        self._even, self._refined, self._rounds = even, refined, rounds
        self._count = self._tried.shape[0]
        if self._tried.shape[1] != 3 or self._tried.shape[2] != 2 or self._lengths.shape[0] != 2:
            raise ValueError('An arm has shape (3, 2) and two lengths.')
        if not 1 <= self._refined <= min(self._count, <Py_ssize_t> MAX_REFINED):
            raise ValueError(
                f'Between 1 and {MAX_REFINED} of the {self._count} arms can be refined.'
            )
        self._cells, self._weights, self._base = bank(
            np.asarray(self._tried), shape, np.asarray(self._upper), np.asarray(self._fore), even
        )

    def __reduce__(self):
        return ArmSearch, self.arguments

    cdef double _value(self, const float* values, const double* arm, double* upper) noexcept nogil:
        """Return the value of an arm; `upper` is what its upper part adds, NaN if unknown."""
        cdef double total = 0.0, over
        cdef int part
        if upper[0] != upper[0]:
            upper[0] = _covered(
                values, self._height, self._width, arm, arm + 2, &self._upper[0],
                <int> self._upper.shape[0], self._even,
            )
        total = upper[0] + _covered(
            values, self._height, self._width, arm + 2, arm + 4, &self._fore[0],
            <int> self._fore.shape[0], self._even,
        )
        for part in range(2):
            over = sqrt(
                (arm[2 * part + 2] - arm[2 * part]) * (arm[2 * part + 2] - arm[2 * part])
                + (arm[2 * part + 3] - arm[2 * part + 1]) * (arm[2 * part + 3] - arm[2 * part + 1])
            ) - self._lengths[part]
            if over > 0.0:
                total -= over * over
        return total

    cdef double _refine(self, const float* values, double* arm) noexcept nogil:
        """Move an arm (3, 2) uphill and return its value."""
        cdef double[6] moved
        cdef double[6] best
        cdef double unknown = NAN, upper = NAN, moved_upper, best_upper = NAN
        cdef double value, top, tried
        cdef Py_ssize_t s, turn
        cdef int k, j
        cdef bint better
        value = self._value(values, arm, &upper)
        moved[0], moved[1] = arm[0], arm[1]
        for s in range(self._steps.shape[0]):
            for turn in range(self._rounds):
                better, top = False, value
                for k in range(MOVES):
                    for j in range(4):
                        moved[2 + j] = arm[2 + j] + self._steps[s] * STEPS_TO[k][j]
                    moved_upper = upper if 4 <= k < 8 else unknown
                    tried = self._value(values, moved, &moved_upper)
                    if tried > top + GAIN:
                        better, top, best_upper = True, tried, moved_upper
                        for j in range(6):
                            best[j] = moved[j]
                if not better:
                    break
                value, upper = top, best_upper
                for j in range(6):
                    arm[j] = best[j]
        return value

    def find(self, const float[:, ::1] values):
        """Return the best arm (3, 2) for a map (h, w), and its value."""
        cdef Py_ssize_t cells = self._height * self._width, i, j, place
        cdef int kept = 0, refined = self._refined
        cdef Py_ssize_t[MAX_REFINED] best
        cdef double[6] arm
        cdef double value, top = 0.0
        cdef unsigned char* shades
        cdef int64_t* totals
        if values.shape[0] != self._height or values.shape[1] != self._width:
            raise ValueError(f'The map must have shape ({self._height}, {self._width}).')
        result = np.empty((3, 2))
        cdef double[:, ::1] found = result
        totals = <int64_t*> malloc(self._count * sizeof(int64_t) + cells)
        if totals == NULL:
            raise MemoryError('No memory for the values of the arms.')
        with nogil:
            shades = <unsigned char*> (totals + self._count)
            kde_shades(cells, &values[0, 0], shades)
            kde_bank(
                self._count, <int> self._upper.shape[0], <int> self._cells.shape[1],
                &self._cells[0, 0], shades, &self._weights[0, 0], &self._weights[1, 0],
                &self._base[0], totals,
            )
            for i in range(self._count):
                if kept == refined and totals[i] <= totals[best[kept - 1]]:
                    continue
                if kept < refined:
                    kept += 1
                place = kept - 1
                while place > 0 and totals[best[place - 1]] < totals[i]:
                    best[place] = best[place - 1]
                    place -= 1
                best[place] = i
            for i in range(kept):
                for j in range(6):
                    arm[j] = self._tried[best[i], j // 2, j % 2]
                value = self._refine(&values[0, 0], arm)
                if i == 0 or value > top + GAIN:
                    top = value
                    for j in range(6):
                        found[j // 2, j % 2] = arm[j]
            free(totals)
        return result, top
