/* Loops that take most of the time of single blocks, each as its NumPy twin does it, bit for bit: see native.py.

   Plain C, no Python.h: the library is loaded by ctypes. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define NO_EXPONENT (-5000) /* of a zero */
#define LEAST (-133)        /* exponent that terms are aligned to at the least */

INLINE int exponent(double x, int least) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    int biased = (int)(bits >> 52 & 0x7ff);
    if (x == 0) return NO_EXPONENT;
    int e = biased == 0x7ff ? -1 : biased - 1023;
    return e > least ? e : least;
}

/* One step of a tensor core (tensor_cores.multiply): d[count][m][n] from a[count][m][k], b[count][n][k], c[count][m][n].
   `least`: exponents of the least normal numbers of a, b and c. Sums are exact in `d`, not yet rounded.
   Returns 0, or 1 without memory. */
INLINE int multiply(const double *a, const double *b, const double *c, double *d, int64_t count, int64_t m, int64_t n,
                    int64_t k, const int32_t *least, int32_t fraction) {
    double *turned = malloc(sizeof(double) * (size_t)(k * n + 2 * n));
    int32_t *exponents = malloc(sizeof(int32_t) * (size_t)(k * n + n));
    if (!turned || !exponents) {
        free(turned);
        free(exponents);
        return 1;
    }
    double *scale = turned + k * n, *total = scale + n;
    int32_t *top = exponents + k * n;
    for (int64_t one = 0; one < count; one++) {
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++) {
                double y = b[(one * n + j) * k + l];
                turned[l * n + j] = y;
                exponents[l * n + j] = exponent(y, least[1]);
            }
        for (int64_t i = 0; i < m; i++) {
            const double *x = a + (one * m + i) * k;
            const double *addend = c + (one * m + i) * n;
            double *out = d + (one * m + i) * n;
            for (int64_t j = 0; j < n; j++) {
                int32_t e = exponent(addend[j], least[2]);
                top[j] = e > LEAST ? e : LEAST;
            }
            for (int64_t l = 0; l < k; l++) {
                int32_t e = exponent(x[l], least[0]);
                const int32_t *other = exponents + l * n;
                for (int64_t j = 0; j < n; j++) {
                    int32_t sum = e + other[j];
                    top[j] = sum > top[j] ? sum : top[j];
                }
            }
            for (int64_t j = 0; j < n; j++) {
                uint64_t bits = (uint64_t)(1023 + fraction - top[j]) << 52;
                memcpy(scale + j, &bits, 8);
                total[j] = trunc(addend[j] * scale[j]);
            }
            for (int64_t l = 0; l < k; l++) {
                double factor = x[l];
                const double *row = turned + l * n;
                for (int64_t j = 0; j < n; j++) total[j] += trunc(factor * row[j] * scale[j]);
            }
            for (int64_t j = 0; j < n; j++) out[j] = (total[j] + 0.0) / scale[j];
        }
    }
    free(turned);
    free(exponents);
    return 0;
}

/* float32 a * b + c, rounded once (floats.fma32): row i of out[rows][lanes] from rows left[i] and right[i] of factors. */
INLINE void fma_rows(const float *factors, const int32_t *left, const int32_t *right, const float *c, float *out,
                     int64_t rows, int64_t lanes) {
    for (int64_t i = 0; i < rows; i++) {
        const float *a = factors + left[i] * lanes, *b = factors + right[i] * lanes, *addend = c + i * lanes;
        float *into = out + i * lanes;
        for (int64_t j = 0; j < lanes; j++) into[j] = fmaf(a[j], b[j], addend[j]);
    }
}

/* Each twice: for the processors that have them, with AVX2 and FMA. */

#define MULTIPLY(name)                                                                                                \
    int name(const double *a, const double *b, const double *c, double *d, int64_t count, int64_t m, int64_t n,       \
             int64_t k, const int32_t *least, int32_t fraction) {                                                     \
        return multiply(a, b, c, d, count, m, n, k, least, fraction);                                                 \
    }
#define FMA_ROWS(name)                                                                                                \
    void name(const float *factors, const int32_t *left, const int32_t *right, const float *c, float *out,            \
              int64_t rows, int64_t lanes) {                                                                          \
        fma_rows(factors, left, right, c, out, rows, lanes);                                                          \
    }

MULTIPLY(ptxsim_multiply)
FMA_ROWS(ptxsim_fma_rows)

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2,fma")))
WIDE MULTIPLY(ptxsim_multiply_wide)
WIDE FMA_ROWS(ptxsim_fma_rows_wide)

int ptxsim_wide(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
int ptxsim_wide(void) { return 0; }
#endif
