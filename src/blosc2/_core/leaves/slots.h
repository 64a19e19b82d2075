/* Slots of Python classes (`__slots__`), filled where they lie: in an object that nobody else has seen yet, Python's own way of
 * setting them looks the name up in the class and, without a GIL, takes a lock, for each of them. */
#ifndef B2_SLOTS_H
#define B2_SLOTS_H
#include <Python.h>
#include <structmember.h>

/* Where objects of a class have a slot; 0 where that is no slot, -1 with an error. */
static Py_ssize_t slot_of(PyTypeObject *kind, PyObject *name) {
  PyObject *found = PyObject_GetAttr((PyObject *)kind, name);
  PyMemberDef *member;
  Py_ssize_t offset = 0;
  if (found == NULL) return -1;
  if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
    member = ((PyMemberDescrObject *)found)->d_member;
    if (member->type == T_OBJECT_EX) offset = member->offset;
  }
  Py_DECREF(found);
  return offset;
}

/* Fill an empty slot. */
static inline void fill_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {
  *(PyObject **)((char *)object + offset) = Py_NewRef(value);
}
#endif
