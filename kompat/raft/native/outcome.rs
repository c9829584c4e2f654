//! What a group hands to Python: everything of one turn in a `Ready`.

use pyo3::prelude::*;
use pyo3::types::PyList;
use raft::eraftpb;

use super::membership::ConfState;

/// What must survive a restart besides the log.
#[pyclass(frozen, eq, hash, get_all, skip_from_py_object, module = "kompat._native")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HardState {
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
}

#[pymethods]
impl HardState {
    #[new]
    #[pyo3(signature = (term=0, vote=0, commit=0))]
    fn new(term: u64, vote: u64, commit: u64) -> Self {
        Self { term, vote, commit }
    }

    fn __repr__(&self) -> String {
        format!("HardState(term={}, vote={}, commit={})", self.term, self.vote, self.commit)
    }
}

impl HardState {
    pub fn to_proto(&self) -> eraftpb::HardState {
        eraftpb::HardState { term: self.term, vote: self.vote, commit: self.commit }
    }
}

impl From<&eraftpb::HardState> for HardState {
    fn from(state: &eraftpb::HardState) -> Self {
        Self { term: state.term, vote: state.vote, commit: state.commit }
    }
}

#[pyclass(frozen, get_all, skip_from_py_object, module = "kompat._native")]
#[derive(Clone)]
pub struct SoftState {
    pub role: u8,
    pub leader: u64,
}

#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct Entry {
    pub index: u64,
    pub term: u64,
    pub kind: u8,
    pub context: Py<PyAny>,
    pub payload: Py<PyAny>,
}

#[pymethods]
impl Entry {
    fn __repr__(&self) -> String {
        format!("Entry(index={}, term={}, kind={})", self.index, self.term, self.kind)
    }
}

/// What a snapshot stands for; its bulk travels outside of Raft's messages.
#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct Snapshot {
    pub index: u64,
    pub term: u64,
    pub members: Py<ConfState>,
    pub data: Py<PyAny>,
}

#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct Message {
    pub sender: u64,
    pub to: u64,
    pub kind: u8,
    pub term: u64,
    pub header: Py<PyAny>,
    pub payloads: Py<PyList>,
    pub snapshot: Option<Py<Snapshot>>,
}

#[pymethods]
impl Message {
    fn __repr__(&self) -> String {
        format!("Message({} -> {}, kind={}, term={})", self.sender, self.to, self.kind, self.term)
    }
}

#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct EntriesWanted {
    pub id: u64,
    pub first: u64,
    pub end: u64,
    pub max_bytes: u64,
    pub followers: Vec<u64>,
}

#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct ReadState {
    pub index: u64,
    pub context: Py<PyAny>,
}

#[pyclass(frozen, get_all, module = "kompat._native")]
pub struct Ready {
    pub number: u64,
    pub must_sync: bool,
    pub hard_state: Option<Py<HardState>>,
    pub soft_state: Option<Py<SoftState>>,
    pub snapshot: Option<Py<Snapshot>>,
    pub entries: Py<PyList>,
    pub messages: Py<PyList>,
    pub messages_after_persist: Py<PyList>,
    pub committed_from: u64,
    pub committed_to: u64,
    pub memberships: Py<PyList>,
    pub read_states: Py<PyList>,
    pub wanted: Py<PyList>,
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HardState>()?;
    module.add_class::<SoftState>()?;
    module.add_class::<Entry>()?;
    module.add_class::<Snapshot>()?;
    module.add_class::<Message>()?;
    module.add_class::<EntriesWanted>()?;
    module.add_class::<ReadState>()?;
    module.add_class::<Ready>()
}
