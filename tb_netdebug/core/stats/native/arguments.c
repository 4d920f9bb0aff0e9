#include "arguments.h"

#include <stdlib.h>

#include "values.h"

/* Kept between calls and guarded by the batch lock. */
static Item *items;
static size_t items_size;

static int make_items(Py_ssize_t count) {
    if ((size_t)count <= items_size)
        return 1;
    Item *bigger = realloc(items, (size_t)count * sizeof *items);
    if (!bigger) {
        PyErr_NoMemory();
        return 0;
    }
    items = bigger;
    items_size = (size_t)count;
    return 1;
}

int check_view(const View *view) {
    if (view->dtype < 0 || view->dtype >= DTYPES)
        PyErr_Format(PyExc_ValueError, "unknown element type %d", view->dtype);
    else if (view->count > (size_t)PY_SSIZE_T_MAX / 16)
        PyErr_SetString(PyExc_ValueError, "the count must lie between 0 and 2**59");
    else if (view->count && !view->data)
        PyErr_SetString(PyExc_ValueError, "a null address with a count above 0");
    return !PyErr_Occurred();
}

static int number_at(PyObject *tuple, Py_ssize_t at, size_t *value) {
    *value = PyLong_AsSize_t(PyTuple_GET_ITEM(tuple, at));
    if (*value == (size_t)-1 && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        PyErr_SetString(PyExc_ValueError, "addresses, counts and element types cannot be negative or that large");
    }
    return !PyErr_Occurred();
}

static int read_item(PyObject *tuple, int with_previous, Item *item) {
    size_t address, previous = 0, count, dtype;
    Py_ssize_t size = with_previous ? 4 : 3;
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != size) {
        PyErr_Format(PyExc_TypeError, "each item must be a tuple of %zd integers", size);
        return 0;
    }
    if (!number_at(tuple, 0, &address) || (with_previous && !number_at(tuple, 1, &previous)) ||
        !number_at(tuple, size - 2, &count) || !number_at(tuple, size - 1, &dtype))
        return 0;
    *item = (Item){.view = {.data = (const char *)address,
                            .previous = (char *)previous,
                            .count = count,
                            .dtype = dtype < DTYPES ? (int)dtype : DTYPES}};
    if (with_previous && !previous) {
        if (count) {
            PyErr_SetString(PyExc_ValueError, "a null address with a count above 0");
            return 0;
        }
        item->view.previous = (char *)items; /* any address marks an update: nothing is read or written */
    }
    return check_view(&item->view);
}

Py_ssize_t read_items(PyObject *argument, int with_previous, Item **found) {
    PyObject *sequence = PySequence_Fast(argument, "the items must be a sequence of tuples");
    if (!sequence)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence), i = 0;
    int ok = make_items(count + 1);
    for (; ok && i < count; i++)
        ok = read_item(PySequence_Fast_GET_ITEM(sequence, i), with_previous, items + i);
    Py_DECREF(sequence);
    *found = items;
    return ok ? count : -1;
}

static int read_longs(PyObject *tuple, int64_t *out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

/* Sorts dimensions by stride, widest first, drops those of size one and merges those that are adjacent in memory: a
   transposed or channels-last tensor becomes contiguous. */
static int canonical(int dims, int64_t *shape, int64_t *strides) {
    int kept = 0;
    for (int d = 0; d < dims; d++)
        if (shape[d] != 1) {
            int at = kept++;
            int64_t size = shape[d], stride = strides[d];
            for (; at > 0 && llabs(strides[at - 1]) < llabs(stride); at--) {
                shape[at] = shape[at - 1];
                strides[at] = strides[at - 1];
            }
            shape[at] = size;
            strides[at] = stride;
        }
    int joined = 0;
    for (int d = 0; d < kept; d++) {
        if (joined && strides[joined - 1] == strides[d] * shape[d]) {
            shape[joined - 1] *= shape[d];
            strides[joined - 1] = strides[d];
        } else {
            shape[joined] = shape[d];
            strides[joined++] = strides[d];
        }
    }
    return joined;
}

int read_strided(PyObject *arguments, Item *item, int64_t *shape, int64_t *strides) {
    unsigned long long address;
    int dtype;
    PyObject *shapes, *steps;
    if (!PyArg_ParseTuple(arguments, "KiO!O!:summarize_strided", &address, &dtype, &PyTuple_Type, &shapes,
                          &PyTuple_Type, &steps))
        return 0;
    Py_ssize_t dims = PyTuple_GET_SIZE(shapes);
    if (dims != PyTuple_GET_SIZE(steps) || dims > MOST_DIMS) {
        PyErr_SetString(PyExc_ValueError, "shape and strides must have the same length, at most 64");
        return 0;
    }
    if (!read_longs(shapes, shape) || !read_longs(steps, strides))
        return 0;
    size_t count = 1;
    for (Py_ssize_t d = 0; d < dims; d++) {
        if (shape[d] < 0 || __builtin_mul_overflow(count, (size_t)shape[d], &count)) {
            PyErr_SetString(PyExc_ValueError, "a size is negative, or there are too many values");
            return 0;
        }
    }
    item->view = (View){.data = (const char *)(uintptr_t)address, .count = count, .dtype = dtype};
    if (!check_view(&item->view))
        return 0;
    int left = canonical((int)dims, shape, strides);
    if (count && !(left == 0 || (left == 1 && strides[0] == 1))) {
        item->view.dims = left;
        item->view.shape = shape;
        item->view.strides = strides;
    }
    return 1;
}
