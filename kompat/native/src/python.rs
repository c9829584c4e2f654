//! Borrowing bytes from Python.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

/// A Python buffer held open; its bytes can be read while the GIL is released.
pub struct Bytes(PyBuffer<u8>);

impl Bytes {
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer must be contiguous"));
        }
        Ok(Self(buffer))
    }

    pub fn as_slice(&self) -> &[u8] {
        let length = self.0.len_bytes();
        if length == 0 {
            return &[]; // an empty buffer may have no address
        }
        // SAFETY: the export keeps address and length fixed while `self` lives. The broker never writes to a batch
        // while it is being read here: a frame's bytes belong to the one request that is being worked on.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), length) }
    }
}

/// Run `work` without the GIL where it takes long enough for other threads to profit from it.
pub fn detached_if<T: Send>(py: Python<'_>, is_long: bool, work: impl Send + FnOnce() -> T) -> T {
    if is_long { py.detach(work) } else { work() }
}
