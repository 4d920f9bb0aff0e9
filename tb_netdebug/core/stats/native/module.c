/* The Python side of the kernel: arguments in, bytes out. The functions are documented in core/stats/twin.py, whose
   NumPy versions are the specification. */
#include "arguments.h"

#include "float_mode.h"
#include "packed.h"
#include "team.h"
#include "variants.h"

static const Passes *passes;

static void take_lock(void) {
    if (batch_try_lock())
        return;
    Py_BEGIN_ALLOW_THREADS /* the holder of the lock may be waiting for the GIL */
    batch_lock();
    Py_END_ALLOW_THREADS
}

static PyObject *bytes_of(const Item *item, int which) {
    return PyBytes_FromStringAndSize((const char *)item->packed[which], (Py_ssize_t)item->packed_bytes[which]);
}

static PyObject *result_of(const Item *item, int with_previous) {
    if (!with_previous)
        return bytes_of(item, 0);
    PyObject *now = bytes_of(item, 0), *change = bytes_of(item, 1);
    PyObject *pair = now && change ? PyTuple_Pack(2, now, change) : NULL;
    Py_XDECREF(now);
    Py_XDECREF(change);
    return pair;
}

static PyObject *results(const Item *items, Py_ssize_t count, int with_previous) {
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
    Item *items;
    take_lock();
    Py_ssize_t count = read_items(argument, with_previous, &items);
    if (count >= 0) {
        int ok;
        Py_BEGIN_ALLOW_THREADS
        ok = batch_summarize(passes, items, (size_t)count, threads);
        Py_END_ALLOW_THREADS
        list = ok ? results(items, count, with_previous) : PyErr_NoMemory();
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
    Item *items;
    int threads;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Oi:sum_squares", &sequence, &threads))
        return NULL;
    take_lock();
    Py_ssize_t count = read_items(sequence, 0, &items);
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

static PyObject *use(PyObject *self, PyObject *argument) {
    (void)self;
    const char *name = PyUnicode_AsUTF8(argument);
    if (!name)
        return NULL;
    for (const Variant *each = VARIANTS; each->passes; each++)
        if (strcmp(name, each->passes->name) == 0 && each->supported()) {
            passes = each->passes;
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
    for (const Variant *each = VARIANTS; list && each->passes; each++)
        if (!only_supported || each->supported()) {
            PyObject *name = PyUnicode_FromString(each->passes->name);
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
    const Variant *best = VARIANTS;
    while (!best->supported())
        best++;
    passes = best->passes;
    batch_prepare();
    return PyModule_Create(&module);
}
