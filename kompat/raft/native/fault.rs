//! What can go wrong in a group, and the Python exceptions that carry it.

use std::any::Any;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(kompat._native, RaftError, PyException, "What a Raft group refuses.");
create_exception!(
    kompat._native,
    NotLeader,
    RaftError,
    "This replica does not take proposals now. args: a message, the id of the leader (0: none is known)."
);
create_exception!(kompat._native, MessageRefused, RaftError, "A message from a peer that cannot be right.");
create_exception!(kompat._native, MembershipRefused, RaftError, "A change of members that cannot be made now.");
create_exception!(
    kompat._native,
    RaftPanic,
    PyException,
    "The engine found its own state broken: the group is lost for this process, and the broker has to stop."
);

pub fn refused(message: impl Into<String>) -> PyErr {
    MessageRefused::new_err(message.into())
}

/// What a panic says of itself.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no reason given".to_owned())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("RaftError", py.get_type::<RaftError>())?;
    module.add("NotLeader", py.get_type::<NotLeader>())?;
    module.add("MessageRefused", py.get_type::<MessageRefused>())?;
    module.add("MembershipRefused", py.get_type::<MembershipRefused>())?;
    module.add("RaftPanic", py.get_type::<RaftPanic>())
}
