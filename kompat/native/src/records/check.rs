//! What the log has to know of a batch before it takes it in: one pass over the records.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::batch::{Batch, View, Walk, next_header};
use crate::fault::{Fault, INVALID_RECORD, Outcome};

/// What one pass over a batch's records found.
#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct Facts {
    /// The newest timestamp that a record carries.
    pub max_timestamp: i64,
    /// The offset delta of the first record that carries it.
    pub delta_of_max_timestamp: i32,
    pub min_timestamp: i64,
    /// The first record without a key, or -1.
    pub null_key_index: i32,
    /// Which of the names that were looked for some record has a header of: a bit for each, the first the lowest.
    pub named: u64,
}

/// Names of headers to look for, prepared once.
#[pyclass(frozen, module = "kompat._native")]
pub struct HeaderNames {
    names: Vec<Vec<u8>>,
    /// A bit for each: those whose headers count only where they say that their trace is sampled.
    contexts: u64,
    /// By a name's length and its last byte: nearly all headers that are not looked for are passed over by this look.
    shapes: [u64; 256],
}

#[pymethods]
impl HeaderNames {
    #[new]
    #[pyo3(signature = (names, contexts=Vec::new()))]
    fn new(names: Vec<Vec<u8>>, contexts: Vec<Vec<u8>>) -> PyResult<Self> {
        if names.len() > u64::BITS as usize {
            return Err(PyValueError::new_err("at most 64 names"));
        }
        let mut shapes = [0; 256];
        for name in &names {
            shapes[last(name)] |= 1 << (name.len() % 64);
        }
        let contexts =
            names.iter().enumerate().fold(0, |bits, (at, name)| bits | u64::from(contexts.contains(name)) << at);
        Ok(Self { names, contexts, shapes })
    }
}

#[inline(always)]
fn last(name: &[u8]) -> usize {
    name.last().copied().unwrap_or_default().into()
}

impl HeaderNames {
    #[inline(always)]
    pub fn find(&self, record: &View<'_>) -> u64 {
        let mut cursor = record.headers;
        let mut found = 0;
        for _ in 0..record.header_count {
            let Some((key, value)) = next_header(&mut cursor) else { break };
            if self.shapes[last(key)] >> (key.len() % 64) & 1 == 1 {
                found |= self.bits(key, value);
            }
        }
        found
    }

    #[cold]
    fn bits(&self, key: &[u8], value: Option<&[u8]>) -> u64 {
        let bits = self.names.iter().enumerate().fold(0, |bits, (at, name)| bits | u64::from(name == key) << at);
        if bits & self.contexts == 0 || is_sampled(value) { bits } else { 0 }
    }
}

/// Whether a W3C trace context, if it is one, has its sampled flag set: the lowest bit of what follows the ids.
fn is_sampled(context: Option<&[u8]>) -> bool {
    const LAST_DIGIT: usize = 54;
    match context.and_then(|context| context.get(LAST_DIGIT)) {
        Some(digit @ b'0'..=b'9') => digit & 1 == 1,
        Some(digit @ b'a'..=b'f') => digit & 1 == 0,
        _ => false,
    }
}

pub fn facts(batch: &Batch<'_>, require_keys: bool, limit: usize, names: &HeaderNames) -> Outcome<Facts> {
    batch.verify_crc()?;
    if batch.record_count <= 0 || batch.last_offset_delta != batch.record_count - 1 {
        let (count, delta) = (batch.record_count, batch.last_offset_delta);
        return Err(Fault::invalid(format!("a batch of {count} records cannot end at offset delta {delta}")));
    }
    batch.with_payload(limit, |payload| walk(batch, payload, require_keys, names))
}

fn walk(batch: &Batch<'_>, payload: &[u8], require_keys: bool, names: &HeaderNames) -> Outcome<Facts> {
    let mut max_delta = i64::MIN;
    let mut min_delta = i64::MAX;
    let mut delta_of_max = 0;
    let mut keyless = Vec::new();
    let mut null_key_index = -1;
    let mut named = 0;
    batch.walk(payload, |index, record| {
        if record.offset_delta as u32 != index {
            return Err(Fault::record(index, "offsets in the batch do not follow each other"));
        }
        if record.timestamp_delta > max_delta {
            max_delta = record.timestamp_delta;
            delta_of_max = record.offset_delta;
        }
        min_delta = min_delta.min(record.timestamp_delta);
        if record.header_count > 0 {
            named |= names.find(&record);
        }
        if record.key.is_none() {
            if null_key_index < 0 {
                null_key_index = record.offset_delta;
            }
            if require_keys {
                keyless.push(index);
            }
        }
        Ok(Walk::On)
    })?;
    if !keyless.is_empty() {
        let message = "records of a compacted topic must have a key".to_string();
        return Err(Fault::new(INVALID_RECORD, message, keyless));
    }
    Ok(Facts {
        max_timestamp: batch.base_timestamp.wrapping_add(max_delta),
        delta_of_max_timestamp: delta_of_max,
        min_timestamp: batch.base_timestamp.wrapping_add(min_delta),
        null_key_index,
        named,
    })
}

const NO_TIMESTAMP: i64 = -1;

/// The records without a key, where keys are required, and those whose times are not within the bounds.
pub fn refused(
    batch: &Batch<'_>,
    limit: usize,
    require_keys: bool,
    times: Option<(i64, i64)>,
    most: usize,
) -> Outcome<(usize, bool, Vec<(u32, Option<i64>)>)> {
    batch.with_payload(limit, |payload| {
        let (mut count, mut has_wrong_time, mut first) = (0, false, Vec::new());
        batch.walk(payload, |index, record| {
            let own = batch.timestamp(record.timestamp_delta);
            let wrong = if require_keys && record.key.is_none() {
                None
            } else if times.is_some_and(|(low, high)| own != NO_TIMESTAMP && !(low..=high).contains(&own)) {
                has_wrong_time = true;
                Some(own)
            } else {
                return Ok(Walk::On);
            };
            count += 1;
            if first.len() < most {
                first.push((index, wrong));
            }
            Ok(Walk::On)
        })?;
        Ok((count, has_wrong_time, first))
    })
}

/// The first record at or after `timestamp`: its offset and its timestamp.
pub fn find(batch: &Batch<'_>, timestamp: i64, limit: usize) -> Outcome<Option<(i64, i64)>> {
    batch.with_payload(limit, |payload| {
        let mut found = None;
        batch.walk(payload, |_, record| {
            let own = batch.timestamp(record.timestamp_delta);
            if own < timestamp {
                return Ok(Walk::On);
            }
            found = Some((batch.base_offset + i64::from(record.offset_delta), own));
            Ok(Walk::Stop)
        })?;
        Ok(found)
    })
}
