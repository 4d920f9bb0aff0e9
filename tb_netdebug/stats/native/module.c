/* The Python side of the kernel: arguments in, bytes out. The functions are documented in stats/twin.py, whose NumPy
   versions are the specification. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "batch.h"
#include "float_mode.h"
#include "packed.h"
#include "team.h"
#include "values.h"

static const Passes *passes;

/* Kept between calls and guarded by the batch lock. */
static Item *items;
static size_t items_size;

/* ---- arguments ----------------------------------------------------------------------------------------- */

static void take_lock(void) {
    if (batch_try_lock())
        return;
    Py_BEGIN_ALLOW_THREADS /* whoever holds the lock may be waiting for the interpreter */
    batch_lock();
    Py_END_ALLOW_THREADS
}

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

static int check_view(const View *view) {
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

/* (address, count, dtype), or (address, previous, count, dtype) for updates. */
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
        item->view.previous = (char *)items; /* nothing is read or written: any address marks an update */
    }
    return check_view(&item->view);
}

/* Fills `items`; -1 with an exception set when the argument is not what it should be. */
static Py_ssize_t read_items(PyObject *argument, int with_previous) {
    PyObject *sequence = PySequence_Fast(argument, "the items must be a sequence of tuples");
    if (!sequence)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence), i = 0;
    int ok = make_items(count + 1);
    for (; ok && i < count; i++)
        ok = read_item(PySequence_Fast_GET_ITEM(sequence, i), with_previous, items + i);
    Py_DECREF(sequence);
    return ok ? count : -1;
}

static PyObject *bytes_of(const Item *item, int which) {
    return PyBytes_FromStringAndSize((const char *)item->packed[which], (Py_ssize_t)item->packed_bytes[which]);
}

/* ---- functions ----------------------------------------------------------------------------------------- */

static PyObject *result_of(const Item *item, int with_previous) {
    if (!with_previous)
        return bytes_of(item, 0);
    PyObject *now = bytes_of(item, 0), *change = bytes_of(item, 1);
    PyObject *pair = now && change ? PyTuple_Pack(2, now, change) : NULL;
    Py_XDECREF(now);
    Py_XDECREF(change);
    return pair;
}

static PyObject *results(Py_ssize_t count, int with_previous) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list && i < count; i++) {
        PyObject *result = result_of(items + i, with_previous);
        if (result)
            PyList_SET_ITEM(list, i, result);
        else
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *summarize_all(PyObject *argument, int threads, int with_previous) {
    PyObject *list = NULL;
    take_lock();
    Py_ssize_t count = read_items(argument, with_previous);
    if (count >= 0) {
        int ok;
        Py_BEGIN_ALLOW_THREADS
        ok = batch_summarize(passes, items, (size_t)count, threads);
        Py_END_ALLOW_THREADS
        list = ok ? results(count, with_previous) : PyErr_NoMemory();
    }
    batch_unlock();
    return list;
}

static PyObject *summarize(PyObject *self, PyObject *arguments) {
    PyObject *sequence;
    int threads;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Oi:summarize", &sequence, &threads))
        return NULL;
    return summarize_all(sequence, threads, 0);
}

static PyObject *summarize_updates(PyObject *self, PyObject *arguments) {
    PyObject *sequence;
    int threads;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Oi:summarize_updates", &sequence, &threads))
        return NULL;
    return summarize_all(sequence, threads, 1);
}

static PyObject *sum_squares(PyObject *self, PyObject *arguments) {
    PyObject *sequence, *pair = NULL;
    int threads;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Oi:sum_squares", &sequence, &threads))
        return NULL;
    take_lock();
    Py_ssize_t count = read_items(sequence, 0);
    if (count >= 0) {
        int ok;
        double sum = 0;
        unsigned long long others = 0;
        Py_BEGIN_ALLOW_THREADS
        ok = batch_squares(passes, items, (size_t)count, threads);
        Py_END_ALLOW_THREADS
        for (Py_ssize_t i = 0; ok && i < count; i++) {
            sum += items[i].squares;
            others += items[i].others;
        }
        pair = ok ? Py_BuildValue("dK", sum, others) : PyErr_NoMemory();
    }
    batch_unlock();
    return pair;
}

enum { MOST_DIMS = 64 };

static int read_longs(PyObject *tuple, int64_t *out) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            return 0;
    }
    return 1;
}

/* Sorts dimensions by stride, widest first, drops those of size one and joins those that follow on each other: a
   transposed or channels-last tensor turns out to be contiguous. */
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

static int read_strided(PyObject *arguments, Item *item, int64_t *shape, int64_t *strides) {
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

static PyObject *summarize_strided(PyObject *self, PyObject *arguments) {
    int64_t shape[MOST_DIMS], strides[MOST_DIMS];
    Item item = {0};
    PyObject *packed = NULL;
    int ok;
    (void)self;
    if (!read_strided(arguments, &item, shape, strides))
        return NULL;
    take_lock();
    Py_BEGIN_ALLOW_THREADS
    ok = batch_summarize(passes, &item, 1, 1);
    Py_END_ALLOW_THREADS
    packed = ok ? bytes_of(&item, 0) : PyErr_NoMemory();
    batch_unlock();
    return packed;
}

static PyObject *bitmap(const uint8_t *marks, Py_ssize_t count) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (count + 7) / 8);
    if (!bytes)
        return NULL;
    char *out = PyBytes_AS_STRING(bytes);
    memset(out, 0, (size_t)((count + 7) / 8));
    for (Py_ssize_t i = 0; i < count; i++)
        out[i / 8] |= (char)(marks[i] << (i % 8));
    return bytes;
}

static PyObject *active_units(PyObject *self, PyObject *arguments) {
    unsigned long long address;
    int dtype;
    Py_ssize_t outer, units, inner;
    double low, high;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Kinnndd:active_units", &address, &dtype, &outer, &units, &inner, &low, &high))
        return NULL;
    size_t count;
    if (outer < 0 || units < 0 || inner < 0 || __builtin_mul_overflow((size_t)outer, (size_t)units, &count) ||
        __builtin_mul_overflow(count, (size_t)inner, &count)) {
        PyErr_SetString(PyExc_ValueError, "a size is negative, or there are too many values");
        return NULL;
    }
    View view = {.data = (const char *)(uintptr_t)address, .count = count, .dtype = dtype};
    if (!check_view(&view))
        return NULL;
    uint8_t *marks = PyMem_Calloc((size_t)units + 1, 1);
    if (!marks)
        return PyErr_NoMemory();
    if (count) {
        Py_BEGIN_ALLOW_THREADS
        unsigned mode = keep_subnormals();
        passes->units(&view, (size_t)units, (size_t)inner, low, high, marks);
        restore_float_mode(mode);
        Py_END_ALLOW_THREADS
    }
    PyObject *result = bitmap(marks, units);
    PyMem_Free(marks);
    return result;
}

static int add_packed(PyObject *bytes, Folded *folded, double sums[2]) {
    char *data;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0)
        return 0;
    if (unpack_into((const uint8_t *)data, (size_t)size, folded, sums))
        return 1;
    PyErr_SetString(PyExc_ValueError, "these bytes are not a packed summary");
    return 0;
}

static PyObject *merge(PyObject *self, PyObject *argument) {
    Folded folded = {.counts = {0}};
    double sums[2] = {0, 0};
    uint8_t out[MOST_PACKED_BYTES];
    (void)self;
    folded_start(&folded);
    PyObject *sequence = PySequence_Fast(argument, "merge takes a sequence of packed summaries");
    if (!sequence)
        return NULL;
    int ok = 1;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(sequence); i++)
        ok = add_packed(PySequence_Fast_GET_ITEM(sequence, i), &folded, sums);
    Py_DECREF(sequence);
    return ok ? PyBytes_FromStringAndSize((const char *)out, (Py_ssize_t)pack(&folded, sums[0], sums[1], out)) : NULL;
}

/* ---- choosing an instruction set ----------------------------------------------------------------------- */

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

static const struct {
    const Passes *passes;
    int (*supported)(void);
} VARIANTS[] = {
#ifdef HAVE_AVX512
    {&passes_avx512, has_avx512},
#endif
#ifdef HAVE_AVX2
    {&passes_avx2, has_avx2},
#endif
    {&passes_baseline, always},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof *VARIANTS };

static PyObject *use(PyObject *self, PyObject *argument) {
    (void)self;
    const char *name = PyUnicode_AsUTF8(argument);
    if (!name)
        return NULL;
    for (int i = 0; i < VARIANT_COUNT; i++)
        if (strcmp(name, VARIANTS[i].passes->name) == 0 && VARIANTS[i].supported()) {
            passes = VARIANTS[i].passes;
            Py_RETURN_NONE;
        }
    PyErr_Format(PyExc_ValueError, "this machine or build has no kernel for %R", argument);
    return NULL;
}

static PyObject *borrow_threads(PyObject *self, PyObject *argument) {
    (void)self;
    const char *path = PyUnicode_AsUTF8(argument);
    return path ? PyBool_FromLong(team_borrow(path)) : NULL;
}

static PyObject *names(int only_supported) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < VARIANT_COUNT; i++)
        if (!only_supported || VARIANTS[i].supported()) {
            PyObject *name = PyUnicode_FromString(VARIANTS[i].passes->name);
            if (!name || PyList_Append(list, name) < 0)
                Py_CLEAR(list);
            Py_XDECREF(name);
        }
    return list;
}

static PyObject *description(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("{s:s,s:s,s:N,s:N,s:s}", "kernel", "native", "instruction_set", passes->name, "compiled",
                         names(0), "supported", names(1), "threads", team_name());
}

/* ---- module -------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"summarize", summarize, METH_VARARGS, "summarize(items, threads) -> list of packed summaries"},
    {"summarize_strided", summarize_strided, METH_VARARGS,
     "summarize_strided(address, dtype, shape, strides) -> packed summary"},
    {"summarize_updates", summarize_updates, METH_VARARGS,
     "summarize_updates(items, threads) -> list of (values, change)"},
    {"sum_squares", sum_squares, METH_VARARGS, "sum_squares(items, threads) -> (sum, number of non-finite values)"},
    {"active_units", active_units, METH_VARARGS,
     "active_units(address, dtype, outer, units, inner, low, high) -> bitmap"},
    {"merge", merge, METH_O, "merge(packed summaries) -> packed summary"},
    {"use", use, METH_O, "use(instruction set): for tests and measurements"},
    {"borrow_threads", borrow_threads, METH_O, "borrow_threads(path of the loaded OpenMP runtime) -> bool"},
    {"description", description, METH_NOARGS, "description() -> dict"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernel", "Statistics of tensors in one pass.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) {
    for (int i = VARIANT_COUNT - 1; i >= 0; i--)
        if (VARIANTS[i].supported())
            passes = VARIANTS[i].passes;
    batch_prepare();
    return PyModule_Create(&module);
}
