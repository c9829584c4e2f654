//! What can be wrong with a batch, and the Python exception that carries it.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    kompat._native,
    BatchError,
    PyException,
    "A batch that is refused. args: Kafka's error code, a message, the indices of the records at fault."
);

create_exception!(
    kompat._native,
    BatchTooLarge,
    BatchError,
    "A batch that unpacks to more than the limit. args: as of BatchError."
);

/// Kafka's error codes, as far as a batch by itself can earn them.
pub const CORRUPT_MESSAGE: i16 = 2;
pub const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
pub const INVALID_RECORD: i16 = 87;

#[derive(Debug)]
pub struct Fault {
    pub code: i16,
    pub message: String,
    pub records: Vec<u32>,
    /// Of more than the limit nothing is known: it may be right.
    pub is_too_large: bool,
}

pub type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub fn new(code: i16, message: String, records: Vec<u32>) -> Self {
        Self { code, message, records, is_too_large: false }
    }

    pub fn too_large(limit: usize) -> Self {
        let message = format!("the batch decompresses to more than {limit} bytes");
        Self { is_too_large: true, ..Self::invalid(message) }
    }

    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(CORRUPT_MESSAGE, message.into(), Vec::new())
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_RECORD, message.into(), Vec::new())
    }

    #[cold]
    pub fn record(index: u32, message: &str) -> Self {
        Self::new(INVALID_RECORD, format!("record {index}: {message}"), vec![index])
    }

    pub fn unknown_codec(codec: u8) -> Self {
        Self::new(UNSUPPORTED_COMPRESSION_TYPE, format!("compression type {codec} is unknown"), Vec::new())
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        let args = (fault.code, fault.message, fault.records);
        if fault.is_too_large { BatchTooLarge::new_err(args) } else { BatchError::new_err(args) }
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BatchTooLarge", module.py().get_type::<BatchTooLarge>())?;
    module.add("BatchError", module.py().get_type::<BatchError>())
}
