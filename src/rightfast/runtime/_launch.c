/* A launch in C: arguments are read, keyed and handed to the driver in one call.

   What a key tells apart, and why, is told in launch_source.py; this is the same for the kinds of
   argument that nearly all launches have. What is not known here is left to Python, which does the
   launch as if this file were not there.

   It needs no header but Python's. Tensors are read through the table of functions that DLPack 1
   defines and torch hands out, and the driver's functions come as addresses, from libcuda or from
   a test. Nothing here is held by identity but what a launcher owns. */

#include "_launch.h"
#include <limits.h>

enum { NO_CONTEXT = 201 }; /* CUDA_ERROR_INVALID_CONTEXT */

typedef int (*LaunchKernel)(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                            unsigned threads_y, unsigned threads_z, unsigned shared, void *stream,
                            void **parameters, void **extra);
typedef int (*ErrorString)(int status, const char **text);

/* One specialisation: what is launched for a key. */
typedef struct {
    PyObject *compiled; /* keeps the module loaded; NULL: Python launches it */
    void *function;
    unsigned threads, shared;
    char passed[MOST]; /* '-' not at all, 's' as a float of 32 bits, 'w' as a word */
    uint64_t key[1 + MOST];
} Special;

typedef struct {
    PyObject_HEAD
    Reader reader;
    PyObject *device, *stream; /* the driver's functions in Python */
    LaunchKernel launch;
    ErrorString error;
    Special **specials;
    Py_ssize_t known, latest;
} Launcher;

static size_t key_size(const Launcher *self)
{
    return (size_t)(1 + self->reader.count) * sizeof(uint64_t);
}

/* Most launches are like the one before. */
static Special *find(Launcher *self, const uint64_t *key)
{
    size_t size = key_size(self);
    if (self->known && !memcmp(self->specials[self->latest]->key, key, size))
        return self->specials[self->latest];
    for (Py_ssize_t n = 0; n < self->known; n++)
        if (!memcmp(self->specials[n]->key, key, size)) {
            self->latest = n;
            return self->specials[n];
        }
    return NULL;
}

/* One to three block counts in a tuple or a list; 0: for Triton to judge, as are products beyond
   an int, which it takes for what is left of them. */
static int read_grid(PyObject *grid, unsigned *blocks)
{
    int tuple = PyTuple_CheckExact(grid);
    if (!tuple && !PyList_CheckExact(grid))
        return 0;
    Py_ssize_t size = tuple ? PyTuple_Size(grid) : PyList_Size(grid);
    if (size < 1 || size > 3)
        return 0;
    long long product = 1;
    for (Py_ssize_t n = 0; n < size; n++) {
        PyObject *item = tuple ? PyTuple_GetItem(grid, n) : PyList_GetItem(grid, n);
        int overflow = 0;
        long long number = PyLong_CheckExact(item) ? PyLong_AsLongLongAndOverflow(item, &overflow) : -1;
        if (overflow || number < 0 || number > INT_MAX || (product *= number) > INT_MAX)
            return 0;
        blocks[n] = (unsigned)number;
    }
    return 1;
}

/* The driver's call, while other threads may run. What is passed is the caller's until it returns,
   and the module is the specialisation's, which lives as long as the launcher. */
static int launch_special(Launcher *self, const Special *found, const unsigned *blocks,
                          void *stream, uint64_t *values)
{
    void *parameters[MOST + 2];
    uint64_t no_scratch = 0;
    int status, used = 0;
    for (Py_ssize_t n = 0; n < self->reader.count; n++) {
        if (found->passed[n] == '-')
            continue;
        if (found->passed[n] == 's') {
            double wide;
            memcpy(&wide, values + n, sizeof wide);
            float narrow = (float)wide;
            memcpy(values + n, &narrow, sizeof narrow);
        }
        parameters[used++] = values + n; /* the driver reads as many bytes as the kernel takes */
    }
    parameters[used++] = &no_scratch; /* global, and that of the profiler */
    parameters[used++] = &no_scratch;
    Py_BEGIN_ALLOW_THREADS
    status = self->launch(found->function, blocks[0], blocks[1], blocks[2], found->threads, 1, 1,
                          found->shared, stream, parameters, NULL);
    Py_END_ALLOW_THREADS
    return status;
}

static PyObject *launch_on(Launcher *self, PyObject *device, PyObject *const *given)
{
    uint64_t key[1 + MOST], values[MOST];
    unsigned blocks[3] = {1, 1, 1};
    if (!key_of_launch(&self->reader, device, given + 1, key, values))
        Py_RETURN_NONE;
    const Special *found = find(self, key);
    if (!found)
        return PyBytes_FromStringAndSize((char *)key, (Py_ssize_t)key_size(self));
    if (!found->compiled || !read_grid(given[0], blocks))
        Py_RETURN_NONE;
    PyObject *number = PyObject_CallFunctionObjArgs(self->stream, device, NULL);
    if (!number)
        return NULL;
    void *stream = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    if (!stream && PyErr_Occurred())
        return NULL;
    int status = 0;
    if (blocks[0] && blocks[1] && blocks[2])
        status = launch_special(self, found, blocks, stream, values);
    if (status == NO_CONTEXT)
        Py_RETURN_NONE; /* of a thread that has none yet: Triton's launcher makes one */
    if (status) {
        const char *text = NULL;
        if (self->error(status, &text) || !text)
            text = "unknown error";
        return PyErr_Format(PyExc_RuntimeError, "Triton Error [CUDA]: %s", text);
    }
    return Py_NewRef(found->compiled);
}

static PyObject *launcher_launch(PyObject *me, PyObject *const *given, Py_ssize_t size)
{
    Launcher *self = (Launcher *)me;
    Py_ssize_t expected = 1 + self->reader.settings + self->reader.count;
    if (size != expected)
        return PyErr_Format(PyExc_TypeError, "expected %zd arguments, got %zd", expected, size);
    PyObject *device = PyObject_CallNoArgs(self->device);
    if (!device)
        return NULL;
    PyObject *result = launch_on(self, device, given);
    Py_DECREF(device);
    return result;
}

static PyObject *launcher_learn(PyObject *me, PyObject *args)
{
    Launcher *self = (Launcher *)me;
    const char *key, *passed;
    Py_ssize_t key_bytes, count;
    PyObject *compiled;
    unsigned long long function;
    unsigned threads, shared;
    if (!PyArg_ParseTuple(args, "y#z#OKII", &key, &key_bytes, &passed, &count, &compiled,
                          &function, &threads, &shared))
        return NULL;
    if ((size_t)key_bytes != key_size(self) || (passed && count != self->reader.count)) {
        PyErr_SetString(PyExc_ValueError, "expected the key of a launch, and a letter an argument");
        return NULL;
    }
    Special *made = PyMem_Calloc(1, sizeof *made);
    if (!made)
        return PyErr_NoMemory();
    memcpy(made->key, key, key_size(self));
    if (find(self, made->key)) { /* another thread was here first */
        PyMem_Free(made);
        Py_RETURN_NONE;
    }
    Special **room = PyMem_Realloc(self->specials, (size_t)(self->known + 1) * sizeof *room);
    if (!room) {
        PyMem_Free(made);
        return PyErr_NoMemory();
    }
    self->specials = room;
    if (passed) {
        memcpy(made->passed, passed, (size_t)count);
        made->compiled = Py_NewRef(compiled);
        made->function = (void *)(uintptr_t)function;
        made->threads = threads;
        made->shared = shared;
    }
    self->specials[self->known++] = made;
    Py_RETURN_NONE;
}

static PyObject *launcher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *what;
    Py_ssize_t count, settings;
    PyObject *exchange, *tensor, *parameter, *whole[2], *device, *stream;
    unsigned long long launch, error;
    int memory;
    if (kwargs && PyDict_Size(kwargs))
        return PyErr_Format(PyExc_TypeError, "Launcher takes no keywords");
    if (!PyArg_ParseTuple(args, "y#nOOOOOOOKKi", &what, &count, &settings, &exchange, &tensor,
                          &parameter, whole, whole + 1, &device, &stream, &launch, &error, &memory))
        return NULL;
    const Exchange *table = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
    if (!table)
        return NULL;
    if (table->major != 1 || !table->read || count > MOST || settings < 0 || settings > 4) {
        PyErr_Format(PyExc_ValueError, "expected DLPack 1 and at most %d arguments", MOST);
        return NULL;
    }
    Launcher *self = (Launcher *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    memcpy(self->reader.what, what, (size_t)count);
    self->reader.count = count;
    self->reader.settings = settings;
    self->reader.exchange = table;
    self->reader.tensor = Py_NewRef(tensor);
    self->reader.parameter = Py_NewRef(parameter);
    self->reader.whole[0] = Py_NewRef(whole[0]);
    self->reader.whole[1] = Py_NewRef(whole[1]);
    self->device = Py_NewRef(device);
    self->stream = Py_NewRef(stream);
    self->launch = (LaunchKernel)(uintptr_t)launch;
    self->error = (ErrorString)(uintptr_t)error;
    self->reader.memory = memory;
    return (PyObject *)self;
}

static int launcher_traverse(PyObject *me, visitproc visit, void *arg)
{
    Launcher *self = (Launcher *)me;
    Py_VISIT(Py_TYPE(me));
    Py_VISIT(self->reader.tensor);
    Py_VISIT(self->reader.parameter);
    Py_VISIT(self->reader.whole[0]);
    Py_VISIT(self->reader.whole[1]);
    Py_VISIT(self->device);
    Py_VISIT(self->stream);
    for (Py_ssize_t n = 0; n < self->known; n++)
        Py_VISIT(self->specials[n]->compiled);
    return 0;
}

static int launcher_clear(PyObject *me)
{
    Launcher *self = (Launcher *)me;
    Special **specials = self->specials;
    Py_ssize_t known = self->known;
    self->specials = NULL; /* first: what is dropped below may run anything */
    self->known = self->latest = 0;
    for (Py_ssize_t n = 0; n < known; n++) {
        Py_XDECREF(specials[n]->compiled);
        PyMem_Free(specials[n]);
    }
    PyMem_Free(specials);
    Py_CLEAR(self->reader.tensor);
    Py_CLEAR(self->reader.parameter);
    Py_CLEAR(self->reader.whole[0]);
    Py_CLEAR(self->reader.whole[1]);
    Py_CLEAR(self->device);
    Py_CLEAR(self->stream);
    return 0;
}

static void launcher_dealloc(PyObject *me)
{
    PyTypeObject *type = Py_TYPE(me);
    PyObject_GC_UnTrack(me);
    launcher_clear(me);
    PyObject_GC_Del(me);
    Py_DECREF(type);
}

static PyMethodDef launcher_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launcher_launch, METH_FASTCALL,
     "launch(grid, *settings, *arguments)\n\n"
     "The compiled kernel that was launched; its key, where that is not known yet; None, where "
     "Python has to launch."},
    {"learn", launcher_learn, METH_VARARGS,
     "learn(key, passed, compiled, function, threads, shared)\n\n"
     "Launch this for a key; without a letter for each argument, leave the key to Python."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot launcher_slots[] = {
    {Py_tp_doc, "Launcher(parameters, settings, exchange, tensor, parameter, int8, uint8, device, "
                "stream, launch, error, memory)\n\nThe launches of one kernel; see launch_native.py."},
    {Py_tp_new, launcher_new},
    {Py_tp_dealloc, launcher_dealloc},
    {Py_tp_traverse, launcher_traverse},
    {Py_tp_clear, launcher_clear},
    {Py_tp_methods, launcher_methods},
    {0, NULL},
};

static PyType_Spec launcher_spec = {
    "rightfast.runtime._launch.Launcher", sizeof(Launcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, launcher_slots,
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_launch", "Launches in C.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__launch(void)
{
    PyObject *made = PyModule_Create(&module);
    PyObject *type = made ? PyType_FromSpec(&launcher_spec) : NULL;
    if (!type || PyModule_AddObjectRef(made, "Launcher", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(made);
        return NULL;
    }
    Py_DECREF(type);
    return made;
}
