use std::cell::RefCell;

use zstd_safe::{DCtx, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name};

use super::{damaged, grow};
use crate::fault::{Fault, Outcome};

const DEFAULT_LEVEL: i32 = 3;

thread_local! {
    // A context is some 150 KiB to set up.
    static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

pub fn decompress(data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    let mut context = CONTEXT.take().or_else(DCtx::try_create).ok_or_else(|| Fault::corrupt("zstd: no memory"))?;
    let outcome = frames(&mut context, data, out, limit);
    if outcome.is_ok() || context.reset(ResetDirective::SessionOnly).is_ok() {
        CONTEXT.set(Some(context));
    }
    outcome
}

fn frames(context: &mut DCtx<'_>, data: &[u8], out: &mut Vec<u8>, limit: usize) -> Outcome<()> {
    let mut input = InBuffer::around(data);
    loop {
        grow(out, data.len(), limit)?;
        let before = (input.pos(), out.len());
        let mut output = OutBuffer::around_pos(out, before.1);
        let hint =
            context.decompress_stream(&mut output, &mut input).map_err(|code| damaged("zstd", get_error_name(code)))?;
        if hint == 0 && input.pos() == data.len() {
            return Ok(());
        }
        if (input.pos(), out.len()) == before {
            return Err(damaged("zstd", "the frame is not complete"));
        }
    }
}

pub fn compress(data: &[u8], level: Option<i32>) -> Outcome<Vec<u8>> {
    let mut out = Vec::with_capacity(compress_bound(data.len()));
    zstd_safe::compress(&mut out, data, level.unwrap_or(DEFAULT_LEVEL))
        .map_err(|code| Fault::invalid(format!("zstd: {}", get_error_name(code))))?;
    Ok(out)
}
