//! raft-rs behind Python objects: one `RaftGroup` per replica of a partition, `RaftGroups` for what all of them share.

mod api;
mod fault;
mod group;
mod groups;
mod membership;
mod message;
mod outcome;
mod payload;
mod ready;
mod rows;
mod status;
mod store;

use pyo3::prelude::*;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fault::register(module)?;
    outcome::register(module)?;
    status::register(module)?;
    module.add_class::<membership::ConfState>()?;
    module.add_class::<group::RaftGroup>()?;
    module.add_class::<groups::RaftGroups>()?;
    module.add_function(wrap_pyfunction!(message::describe_message, module)?)
}
