// The multiply-adds of one step p: sum += a * b^T, TM words of A by TN of B.
#pragma once

// In what order. The result does not depend on it, the speed does: a multiply-add takes two issue
// cycles where two of the registers that it reads are both even or both odd, and what the instruction
// before read as the same operand is not read again.
//
//     rows     (0,0) (0,1) (0,2) ..  (1,0) (1,1) ..   as two nested loops say it: `a` stays along a row,
//                                                     and with each new row both are new
//     snake    (0,0) (1,0) .. (7,0)  (7,1) .. (0,1)   down a column and up the next: `b` stays along a
//              (0,2) ..                               column and `a` where it turns, so each needs two
//                                                     new registers, mostly one even and one odd
enum class Order { rows, snake };

template <Order ORDER, int TM, int TN>
__device__ __forceinline__ void add_outer_product(float (&sum)[TM][TN], const float (&a)[TM],
                                                  const float (&b)[TN]) {
    if constexpr (ORDER == Order::rows) {
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                sum[i][j] += a[i] * b[j];
            }
        }
    } else {
#pragma unroll
        for (int j = 0; j < TN; ++j) {
#pragma unroll
            for (int step = 0; step < TM; ++step) {
                const int i = j % 2 ? TM - 1 - step : step;
                sum[i][j] += a[i] * b[j];
            }
        }
    }
}
