//! `kompat._native`: what Python would be too slow for. One module per concern; each adds its own names.

mod certificates;
mod compression;
mod fault;
mod hashing;
mod patterns;
mod python;
#[path = "../../raft/native/mod.rs"]
mod raft;
mod re2;
mod records;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fault::register(module)?;
    certificates::register(module)?;
    compression::register(module)?;
    hashing::register(module)?;
    patterns::register(module)?;
    records::register(module)?;
    raft::register(module)
}
