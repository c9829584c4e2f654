//! What all groups of a broker share: one tick, and heartbeats in one piece per peer.

use std::collections::BTreeMap;

use bytes::Bytes;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use raft::eraftpb::{Message, MessageType};

use crate::python::Bytes as Borrowed;

use super::fault::MessageRefused;
use super::group::RaftGroup;
use super::rows::{self, Row};

/// The answers to heartbeats; groups that have a ready now; keys of no group here; groups that refused, and why.
type Stepped<'py> = (Bound<'py, PyBytes>, Vec<u64>, Vec<u64>, Vec<(u64, String)>);

#[pyclass(module = "kompat._native")]
pub struct RaftGroups {
    id: u64,
    quiet_after: u32,
    groups: BTreeMap<u64, Py<RaftGroup>>,
    heartbeats: BTreeMap<u64, Vec<u8>>,
}

fn to_message(row: &Row<'_>, kind: MessageType, from: u64, to: u64) -> Message {
    let mut message = Message::default();
    message.set_msg_type(kind);
    message.from = from;
    message.to = to;
    message.term = row.term;
    message.commit = row.commit;
    message.context = Bytes::copy_from_slice(row.context);
    message
}

fn to_row(key: u64, message: &Message, quiet: bool) -> Row<'_> {
    Row { key, term: message.term, commit: message.commit, quiet, context: &message.context }
}

/// Take the messages of a kind out of what a group is about to send.
fn take(group: &mut RaftGroup, kind: MessageType) -> Vec<Message> {
    let messages = std::mem::take(&mut group.node.raft.msgs);
    let (taken, left) = messages.into_iter().partition(|message| message.get_msg_type() == kind);
    group.node.raft.msgs = left;
    taken
}

impl RaftGroups {
    fn tick_one(&self, key: u64, group: &mut RaftGroup, out: &mut BTreeMap<u64, Vec<u8>>) -> PyResult<bool> {
        if group.quiet {
            return Ok(false);
        }
        group.guard(|group| {
            group.tick_once();
            if group.is_leading() && group.has_kept_promises() {
                let heartbeats = take(group, MessageType::MsgHeartbeat);
                let quiet = !heartbeats.is_empty() && self.falls_quiet(group);
                for message in &heartbeats {
                    rows::write(out.entry(message.to).or_default(), &to_row(key, message, quiet));
                }
                group.quiet = quiet;
            }
            Ok(group.has_work())
        })
    }

    /// Count the ticks without work; the heartbeat after enough of them is the last.
    fn falls_quiet(&self, group: &mut RaftGroup) -> bool {
        if self.quiet_after == 0 || !group.is_settled() || group.has_work() {
            group.idle_ticks = 0;
            return false;
        }
        group.idle_ticks += 1;
        group.idle_ticks >= self.quiet_after
    }

    fn step_one(&self, group: &mut RaftGroup, sender: u64, row: &Row<'_>, reply: &mut Vec<u8>) -> PyResult<bool> {
        group.guard(|group| {
            let was_quiet = group.quiet;
            group.receive(to_message(row, MessageType::MsgHeartbeat, sender, self.id))?;
            if group.has_kept_promises() {
                let answers = take(group, MessageType::MsgHeartbeatResponse);
                for message in answers.iter().filter(|_| !group.muted) {
                    rows::write(reply, &to_row(row.key, message, false));
                }
            }
            let follows = group.node.raft.leader_id == sender && group.node.raft.term == row.term;
            let at_end = row.commit == group.node.raft.raft_log.last_index();
            group.quiet = row.quiet && follows && at_end && (was_quiet || (group.is_settled() && !group.has_work()));
            Ok(group.outdated || group.has_work())
        })
    }
}

#[pymethods]
impl RaftGroups {
    #[new]
    #[pyo3(signature = (id, quiet_after=0))]
    fn new(id: u64, quiet_after: u32) -> PyResult<Self> {
        if id == 0 {
            return Err(PyValueError::new_err("ids are numbers above zero"));
        }
        Ok(Self { id, quiet_after, groups: BTreeMap::new(), heartbeats: BTreeMap::new() })
    }

    fn __len__(&self) -> usize {
        self.groups.len()
    }

    fn add(&mut self, key: u64, group: &Bound<'_, RaftGroup>) -> PyResult<()> {
        if group.borrow().node.raft.id != self.id {
            return Err(PyValueError::new_err(format!("a replica of another broker than {}", self.id)));
        }
        if self.groups.contains_key(&key) {
            return Err(PyKeyError::new_err(key));
        }
        self.groups.insert(key, group.clone().unbind());
        Ok(())
    }

    fn remove(&mut self, key: u64) -> PyResult<()> {
        self.groups.remove(&key).map(drop).ok_or_else(|| PyKeyError::new_err(key))
    }

    fn tick(&mut self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let mut out = std::mem::take(&mut self.heartbeats);
        let mut ready = Vec::new();
        for (key, group) in &self.groups {
            if self.tick_one(*key, &mut *group.bind(py).try_borrow_mut()?, &mut out)? {
                ready.push(*key);
            }
        }
        self.heartbeats = out;
        Ok(ready)
    }

    fn take_heartbeats<'py>(&mut self, py: Python<'py>) -> Vec<(u64, Bound<'py, PyBytes>)> {
        let blobs = std::mem::take(&mut self.heartbeats);
        blobs.into_iter().map(|(peer, blob)| (peer, PyBytes::new(py, &blob))).collect()
    }

    fn step_heartbeats<'py>(&self, py: Python<'py>, sender: u64, blob: &Bound<'_, PyAny>) -> PyResult<Stepped<'py>> {
        let blob = Borrowed::of(blob)?;
        let (mut reply, mut ready, mut unknown, mut faults) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in rows::read(blob.as_slice())? {
            let Some(group) = self.groups.get(&row.key) else {
                unknown.push(row.key);
                continue;
            };
            match self.step_one(&mut *group.bind(py).try_borrow_mut()?, sender, &row, &mut reply) {
                Ok(true) => ready.push(row.key),
                Ok(false) => {}
                Err(error) if error.is_instance_of::<MessageRefused>(py) => faults.push((row.key, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok((PyBytes::new(py, &reply), ready, unknown, faults))
    }

    fn step_heartbeat_replies(&self, py: Python<'_>, sender: u64, blob: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
        let blob = Borrowed::of(blob)?;
        let mut ready = Vec::new();
        for row in rows::read(blob.as_slice())? {
            let Some(group) = self.groups.get(&row.key) else { continue };
            let message = to_message(&row, MessageType::MsgHeartbeatResponse, sender, self.id);
            let has_work = group.bind(py).try_borrow_mut()?.guard(|group| {
                group.receive(message)?;
                Ok(group.has_work())
            })?;
            if has_work {
                ready.push(row.key);
            }
        }
        Ok(ready)
    }

    /// Find out anew how far a restarted peer is, in all groups that are led here.
    fn reset_peer(&self, py: Python<'_>, peer: u64) -> PyResult<()> {
        for group in self.groups.values() {
            group.bind(py).try_borrow_mut()?.guard(|group| {
                group.forget_progress(peer);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Wake all groups that have this peer as a member.
    fn wake(&self, py: Python<'_>, peer: u64) -> PyResult<usize> {
        let mut woken = 0;
        for group in self.groups.values() {
            let mut group = group.bind(py).try_borrow_mut()?;
            if group.quiet && group.node.raft.prs().get(peer).is_some() {
                group.wake_up();
                woken += 1;
            }
        }
        Ok(woken)
    }
}
