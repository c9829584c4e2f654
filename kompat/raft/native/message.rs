//! Messages between replicas: a header in protobuf without the payloads, and the payloads as Python's objects.

use bytes::Bytes;
use prost::Message as _;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use raft::StateRole;
use raft::eraftpb::{self, EntryType, MessageType};

use crate::python::Bytes as Borrowed;

use super::fault::refused;
use super::group::Node;
use super::membership::{self, ConfState};
use super::outcome::{Message, Snapshot};
use super::payload;

/// Terms, indices and ids stay far below this, so that no sum of them overflows.
const LIMIT: u64 = 1 << 62;

fn encode(py: Python<'_>, message: &eraftpb::Message) -> PyResult<Py<PyAny>> {
    let bytes = PyBytes::new_with(py, message.encoded_len(), |mut buffer| {
        message.encode(&mut buffer).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    })?;
    Ok(bytes.into_any().unbind())
}

pub fn snapshot_object(py: Python<'_>, snapshot: &eraftpb::Snapshot) -> PyResult<Py<Snapshot>> {
    let metadata = snapshot.get_metadata();
    let members = Py::new(py, ConfState::from(metadata.get_conf_state()))?;
    let data = PyBytes::new(py, &snapshot.data).into_any().unbind();
    Py::new(py, Snapshot { index: metadata.index, term: metadata.term, members, data })
}

fn describe(py: Python<'_>, message: &eraftpb::Message, header: Py<PyAny>) -> PyResult<Message> {
    let snapshot = match message.get_msg_type() {
        MessageType::MsgSnapshot => Some(snapshot_object(py, message.get_snapshot())?),
        _ => None,
    };
    Ok(Message {
        sender: message.from,
        to: message.to,
        kind: message.get_msg_type() as u8,
        term: message.term,
        header,
        payloads: PyList::empty(py).unbind(),
        snapshot,
    })
}

/// The message as Python sends it: the payloads leave as the objects they came in as.
pub fn outgoing(py: Python<'_>, mut message: eraftpb::Message) -> PyResult<Py<Message>> {
    let payloads = PyList::new(py, message.entries.iter().map(|entry| payload::object(py, &entry.data)))?.unbind();
    for entry in message.mut_entries().iter_mut() {
        entry.data = Bytes::new();
    }
    let header = encode(py, &message)?;
    let described = describe(py, &message, header)?;
    Py::new(py, Message { payloads, ..described })
}

/// An append that grew beyond `max_bytes` while raft-rs batched, as several that follow each other.
pub fn split(message: eraftpb::Message, max_bytes: u64) -> Vec<eraftpb::Message> {
    let total: u64 = message.entries.iter().map(|entry| entry.data.len() as u64).sum();
    if message.get_msg_type() != MessageType::MsgAppend || total <= max_bytes {
        return vec![message];
    }
    let mut shell = message;
    let entries = shell.take_entries();
    let mut parts: Vec<eraftpb::Message> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let size = entry.data.len() as u64;
        if parts.is_empty() || bytes + size > max_bytes {
            let mut part = shell.clone();
            if let Some(last) = parts.last().and_then(|part| part.entries.last()) {
                part.index = last.index;
                part.log_term = last.term;
            }
            parts.push(part);
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.mut_entries().push(entry);
        }
    }
    parts
}

fn parse(header: &[u8]) -> PyResult<eraftpb::Message> {
    eraftpb::Message::decode(header).map_err(|error| refused(format!("the header is no message: {error}")))
}

/// What a header says, without giving it to a group: a snapshot's bulk is fetched before its message is stepped.
#[pyfunction]
pub fn describe_message(py: Python<'_>, header: &Bound<'_, PyAny>) -> PyResult<Py<Message>> {
    let message = parse(Borrowed::of(header)?.as_slice())?;
    Py::new(py, describe(py, &message, header.clone().unbind())?)
}

/// A peer's message, its payloads put back. What cannot come from a correct peer is refused here: raft-rs would panic.
pub fn incoming(header: &Bound<'_, PyAny>, payloads: Vec<Bound<'_, PyAny>>) -> PyResult<eraftpb::Message> {
    let mut message = parse(Borrowed::of(header)?.as_slice())?;
    if message.entries.len() != payloads.len() {
        return Err(refused(format!("{} payloads for {} entries", payloads.len(), message.entries.len())));
    }
    for (entry, object) in message.mut_entries().iter_mut().zip(&payloads) {
        if !entry.data.is_empty() {
            return Err(refused("a payload inside of the header"));
        }
        entry.data = payload::borrow(object)?;
    }
    Ok(message)
}

/// Refuse what no correct peer sends to this replica.
pub fn check(message: &eraftpb::Message, node: &Node) -> PyResult<()> {
    let (id, term, last) = (node.raft.id, node.raft.term, node.raft.raft_log.last_index());
    let kind = message.get_msg_type();
    if !is_from_peers(kind) {
        return Err(refused(format!("{kind:?} does not come from a peer")));
    }
    if message.to != id || message.from == id || message.from == 0 {
        return Err(refused(format!("a message from {} to {} has come to {id}", message.from, message.to)));
    }
    if (message.term == 0) != (kind == MessageType::MsgReadIndex) {
        return Err(refused(format!("{kind:?} in term {}", message.term)));
    }
    let numbers = [message.from, message.term, message.log_term, message.index, message.commit, message.reject_hint];
    if numbers.iter().any(|number| *number >= LIMIT) {
        return Err(refused("a number out of range"));
    }
    match kind {
        MessageType::MsgAppend => check_append(message),
        MessageType::MsgHeartbeat if message.term >= term && message.commit > last => Err(refused(format!(
            "the leader has seen this replica's log up to {}, and it ends at {last}: its disk has lost entries",
            message.commit
        ))),
        // a leader that came back without the end of its log may hear of it, but follows then
        MessageType::MsgAppendResponse if is_acknowledged(message, node) && message.index > last => {
            Err(refused(format!("a peer acknowledges {} of a log that ends at {last}", message.index)))
        }
        MessageType::MsgSnapshot => check_snapshot(message),
        MessageType::MsgReadIndex if message.entries.len() != 1 => Err(refused("a read without a context")),
        _ => Ok(()),
    }
}

/// Whether a follower has this of what this replica leads.
fn is_acknowledged(message: &eraftpb::Message, node: &Node) -> bool {
    node.raft.state == StateRole::Leader && message.term == node.raft.term && !message.reject
}

fn is_from_peers(kind: MessageType) -> bool {
    !matches!(
        kind,
        MessageType::MsgHup
            | MessageType::MsgBeat
            | MessageType::MsgPropose
            | MessageType::MsgUnreachable
            | MessageType::MsgSnapStatus
            | MessageType::MsgCheckQuorum
            | MessageType::MsgTransferLeader
    )
}

fn check_append(message: &eraftpb::Message) -> PyResult<()> {
    let (mut index, mut term) = (message.index, message.log_term);
    if (index == 0) != (term == 0) {
        return Err(refused(format!("entries after {index} of term {term}"))); // term 0 is raft-rs's word for "not there"
    }
    for entry in message.entries.iter() {
        if entry.index != index + 1 || entry.term < term || entry.term > message.term {
            return Err(refused(format!("entry {} of term {} after {index} of term {term}", entry.index, entry.term)));
        }
        (index, term) = (entry.index, entry.term);
        if is_unreadable(entry) {
            return Err(refused("an unreadable change of members"));
        }
    }
    Ok(())
}

/// A change of members in a form that this engine never writes, or in none.
fn is_unreadable(entry: &eraftpb::Entry) -> bool {
    match EntryType::try_from(entry.entry_type) {
        Ok(EntryType::EntryNormal) => false,
        Ok(EntryType::EntryConfChange) | Err(_) => true,
        Ok(EntryType::EntryConfChangeV2) => membership::parse(&entry.data).is_err(),
    }
}

fn check_snapshot(message: &eraftpb::Message) -> PyResult<()> {
    let metadata = message.get_snapshot().get_metadata();
    if metadata.index == 0 || metadata.index >= LIMIT || metadata.term == 0 || metadata.term > message.term {
        return Err(refused(format!("a snapshot of {} in term {}", metadata.index, metadata.term)));
    }
    let members = ConfState::from(metadata.get_conf_state());
    if members.voters.is_empty() {
        return Err(refused("a snapshot without members"));
    }
    members.check().map_err(|error| refused(format!("a snapshot's members: {error}")))
}
