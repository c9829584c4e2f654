//! Who is in a group, and changes of it.

use std::collections::BTreeSet;

use prost::Message as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raft::eraftpb::{self, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2};
use raft::{Changer, ProgressTracker};

use super::fault::MembershipRefused;

/// The members of a group as of some entry. While it changes from one set of voters to another, both are needed.
#[pyclass(frozen, eq, hash, get_all, skip_from_py_object, module = "kompat._native")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ConfState {
    pub voters: Vec<u64>,
    pub learners: Vec<u64>,
    pub voters_outgoing: Vec<u64>,
    pub learners_next: Vec<u64>,
    pub auto_leave: bool,
}

#[pymethods]
impl ConfState {
    #[new]
    #[pyo3(signature = (voters=vec![], learners=vec![], voters_outgoing=vec![], learners_next=vec![], auto_leave=false))]
    fn new(
        voters: Vec<u64>,
        learners: Vec<u64>,
        voters_outgoing: Vec<u64>,
        learners_next: Vec<u64>,
        auto_leave: bool,
    ) -> PyResult<Self> {
        let state = Self { voters, learners, voters_outgoing, learners_next, auto_leave }.sorted();
        state.check().map_err(PyValueError::new_err)?;
        Ok(state)
    }

    fn __repr__(&self) -> String {
        format!(
            "ConfState(voters={:?}, learners={:?}, voters_outgoing={:?}, learners_next={:?}, auto_leave={})",
            self.voters,
            self.learners,
            self.voters_outgoing,
            self.learners_next,
            if self.auto_leave { "True" } else { "False" },
        )
    }
}

impl ConfState {
    fn sorted(mut self) -> Self {
        for ids in [&mut self.voters, &mut self.learners, &mut self.voters_outgoing, &mut self.learners_next] {
            ids.sort_unstable();
        }
        self
    }

    /// What raft-rs takes for granted of a set of members.
    pub fn check(&self) -> Result<(), String> {
        let all = [&self.voters, &self.learners, &self.voters_outgoing, &self.learners_next];
        for ids in all {
            if ids.contains(&0) || ids.iter().collect::<BTreeSet<_>>().len() != ids.len() {
                return Err(format!("ids are numbers above zero, each once: {ids:?}"));
            }
        }
        let both = |left: &[u64], right: &[u64]| left.iter().any(|id| right.contains(id));
        if both(&self.learners, &self.voters) || both(&self.learners, &self.voters_outgoing) {
            return Err("a learner cannot be a voter".to_owned());
        }
        if self.learners_next.iter().any(|id| !self.voters_outgoing.contains(id) || self.voters.contains(id)) {
            return Err("only a voter on its way out can be a learner next".to_owned());
        }
        if self.voters.is_empty() && all.iter().any(|ids| !ids.is_empty()) {
            return Err("a group with members has a voter".to_owned());
        }
        if self.auto_leave && self.voters_outgoing.is_empty() {
            return Err("there is no change to leave by itself".to_owned());
        }
        Ok(())
    }

    pub fn to_proto(&self) -> eraftpb::ConfState {
        eraftpb::ConfState {
            voters: self.voters.clone(),
            learners: self.learners.clone(),
            voters_outgoing: self.voters_outgoing.clone(),
            learners_next: self.learners_next.clone(),
            auto_leave: self.auto_leave,
        }
    }
}

impl From<&eraftpb::ConfState> for ConfState {
    fn from(state: &eraftpb::ConfState) -> Self {
        Self {
            voters: state.voters.clone(),
            learners: state.learners.clone(),
            voters_outgoing: state.voters_outgoing.clone(),
            learners_next: state.learners_next.clone(),
            auto_leave: state.auto_leave,
        }
        .sorted()
    }
}

fn single(kind: u8, node: u64) -> PyResult<ConfChangeSingle> {
    let mut change = ConfChangeSingle { node_id: node, ..Default::default() };
    change.set_change_type(match kind {
        0 => ConfChangeType::AddNode,
        1 => ConfChangeType::RemoveNode,
        2 => ConfChangeType::AddLearnerNode,
        _ => return Err(PyValueError::new_err(format!("{kind} is no kind of change"))),
    });
    if node == 0 {
        return Err(PyValueError::new_err("ids are numbers above zero"));
    }
    Ok(change)
}

/// The change as an entry carries it; none at all leaves the joint state.
pub fn change(changes: Vec<(u8, u64)>, joint: bool, auto_leave: bool) -> PyResult<ConfChangeV2> {
    let mut change = ConfChangeV2::default();
    if joint && !changes.is_empty() {
        change.set_transition(if auto_leave { ConfChangeTransition::Implicit } else { ConfChangeTransition::Explicit });
    }
    let singles = changes.into_iter().map(|(kind, node)| single(kind, node)).collect::<PyResult<Vec<_>>>()?;
    change.changes = singles;
    Ok(change)
}

pub fn parse(payload: &[u8]) -> PyResult<ConfChangeV2> {
    ConfChangeV2::decode(payload).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Try the change on the members as they are: what fails here would fail on every replica after its commit.
pub fn rehearse(tracker: &ProgressTracker, change: &ConfChangeV2) -> PyResult<()> {
    let mut changer = Changer::new(tracker);
    let outcome = if change.leave_joint() {
        changer.leave_joint()
    } else if let Some(auto_leave) = change.enter_joint() {
        changer.enter_joint(auto_leave, &change.changes)
    } else {
        changer.simple(&change.changes)
    };
    outcome.map(drop).map_err(|error| MembershipRefused::new_err(error.to_string()))
}
