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

/// Kafka's error codes, as far as a batch by itself can earn them.
pub const CORRUPT_MESSAGE: i16 = 2;
pub const UNSUPPORTED_COMPRESSION_TYPE: i16 = 76;
pub const INVALID_RECORD: i16 = 87;

#[derive(Debug)]
pub struct Fault {
    pub code: i16,
    pub message: String,
    pub records: Vec<u32>,
}

pub type Outcome<T> = Result<T, Fault>;

impl Fault {
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self { code: CORRUPT_MESSAGE, message: message.into(), records: Vec::new() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: INVALID_RECORD, message: message.into(), records: Vec::new() }
    }

    #[cold]
    pub fn record(index: u32, message: &str) -> Self {
        Self { code: INVALID_RECORD, message: format!("record {index}: {message}"), records: vec![index] }
    }

    pub fn unknown_codec(codec: u8) -> Self {
        Self {
            code: UNSUPPORTED_COMPRESSION_TYPE,
            message: format!("compression type {codec} is unknown"),
            records: Vec::new(),
        }
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        BatchError::new_err((fault.code, fault.message, fault.records))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BatchError", module.py().get_type::<BatchError>())
}
