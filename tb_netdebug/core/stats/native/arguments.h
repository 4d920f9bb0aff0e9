/* Python arguments into what the kernel works on. Where one is not what it should be, an exception is set. */
#ifndef NETDEBUG_ARGUMENTS_H
#define NETDEBUG_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "batch.h"

enum { MOST_DIMS = 64 };

int check_view(const View *view);

/* A sequence of (address, count, dtype), or of (address, previous, count, dtype) for updates. Tells how many there are,
   or -1. The items are kept between calls: hold the batch lock until they are not needed any more. */
Py_ssize_t read_items(PyObject *argument, int with_previous, Item **items);

/* (address, dtype, shape, strides); `shape` and `strides` have room for MOST_DIMS. False when they are wrong. */
int read_strided(PyObject *arguments, Item *item, int64_t *shape, int64_t *strides);

#endif
