//! A group's state, for people and for decisions that are not made every turn.

use pyo3::prelude::*;
use pyo3::types::PyList;
use raft::{ProgressState, StateRole};

use super::group::Node;
use super::membership::ConfState;

/// How far the leader knows one peer to be.
#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct PeerProgress {
    pub id: u64,
    pub matched: u64,
    pub next: u64,
    pub state: &'static str,
    pub recent_active: bool,
    pub pending_snapshot: u64,
}

#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct Status {
    pub id: u64,
    pub term: u64,
    pub vote: u64,
    pub role: u8,
    pub leader: u64,
    pub first: u64,
    pub last: u64,
    pub persisted: u64,
    pub commit: u64,
    pub applied: u64,
    pub cached_bytes: usize,
    pub quiet: bool,
    pub transferring_to: u64,
    pub members: Py<ConfState>,
    pub peers: Py<PyList>,
}

pub fn role(state: StateRole) -> u8 {
    match state {
        StateRole::Follower => 0,
        StateRole::Candidate => 1,
        StateRole::Leader => 2,
        StateRole::PreCandidate => 3,
    }
}

fn peers(py: Python<'_>, node: &Node) -> PyResult<Vec<Py<PeerProgress>>> {
    if node.raft.state != StateRole::Leader {
        return Ok(Vec::new()); // what a former leader knew is of no use
    }
    let mut peers: Vec<_> = node.raft.prs().iter().collect();
    peers.sort_unstable_by_key(|(id, _)| **id);
    peers
        .into_iter()
        .map(|(id, progress)| {
            let state = match progress.state {
                ProgressState::Probe => "probe",
                ProgressState::Replicate => "replicate",
                ProgressState::Snapshot => "snapshot",
            };
            Py::new(
                py,
                PeerProgress {
                    id: *id,
                    matched: progress.matched,
                    next: progress.next_idx,
                    state,
                    recent_active: progress.recent_active || *id == node.raft.id,
                    pending_snapshot: progress.pending_snapshot,
                },
            )
        })
        .collect()
}

pub fn status(py: Python<'_>, node: &Node, quiet: bool) -> PyResult<Status> {
    let raft = &node.raft;
    Ok(Status {
        id: raft.id,
        term: raft.term,
        vote: raft.vote,
        role: role(raft.state),
        leader: raft.leader_id,
        first: raft.raft_log.first_index(),
        last: raft.raft_log.last_index(),
        persisted: raft.raft_log.persisted,
        commit: raft.raft_log.committed,
        applied: raft.raft_log.applied,
        cached_bytes: raft.store().cached_bytes(),
        quiet,
        transferring_to: raft.lead_transferee.unwrap_or_default(),
        members: Py::new(py, ConfState::from(&raft.prs().conf().to_conf_state()))?,
        peers: PyList::new(py, peers(py, node)?)?.unbind(),
    })
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PeerProgress>()?;
    module.add_class::<Status>()
}
