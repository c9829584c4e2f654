//! The subject of a certificate, as Java writes it: that is what ACLs and mapping rules have been written for.

use std::fmt::Write;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use x509_parser::asn1_rs::{Any, Tag, ToDer};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate};

use crate::python::Bytes;

/// Attributes that have a name in RFC 2253; the others are written as numbers.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.6", "C"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];
const ESCAPED: &str = ",=+<>#;\"\\";

/// Of a certificate in DER: RFC 2253, the last part first. Raises ValueError where it is none.
#[pyfunction]
fn certificate_subject(certificate: &Bound<'_, PyAny>) -> PyResult<String> {
    let borrowed = Bytes::of(certificate)?;
    let invalid = |error: String| PyValueError::new_err(format!("the certificate cannot be read: {error}"));
    let (_, parsed) = X509Certificate::from_der(borrowed.as_slice()).map_err(|error| invalid(error.to_string()))?;
    let parts: Result<Vec<String>, String> = parsed
        .subject()
        .iter_rdn()
        .map(|part| Ok(part.iter().map(attribute).collect::<Result<Vec<_>, String>>()?.join("+")))
        .collect();
    let mut parts = parts.map_err(invalid)?;
    parts.reverse();
    Ok(parts.join(","))
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> Result<String, String> {
    let number = attribute.attr_type().to_id_string();
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == number).map(|(_, keyword)| *keyword);
    if let (Some(keyword), Some(text)) = (keyword, text(attribute.attr_value())) {
        return Ok(format!("{keyword}={}", escaped(&text)));
    }
    let mut written = format!("{}=#", keyword.unwrap_or(&number));
    for byte in attribute.attr_value().to_der_vec().map_err(|error| error.to_string())? {
        write!(written, "{byte:02x}").map_err(|error| error.to_string())?;
    }
    Ok(written)
}

/// The text of a value, None where it is not of the kinds that names have. Java takes the bytes of all of them for UTF-8.
fn text(value: &Any<'_>) -> Option<String> {
    let is_text = matches!(
        value.header.tag(),
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::T61String | Tag::GeneralString | Tag::BmpString
    );
    is_text.then(|| String::from_utf8_lossy(value.data).into_owned())
}

fn escaped(text: &str) -> String {
    let is_blank = |char: char| char == ' ' || char == '\r';
    let leading = text.len() - text.trim_start_matches(is_blank).len();
    let end = text.trim_end_matches(is_blank).len();
    let mut out = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        if char == '\0' {
            out.push_str("\\00");
            continue;
        }
        if at < leading || at >= end || ESCAPED.contains(char) {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(certificate_subject, module)?)
}
