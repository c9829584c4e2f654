//! Kafka's compression types over whole payloads, with a bound on what a payload may unpack to.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::fault::{Fault, Outcome};
use crate::python::{Bytes, detached_if};

pub const NONE: u8 = 0;
const GZIP: u8 = 1;
const SNAPPY: u8 = 2;
const LZ4: u8 = 3;
const ZSTD: u8 = 4;

/// Scratch space larger than this is given back after use.
const KEPT_SCRATCH: usize = 4 << 20;
/// Unpacked bytes that take no more than some tenths of a millisecond.
const SHORT: usize = 1 << 20;
const FIRST_GUESS: usize = 64 << 10;

thread_local! {
    // A fresh buffer per batch would cost more in page faults than lz4 takes to fill it.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Unpack into scratch space and let `work` look at it.
pub fn with_decompressed<T>(
    codec: u8,
    data: &[u8],
    limit: usize,
    work: impl FnOnce(&[u8]) -> Outcome<T>,
) -> Outcome<T> {
    if codec == NONE {
        return work(data);
    }
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        let outcome = decompress_into(codec, data, scratch, limit).and_then(|()| work(scratch));
        if scratch.capacity() > KEPT_SCRATCH {
            *scratch = Vec::new();
        }
        outcome
    })
}

fn decompress_into(codec: u8, data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    match codec {
        GZIP => gzip::decompress(data, out, limit),
        SNAPPY => snappy::decompress(data, out, limit),
        LZ4 => lz4::decompress(data, out, limit),
        ZSTD => zstd::decompress(data, out, limit),
        _ => Err(Fault::unknown_codec(codec)),
    }?;
    if out.len() > limit { Err(Fault::too_large(limit)) } else { Ok(()) }
}

/// Make room for more output; refuse once `limit` is reached.
fn grow(out: &mut Vec<u8>, packed: usize, limit: usize) -> Outcome<()> {
    if out.len() > limit {
        return Err(Fault::too_large(limit));
    }
    let wanted = out.len().max(packed.saturating_mul(3)).max(FIRST_GUESS);
    // One byte above the limit is enough to see that it was passed.
    let room = wanted.min(limit.saturating_add(1) - out.len());
    if out.capacity() - out.len() < room {
        out.reserve_exact(room);
    }
    Ok(())
}

fn damaged(codec: &str, reason: impl std::fmt::Display) -> Fault {
    Fault::invalid(format!("{codec} data is damaged: {reason}"))
}

/// Whether unpacking or packing this much is worth releasing the GIL for (about 50 µs).
pub fn is_long(codec: u8, packed: usize) -> bool {
    let most = match codec {
        NONE => 384 << 10,
        SNAPPY | LZ4 => 32 << 10,
        ZSTD => 16 << 10,
        _ => 8 << 10,
    };
    packed > most
}

/// Do what unpacks up to `limit` bytes, without the GIL where it turns out to be long: a few kilobytes may unpack to a hundred megabytes.
pub fn unpacking<T: Send>(
    py: Python<'_>,
    is_long: bool,
    limit: usize,
    work: impl Send + Sync + Fn(usize) -> Outcome<T>,
) -> Outcome<T> {
    let may_be_longer = !is_long && limit > SHORT;
    if may_be_longer {
        match work(SHORT) {
            Err(fault) if fault.is_too_large => {}
            outcome => return outcome,
        }
    }
    detached_if(py, is_long || may_be_longer, || work(limit))
}

/// Compress `data`; without a level, the codec's default.
#[pyfunction]
#[pyo3(signature = (codec, data, level=None))]
fn compress<'py>(
    py: Python<'py>,
    codec: u8,
    data: &Bound<'py, PyAny>,
    level: Option<i32>,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = Bytes::of(data)?;
    let data = bytes.as_slice();
    let packed = detached_if(py, is_long(codec, data.len() / 2), || match codec {
        NONE => Ok(data.to_vec()),
        GZIP => gzip::compress(data, level),
        SNAPPY => snappy::compress(data),
        LZ4 => lz4::compress(data, level),
        ZSTD => zstd::compress(data, level),
        _ => Err(Fault::unknown_codec(codec)),
    })?;
    Ok(PyBytes::new(py, &packed))
}

/// Decompress `data`; more than `limit` bytes of output are refused.
#[pyfunction]
fn decompress<'py>(
    py: Python<'py>,
    codec: u8,
    data: &Bound<'py, PyAny>,
    limit: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = Bytes::of(data)?;
    let data = bytes.as_slice();
    if codec == NONE {
        return Ok(PyBytes::new(py, data));
    }
    let unpacked = unpacking(py, is_long(codec, data.len()), limit, |limit| {
        let mut out = Vec::new();
        decompress_into(codec, data, &mut out, limit).map(|()| out)
    })?;
    Ok(PyBytes::new(py, &unpacked))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(compress, module)?)?;
    module.add_function(wrap_pyfunction!(decompress, module)?)
}
