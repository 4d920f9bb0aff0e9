/* Subnormals count as what they are, even if the framework has set a mode that flushes them to zero. */
#ifndef NETDEBUG_FLOAT_MODE_H
#define NETDEBUG_FLOAT_MODE_H

#if defined(__x86_64__)
#include <xmmintrin.h>

static inline unsigned keep_subnormals(void) {
    unsigned before = _mm_getcsr();
    _mm_setcsr(before & ~0x8040u); /* flush to zero, denormals are zero */
    return before;
}

static inline void restore_float_mode(unsigned before) { _mm_setcsr(before); }
#else
static inline unsigned keep_subnormals(void) { return 0; }

static inline void restore_float_mode(unsigned before) { (void)before; }
#endif

#endif
