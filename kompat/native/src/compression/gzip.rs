use std::io::{Read, Write};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{damaged, grow};
use crate::fault::{Fault, Outcome};

const LEVELS: std::ops::RangeInclusive<i32> = 1..=9;

pub fn decompress(data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    grow(out, data.len(), limit)?;
    let most = (limit as u64).saturating_add(1);
    MultiGzDecoder::new(data).take(most).read_to_end(out).map_err(|error| damaged("gzip", error))?;
    Ok(())
}

pub fn compress(data: &[u8], level: Option<i32>) -> Outcome<Vec<u8>> {
    let level = match level {
        Some(level) if LEVELS.contains(&level) => Compression::new(level.unsigned_abs()),
        _ => Compression::default(),
    };
    let mut encoder = GzEncoder::new(Vec::with_capacity(data.len() / 2 + 64), level);
    encoder.write_all(data).and_then(|()| encoder.finish()).map_err(|error| Fault::invalid(error.to_string()))
}
