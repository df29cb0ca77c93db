/* Products of tiny matrices of floats, for which calling BLAS takes longer than they do.
 *
 * BLAS adds up so few products one by one, in one of the ways of fr_product_way, which depends on the processor. Which one
 * that is, is tried once for each shape and layout: on random numbers, and on zeros and products that are less than any
 * number. Where no way gives BLAS's bits, such products stay NumPy's. */
#include <fenv.h>
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/call.h"
#include "backends/cpu/product.h"

enum { UNKNOWN, NUMPYS, FIRST_WAY,      /* then fr_product_way */
       TRIES = 24 };

static _Atomic uint8_t known[2][3][3][3][2][2];    /* by dtype, m, k, n, and how a and b lie */

/* The values of try number t: every third has zeros, and numbers whose products are rounded to them. */
static double
draw(uint64_t *state, int t, double small)
{
    uint64_t r;

    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    r = *state >> 33;
    if (t % 3 == 0 && r % 4)
        return r % 4 == 1 ? 0.0 : r & 16 ? small : -small;
    return (double)(int64_t)(r - (UINT64_C(1) << 30)) * 0x1p-29 / 3;
}

static void
fill(void *to, bool wide, int n, uint64_t *state, int t)
{
    for (int i = 0; i < n; i++) {
        double v = draw(state, t, wide ? 1e-170 : 1e-24);

        if (wide)
            ((double *)to)[i] = v;
        else
            ((float *)to)[i] = (float)v;
    }
}

/* In which way BLAS multiplies such matrices, whose steps are those of contiguous ones; NUMPYS: in none that we have. */
static int
try_ways(fr_dtype d, const int64_t *dims, const int64_t *steps)
{
    enum { MOST = FR_PRODUCT_TINY * FR_PRODUCT_TINY };
    double   a[MOST], b[MOST], want[MOST], got[MOST];
    size_t   n_bytes = (size_t)(dims[1] * dims[3] * fr_dtype_size(d));
    bool     may[FR_PRODUCT_WAYS], ran = true;
    uint64_t state = 1;

    for (int way = 0; way < FR_PRODUCT_WAYS; way++)
        may[way] = fr_product->tiny[way][d] != NULL;
    for (int t = 0; t < TRIES && ran; t++) {
        char *ptr[3] = {(char *)a, (char *)b, (char *)want};

        fill(a, d == FR_F64, MOST, &state, t);
        fill(b, d == FR_F64, MOST, &state, t);
        ran = fr_call_product(d, ptr, dims, steps);
        for (int way = 0; way < FR_PRODUCT_WAYS; way++)
            if (may[way]) {
                fr_product->tiny[way][d]((char *[]){(char *)a, (char *)b, (char *)got}, dims, steps);
                may[way] = memcmp(want, got, n_bytes) == 0;
            }
    }
    for (int way = 0; way < FR_PRODUCT_WAYS && ran; way++)
        if (may[way])
            return FIRST_WAY + way;
    return NUMPYS;
}

/* 0: the matrix is read as it lies, by rows; 1: by columns; -1: BLAS does not read it so. */
static int
lies(int64_t row, int64_t column, int64_t n_rows, int64_t n_columns, int64_t size)
{
    if (column == size && row >= n_columns * size)
        return 0;
    return row == size && column >= n_rows * size ? 1 : -1;
}

/* Whether the operands are one and the same matrix somewhere in the stack: turned round, BLAS has another routine for it. */
static bool
meet(int64_t apart, const int64_t *steps, int64_t count)
{
    int64_t by = steps[0] - steps[1];

    return by == 0 ? apart == 0 : apart % by == 0 && apart / by >= 0 && apart / by < count;
}

bool
fr_product_run_tiny(fr_dtype d, char *const *ptr, const int64_t *dims, const int64_t *steps)
{
    int64_t          size = fr_dtype_size(d), m = dims[1], k = dims[2], n = dims[3];
    int64_t          one[4] = {1, m, k, n}, close[9] = {0, 0, 0, k * size, size, n * size, size, n * size, size};
    int              a = lies(steps[3], steps[4], m, k, size), b = lies(steps[5], steps[6], k, n, size), way;
    _Atomic uint8_t *entry;
    fenv_t           env;

    if (a < 0 || b < 0 || steps[8] != size || steps[7] < n * size || (a != b && meet(ptr[1] - ptr[0], steps, dims[0])))
        return false;
    entry = &known[d == FR_F64][m - 2][k - 2][n - 2][a][b];
    way = atomic_load_explicit(entry, memory_order_relaxed);
    if (way == UNKNOWN) {
        if (a) {
            close[3] = size;
            close[4] = m * size;
        }
        if (b) {
            close[5] = size;
            close[6] = k * size;
        }
        fegetenv(&env);
        way = try_ways(d, one, close);
        fesetenv(&env);
        atomic_store_explicit(entry, (uint8_t)way, memory_order_relaxed);
    }
    if (way == NUMPYS)
        return false;
    fr_product->tiny[way - FIRST_WAY][d](ptr, dims, steps);
    return true;
}
