// cublasLt: a matrix product, with a bias, ReLU or GELU behind it.
#include <map>

#include "gemm.hpp"

using namespace ptxsim;

namespace {
constexpr uint32_t NO_TYPE = UINT32_MAX;
struct Description {
    uint32_t compute, scale;
    int32_t pointer_mode = 0, transpose_a = 0, transpose_b = 0;
    uint32_t epilogue = 1, bias_type = NO_TYPE;
    const void* bias = nullptr;
};
struct Layout {
    uint32_t type;
    uint64_t rows, columns;
    int64_t leading;
    int32_t order = 0, batch = 1;
    int64_t stride = 0;
};
struct Result {  // cublasLtMatmulHeuristicResult_t
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
constexpr int ROW = 1, COLUMN = 0;
constexpr uint32_t PLAIN = 1, RELU = 2, BIAS = 4, GELU = 32;

int refuse(const char* what, long value) {
    note(UNSUPPORTED, "%s %ld is not supported here", what, value);
    return UNSUPPORTED_PRODUCT;
}
template <class T>
bool put(T& to, const void* from, size_t size) {
    if (size != sizeof to) return false;
    memcpy(&to, from, size);
    return true;
}
}  // namespace

#define CALL PTXSIM_API int

extern "C" {
CALL cublasLtCreate(void** out) {
    PTXSIM_ENTER;
    if (ready()) return NOT_INITIALISED;
    *out = new int(0);
    return SUCCESS;
}
CALL cublasLtDestroy(void* h) { delete static_cast<int*>(h); return SUCCESS; }
PTXSIM_API size_t cublasLtGetVersion(void) { return 130000; }
CALL cublasLtMatmulDescCreate(void** out, int compute, int scale) { *out = new Description{uint32_t(compute), uint32_t(scale)}; return SUCCESS; }
CALL cublasLtMatmulDescDestroy(void* d) { delete static_cast<Description*>(d); return SUCCESS; }
CALL cublasLtMatmulDescSetAttribute(void* desc, int which, const void* from, size_t size) {
    PTXSIM_ENTER;
    auto* d = static_cast<Description*>(desc);
    switch (which) {
        case 0: return put(d->compute, from, size) ? SUCCESS : BAD_VALUE;
        case 1: return put(d->scale, from, size) ? SUCCESS : BAD_VALUE;
        case 2: return put(d->pointer_mode, from, size) ? SUCCESS : BAD_VALUE;
        case 3: return put(d->transpose_a, from, size) ? SUCCESS : BAD_VALUE;
        case 4: return put(d->transpose_b, from, size) ? SUCCESS : BAD_VALUE;
        case 7: return put(d->epilogue, from, size) ? SUCCESS : BAD_VALUE;
        case 8: return put(d->bias, from, size) ? SUCCESS : BAD_VALUE;
        case 26: return put(d->bias_type, from, size) ? SUCCESS : BAD_VALUE;
        default: return refuse("attribute of a matmul description", which);
    }
}
CALL cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    *out = new Layout{uint32_t(type), rows, columns, leading};
    return SUCCESS;
}
CALL cublasLtMatrixLayoutDestroy(void* l) { delete static_cast<Layout*>(l); return SUCCESS; }
CALL cublasLtMatrixLayoutSetAttribute(void* layout, int which, const void* from, size_t size) {
    PTXSIM_ENTER;
    auto* l = static_cast<Layout*>(layout);
    switch (which) {
        case 0: return put(l->type, from, size) ? SUCCESS : BAD_VALUE;
        case 1: return put(l->order, from, size) ? SUCCESS : BAD_VALUE;
        case 2: return put(l->rows, from, size) ? SUCCESS : BAD_VALUE;
        case 3: return put(l->columns, from, size) ? SUCCESS : BAD_VALUE;
        case 4: return put(l->leading, from, size) ? SUCCESS : BAD_VALUE;
        case 5: return put(l->batch, from, size) ? SUCCESS : BAD_VALUE;
        case 6: return put(l->stride, from, size) ? SUCCESS : BAD_VALUE;
        default: return refuse("attribute of a matrix layout", which);
    }
}
CALL cublasLtMatmulPreferenceCreate(void** out) { *out = new int(0); return SUCCESS; }
CALL cublasLtMatmulPreferenceDestroy(void* p) { delete static_cast<int*>(p); return SUCCESS; }
CALL cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return SUCCESS; }
CALL cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int asked, Result* found, int* count) {
    *count = asked > 0 ? 1 : 0;
    if (asked > 0) *found = Result{};
    return SUCCESS;
}
CALL cublasLtMatmul(void* handle, void* desc, const void* alpha, const void* a, void* al, const void* b, void* bl, const void* beta,
                    const void* c, void* cl, void* d, void* dl, const void*, void*, size_t, void* stream) {
    PTXSIM_ENTER;
    if (ready()) return EXECUTION_FAILED;
    if (!handle) return NOT_INITIALISED;
    if (!desc || !al || !bl || !dl || !alpha || !beta) return BAD_VALUE;
    auto& what = *static_cast<Description*>(desc);
    auto &la = *static_cast<Layout*>(al), &lb = *static_cast<Layout*>(bl), &ld = *static_cast<Layout*>(dl);
    auto& lc = cl ? *static_cast<Layout*>(cl) : ld;
    uint32_t act = what.epilogue & ~BIAS;
    bool biased = what.epilogue & BIAS;
    if (what.epilogue != PLAIN && act != 0 && act != RELU && act != GELU) return refuse("epilogue", what.epilogue);
    if (biased && !what.bias) return BAD_VALUE;
    if (biased && ld.order == ROW) return refuse("a bias of a row-major D, epilogue", what.epilogue);
    for (Layout* l : {&la, &lb, &lc, &ld})
        if (l->order != ROW && l->order != COLUMN) return refuse("order", l->order);
    if (lc.order != ld.order) return refuse("C in another order than D,", lc.order);
    // a row-major matrix is its transpose, column-major
    bool ta = (what.transpose_a != 0) != (la.order == ROW), tb = (what.transpose_b != 0) != (lb.order == ROW);
    uint64_t m = ld.rows, n = ld.columns, k = what.transpose_a ? la.rows : la.columns;
    uint64_t rows = what.transpose_a ? la.columns : la.rows, columns = what.transpose_b ? lb.rows : lb.columns;
    uint64_t inner = what.transpose_b ? lb.columns : lb.rows;
    if (rows != m || columns != n || inner != k) {
        note(API_ERROR, "CUBLAS_STATUS_INVALID_VALUE: %lu x %lu times %lu x %lu does not make %lu x %lu", (unsigned long)rows, (unsigned long)k,
             (unsigned long)inner, (unsigned long)columns, (unsigned long)m, (unsigned long)n);
        return BAD_VALUE;
    }
    auto operand = [](const void* p, const Layout& l) { return Operand{p, l.type, uint64_t(l.leading), uint64_t(l.stride)}; };
    Product p{"cublasLtMatmul", stream, m, n, k, ta, tb, uint32_t(ld.batch), scalar(alpha, what.scale), scalar(beta, what.scale),
              operand(a, la), operand(b, lb), operand(c ? c : d, lc), operand(d, ld)};
    p.epilogue = what.epilogue, p.bias = what.bias, p.bias_type = what.bias_type == NO_TYPE ? ld.type : what.bias_type;
    if (ld.order == ROW) {  // D' = B' A'
        std::swap(p.m, p.n);
        std::swap(p.a, p.b);
        p.transpose_a = !tb, p.transpose_b = !ta;
    }
    return multiply(p);
}
}
