//! LZ4 frames, through liblz4: the only implementation with the compression levels that topics can ask for.

use std::cell::RefCell;
use std::ffi::CStr;
use std::ptr;

use lz4_sys::{
    BlockChecksum, BlockMode, BlockSize, ContentChecksum, FrameType, LZ4F_VERSION, LZ4F_compressBegin,
    LZ4F_compressBound, LZ4F_compressEnd, LZ4F_compressUpdate, LZ4F_createCompressionContext,
    LZ4F_createDecompressionContext, LZ4F_decompress, LZ4F_freeCompressionContext, LZ4F_freeDecompressionContext,
    LZ4F_getErrorName, LZ4F_isError, LZ4FCompressionContext, LZ4FDecompressionContext, LZ4FFrameInfo, LZ4FPreferences,
};

use super::{damaged, grow};
use crate::fault::{Fault, Outcome};

/// Kafka's default level, which there stands for the fast compressor.
const KAFKA_DEFAULT: i32 = 9;
const FRAME_HEADER_MOST: usize = 19;

struct Decoder(LZ4FDecompressionContext);

impl Decoder {
    fn create() -> Option<Self> {
        let mut context = LZ4FDecompressionContext(ptr::null_mut());
        // SAFETY: writes a new context through the reference, or fails.
        let code = unsafe { LZ4F_createDecompressionContext(&mut context, LZ4F_VERSION) };
        if is_error(code) { None } else { Some(Self(context)) }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: created above, freed once.
        unsafe { LZ4F_freeDecompressionContext(LZ4FDecompressionContext(self.0.0)) };
    }
}

struct Encoder(LZ4FCompressionContext);

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: created in `compress`, freed once.
        unsafe { LZ4F_freeCompressionContext(LZ4FCompressionContext(self.0.0)) };
    }
}

fn is_error(code: usize) -> bool {
    // SAFETY: a pure function of its argument.
    unsafe { LZ4F_isError(code) != 0 }
}

fn name(code: usize) -> String {
    // SAFETY: liblz4 answers a static string for every code.
    unsafe { CStr::from_ptr(LZ4F_getErrorName(code)) }.to_string_lossy().into_owned()
}

thread_local! {
    // Kept while it succeeds: a context that failed half-way through a frame cannot be used again.
    static DECODER: RefCell<Option<Decoder>> = const { RefCell::new(None) };
}

pub fn decompress(data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    let decoder = DECODER.take().or_else(Decoder::create).ok_or_else(|| Fault::corrupt("lz4: no memory"))?;
    frames(&decoder, data, out, limit)?;
    DECODER.set(Some(decoder));
    Ok(())
}

fn frames(decoder: &Decoder, data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    let mut rest = data;
    loop {
        grow(out, data.len(), limit)?;
        let spare = out.spare_capacity_mut();
        let mut written = spare.len();
        let mut read = rest.len();
        // SAFETY: both lengths are those of the memory behind the pointers; no options.
        let hint = unsafe {
            LZ4F_decompress(
                LZ4FDecompressionContext(decoder.0.0),
                spare.as_mut_ptr().cast::<u8>(),
                &mut written,
                rest.as_ptr(),
                &mut read,
                ptr::null(),
            )
        };
        if is_error(hint) {
            return Err(damaged("lz4", name(hint)));
        }
        let length = out.len() + written;
        // SAFETY: liblz4 has initialised `written` bytes of the spare capacity.
        unsafe { out.set_len(length) };
        rest = &rest[read..];
        match (hint, rest.is_empty()) {
            (0, true) => return Ok(()),
            (_, true) if written == 0 => return Err(damaged("lz4", "the frame is not complete")),
            (_, false) if written == 0 && read == 0 => return Err(damaged("lz4", "no progress")),
            _ => {}
        }
    }
}

pub fn compress(data: &[u8], level: Option<i32>) -> Outcome<Vec<u8>> {
    let mut context = LZ4FCompressionContext(ptr::null_mut());
    // SAFETY: writes a new context through the reference, or fails.
    checked(unsafe { LZ4F_createCompressionContext(&mut context, LZ4F_VERSION) })?;
    let encoder = Encoder(context);
    let preferences = preferences(level.filter(|level| *level != KAFKA_DEFAULT));
    // SAFETY: the bound is for exactly these preferences and this length.
    let bound = FRAME_HEADER_MOST + unsafe { LZ4F_compressBound(data.len(), &preferences) };
    let mut out: Vec<u8> = Vec::with_capacity(bound);
    let start = out.as_mut_ptr();
    let context = || LZ4FCompressionContext(encoder.0.0);
    // SAFETY: each call gets the room that the ones before it left, and only what was written becomes the vector's.
    unsafe {
        let mut at = checked(LZ4F_compressBegin(context(), start, bound, &preferences))?;
        at +=
            checked(LZ4F_compressUpdate(context(), start.add(at), bound - at, data.as_ptr(), data.len(), ptr::null()))?;
        at += checked(LZ4F_compressEnd(context(), start.add(at), bound - at, ptr::null()))?;
        out.set_len(at);
    }
    Ok(out)
}

/// Independent blocks of 64 KiB: the Java client reads no others.
fn preferences(level: Option<i32>) -> LZ4FPreferences {
    LZ4FPreferences {
        frame_info: LZ4FFrameInfo {
            block_size_id: BlockSize::Max64KB,
            block_mode: BlockMode::Independent,
            content_checksum_flag: ContentChecksum::NoChecksum,
            frame_type: FrameType::Frame,
            content_size: 0,
            dict_id: 0,
            block_checksum_flag: BlockChecksum::NoBlockChecksum,
        },
        compression_level: level.unwrap_or(0).max(0).unsigned_abs(),
        auto_flush: 1,
        favor_dec_speed: 0,
        reserved: [0; 3],
    }
}

fn checked(code: usize) -> Outcome<usize> {
    if is_error(code) { Err(Fault::invalid(format!("lz4: {}", name(code)))) } else { Ok(code) }
}
