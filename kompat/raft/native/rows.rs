//! Heartbeats of many groups in one piece: rows of fixed fields, and a context where a read waits for it.

use pyo3::prelude::*;

use super::fault::refused;

const VERSION: u8 = 1;
const QUIET: u8 = 1;
const CONTEXT: u8 = 2;
const FIXED: usize = 25;

/// A heartbeat of one group, or the answer to one.
pub struct Row<'a> {
    pub key: u64,
    pub term: u64,
    pub commit: u64,
    pub quiet: bool,
    pub context: &'a [u8],
}

/// Append a row; the first brings the version in front of it.
pub fn write(out: &mut Vec<u8>, row: &Row<'_>) {
    if out.is_empty() {
        out.push(VERSION);
    }
    out.push(u8::from(row.quiet) * QUIET + u8::from(!row.context.is_empty()) * CONTEXT);
    for number in [row.key, row.term, row.commit] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    if !row.context.is_empty() {
        out.extend_from_slice(&(row.context.len() as u32).to_le_bytes());
        out.extend_from_slice(row.context);
    }
}

pub fn read(blob: &[u8]) -> PyResult<Vec<Row<'_>>> {
    let (version, mut rest) = blob.split_first().ok_or_else(|| refused("heartbeats without a version"))?;
    if *version != VERSION {
        return Err(refused(format!("heartbeats of version {version}")));
    }
    let mut rows = Vec::with_capacity(rest.len() / FIXED);
    while !rest.is_empty() {
        let (fixed, after) = cut(rest, FIXED)?;
        let flags = fixed[0];
        if flags & !(QUIET | CONTEXT) != 0 {
            return Err(refused(format!("unknown flags {flags} of a heartbeat")));
        }
        let mut context: &[u8] = &[];
        rest = after;
        if flags & CONTEXT != 0 {
            let (size, after) = cut(rest, 4)?;
            (context, rest) = cut(after, number(size) as usize)?;
        }
        let (key, term, commit) = (number(&fixed[1..9]), number(&fixed[9..17]), number(&fixed[17..25]));
        rows.push(Row { key, term, commit, quiet: flags & QUIET != 0, context });
    }
    Ok(rows)
}

fn cut(bytes: &[u8], size: usize) -> PyResult<(&[u8], &[u8])> {
    bytes.split_at_checked(size).ok_or_else(|| refused("a heartbeat is cut off"))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
