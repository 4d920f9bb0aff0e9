/* The instruction sets that this build was compiled for. */
#ifndef NETDEBUG_VARIANTS_H
#define NETDEBUG_VARIANTS_H

#include "passes.h"

typedef struct {
    const Passes *passes;
    int (*supported)(void); /* by this machine */
} Variant;

/* The best one first. The last but one runs everywhere; the last one has no passes and ends the list. */
extern const Variant VARIANTS[];

#endif
