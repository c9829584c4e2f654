//! The batch's header, as far as a walk over its records needs it, and the walk itself.

use pyo3::prelude::*;

use super::varint::Cursor;
use crate::compression::{NONE, is_long, unpacking, with_decompressed};
use crate::fault::{Fault, Outcome};

pub const HEADER_SIZE: usize = 61;
/// The CRC covers everything from the attributes on.
const CRC_START: usize = 21;
const CODEC_MASK: u16 = 0x07;
const LOG_APPEND_TIME: u16 = 0x08;

pub struct Batch<'a> {
    pub base_offset: i64,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub record_count: i32,
    attributes: u16,
    crc: u32,
    bytes: &'a [u8],
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

/// The size of the whole, undamaged batches that `bytes` begins with.
pub fn whole(bytes: &[u8]) -> usize {
    let mut at = 0;
    while bytes.len() - at >= HEADER_SIZE {
        let length = i32::from_be_bytes(field(bytes, at + 8));
        let Some(end) = usize::try_from(length).ok().and_then(|length| at.checked_add(length + 12)) else { break };
        if end > bytes.len() || !Batch::parse(&bytes[at..end]).is_ok_and(|batch| batch.verify_crc().is_ok()) {
            break;
        }
        at = end;
    }
    at
}

impl<'a> Batch<'a> {
    /// `bytes` is one whole batch of format 2 and nothing else.
    pub fn parse(bytes: &'a [u8]) -> Outcome<Self> {
        if bytes.len() < HEADER_SIZE {
            return Err(Fault::corrupt(format!("a batch of {} bytes is shorter than its header", bytes.len())));
        }
        let length = i32::from_be_bytes(field(bytes, 8));
        if i64::from(length) + 12 != bytes.len() as i64 {
            return Err(Fault::corrupt(format!("batch length {length} is not that of its {} bytes", bytes.len())));
        }
        match bytes[16] {
            2 => {}
            magic @ 0..2 => return Err(Fault::invalid(format!("record batches must have magic 2, not {magic}"))),
            magic => return Err(Fault::corrupt(format!("magic {magic} is unknown"))),
        }
        Ok(Self {
            base_offset: i64::from_be_bytes(field(bytes, 0)),
            crc: u32::from_be_bytes(field(bytes, 17)),
            attributes: u16::from_be_bytes(field(bytes, 21)),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: i64::from_be_bytes(field(bytes, 27)),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
            bytes,
        })
    }

    pub fn verify_crc(&self) -> Outcome<()> {
        let computed = crc32c::crc32c(&self.bytes[CRC_START..]);
        if computed == self.crc {
            return Ok(());
        }
        Err(Fault::corrupt(format!("the batch's CRC is {:#010x}, its bytes give {computed:#010x}", self.crc)))
    }

    pub fn codec(&self) -> u8 {
        (self.attributes & CODEC_MASK) as u8
    }

    pub fn has_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// What consumers see: under log append time all records have the batch's.
    pub fn timestamp(&self, delta: i64) -> i64 {
        if self.has_log_append_time() { self.max_timestamp } else { self.base_timestamp.wrapping_add(delta) }
    }

    pub fn is_long(&self) -> bool {
        is_long(self.codec(), self.bytes.len())
    }

    /// Let `work` see the decompressed records.
    pub fn with_payload<T>(&self, limit: usize, work: impl FnOnce(&[u8]) -> Outcome<T>) -> Outcome<T> {
        let payload = &self.bytes[HEADER_SIZE..];
        // A compacted batch may have lost all its records; then there is no compressed stream either.
        let codec = if payload.is_empty() && self.record_count == 0 { NONE } else { self.codec() };
        with_decompressed(codec, payload, limit, work)
    }

    /// The same for work that needs the GIL, which is let go of while much is unpacked.
    pub fn with_payload_of<T>(
        &self,
        py: Python<'_>,
        limit: usize,
        work: impl FnOnce(&[u8]) -> Outcome<T>,
    ) -> Outcome<T> {
        let payload = &self.bytes[HEADER_SIZE..];
        if self.codec() == NONE || payload.is_empty() {
            return self.with_payload(limit, work);
        }
        let unpacked =
            unpacking(py, self.is_long(), limit, |limit| self.with_payload(limit, |payload| Ok(payload.to_vec())))?;
        work(&unpacked)
    }

    /// Visit every record, and insist that they are as many and as long as was declared.
    pub fn walk<'p>(&self, payload: &'p [u8], mut visit: impl FnMut(u32, View<'p>) -> Outcome<Walk>) -> Outcome<()> {
        if self.record_count < 0 {
            return Err(Fault::invalid(format!("the batch declares {} records", self.record_count)));
        }
        let mut cursor = Cursor::new(payload);
        for index in 0..self.record_count.unsigned_abs() {
            let view = View::read(&mut cursor, index)?;
            if visit(index, view)? == Walk::Stop {
                return Ok(());
            }
        }
        match cursor.remaining() {
            0 => Ok(()),
            left => Err(Fault::invalid(format!("{left} bytes follow the last of {} records", self.record_count))),
        }
    }
}

#[derive(PartialEq, Eq)]
pub enum Walk {
    On,
    Stop,
}

/// A record where it lies. Its headers have been walked over and found well-formed.
pub struct View<'a> {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub header_count: u32,
    pub headers: Cursor<'a>,
}

impl<'a> View<'a> {
    #[inline(always)]
    fn read(cursor: &mut Cursor<'a>, index: u32) -> Outcome<Self> {
        // The next record's place follows from the length alone, not from the fields, so the processor need not wait
        // for one record's fields before it begins with the next.
        let Some(body) = cursor.varint().and_then(|length| cursor.take(usize::try_from(length).ok()?)) else {
            return Err(Fault::record(index, "its length does not fit the batch"));
        };
        let mut fields = Cursor::new(body);
        match Self::read_body(&mut fields) {
            Some(view) if fields.remaining() == 0 => Ok(view),
            Some(_) => Err(Fault::record(index, "its fields do not add up to its length")),
            None => Err(Fault::record(index, "its fields do not fit its length")),
        }
    }

    #[inline(always)]
    fn read_body(cursor: &mut Cursor<'a>) -> Option<Self> {
        cursor.byte()?; // attributes: none are defined
        let timestamp_delta = cursor.varlong()?;
        let offset_delta = cursor.varint()?;
        let key = nullable(cursor)?;
        let value = nullable(cursor)?;
        let header_count = u32::try_from(cursor.varint()?).ok()?;
        let headers = *cursor;
        for _ in 0..header_count {
            next_header(cursor)?;
        }
        Some(Self { timestamp_delta, offset_delta, key, value, header_count, headers })
    }
}

#[inline(always)]
fn nullable<'a>(cursor: &mut Cursor<'a>) -> Option<Option<&'a [u8]>> {
    match cursor.varint()? {
        length if length >= 0 => cursor.take(length as usize).map(Some),
        -1 => Some(None),
        _ => None,
    }
}

/// The next of a record's headers: its key cannot be null, its value can.
#[inline(always)]
pub fn next_header<'a>(cursor: &mut Cursor<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let length = usize::try_from(cursor.varint()?).ok()?;
    let key = cursor.take(length)?;
    Some((key, nullable(cursor)?))
}
