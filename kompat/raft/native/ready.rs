//! Collect what a turn of the group has brought.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use raft::eraftpb::{self, MessageType};

use super::group::RaftGroup;
use super::message;
use super::outcome::{EntriesWanted, Entry, HardState, ReadState, Ready, SoftState};
use super::payload;
use super::status;
use super::store::is_membership;

fn to_object(py: Python<'_>, entry: &eraftpb::Entry) -> PyResult<Py<Entry>> {
    Py::new(
        py,
        Entry {
            index: entry.index,
            term: entry.term,
            kind: entry.entry_type as u8,
            context: PyBytes::new(py, &entry.context).into_any().unbind(),
            payload: payload::object(py, &entry.data),
        },
    )
}

impl RaftGroup {
    fn wanted(&self, py: Python<'_>) -> PyResult<Vec<Py<EntriesWanted>>> {
        let followers = |first: u64| {
            let mut ids: Vec<u64> = self
                .node
                .raft
                .prs()
                .iter()
                .filter(|(_, progress)| progress.next_idx == first)
                .map(|(id, _)| *id)
                .collect();
            ids.sort_unstable();
            ids
        };
        let wants = self.node.store().tell_wants().into_iter();
        wants
            .map(|(id, first, end, max_bytes)| {
                Py::new(py, EntriesWanted { id, first, end, max_bytes, followers: followers(first) })
            })
            .collect()
    }

    fn messages(&self, py: Python<'_>, messages: Vec<eraftpb::Message>) -> PyResult<Py<PyList>> {
        let list = PyList::empty(py);
        for message in messages.into_iter().filter(|message| message.get_msg_type() != MessageType::MsgPropose) {
            for part in message::split(message, self.max_bytes) {
                list.append(message::outgoing(py, part)?)?;
            }
        }
        Ok(list.unbind())
    }

    /// What is committed now: the range, and the changes of members in it.
    fn committed(&mut self, py: Python<'_>, entries: &[eraftpb::Entry]) -> PyResult<(u64, u64, Py<PyList>)> {
        let changes = entries.iter().filter(|entry| is_membership(entry));
        let changes = PyList::new(py, changes.map(|entry| to_object(py, entry)).collect::<PyResult<Vec<_>>>()?)?;
        let (first, last) = match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => (first.index, last.index),
            _ => (0, 0),
        };
        self.delivered = self.delivered.max(last);
        Ok((first, last, changes.unbind()))
    }

    pub(super) fn collect(&mut self, py: Python<'_>) -> PyResult<Ready> {
        let mut ready = self.node.ready();
        let mut messages = ready.take_messages();
        let mut after_persist = ready.take_persisted_messages();
        let committed = ready.take_committed_entries();
        let read_states = ready.take_read_states().into_iter().map(|read| {
            Py::new(
                py,
                ReadState { index: read.index, context: PyBytes::new(py, &read.request_ctx).into_any().unbind() },
            )
        });
        let read_states = PyList::new(py, read_states.collect::<PyResult<Vec<_>>>()?)?.unbind();
        let entries = ready.entries().iter().map(|entry| to_object(py, entry)).collect::<PyResult<Vec<_>>>()?;
        let soft_state =
            ready.ss().map(|soft| SoftState { role: status::role(soft.raft_state), leader: soft.leader_id });
        let hard_state = ready.hs().map(HardState::from);
        let snapshot = match ready.snapshot() {
            snapshot if snapshot.is_empty() => None,
            snapshot => Some(message::snapshot_object(py, snapshot)?),
        };
        let (number, must_sync) = (ready.number(), ready.must_sync());
        self.told = number;
        self.keep(&ready);
        if !self.has_kept_promises() {
            // a leader that elected itself alone: its learners must not hear of a term that a crash may take back
            after_persist.append(&mut messages);
        }
        self.node.advance_append_async(ready);
        let (committed_from, committed_to, memberships) = self.committed(py, &committed)?;
        Ok(Ready {
            number,
            must_sync,
            hard_state: hard_state.map(|state| Py::new(py, state)).transpose()?,
            soft_state: soft_state.map(|state| Py::new(py, state)).transpose()?,
            snapshot,
            entries: PyList::new(py, entries)?.unbind(),
            messages: self.messages(py, messages)?,
            messages_after_persist: self.messages(py, after_persist)?,
            committed_from,
            committed_to,
            memberships,
            read_states,
            wanted: PyList::new(py, self.wanted(py)?)?.unbind(),
        })
    }

    /// Make what Python writes now readable for raft-rs.
    fn keep(&mut self, ready: &raft::Ready) {
        if let Some((term, vote)) = ready.hs().map(|state| (state.term, state.vote)) {
            if self.promise != (term, vote) {
                self.promise = (term, vote);
                self.promised = ready.number();
            }
        }
        if !ready.snapshot().is_empty() {
            let metadata = ready.snapshot().get_metadata();
            let (index, term) = (metadata.index, metadata.term);
            self.pending.clear();
            self.pending.insert(index, metadata.get_conf_state().clone());
            self.delivered = index;
            self.node.mut_store().install(index, term);
        }
        self.node.mut_store().append(ready.entries());
    }
}
