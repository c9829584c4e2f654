//! Record batches, format 2.

mod batch;
mod check;
mod objects;
mod varint;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::compression::unpacking;
use crate::python::{Bytes, detached_if};
use batch::Batch;
use check::{Facts, HeaderNames};

/// Bytes whose checksum takes longer than to let go of the interpreter and to get it back.
const LONG: usize = 64 * 1024;

/// CRC-32C of `data` from `start` on.
#[pyfunction]
#[pyo3(name = "crc32c", signature = (data, start=0))]
fn checksum(data: &Bound<'_, PyAny>, start: usize) -> PyResult<u32> {
    let bytes = Bytes::of(data)?;
    Ok(crc32c::crc32c(bytes.as_slice().get(start..).unwrap_or_default()))
}

/// How many bytes of whole batches `data` begins with: all of it, unless one is cut off or not what was written.
#[pyfunction]
fn whole_batches(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<usize> {
    let bytes = Bytes::of(data)?;
    let bytes = bytes.as_slice();
    Ok(detached_if(py, bytes.len() >= LONG, || batch::whole(bytes)))
}

/// Check one whole batch: CRC, compression, every record; look for headers of these names. Raises BatchError.
#[pyfunction]
fn check_batch(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    require_keys: bool,
    limit: usize,
    names: &Bound<'_, HeaderNames>,
) -> PyResult<Facts> {
    let bytes = Bytes::of(batch)?;
    let batch = Batch::parse(bytes.as_slice())?;
    let names = names.get();
    Ok(unpacking(py, batch.is_long(), limit, |limit| check::facts(&batch, require_keys, limit, names))?)
}

/// What records a topic refuses: how many, whether some of them for their times, and the first `most` of them: each one's place and its
/// timestamp, or None where it lacks a key.
#[pyfunction]
fn refused_records(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    limit: usize,
    require_keys: bool,
    times: Option<(i64, i64)>,
    most: usize,
) -> PyResult<(usize, bool, Vec<(u32, Option<i64>)>)> {
    let bytes = Bytes::of(batch)?;
    let batch = Batch::parse(bytes.as_slice())?;
    Ok(unpacking(py, batch.is_long(), limit, |limit| check::refused(&batch, limit, require_keys, times, most))?)
}

/// The first record at or after `timestamp` as (offset, timestamp), or None.
#[pyfunction]
fn find_by_timestamp(
    py: Python<'_>,
    batch: &Bound<'_, PyAny>,
    timestamp: i64,
    limit: usize,
) -> PyResult<Option<(i64, i64)>> {
    let bytes = Bytes::of(batch)?;
    let batch = Batch::parse(bytes.as_slice())?;
    Ok(unpacking(py, batch.is_long(), limit, |limit| check::find(&batch, timestamp, limit))?)
}

/// Every record of a batch, or those with a header of these names, as (offset, timestamp, key, value, headers).
#[pyfunction]
#[pyo3(signature = (batch, limit, names=None))]
fn read_records<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    limit: usize,
    names: Option<&Bound<'py, HeaderNames>>,
) -> PyResult<Bound<'py, PyList>> {
    let bytes = Bytes::of(batch)?;
    objects::read(py, &Batch::parse(bytes.as_slice())?, limit, names.map(|names| names.get()))
}

/// Records as the uncompressed payload of a batch.
#[pyfunction]
fn write_records<'py>(
    records: &Bound<'py, PyAny>,
    base_offset: i64,
    base_timestamp: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    let payload = objects::write(records, base_offset, base_timestamp)?;
    Ok(PyBytes::new(records.py(), &payload))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Facts>()?;
    module.add_class::<HeaderNames>()?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(whole_batches, module)?)?;
    module.add_function(wrap_pyfunction!(check_batch, module)?)?;
    module.add_function(wrap_pyfunction!(refused_records, module)?)?;
    module.add_function(wrap_pyfunction!(find_by_timestamp, module)?)?;
    module.add_function(wrap_pyfunction!(read_records, module)?)?;
    module.add_function(wrap_pyfunction!(write_records, module)?)
}
