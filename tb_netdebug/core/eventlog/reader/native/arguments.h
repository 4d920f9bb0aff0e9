// Converts Python's lists to spans, and names and places back to lists.

#ifndef NETDEBUG_ARGUMENTS_H
#define NETDEBUG_ARGUMENTS_H

#include "samples.h"

static int get_names_list(PyObject *sequence, Span **names, size_t *count) {
    *count = (size_t)PySequence_Fast_GET_SIZE(sequence);
    if (!(*names = PyMem_RawCalloc(*count + 1, sizeof **names))) return PyErr_NoMemory(), 0;
    for (size_t i = 0; i < *count; i++) {
        char *text;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PySequence_Fast_GET_ITEM(sequence, (Py_ssize_t)i), &text, &size) < 0) return 0;
        (*names)[i] = (Span){(const uint8_t *)text, (const uint8_t *)text + size};
    }
    return 1;
}

static int get_counts(PyObject *sequence, size_t count, Block *blocks, size_t offset) {
    if ((size_t)PySequence_Fast_GET_SIZE(sequence) != count) {
        PyErr_SetString(PyExc_ValueError, "there must be one number for each block");
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t number = PyLong_AsUnsignedLongLong(PySequence_Fast_GET_ITEM(sequence, (Py_ssize_t)i));
        if (number == (uint64_t)-1 && PyErr_Occurred()) return 0;
        memcpy((uint8_t *)(blocks + i) + offset, &number, sizeof number);
    }
    return 1;
}

// A tuple keeps its items alive, even if another thread changes the list while the GIL is released.
static int as_tuples(PyObject **sequences, int count) {
    int made = 1;
    for (int i = 0; i < count; i++) {
        sequences[i] = made ? PySequence_Tuple(sequences[i]) : NULL;
        made = made && sequences[i];
    }
    return made;
}

static void release(PyObject **tuples, int count) {
    for (int i = 0; i < count; i++) Py_XDECREF(tuples[i]);
}

static Block *get_blocks(PyObject *data, size_t *count) {
    Span *spans = NULL;
    Block *blocks = NULL;
    if (get_names_list(data, &spans, count)) {
        if (!(blocks = PyMem_RawCalloc(*count + 1, sizeof *blocks))) PyErr_NoMemory();
        for (size_t i = 0; blocks && i < *count; i++) blocks[i].data = spans[i];
    }
    PyMem_RawFree(spans);
    return blocks;
}

// ---- results

static PyObject *list_of_damaged(const uint8_t *whole, size_t count) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        if (whole[i]) continue;
        PyObject *number = PyLong_FromSize_t(i);
        if (!number || PyList_Append(list, number) < 0) Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static PyObject *list_of_names(const Names *names, int with_kinds) {
    PyObject *list = PyList_New((Py_ssize_t)count_of(names));
    for (size_t i = 0; list && i < count_of(names); i++) {
        const char *text = (const char *)names->text.data + name_at(names, i)->start;
        Py_ssize_t size = (Py_ssize_t)name_at(names, i)->size;
        int kind = (int)name_at(names, i)->kind;
        PyObject *item = with_kinds ? Py_BuildValue("iy#", kind, size ? text : "", size)
                                    : PyBytes_FromStringAndSize(size ? text : "", size);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return list;
}

#endif
