//! One replica of one group.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use raft::eraftpb::{self, EntryType, MessageType};
use raft::{Config, Error, ProgressState, RawNode, StateRole, Storage};
use slog::{Discard, Logger, o};

use super::fault::{NotLeader, RaftPanic, panic_text, refused};
use super::membership::ConfState;
use super::message;
use super::outcome::HardState;
use super::payload;
use super::store::{Position, Store};

pub type Node = RawNode<Store>;

/// An entry as Python hands it over: index, term, kind, context, payload.
pub type GivenEntry<'py> = (u64, u64, u8, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The change of members that is applied next: known to raft-rs, and in force with the index of its entry.
type PendingMembers = BTreeMap<u64, eraftpb::ConfState>;

#[pyclass(module = "kompat._native")]
pub struct RaftGroup {
    pub(super) node: Node,
    pub(super) random: u64, // the state of the generator of election time-outs
    pub(super) timeout: usize,
    pub(super) seen: (u64, StateRole, u64),
    pub(super) max_bytes: u64,
    pub(super) cache_bytes: usize,
    pub(super) told: u64,         // the number of the last ready
    pub(super) persisted: u64,    // the number of the last ready that is on disk
    pub(super) promise: Position, // the term and vote that were told last
    pub(super) promised: u64,     // the number of the ready that told them
    pub(super) delivered: u64,    // the last committed index that was told
    pub(super) pending: PendingMembers,
    pub(super) broken: Option<String>, // what a panic said
    pub(super) quiet: bool,
    pub(super) idle_ticks: u32,
    pub(super) muted: bool,    // it answers no leader: nobody knows what it has promised
    pub(super) outdated: bool, // the others have gone on without what it has, because an operator said so
}

/// How far an unclean recovery moves the term on, and from where on a term is taken for the work of one.
pub const RECOVERY_TERMS: u64 = 1 << 20;
const OUTDATED_TERMS: u64 = RECOVERY_TERMS / 2;

pub fn invalid(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}

pub fn to_entry(given: &GivenEntry<'_>) -> PyResult<eraftpb::Entry> {
    let (index, term, kind, context, object) = given;
    let entry_type = match kind {
        0 => EntryType::EntryNormal,
        2 => EntryType::EntryConfChangeV2,
        _ => return Err(invalid(format!("{kind} is no kind of entry"))),
    };
    let (context, data) = (payload::copy(context)?, payload::borrow(object)?);
    Ok(eraftpb::Entry { index: *index, term: *term, entry_type: entry_type.into(), context, data })
}

/// The log as it lies on disk.
pub struct Log {
    pub base: Position,
    pub last: u64,
    pub runs: Vec<Position>,
    pub applied: u64,
}

impl Log {
    pub fn open(self, members: &ConfState, hard_state: &HardState, changes: &[GivenEntry<'_>]) -> PyResult<Store> {
        self.check(hard_state.term)?;
        let mut hard_state = hard_state.to_proto();
        hard_state.commit = hard_state.commit.clamp(self.base.0, self.last); // a torn tail may have taken committed ones
        if self.applied < self.base.0 || self.applied > hard_state.commit {
            return Err(invalid(format!("applied {} is not in {}..={}", self.applied, self.base.0, hard_state.commit)));
        }
        let mut store = Store::new(self.base, self.last, self.runs, hard_state, members.to_proto());
        store.set_applied(self.applied, members.to_proto());
        for given in changes {
            store.remember_membership(to_entry(given)?);
        }
        Ok(store)
    }

    fn check(&self, known_term: u64) -> PyResult<()> {
        let (base, last) = (self.base, self.last);
        let mut before = base;
        for (at, run) in self.runs.iter().enumerate() {
            let joins =
                if at == 0 { run.0 == base.0 + 1 && run.1 >= base.1 } else { run.0 > before.0 && run.1 > before.1 };
            if !joins || run.0 > last {
                return Err(invalid(format!("the run of term {} from {} does not fit the log", run.1, run.0)));
            }
            before = *run;
        }
        if last < base.0 || (last > base.0) == self.runs.is_empty() {
            return Err(invalid(format!("the log ends at {last}, before it lies {}", base.0)));
        }
        if before.1 > known_term {
            return Err(invalid(format!("the log knows term {}, the hard state only {known_term}", before.1)));
        }
        Ok(())
    }
}

impl RaftGroup {
    pub fn open(config: Config, store: Store, seed: u64, cache_bytes: usize) -> PyResult<Self> {
        config.validate().map_err(|error| invalid(error.to_string()))?;
        let logger = Logger::root(Discard, o!());
        let made = catch_unwind(AssertUnwindSafe(|| RawNode::new(&config, store, &logger)));
        let node = made.map_err(|panic| invalid(panic_text(&*panic)))?.map_err(|error| invalid(error.to_string()))?;
        let mut random = seed ^ config.id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut group = Self {
            timeout: draw(&mut random, config.election_tick),
            random,
            seen: (node.raft.term, node.raft.state, node.raft.leader_id),
            max_bytes: config.max_size_per_msg,
            cache_bytes,
            told: 0,
            persisted: 0,
            promise: (node.raft.term, node.raft.vote),
            promised: 0,
            delivered: config.applied,
            pending: PendingMembers::new(),
            broken: None,
            quiet: false,
            idle_ticks: 0,
            muted: false,
            outdated: false,
            node,
        };
        group.settle();
        Ok(group)
    }

    /// Do `work` unless a panic has broken the group; a panic in it breaks the group.
    pub fn guard<T>(&mut self, work: impl FnOnce(&mut Self) -> PyResult<T>) -> PyResult<T> {
        if let Some(text) = &self.broken {
            return Err(RaftPanic::new_err(text.clone()));
        }
        match catch_unwind(AssertUnwindSafe(|| {
            let result = work(self);
            self.settle();
            result
        })) {
            Ok(result) => result,
            Err(panic) => {
                let text = format!("the Raft engine has failed: {}", panic_text(&*panic));
                self.broken = Some(text.clone());
                Err(RaftPanic::new_err(text))
            }
        }
    }

    /// Put a time-out of our own where raft-rs drew one that no seed repeats, and drop what only a leader waits for.
    fn settle(&mut self) {
        let raft = &mut self.node.raft;
        let now = (raft.term, raft.state, raft.leader_id);
        if now != self.seen {
            if self.seen.1 == StateRole::Leader {
                raft.mut_store().forget_wants();
            }
            self.seen = now;
            self.timeout = draw(&mut self.random, raft.election_timeout());
        }
        raft.set_randomized_election_timeout(self.timeout);
    }

    pub fn wake_up(&mut self) {
        self.quiet = false;
        self.idle_ticks = 0;
    }

    pub fn is_leading(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// A single voter becomes leader in the very tick, which it must not do before all of its log is on disk.
    pub(super) fn may_campaign(&self) -> bool {
        let raft = &self.node.raft;
        let is_alone = raft.prs().conf().voters().ids().iter().all(|id| id == raft.id);
        !is_alone || (raft.raft_log.persisted == raft.raft_log.last_index() && self.persisted == self.told)
    }

    pub fn tick_once(&mut self) -> bool {
        (self.is_leading() || self.may_campaign()) && self.node.tick()
    }

    pub fn has_work(&self) -> bool {
        self.node.has_ready() || self.node.store().has_untold_wants()
    }

    pub fn receive(&mut self, message: eraftpb::Message) -> PyResult<()> {
        message::check(&message, &self.node)?;
        let raft = &self.node.raft;
        if raft.raft_log.last_index() > 0 && message.term >= raft.term + OUTDATED_TERMS {
            self.outdated = true; // what it has may contradict what the others have committed since
            return Ok(());
        }
        match self.node.step(message) {
            Ok(()) | Err(Error::StepPeerNotFound) => Ok(()), // the answer of a former member
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// Whether term and vote are on disk: then an answer that promises no more than them may leave.
    pub fn has_kept_promises(&self) -> bool {
        self.persisted >= self.promised && (self.node.raft.term, self.node.raft.vote) == self.promise
    }

    pub(super) fn need_leader(&self) -> PyResult<()> {
        let raft = &self.node.raft;
        if raft.state != StateRole::Leader {
            return Err(NotLeader::new_err(("this replica is not the leader", raft.leader_id)));
        }
        if let Some(to) = raft.lead_transferee {
            return Err(NotLeader::new_err((format!("leadership is on its way to {to}"), 0)));
        }
        Ok(())
    }

    pub(super) fn append(&mut self, entry: eraftpb::Entry) -> PyResult<Position> {
        let mut message = eraftpb::Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.node.raft.id;
        message.entries = vec![entry];
        match self.node.raft.step(message) {
            Ok(()) => Ok((self.node.raft.raft_log.last_index(), self.node.raft.term)),
            Err(error) => Err(NotLeader::new_err((error.to_string(), 0))),
        }
    }

    /// Find out anew how far a peer is: it has restarted, and may have lost what it acknowledged but had not synced.
    pub(super) fn forget_progress(&mut self, peer: u64) {
        if !self.is_leading() || peer == self.node.raft.id {
            return;
        }
        self.wake_up();
        if let Some(progress) = self.node.raft.mut_prs().get_mut(peer) {
            let next = progress.next_idx;
            progress.matched = 0;
            progress.become_probe();
            progress.next_idx = next.max(1); // its refusal says where its log ends
        }
    }

    /// The last entry that no live follower waits for.
    pub(super) fn unneeded(&self) -> u64 {
        let raft = &self.node.raft;
        if raft.state != StateRole::Leader {
            return u64::MAX;
        }
        let waiting = raft.prs().iter().filter(|(id, progress)| {
            **id != raft.id && progress.recent_active && progress.state != ProgressState::Snapshot
        });
        waiting.map(|(_, progress)| progress.matched).min().unwrap_or(u64::MAX)
    }

    pub(super) fn release(&mut self) {
        let unneeded = self.unneeded();
        let (limit, persisted) = (self.cache_bytes, self.node.raft.raft_log.persisted);
        self.node.mut_store().release(unneeded, limit, persisted);
    }
}

/// The next time-out in [election_tick, 2 * election_tick), by SplitMix64.
fn draw(random: &mut u64, election_tick: usize) -> usize {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    election_tick + (mixed % election_tick as u64) as usize
}

impl RaftGroup {
    pub(super) fn check_supplied(&self, first: u64, end: u64, entries: &[eraftpb::Entry]) -> PyResult<()> {
        for (at, entry) in entries.iter().enumerate() {
            let index = first + at as u64;
            if entry.index != index || index >= end || self.node.store().term(index).ok() != Some(entry.term) {
                return Err(invalid(format!("entry {} of term {} is not the log's", entry.index, entry.term)));
            }
        }
        Ok(())
    }

    /// Whether nothing is left to do for anybody: all of the log is committed, applied and, as far as known, everywhere.
    pub fn is_settled(&self) -> bool {
        let raft = &self.node.raft;
        let log = &raft.raft_log;
        let last = log.last_index();
        if log.committed != last || log.applied != last || raft.leader_id == 0 || !self.pending.is_empty() {
            return false;
        }
        match raft.state {
            StateRole::Follower => true,
            StateRole::Leader => {
                raft.lead_transferee.is_none()
                    && raft.pending_read_count() == 0
                    && raft.prs().iter().all(|(_, progress)| progress.matched == last)
            }
            _ => false,
        }
    }
}
