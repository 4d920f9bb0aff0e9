// The Python side of the reader: arguments in, bytes out. scan_twin.py and columns_twin.py document the functions,
// and are the specification. The functions release the GIL while they work.

#include "arguments.h"
#include "scalars.h"
#include "scan.h"
#include "tally.h"

static uint64_t seed;

// ---- scan

static PyObject *scan(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer data;
    long long at, base, beyond;
    Scan s = {.events = {.tags = {.seed = seed}}};
    Events *e = &s.events;
    if (!PyArg_ParseTuple(arguments, "y*LLLLLLp", &data, &at, &base, &beyond, &s.lost, &s.reason, &s.patience, &e->ours))
        return NULL;
    PyObject *result = NULL;
    if (at < 0 || base < 0 || beyond < data.len) {
        PyErr_SetString(PyExc_ValueError, "the piece lies outside of its file");
    } else {
        s.data = e->data = data.buf;
        s.size = (size_t)data.len;
        s.at = (size_t)at;
        e->base = (uint64_t)base;
        s.beyond = (uint64_t)beyond;
        Py_BEGIN_ALLOW_THREADS;
        scan_records(&s);
        Py_END_ALLOW_THREADS;
        if (e->entries.failed || e->points.failed || s.gaps.failed || names_failed(&e->tags))
            PyErr_NoMemory();
        else
            result = Py_BuildValue("NNNNnLLLK", bytes_of(&e->entries), bytes_of(&e->points), bytes_of(&s.gaps),
                                   list_of_names(&e->tags, 0), (Py_ssize_t)s.at, (long long)s.lost,
                                   (long long)s.reason, (long long)s.patience, (unsigned long long)s.need);
    }
    drop(&e->entries);
    drop(&e->points);
    drop(&s.gaps);
    drop_names(&e->tags);
    PyBuffer_Release(&data);
    return result;
}

// ---- scalars

typedef int GetRows(Scratch *, Span, uint64_t, uint64_t, Rows *);
typedef void PutLines(Lines *, const Rows *, size_t);

static int make_tables(Lines *lines, int details) {
    size_t cells = lines->name_count * lines->rows;
    extend(&lines->owners, lines->rows * sizeof(uint32_t));
    extend(&lines->frame, (details ? FRAME_FIELDS : 2) * lines->rows * sizeof(uint64_t));
    extend(&lines->values, (details ? RANGE_FIELDS : 1) * cells * sizeof(uint64_t));
    extend(&lines->present, cells);
    extend(&lines->measured, lines->rows);
    return !(lines->owners.failed || lines->frame.failed || lines->values.failed || lines->present.failed ||
             lines->measured.failed);
}

static int read_lines(Lines *lines, const Block *blocks, size_t count, uint8_t *whole, int details) {
    GetRows *get = details ? get_detail_rows : get_step_rows;
    PutLines *put = details ? put_detail_lines : put_step_lines;
    Scratch s = {0};
    Rows *found = PyMem_RawCalloc(count + 1, sizeof *found);
    for (size_t i = 0; found && i < count; i++)
        if ((whole[i] = (uint8_t)get(&s, blocks[i].data, blocks[i].rows, seed, found + i))) lines->rows += found[i].rows;
    int done = found && !s.failed && make_tables(lines, details);
    size_t start = 0;
    for (size_t i = 0; done && i < count; i++) {
        if (!whole[i]) continue;
        for (size_t row = 0; row < found[i].rows; row++) ((uint32_t *)lines->owners.data)[start + row] = (uint32_t)i;
        put(lines, found + i, start);
        start += found[i].rows;
    }
    drop_scratch(&s);
    PyMem_RawFree(found);
    return done;
}

static PyObject *step_result(Lines *l, PyObject *damaged) {
    Py_ssize_t half = (Py_ssize_t)l->frame.size / 2;
    const char *frame = (const char *)l->frame.data;
    return Py_BuildValue("Ny#y#NNNN", bytes_of(&l->owners), frame ? frame : "", half, frame ? frame + half : "", half,
                         bytes_of(&l->measured), bytes_of(&l->values), bytes_of(&l->present), damaged);
}

static PyObject *detail_result(Lines *l, PyObject *damaged) {
    return Py_BuildValue("NNNNN", bytes_of(&l->owners), bytes_of(&l->frame), bytes_of(&l->values),
                         bytes_of(&l->present), damaged);
}

static PyObject *rows_of(PyObject *arguments, int details) {
    PyObject *sequences[3], *result = NULL;
    if (!PyArg_ParseTuple(arguments, "OOO", sequences, sequences + 1, sequences + 2)) return NULL;
    size_t count = 0;
    Lines lines = {.seed = seed};
    Block *blocks = NULL;
    Span *names = NULL;
    uint8_t *whole = NULL;
    int made = as_tuples(sequences, 3);
    if (made && (blocks = get_blocks(sequences[0], &count)) &&
        get_counts(sequences[1], count, blocks, offsetof(Block, rows)) &&
        get_names_list(sequences[2], &names, &lines.name_count)) {
        int done = 0;
        lines.names = names;
        if ((whole = PyMem_RawCalloc(count + 1, 1))) {
            Py_BEGIN_ALLOW_THREADS;
            done = read_lines(&lines, blocks, count, whole, details);
            Py_END_ALLOW_THREADS;
        }
        PyObject *damaged = done ? list_of_damaged(whole, count) : NULL;
        if (!done) PyErr_NoMemory();
        if (damaged) result = details ? detail_result(&lines, damaged) : step_result(&lines, damaged);
    }
    Buffer *tables[] = {&lines.owners, &lines.frame, &lines.values, &lines.present, &lines.measured};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) drop(tables[i]);
    PyMem_RawFree(whole);
    PyMem_RawFree(names);
    PyMem_RawFree(blocks);
    release(sequences, 3);
    return result;
}

static PyObject *step_rows(PyObject *module, PyObject *arguments) {
    (void)module;
    return rows_of(arguments, 0);
}

static PyObject *detail_rows(PyObject *module, PyObject *arguments) {
    (void)module;
    return rows_of(arguments, 1);
}

// ---- samples

static int read_samples(Query *q, const Block *blocks, size_t count, uint8_t *whole) {
    Scratch s = {0};
    for (size_t i = 0; i < count; i++) {
        whole[i] = (uint8_t)put_samples(q, &s, blocks + i, (uint32_t)i);
        forget(&s);
    }
    drop_scratch(&s);
    return !s.failed && !q->samples.failed;
}

static PyObject *sample_rows(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *sequences[4], *name, *result = NULL;
    Query q = {.seed = seed, .series = {.seed = seed}};
    if (!PyArg_ParseTuple(arguments, "OOOOpiO", sequences, sequences + 1, sequences + 2, sequences + 3, &q.details,
                          &q.kinds, &name))
        return NULL;
    if (name != Py_None) {
        char *text;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(name, &text, &size) < 0) return NULL;
        q.has_name = 1;
        q.name = (Span){(const uint8_t *)text, (const uint8_t *)text + size};
    }
    size_t count = 0;
    Block *blocks = NULL;
    uint8_t *whole = NULL;
    int made = as_tuples(sequences, 4);
    if (made && (blocks = get_blocks(sequences[0], &count)) &&
        get_counts(sequences[1], count, blocks, offsetof(Block, rows)) &&
        get_counts(sequences[2], count, blocks, offsetof(Block, samples)) &&
        get_counts(sequences[3], count, blocks, offsetof(Block, sketches))) {
        int done = 0;
        if ((whole = PyMem_RawCalloc(count + 1, 1))) {
            Py_BEGIN_ALLOW_THREADS;
            done = read_samples(&q, blocks, count, whole);
            Py_END_ALLOW_THREADS;
        }
        if (!done)
            PyErr_NoMemory();
        else
            result = Py_BuildValue("NNN", bytes_of(&q.samples), list_of_names(&q.series, 1),
                                   list_of_damaged(whole, count));
    }
    drop(&q.samples);
    drop_names(&q.series);
    PyMem_RawFree(whole);
    PyMem_RawFree(blocks);
    release(sequences, 4);
    return result;
}

// ---- names

static int add_names(Scratch *s, Span data, int details, Names *scalars, Names *series) {
    Span parts[8], columns[4], samples[10];
    Table texts, known;
    if (!get_parts(data, parts, 8) || !get_parts(parts[details ? 6 : 3], columns, 4)) return 0;
    if (!get_parts(parts[details ? 7 : 4], samples, 10)) return 0;
    uint64_t count = size_of(samples[2]);
    if (!get_names(s, columns[1], &known) || !get_names(s, samples[1], &texts) || (count && !texts.count)) return 0;
    uint64_t *places = get_varints(s, samples[3], count, texts.count ? texts.count - 1 : 0);
    if (!places) return 0;
    for (const uint8_t *p = samples[2].at; p < samples[2].end; p++)
        if (*p < 1 || *p > LAST_KIND) return 0;
    for (uint64_t i = 0; i < known.count; i++) s->failed |= number_of(scalars, 0, known.names[i]) < 0;
    for (uint64_t i = 0; i < count; i++)
        s->failed |= number_of(series, samples[2].at[i], texts.names[places[i]]) < 0;
    return 1;
}

static PyObject *names_of(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *sequence, *result = NULL;
    int details;
    if (!PyArg_ParseTuple(arguments, "Op", &sequence, &details)) return NULL;
    size_t count = 0;
    Block *blocks = NULL;
    Names scalars = {.seed = seed}, series = {.seed = seed};
    if (as_tuples(&sequence, 1) && (blocks = get_blocks(sequence, &count))) {
        Scratch s = {0};
        Py_BEGIN_ALLOW_THREADS;
        for (size_t i = 0; i < count; i++) {
            add_names(&s, blocks[i].data, details, &scalars, &series);
            forget(&s);
        }
        Py_END_ALLOW_THREADS;
        drop_scratch(&s);
        if (s.failed)
            PyErr_NoMemory();
        else
            result = Py_BuildValue("NN", list_of_names(&scalars, 0), list_of_names(&series, 1));
    }
    drop_names(&scalars);
    drop_names(&series);
    PyMem_RawFree(blocks);
    release(&sequence, 1);
    return result;
}

// ---- tally

static void add_all(PyObject *packed, const int64_t *places, Py_ssize_t rows, double *counts) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(packed); i++) {
        PyObject *item = PyTuple_GET_ITEM(packed, i);
        if (!PyBytes_Check(item) || places[i] < 0 || places[i] >= rows) continue;
        const uint8_t *start = (const uint8_t *)PyBytes_AS_STRING(item);
        Span span = {start, start + PyBytes_GET_SIZE(item)};
        if (add_summary(span, NULL)) add_summary(span, counts + places[i] * BINS);
    }
}

static PyObject *tally(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *packed, *result = NULL;
    Py_buffer places;
    Py_ssize_t rows;
    if (!PyArg_ParseTuple(arguments, "Oy*n", &packed, &places, &rows)) return NULL;
    if (as_tuples(&packed, 1)) {
        if (rows < 0 || rows > PY_SSIZE_T_MAX / (BINS * 8) || places.len != 8 * PyTuple_GET_SIZE(packed))
            PyErr_SetString(PyExc_ValueError, "there must be one place for each summary");
        else
            result = PyBytes_FromStringAndSize(NULL, rows * BINS * (Py_ssize_t)sizeof(double));
        if (result) {
            double *counts = (double *)PyBytes_AS_STRING(result);
            Py_BEGIN_ALLOW_THREADS;
            memset(counts, 0, (size_t)rows * BINS * sizeof *counts);
            add_all(packed, places.buf, rows, counts);
            Py_END_ALLOW_THREADS;
        }
    }
    release(&packed, 1);
    PyBuffer_Release(&places);
    return result;
}

static PyMethodDef methods[] = {
    {"scan", scan, METH_VARARGS, "scan(data, at, base, beyond, lost, reason, patience, ours)"},
    {"step_rows", step_rows, METH_VARARGS, "step_rows(blocks, rows, names)"},
    {"detail_rows", detail_rows, METH_VARARGS, "detail_rows(blocks, rows, names)"},
    {"sample_rows", sample_rows, METH_VARARGS, "sample_rows(blocks, rows, samples, sketches, details, kinds, name)"},
    {"names_of", names_of, METH_VARARGS, "names_of(blocks, details) -> (scalars, series)"},
    {"tally", tally, METH_VARARGS, "tally(packed, places, rows) -> doubles"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_native", .m_doc = "Event files and blocks, read at speed.", .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *secret = PyUnicode_FromString("tb_netdebug.core.eventlog.reader");
    if (!secret) return NULL;
    seed = (uint64_t)PyObject_Hash(secret) * 0x9E3779B97F4A7C15u;
    Py_DECREF(secret);
    prepare_crc();
    return PyModule_Create(&definition);
}
