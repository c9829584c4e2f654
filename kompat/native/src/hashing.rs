//! Hashes that Kafka writes down.

use pyo3::prelude::*;
use xxhash_rust::xxh3;

use crate::python::Bytes;

/// XXH3 of 64 bits with seed 0.
#[pyfunction]
fn xxh3_64(data: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(xxh3::xxh3_64(Bytes::of(data)?.as_slice()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(xxh3_64, module)?)
}
