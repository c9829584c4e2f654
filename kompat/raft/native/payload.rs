//! Python's bytes inside Raft's entries, without a copy, and the way back to the Python object.
//!
//! raft-rs carries a payload as `bytes::Bytes`, which hides its owner. So the objects that are inside of any entry stand
//! in one table by address and length. The table counts, and the last clone of the `Bytes` takes its object out.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::python::Bytes as Borrowed;

type Key = (usize, usize);

struct Held {
    object: Py<PyAny>,
    uses: usize,
}

static OBJECTS: LazyLock<Mutex<HashMap<Key, Held>>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, HashMap<Key, Held>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What keeps the bytes in place; `bytes` never move, so a reference is enough for them.
enum Hold {
    Bytes(#[allow(dead_code)] Py<PyBytes>),
    Export(#[allow(dead_code)] PyBuffer<u8>),
}

/// Keeps a Python object's bytes in place for as long as an entry refers to them.
struct Owner {
    key: Key,
    _hold: Hold,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the hold keeps address and length fixed while `self` lives. Python promises
        // not to write to a payload that it has handed over.
        unsafe { std::slice::from_raw_parts(self.key.0 as *const u8, self.key.1) }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut table = objects();
        let gone = match table.entry(self.key) {
            Slot::Occupied(mut slot) if slot.get().uses > 1 => {
                slot.get_mut().uses -= 1;
                None
            }
            Slot::Occupied(slot) => Some(slot.remove()),
            Slot::Vacant(_) => None,
        };
        drop(table); // giving the object back may run Python code, which may come back here
        drop(gone);
    }
}

/// The object's bytes, as an entry carries them.
pub fn borrow(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let (key, hold) = match object.cast::<PyBytes>() {
        Ok(bytes) => {
            ((bytes.as_bytes().as_ptr() as usize, bytes.as_bytes().len()), Hold::Bytes(bytes.clone().unbind()))
        }
        Err(_) => {
            let buffer = PyBuffer::<u8>::get(object)?;
            if !buffer.is_c_contiguous() {
                return Err(PyBufferError::new_err("the payload must be contiguous"));
            }
            ((buffer.buf_ptr() as usize, buffer.len_bytes()), Hold::Export(buffer))
        }
    };
    if key.1 == 0 {
        return Ok(Bytes::new());
    }
    objects()
        .entry(key)
        .and_modify(|held| held.uses += 1)
        .or_insert_with(|| Held { object: object.clone().unbind(), uses: 1 });
    Ok(Bytes::from_owner(Owner { key, _hold: hold }))
}

/// A small piece that is not worth a reference to Python.
pub fn copy(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    Ok(Bytes::copy_from_slice(Borrowed::of(object)?.as_slice()))
}

/// The object whose bytes these are; bytes that Raft made itself (a change of members) become a new object.
pub fn object(py: Python<'_>, bytes: &Bytes) -> Py<PyAny> {
    let found = objects().get(&(bytes.as_ptr() as usize, bytes.len())).map(|held| held.object.clone_ref(py));
    found.unwrap_or_else(|| PyBytes::new(py, bytes).into_any().unbind())
}
