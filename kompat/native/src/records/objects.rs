//! Records to and from Python objects, for the cold paths: state machines, the cleaner, tools.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::batch::{Batch, View, Walk, next_header};
use super::check::HeaderNames;
use super::varint::{put_varint, put_varlong};
use crate::fault::{Fault, Outcome};
use crate::python::Bytes;

/// Every record, or those with a header of these names, as (offset, timestamp, key, value, headers).
pub fn read<'py>(
    py: Python<'py>,
    batch: &Batch<'_>,
    limit: usize,
    names: Option<&HeaderNames>,
) -> PyResult<Bound<'py, PyList>> {
    let records = PyList::empty(py);
    let mut failure = None;
    batch.with_payload_of(py, limit, |payload| {
        batch.walk(payload, |_, record| {
            if names.is_some_and(|names| names.find(&record) == 0) {
                return Ok(Walk::On);
            }
            match to_python(py, batch, &record).and_then(|item| records.append(item)) {
                Ok(()) => Ok(Walk::On),
                Err(error) => {
                    failure = Some(error);
                    Ok(Walk::Stop)
                }
            }
        })
    })?;
    failure.map_or(Ok(records), Err)
}

fn to_python<'py>(py: Python<'py>, batch: &Batch<'_>, record: &View<'_>) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |part: Option<&[u8]>| part.map(|part| PyBytes::new(py, part));
    let headers = PyList::empty(py);
    let mut cursor = record.headers;
    for _ in 0..record.header_count {
        let Some((key, value)) = next_header(&mut cursor) else { break };
        // Like the Java client's: a name that is not UTF-8 is shown with replacement characters.
        headers.append((String::from_utf8_lossy(key), bytes(value)))?;
    }
    let offset = batch.base_offset + i64::from(record.offset_delta);
    let timestamp = batch.timestamp(record.timestamp_delta);
    (offset, timestamp, bytes(record.key), bytes(record.value), headers.to_tuple()).into_pyobject(py)
}

/// Records (objects with offset, timestamp, key, value, headers) as a batch's uncompressed payload.
pub fn write(records: &Bound<'_, PyAny>, base_offset: i64, base_timestamp: i64) -> PyResult<Vec<u8>> {
    let py = records.py();
    let mut out = Vec::new();
    let mut body = Vec::new();
    for record in records.try_iter()? {
        let record = record?;
        let offset: i64 = record.getattr(intern!(py, "offset"))?.extract()?;
        let timestamp: i64 = record.getattr(intern!(py, "timestamp"))?.extract()?;
        body.clear();
        body.push(0);
        put_varlong(&mut body, timestamp.wrapping_sub(base_timestamp));
        put_varint(&mut body, delta(offset, base_offset)?);
        put_nullable(&mut body, &record.getattr(intern!(py, "key"))?)?;
        put_nullable(&mut body, &record.getattr(intern!(py, "value"))?)?;
        put_headers(&mut body, &record.getattr(intern!(py, "headers"))?)?;
        put_varint(&mut out, length(body.len())?);
        out.extend_from_slice(&body);
    }
    Ok(out)
}

fn put_headers(out: &mut Vec<u8>, headers: &Bound<'_, PyAny>) -> PyResult<()> {
    put_varint(out, length(headers.len()?)?);
    for header in headers.try_iter()? {
        let (key, value): (String, Bound<'_, PyAny>) = header?.extract()?;
        put_varint(out, length(key.len())?);
        out.extend_from_slice(key.as_bytes());
        put_nullable(out, &value)?;
    }
    Ok(())
}

fn put_nullable(out: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.is_none() {
        put_varint(out, -1);
        return Ok(());
    }
    let bytes = Bytes::of(value)?;
    put_varint(out, length(bytes.as_slice().len())?);
    out.extend_from_slice(bytes.as_slice());
    Ok(())
}

fn delta(offset: i64, base_offset: i64) -> Outcome<i32> {
    offset
        .checked_sub(base_offset)
        .and_then(|delta| i32::try_from(delta).ok())
        .ok_or_else(|| Fault::invalid(format!("offset {offset} is too far from the batch's {base_offset}")))
}

fn length(length: usize) -> Outcome<i32> {
    i32::try_from(length).map_err(|_| Fault::invalid("the record is too large"))
}
