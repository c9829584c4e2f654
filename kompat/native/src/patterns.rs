//! Regular expressions of subscriptions, matched in linear time whatever the expression.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use regex::bytes::{Regex, RegexBuilder};

/// A compiled expression, matched on the bytes of names.
#[pyclass(frozen, module = "kompat._native")]
pub struct NamePattern(Regex);

#[pymethods]
impl NamePattern {
    /// `size_limit`: of the compiled expression, in bytes. It bounds what matching a name can cost. `cache_limit`: of what is
    /// learnt while names are matched; with too little of it, matching is slow, but no less linear.
    #[new]
    fn new(
        expression: &str,
        size_limit: usize,
        cache_limit: usize,
        unicode: bool,
    ) -> PyResult<Self> {
        RegexBuilder::new(expression)
            .unicode(unicode)
            .size_limit(size_limit)
            .dfa_size_limit(cache_limit)
            .build()
            .map(Self)
            .map_err(|error| PyValueError::new_err(reason(&error)))
    }

    /// Those of the names that match, in their order.
    fn select(&self, names: Vec<PyBackedStr>) -> Vec<PyBackedStr> {
        names
            .into_iter()
            .filter(|name| self.0.is_match(name.as_bytes()))
            .collect()
    }
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "the expression is too large".to_owned(),
        other => other.to_string(),
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NamePattern>()
}
