/* Conversion of Python arguments for the kernel. An invalid one sets an exception. */
#ifndef NETDEBUG_ARGUMENTS_H
#define NETDEBUG_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "batch.h"

enum { MOST_DIMS = 64 };

int check_view(const View *view);

/* Reads a sequence of (address, count, dtype), or of (address, previous, count, dtype) for updates. Returns their
   number, or -1. The items are kept between calls: hold the batch lock until they are no longer needed. */
Py_ssize_t read_items(PyObject *argument, int with_previous, Item **items);

/* Reads (address, dtype, shape, strides); `shape` and `strides` have room for MOST_DIMS. False if invalid. */
int read_strided(PyObject *arguments, Item *item, int64_t *shape, int64_t *strides);

#endif
