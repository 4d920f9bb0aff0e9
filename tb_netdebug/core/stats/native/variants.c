#include "variants.h"

#include <stddef.h>

static int always(void) { return 1; }
#ifdef HAVE_AVX2
static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif
#ifdef HAVE_AVX512
static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const Variant VARIANTS[] = {
#ifdef HAVE_AVX512
    {&passes_avx512, has_avx512},
#endif
#ifdef HAVE_AVX2
    {&passes_avx2, has_avx2},
#endif
    {&passes_baseline, always},
    {NULL, NULL},
};
