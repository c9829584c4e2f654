//! Kafka's zigzag varints.

/// Bytes being read from front to back.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    #[inline(always)]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline(always)]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline(always)]
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Option<i32> {
        let raw = self.unsigned(28)?;
        // More than 32 bits are cut off, as the Java client does it.
        let raw = raw as u32;
        Some((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    #[inline(always)]
    pub fn varlong(&mut self) -> Option<i64> {
        let raw = self.unsigned(63)?;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Seven bits to a byte, the lowest first; nearly all in a record are of one or two bytes.
    #[inline(always)]
    fn unsigned(&mut self, last_shift: u32) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let second = self.byte()?;
        let raw = u64::from(first & 0x7f) | u64::from(second & 0x7f) << 7;
        if second < 0x80 { Some(raw) } else { self.long(raw, last_shift) }
    }

    fn long(&mut self, mut raw: u64, last_shift: u32) -> Option<u64> {
        for shift in (14..=last_shift).step_by(7) {
            let byte = self.byte()?;
            raw |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(raw);
            }
        }
        None
    }
}

pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_unsigned(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_unsigned(out: &mut Vec<u8>, mut rest: u64) {
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
