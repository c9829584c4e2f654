//! Snappy, raw (librdkafka) or in the chunks of snappy-java's stream format (the Java client).

use snap::raw::{Decoder, Encoder, decompress_len};

use super::damaged;
use crate::fault::{Fault, Outcome};

const MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const HEADER: usize = 16; // magic, version, lowest compatible version
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const CHUNK: usize = 32 << 10;

pub fn decompress(data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    if !data.starts_with(MAGIC) {
        return chunk(data, out, limit);
    }
    let mut rest = data;
    while !rest.is_empty() {
        // A stream may be several streams, one after the other.
        if rest.starts_with(MAGIC) {
            rest = rest.get(HEADER..).ok_or_else(|| damaged("snappy", "short stream header"))?;
            continue;
        }
        let (length, tail) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("snappy", "short chunk length"))?;
        let length = u32::from_be_bytes(*length) as usize;
        if length > tail.len() {
            return Err(damaged("snappy", "short chunk"));
        }
        let (packed, tail) = tail.split_at(length);
        chunk(packed, out, limit)?;
        rest = tail;
    }
    Ok(())
}

fn chunk(packed: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    let length = decompress_len(packed).map_err(|error| damaged("snappy", error))?;
    let start = out.len();
    if length > limit - start {
        return Err(Fault::too_large(limit));
    }
    // Nothing can unpack to more than 64 bytes for 3 (a copy element): a length beyond that is a lie, not worth the memory.
    if length / 22 > packed.len() + 1 {
        return Err(damaged("snappy", "declared length is impossible"));
    }
    out.resize(start + length, 0);
    Decoder::new().decompress(packed, &mut out[start..]).map_err(|error| damaged("snappy", error))?;
    Ok(())
}

pub fn compress(data: &[u8]) -> Outcome<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER + data.len() / 2 + 64);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSIONS);
    let mut encoder = Encoder::new();
    for part in data.chunks(CHUNK) {
        let packed = encoder.compress_vec(part).map_err(|error| Fault::invalid(error.to_string()))?;
        out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
        out.extend_from_slice(&packed);
    }
    Ok(out)
}
