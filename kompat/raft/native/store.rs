//! What raft-rs may ask of the log: terms for all of it, entries for its end.
//!
//! The log itself lies on disk, in Python's hands. Kept here are the terms as runs, the entries that a follower may
//! still need, and the changes of members. Older entries are asked of Python, and raft-rs waits for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Result, Storage, StorageError};

/// Committed entries told in one go: a restart with a long log to apply takes several readies, not one huge list.
const COMMITTED_AT_ONCE: u64 = 4096;

/// An index and the term of its entry.
pub type Position = (u64, u64);

/// Entries that a follower needs and that are not in memory.
pub struct Want {
    pub id: u64,
    pub first: u64,
    pub end: u64,
    pub max_bytes: u64,
    told: bool,
    contexts: Vec<GetEntriesContext>,
}

#[derive(Default)]
struct Wants {
    next_id: u64,
    open: Vec<Want>,
}

pub struct Store {
    base: Position,
    last: u64,
    runs: VecDeque<Position>, // the first index of each term
    tail: VecDeque<Entry>,    // the log's last entries
    tail_bytes: usize,
    memberships: BTreeMap<u64, Entry>,
    fetched: Vec<Entry>,
    wants: Mutex<Wants>,
    hard_state: HardState,
    initial_members: ConfState,
    applied: u64,
    members: ConfState, // as of `applied`
    pinned: Option<Snapshot>,
}

fn size_of(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len()
}

pub fn is_membership(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}

impl Store {
    pub fn new(base: Position, last: u64, runs: Vec<Position>, hard_state: HardState, members: ConfState) -> Self {
        Self {
            base,
            last,
            runs: runs.into(),
            tail: VecDeque::new(),
            tail_bytes: 0,
            memberships: BTreeMap::new(),
            fetched: Vec::new(),
            wants: Mutex::default(),
            hard_state,
            initial_members: members.clone(),
            applied: base.0,
            members,
            pinned: None,
        }
    }

    fn wants(&self) -> MutexGuard<'_, Wants> {
        self.wants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn base(&self) -> Position {
        self.base
    }

    pub fn cached_bytes(&self) -> usize {
        self.tail_bytes
    }

    pub fn term_at(&self, index: u64) -> Option<u64> {
        if index == self.base.0 {
            return Some(self.base.1);
        }
        if index < self.base.0 || index > self.last {
            return None;
        }
        let after = self.runs.partition_point(|run| run.0 <= index);
        (after > 0).then(|| self.runs[after - 1].1)
    }

    fn tail_first(&self) -> u64 {
        self.last + 1 - self.tail.len() as u64
    }

    pub fn remember_membership(&mut self, entry: Entry) {
        self.memberships.insert(entry.index, entry);
    }

    /// Take entries that were handed to Python for writing; the first may replace what the log had there.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first().map(|entry| entry.index) else { return };
        assert!(first > self.base.0 && first <= self.last + 1, "entries from {first} do not join the log's end");
        self.truncate(first);
        for entry in entries {
            if self.runs.back().is_none_or(|run| run.1 != entry.term) {
                self.runs.push_back((entry.index, entry.term));
            }
            if is_membership(entry) {
                self.memberships.insert(entry.index, entry.clone());
            }
            self.last = entry.index;
            self.tail_bytes += size_of(entry);
            self.tail.push_back(entry.clone());
        }
    }

    fn truncate(&mut self, first: u64) {
        if first > self.last {
            return;
        }
        while self.runs.back().is_some_and(|run| run.0 >= first) {
            self.runs.pop_back();
        }
        while self.tail.back().is_some_and(|entry| entry.index >= first) {
            self.tail_bytes -= self.tail.pop_back().as_ref().map_or(0, size_of);
        }
        self.memberships.split_off(&first);
        self.wants().open.clear();
        self.last = first - 1;
    }

    /// Start anew from a snapshot: nothing before it is known any more.
    pub fn install(&mut self, index: u64, term: u64) {
        self.base = (index, term);
        self.last = index;
        self.runs.clear();
        self.tail.clear();
        self.tail_bytes = 0;
        self.memberships.clear();
        self.wants().open.clear();
    }

    /// Forget the log up to `index`; followers that need it get a snapshot.
    pub fn compact(&mut self, index: u64) {
        let Some(term) = self.term_at(index) else { return };
        self.base = (index, term);
        while self.runs.len() > 1 && self.runs[1].0 <= index + 1 {
            self.runs.pop_front();
        }
        if index == self.last {
            self.runs.clear();
        } else if let Some(run) = self.runs.front_mut() {
            run.0 = run.0.max(index + 1);
        }
        self.release(index, usize::MAX, index);
        self.memberships = self.memberships.split_off(&(index + 1));
    }

    /// Let go of cached entries up to `unneeded`, and of older ones beyond `limit` bytes as far as they are `persisted`.
    pub fn release(&mut self, unneeded: u64, limit: usize, persisted: u64) {
        while let Some(entry) = self.tail.front() {
            if entry.index > persisted || (entry.index > unneeded && self.tail_bytes <= limit) {
                break;
            }
            self.tail_bytes -= size_of(entry);
            self.tail.pop_front();
        }
    }

    /// What a snapshot made now would hold.
    pub fn set_applied(&mut self, applied: u64, members: ConfState) {
        self.applied = applied;
        self.members = members;
    }

    pub fn pin_snapshot(&mut self, snapshot: Option<Snapshot>) {
        self.pinned = snapshot;
    }

    pub fn members(&self) -> &ConfState {
        &self.members
    }

    pub fn has_untold_wants(&self) -> bool {
        self.wants().open.iter().any(|want| !want.told)
    }

    /// Wants that Python has not heard of: (id, first, end, max bytes).
    pub fn tell_wants(&self) -> Vec<(u64, u64, u64, u64)> {
        let mut wants = self.wants();
        let untold = wants.open.iter_mut().filter(|want| !want.told);
        untold
            .map(|want| {
                want.told = true;
                (want.id, want.first, want.end, want.max_bytes)
            })
            .collect()
    }

    /// Hold what Python read for a want, and say who waits for it.
    pub fn supply(&mut self, id: u64, entries: Vec<Entry>) -> Vec<GetEntriesContext> {
        let mut wants = self.wants();
        let Some(at) = wants.open.iter().position(|want| want.id == id) else { return Vec::new() };
        let want = wants.open.swap_remove(at);
        drop(wants);
        self.fetched = entries;
        want.contexts
    }

    pub fn want(&self, id: u64) -> Option<(u64, u64)> {
        self.wants().open.iter().find(|want| want.id == id).map(|want| (want.first, want.end))
    }

    pub fn forget_supplied(&mut self) {
        self.fetched.clear();
    }

    /// The entries for a follower; where memory does not hold them, Python is asked once for all who wait.
    fn entries_to_send(&self, low: u64, high: u64, max_bytes: u64, context: GetEntriesContext) -> Result<Vec<Entry>> {
        if low >= self.tail_first() {
            let skip = (low - self.tail_first()) as usize;
            return Ok(up_to(self.tail.iter().skip(skip), high, max_bytes));
        }
        if let Some(at) = self.fetched.iter().position(|entry| entry.index == low) {
            return Ok(up_to(self.fetched[at..].iter(), high, max_bytes));
        }
        self.note_want(low, high.min(self.tail_first()), max_bytes, context);
        Err(StorageError::LogTemporarilyUnavailable.into())
    }

    fn note_want(&self, first: u64, end: u64, max_bytes: u64, context: GetEntriesContext) {
        let mut wants = self.wants();
        if let Some(want) = wants.open.iter_mut().find(|want| want.first == first) {
            // raft-rs tells neither whom nor how a context is for, but two contexts print alike when they are alike
            let text = format!("{context:?}");
            if want.contexts.iter().all(|known| format!("{known:?}") != text) {
                want.contexts.push(context);
            }
            return;
        }
        wants.next_id += 1;
        let id = wants.next_id;
        wants.open.push(Want { id, first, end, max_bytes, told: false, contexts: vec![context] });
    }

    /// Forget the wants of an office that is over.
    pub fn forget_wants(&mut self) {
        self.wants().open.clear();
    }

    /// Entries without their payloads, except for changes of members.
    fn without_payloads(&self, low: u64, high: u64) -> Vec<Entry> {
        (low..high)
            .map(|index| {
                self.memberships.get(&index).cloned().unwrap_or_else(|| {
                    let term = self.term_at(index).unwrap_or_default();
                    Entry { index, term, ..Default::default() }
                })
            })
            .collect()
    }
}

fn up_to<'a>(entries: impl Iterator<Item = &'a Entry>, end: u64, max_bytes: u64) -> Vec<Entry> {
    let mut bytes = 0;
    entries
        .take_while(|entry| entry.index < end)
        .enumerate()
        .take_while(|(count, entry)| {
            bytes += entry.encoded_len() as u64;
            *count == 0 || bytes <= max_bytes
        })
        .map(|(_, entry)| entry.clone())
        .collect()
}

impl Storage for Store {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(self.hard_state.clone(), self.initial_members.clone()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        if low <= self.base.0 {
            return Err(StorageError::Compacted.into());
        }
        match max_size.into() {
            Some(max_bytes) if context.can_async() => self.entries_to_send(low, high, max_bytes, context),
            // what to apply: Python has the payloads itself
            Some(_) => Ok(self.without_payloads(low, high.min(low + COMMITTED_AT_ONCE))),
            // what is not applied yet: raft-rs looks for changes of members, and takes fewer entries for all there are
            None => Ok(self.without_payloads(low, high)),
        }
    }

    fn term(&self, index: u64) -> Result<u64> {
        let missing = if index < self.base.0 { StorageError::Compacted } else { StorageError::Unavailable };
        self.term_at(index).ok_or_else(|| missing.into())
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.base.0 + 1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last)
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> Result<Snapshot> {
        let snapshot = self.pinned.clone().unwrap_or_else(|| {
            let mut snapshot = Snapshot::default();
            let metadata = snapshot.mut_metadata();
            metadata.index = self.applied;
            metadata.term = self.term_at(self.applied).unwrap_or_default();
            metadata.set_conf_state(self.members.clone());
            snapshot
        });
        let index = snapshot.get_metadata().index;
        if index == 0 || index < request_index || index < self.base.0 {
            return Err(StorageError::SnapshotTemporarilyUnavailable.into());
        }
        Ok(snapshot)
    }
}
