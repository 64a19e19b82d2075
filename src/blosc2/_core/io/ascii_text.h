/* The characters of a string that is ASCII, without a call and without the GIL, as long as somebody keeps the string. */
#ifndef B2_ASCII_TEXT_H
#define B2_ASCII_TEXT_H
#include <Python.h>
#include <stdint.h>

/* NULL for another object, be it a string that has other characters or one of a class of its own. */
static inline const uint8_t *ascii_text(PyObject *text, Py_ssize_t *length) {
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text))
        return NULL;
    *length = PyUnicode_GET_LENGTH(text);
    return PyUnicode_1BYTE_DATA(text);
}
#endif
