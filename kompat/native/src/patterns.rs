//! Regular expressions of clients: RE2's syntax, held against whole names in linear time, whatever the expression.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use regex::bytes::{Regex, RegexBuilder};

use crate::re2::translated;

/// Of the text, in bytes.
const MAX_LENGTH: usize = 4096;
/// Of the compiled expression, in bytes: it bounds what matching a name can cost, to some milliseconds. `.{249}` has room.
const MAX_COMPILED: usize = 256 << 10;
/// Of what is learnt while names are matched: with too little of it, matching is slow, but no less linear.
const MAX_CACHE: usize = 1 << 20;

/// A compiled expression.
#[pyclass(frozen, module = "kompat._native")]
pub struct NamePattern(Regex);

#[pymethods]
impl NamePattern {
    #[new]
    fn new(expression: &str) -> PyResult<Self> {
        compiled(expression).map(Self).map_err(PyValueError::new_err)
    }

    /// Those of the names that match as a whole, in their order.
    fn select(&self, names: Vec<PyBackedStr>) -> Vec<PyBackedStr> {
        names.into_iter().filter(|name| self.0.is_match(name.as_bytes())).collect()
    }
}

fn compiled(expression: &str) -> Result<Regex, String> {
    if expression.len() > MAX_LENGTH {
        return Err(format!("the expression is longer than {MAX_LENGTH} bytes"));
    }
    RegexBuilder::new(&format!(r"\A(?:{})\z", translated(expression)?))
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_CACHE)
        .build()
        .map_err(|error| reason(&error))
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "the expression is too large".to_owned(),
        // the text before is the translated expression, which its author has never seen
        other => other.to_string().rsplit("error: ").next().unwrap_or_default().to_owned(),
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NamePattern>()
}
