# The part of a picture around an arm: colours relative to the face, and what is beside the body.
cdef extern from *:
    """
    /* Lines (w, 4) between two rows of a picture and of a mask; weights of rows outside are 0. */
    KDE_CLONES void kde_between(Py_ssize_t w, const unsigned char* KDE_RESTRICT one,
                                const unsigned char* KDE_RESTRICT two,
                                const float* KDE_RESTRICT mask_one,
                                const float* KDE_RESTRICT mask_two, float a, float b,
                                float* KDE_RESTRICT line)
    {
        Py_ssize_t j;
        for (j = 0; j < w; j++) {
            line[4 * j] = a * one[3 * j] + b * two[3 * j];
            line[4 * j + 1] = a * one[3 * j + 1] + b * two[3 * j + 1];
            line[4 * j + 2] = a * one[3 * j + 2] + b * two[3 * j + 2];
            line[4 * j + 3] = a * mask_one[j] + b * mask_two[j];
        }
    }

    /* exponents (n,) = -1/2 |whiten (colours - middle)|^2; the middle is taken off colours. */
    KDE_CLONES void kde_relative(Py_ssize_t n, float* KDE_RESTRICT colours,
                                 const float* KDE_RESTRICT middle,
                                 const float* KDE_RESTRICT whiten, float* KDE_RESTRICT exponents)
    {
        const float m0 = middle[0], m1 = middle[1], m2 = middle[2];
        const float w0 = whiten[0], w1 = whiten[1], w2 = whiten[2], w3 = whiten[3], w4 = whiten[4],
                    w5 = whiten[5], w6 = whiten[6], w7 = whiten[7], w8 = whiten[8];
        Py_ssize_t j;
        for (j = 0; j < n; j++) {
            const float r = colours[3 * j] - m0, g = colours[3 * j + 1] - m1,
                        b = colours[3 * j + 2] - m2;
            const float x = w0 * r + w1 * g + w2 * b, y = w3 * r + w4 * g + w5 * b,
                        z = w6 * r + w7 * g + w8 * b;
            colours[3 * j] = r;
            colours[3 * j + 1] = g;
            colours[3 * j + 2] = b;
            exponents[j] = -0.5f * (x * x + y * y + z * z);
        }
    }

    KDE_CLONES void kde_beside(Py_ssize_t n, const float* KDE_RESTRICT mask,
                               const float* KDE_RESTRICT skin, const float* KDE_RESTRICT body,
                               const float* KDE_RESTRICT usual, float* KDE_RESTRICT out)
    {
        Py_ssize_t j;
        for (j = 0; j < n; j++) {
            const float beside = mask[j] - body[j];
            float before = skin[j] - usual[j], sum;
            before = before > 0.0f ? (before < 1.0f ? before : 1.0f) : 0.0f;
            sum = (beside > 0.0f ? beside : 0.0f) + before * body[j];
            out[j] = sum < 1.0f ? sum : 1.0f;
        }
    }
    """
    void kde_between(
        Py_ssize_t, const unsigned char*, const unsigned char*, const float*, const float*, float,
        float, float*
    ) nogil
    void kde_relative(Py_ssize_t, float*, const float*, const float*, float*) nogil
    void kde_beside(
        Py_ssize_t, const float*, const float*, const float*, const float*, float*
    ) nogil


def sample_colours(
    const unsigned char[:, :, ::1] picture, const float[:, ::1] mask, double x, double y,
    double rate, Py_ssize_t side, const float[::1] factors, float added
):
    """Sample a square of a picture and of a mask, bilinearly, zero outside of them.

    Parameters
    ----------
    picture : (h, w, 3) uint8 array
    mask : (h, w) float32 array
    x, y, rate : float
        Place of the first sample, and the distance to the next, in pixels.
    side : int
        Samples a side.
    factors : (3,) float32 array
        What the colours are multiplied by, channel by channel.
    added : float
        Added to them then.

    Returns
    -------
    colours : (side, side, 3) float32 array
    covered : (side, side) float32 array
    """
    cdef Py_ssize_t height = picture.shape[0], width = picture.shape[1], row, column, i, j, c
    cdef double at, low
    cdef float[2] share
    cdef Py_ssize_t[2] place
    cdef float* line
    cdef float* weights
    cdef Py_ssize_t* places
    cdef const float* left
    cdef const float* right
    if mask.shape[0] != height or mask.shape[1] != width or picture.shape[2] != 3:
        raise ValueError('The picture must have three channels and the size of the mask.')
    if height == 0 or width == 0 or side < 1 or factors.shape[0] != 3:
        raise ValueError('One pixel, one sample and three factors are needed at least.')
    colours, covered = np.empty((side, side, 3), 'f4'), np.empty((side, side), 'f4')
    cdef float[:, :, ::1] colour = colours
    cdef float[:, ::1] cover = covered
    places = <Py_ssize_t*> malloc(
        2 * side * sizeof(Py_ssize_t) + (2 * side + 4 * width) * sizeof(float)
    )
    if places == NULL:
        raise MemoryError('No memory for a row of samples.')
    with nogil:
        weights = <float*> (places + 2 * side)
        line = weights + 2 * side
        for column in range(side):
            _neighbours(x + rate * column, width, places + 2 * column, weights + 2 * column)
        for row in range(side):
            _neighbours(y + rate * row, height, place, share)
            kde_between(
                width, &picture[place[0], 0, 0], &picture[place[1], 0, 0], &mask[place[0], 0],
                &mask[place[1], 0], share[0], share[1], line,
            )
            for column in range(side):
                left = line + 4 * places[2 * column]
                right = line + 4 * places[2 * column + 1]
                for c in range(3):
                    colour[row, column, c] = (
                        weights[2 * column] * left[c] + weights[2 * column + 1] * right[c]
                    ) * factors[c] + added
                cover[row, column] = (
                    weights[2 * column] * left[3] + weights[2 * column + 1] * right[3]
                )
        free(places)
    return colours, covered


def relative_to_face(
    float[:, :, ::1] colours, const float[:, ::1] mask, head, const float[:, ::1] whiten
):
    """Take the median colour of a face off all colours, in place.

    Parameters
    ----------
    colours : (h, w, 3) float32 array
    mask : (h, w) float32 array
    head : four int
        Top, bottom, left and right of the face; of it the places with a mask above 0.9 count, and
        if there are none, all places with one above a half.
    whiten : (3, 3) float32 array

    Returns
    -------
    (h, w) float32 array
        −½ |whiten · colour|² of the colours that are left.
    """
    cdef Py_ssize_t height = colours.shape[0], width = colours.shape[1], i, j, c, count = 0
    cdef Py_ssize_t top, bottom, left, right, limit
    cdef double* room
    cdef float[3] middle
    if mask.shape[0] != height or mask.shape[1] != width or colours.shape[2] != 3:
        raise ValueError('There must be three channels, and the mask must have the same size.')
    if height == 0 or width == 0 or whiten.shape[0] != 3 or whiten.shape[1] != 3:
        raise ValueError('One colour and a matrix (3, 3) are needed.')
    top, bottom, left, right = slice_of(head, height, width)
    result = np.empty((height, width), dtype=np.float32)
    cdef float[:, ::1] exponents = result
    limit = height * width
    room = <double*> malloc(3 * limit * sizeof(double))
    if room == NULL:
        raise MemoryError('No memory for the colours of a face.')
    with nogil:
        for i in range(top, bottom):
            for j in range(left, right):
                if mask[i, j] > <float> 0.9:
                    for c in range(3):
                        room[c * limit + count] = colours[i, j, c]
                    count += 1
        if count == 0:
            for i in range(height):
                for j in range(width):
                    if mask[i, j] > <float> 0.5:
                        for c in range(3):
                            room[c * limit + count] = colours[i, j, c]
                        count += 1
        for c in range(3):
            middle[c] = <float> kde_median(count, room + c * limit) if count else 0.0
        kde_relative(
            height * width, &colours[0, 0, 0], middle, &whiten[0, 0], &exponents[0, 0]
        )
        free(room)
    return result


def beside_body(
    const float[:, ::1] mask, const float[:, ::1] skin, const float[:, ::1] body,
    const float[:, ::1] usual
):
    """Return where there is something beside the body, or skin before it where usually is none.

    All are (h, w) float32 arrays of shares; `body` and `usual` are the mask and the skin that are
    there whatever the arm does.
    """
    cdef Py_ssize_t height = mask.shape[0], width = mask.shape[1], i
    cdef Py_ssize_t[3] rows = [skin.shape[0], body.shape[0], usual.shape[0]]
    cdef Py_ssize_t[3] columns = [skin.shape[1], body.shape[1], usual.shape[1]]
    for i in range(3):
        if rows[i] != height or columns[i] != width or height == 0 or width == 0:
            raise ValueError('The four maps must have the same size.')
    result = np.empty((height, width), dtype=np.float32)
    cdef float[:, ::1] out = result
    with nogil:
        kde_beside(
            height * width, &mask[0, 0], &skin[0, 0], &body[0, 0], &usual[0, 0], &out[0, 0]
        )
    return result
